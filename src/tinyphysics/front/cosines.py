"""Cosine and sine transforms of symbols, types I to IV, with SciPy's names, signs and factors; each is one Fourier transform.

A row is continued evenly or oddly, or turned by half a step, and what is wanted is a part of its transform.
"""

from __future__ import annotations

from typing import Any

from tinyphysics.errors import InputError, ShapeError
from tinyphysics.front.complex import Complex
from tinyphysics.ir import Ops, UOp, as_uop
from tinyphysics.ir.fourier import Complex as Parts
from tinyphysics.ir.fourier import roots_of_one
from tinyphysics.ir.uop import axis_of
from tinyphysics.rules.formulas.fourier import table, times, transform

TYPES = (1, 2, 3, 4)
BACK = {1: 1, 2: 3, 3: 2, 4: 4}  # the type that undoes a type


def row(x: Any, name: str, type: int, norm: str | None, axis: int) -> tuple[UOp, int]:
    """(the numbers with the axis last, where that axis was)."""
    if isinstance(x, Complex):
        raise InputError.here(
            f"{name} of complex numbers", f"Write tp.fft.{name}(z.real) and tp.fft.{name}(z.imag)."
        )
    if type not in TYPES:
        raise InputError.here(f"{name} of type {type!r}", "The type is 1, 2, 3 or 4.")
    if norm is not None:
        raise InputError.here(
            f"{name} with norm={norm!r}", "Leave it out: factors are those of SciPy without norm=."
        )
    u = as_uop(x)
    if not u.ndim:
        raise ShapeError.here(f"{name} of one number", "It needs an array: tp.Vec[64].")
    a = axis_of(axis, u.ndim)
    least = 2 if (name, type) == ("dct", 1) else 1
    if u.shape[a] < least:
        raise ShapeError.here(f"{name} of type {type} of {u.shape[a]} numbers", f"It needs {least} at least.")
    return u.permute([*(k for k in range(u.ndim) if k != a), a]), a


def back_in_place(u: UOp, axis: int) -> UOp:
    order = list(range(u.ndim - 1))
    order.insert(axis, u.ndim - 1)
    return u.permute(order)


def part(u: UOp, lo: int, hi: int) -> UOp:
    """Along the last axis."""
    return u.slice([*((0, n, 1) for n in u.shape[:-1]), (lo, hi, 1)])


def flipped(u: UOp) -> UOp:
    return u.flip((u.ndim - 1,))


def joined(*parts: UOp) -> UOp:
    axis = parts[0].ndim - 1
    shape = (*parts[0].shape[:-1], sum(p.shape[-1] for p in parts))
    return UOp(Ops.CONCAT, parts[0].dtype, shape, parts, axis)


def waves(u: UOp) -> Parts:
    """The transform along the last axis."""
    return transform((u, UOp.const(0.0, u.dtype, u.shape)), -1, u.ndim - 1)


def turns(of: int, steps: list[int], like: UOp) -> Parts:
    """exp(-2 pi i k/of) for some k, along the last axis."""
    roots = roots_of_one(of)
    cos, sin = table([roots[k % of] for k in steps], like.dtype, (*(1,) * (like.ndim - 1), len(steps)))
    return cos, -sin


def turned_rows(x: UOp) -> Parts:
    """Sum over n of x[n] exp(-pi i n(2k + 1)/2N), for k < N."""
    n = x.shape[-1]
    re, im = turns(4 * n, list(range(n)), x)
    zero = UOp.const(0.0, x.dtype, x.shape)
    a, b = (joined(x * w.expand(x.shape), zero) for w in (re, im))
    z = transform((a, b), -1, x.ndim - 1)
    return part(z[0], 0, n), part(z[1], 0, n)


def dct(x: Any, type: int = 2, axis: int = -1, norm: str | None = None) -> UOp:
    """Returns the cosine transform of x along an axis, of type 1 to 4, with the factors of scipy.fft.dct."""
    u, a = row(x, "dct", type, norm, axis)
    n = u.shape[-1]
    if type == 1:
        out = part(waves(joined(u, flipped(part(u, 1, n - 1))) if n > 2 else u)[0], 0, n)
    elif type == 2:
        re, im = (part(z, 0, n) for z in waves(joined(u, flipped(u))))
        out = times((re, im), turns(4 * n, list(range(n)), u))[0]
    elif type == 3:
        out = 2.0 * turned_rows(u)[0] - part(u, 0, 1).expand(u.shape)
    else:
        out = 2.0 * times(turned_rows(u), turns(8 * n, [2 * k + 1 for k in range(n)], u))[0]
    return back_in_place(out, a)


def dst(x: Any, type: int = 2, axis: int = -1, norm: str | None = None) -> UOp:
    """Returns the sine transform of x along an axis, of type 1 to 4, with the factors of scipy.fft.dst."""
    u, a = row(x, "dst", type, norm, axis)
    n = u.shape[-1]
    zero = UOp.const(0.0, u.dtype, (*u.shape[:-1], 1))
    if type == 1:
        out = -part(waves(joined(zero, u, zero, -flipped(u)))[1], 1, n + 1)
    elif type == 2:
        re, im = (part(z, 1, n + 1) for z in waves(joined(u, -flipped(u))))
        out = -times((re, im), turns(4 * n, list(range(1, n + 1)), u))[1]
    elif type == 3:
        # sin((2k+1)(n+1)) is that of n, turned by 2k+1 half steps more
        z = times(turned_rows(u), turns(4 * n, [2 * k + 1 for k in range(n)], u))
        signs = as_uop([(-1.0) ** k for k in range(n)]).reshape((1,) * (u.ndim - 1) + (n,)).expand(u.shape)
        out = -2.0 * z[1] - signs * part(u, n - 1, n).expand(u.shape)
    else:
        out = -2.0 * times(turned_rows(u), turns(8 * n, [2 * k + 1 for k in range(n)], u))[1]
    return back_in_place(out, a)


def idct(x: Any, type: int = 2, axis: int = -1, norm: str | None = None) -> UOp:
    """Returns what `dct` of this type was made of."""
    u = as_uop(x) if not isinstance(x, Complex) else x
    n = u.shape[axis] if u.ndim else 1
    out: UOp = dct(x, BACK.get(type, type), axis, norm) * (0.5 / ((n - 1) if type == 1 else n))
    return out


def idst(x: Any, type: int = 2, axis: int = -1, norm: str | None = None) -> UOp:
    """Returns what `dst` of this type was made of."""
    u = as_uop(x) if not isinstance(x, Complex) else x
    n = u.shape[axis] if u.ndim else 1
    out: UOp = dst(x, BACK.get(type, type), axis, norm) * (0.5 / ((n + 1) if type == 1 else n))
    return out
