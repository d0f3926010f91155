"""np.fft on symbols, and what spectral equations are written with: derivatives of periodic fields, and dealiasing.

Names, arguments and signs are NumPy's. What a transform is, number by number, is said in ir/fourier.py.
"""

from __future__ import annotations

from collections.abc import Callable
from math import pi
from typing import Any

from tinyphysics.errors import InputError, ShapeError
from tinyphysics.front.complex import Complex, as_complex
from tinyphysics.ir import UOp, as_uop, f64
from tinyphysics.ir.uop import COMPLEX, NUMPY, axis_of
from tinyphysics.options import heeds
from tinyphysics.rules.formulas.fourier import transform

NORMS = {"backward": (0.0, 1.0), "ortho": (0.5, 0.5), "forward": (1.0, 0.0)}  # powers of 1/n there and back


def resized(z: Complex, n: int | None, axis: int) -> Complex:
    """Cut, or with zeros at its end."""
    m = z.shape[axis]
    if n is None or n == m:
        return z
    if n < 1:
        raise InputError.here(f"a Fourier transform of {n} numbers", "n is at least 1.")
    if n < m:
        return z.both(lambda u: u.slice([(0, n if a == axis else k, 1) for a, k in enumerate(u.shape)]))
    return z.both(lambda u: u.pad([(0, n - m if a == axis else 0, 0) for a in range(u.ndim)]))


def axis_in(z: Complex, axis: Any) -> int:
    if not z.ndim:
        raise ShapeError.here("a Fourier transform of one number", "It needs an array: tp.Vec[64].")
    return axis_of(axis, z.ndim)


def along(x: Any, n: int | None, axis: int, norm: str | None, sign: int) -> Complex:
    """The transform along one axis, divided as `norm` says."""
    z = as_complex(x)
    a = axis_in(z, axis)
    z = resized(z, n, a)
    powers = NORMS.get(norm or "backward")
    if powers is None:
        raise InputError.here(f"norm={norm!r}", f"It is one of {', '.join(map(repr, NORMS))}.")
    out = Complex(*transform((z.real, z.imag), sign, a))
    power = powers[sign > 0]
    return out * float(z.shape[a]) ** -power if power else out


def fft(x: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Complex:
    """Returns the Fourier transform of x along an axis, cut or padded to n numbers: sum over j of x[j] exp(-2 pi i j k/n).

    `norm` says what is divided by, as in NumPy.
    """
    return along(x, n, axis, norm, -1)


def ifft(x: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Complex:
    """Its inverse: sum over k of x[k] exp(2 pi i j k/n), divided by n."""
    return along(x, n, axis, norm, 1)


def rfft(x: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Complex:
    """Of real numbers, without the half that follows from the other."""
    z = fft(real_only(x, "rfft"), n, axis, norm)
    a, m = axis_of(axis, z.ndim), z.shape[axis]
    return z.both(lambda u: u.slice([(0, m // 2 + 1 if k == a else s, 1) for k, s in enumerate(u.shape)]))


def irfft(x: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> UOp:
    """The real numbers that have this half of a transform."""
    z = as_complex(x)
    a = axis_in(z, axis)
    m = 2 * (z.shape[a] - 1) if n is None else n
    if m < 1:
        raise ShapeError.here(
            f"irfft of shape {z.shape} along axis {axis}", "Say how many numbers come back: n=."
        )
    half = resized(z, m // 2 + 1, a)
    rest = half.both(
        lambda u: u.slice([(1, (m + 1) // 2, 1) if k == a else (0, s, 1) for k, s in enumerate(u.shape)])
    )
    back = rest.conj().both(lambda u: u.flip((a,)))
    alone = [0, m // 2] if m % 2 == 0 else [0]  # what is its own conjugate is taken as real, as NumPy does
    whole = COMPLEX["concatenate"]([half, back], a) if back.shape[a] else half
    at = UOp.range(m).reshape(tuple(m if k == a else 1 for k in range(whole.ndim)))
    is_real = at.eq(UOp.const(alone[0], at.dtype))
    for k in alone[1:]:
        is_real = is_real | at.eq(UOp.const(k, at.dtype))
    whole = Complex(whole.real, is_real.where(0.0, whole.imag))
    return ifft(whole, None, a, norm).real


def real_only(x: Any, name: str) -> Any:
    if isinstance(x, (Complex, complex)) or getattr(getattr(x, "dtype", None), "kind", "") == "c":
        raise InputError.here(f"{name} of complex numbers", f"Write {name[1:]}, or {name}(z.real).")
    return x


def axes_of(z: Complex, s: Any, axes: Any) -> list[tuple[int, int | None]]:
    """(axis, length) of a transform along several."""
    chosen = (
        tuple(range(-len(s), 0))
        if axes is None and s is not None
        else range(z.ndim)
        if axes is None
        else axes
    )
    own = [axis_in(z, a) for a in ((chosen,) if isinstance(chosen, int) else chosen)]
    lengths = [None] * len(own) if s is None else list(s)
    if len(lengths) != len(own) or len(set(own)) < len(own):
        raise ShapeError.here(
            f"a transform of lengths {s} along axes {axes}", "Name each axis once, with a length each."
        )
    return list(zip(own, lengths))


def fftn(x: Any, s: Any = None, axes: Any = None, norm: str | None = None) -> Complex:
    """Along several axes, or all."""
    z = as_complex(x)
    for axis, n in reversed(axes_of(z, s, axes)):
        z = fft(z, n, axis, norm)
    return z


def ifftn(x: Any, s: Any = None, axes: Any = None, norm: str | None = None) -> Complex:
    z = as_complex(x)
    for axis, n in reversed(axes_of(z, s, axes)):
        z = ifft(z, n, axis, norm)
    return z


def fft2(x: Any, s: Any = None, axes: Any = (-2, -1), norm: str | None = None) -> Complex:
    return fftn(x, s, axes, norm)


def ifft2(x: Any, s: Any = None, axes: Any = (-2, -1), norm: str | None = None) -> Complex:
    return ifftn(x, s, axes, norm)


def rfftn(x: Any, s: Any = None, axes: Any = None, norm: str | None = None) -> Complex:
    """Of real numbers: half of it along the last axis."""
    z = as_complex(real_only(x, "rfftn"))
    *others, (last, n) = axes_of(z, s, axes)
    z = rfft(z.real, n, last, norm)
    for axis, m in reversed(others):
        z = fft(z, m, axis, norm)
    return z


def irfftn(x: Any, s: Any = None, axes: Any = None, norm: str | None = None) -> UOp:
    z = as_complex(x)
    *others, (last, n) = axes_of(z, s, axes)
    for axis, m in others:
        z = ifft(z, m, axis, norm)
    return irfft(z, n, last, norm)


def rfft2(x: Any, s: Any = None, axes: Any = (-2, -1), norm: str | None = None) -> Complex:
    return rfftn(x, s, axes, norm)


def irfft2(x: Any, s: Any = None, axes: Any = (-2, -1), norm: str | None = None) -> UOp:
    return irfftn(x, s, axes, norm)


def shifted(x: Any, axes: Any, way: int) -> Any:
    z = as_complex(x)
    for a in range(z.ndim) if axes is None else (axes,) if isinstance(axes, int) else axes:
        n = z.shape[axis_in(z, a)]
        by = n // 2 if way > 0 else -(n // 2)
        z = z.both(lambda u, by=by, a=a: u.roll(by, a))  # type: ignore[misc]
    return z if isinstance(x, Complex) else z.real


def fftshift(x: Any, axes: Any = None) -> Any:
    """The frequency zero in the middle."""
    return shifted(x, axes, 1)


def ifftshift(x: Any, axes: Any = None) -> Any:
    return shifted(x, axes, -1)


BY_THEIR_NAMES: tuple[Callable[..., Any], ...] = (
    fft, ifft, rfft, irfft, fftn, ifftn, rfftn, irfftn, fft2, ifft2, rfft2, irfft2, fftshift, ifftshift,
)  # fmt: skip
for table in (NUMPY, COMPLEX):
    table.update({f"fft.{f.__name__}": f for f in BY_THEIR_NAMES})


# --- periodic fields ----------------------------------------------------------------------------------------------------
def modes(shape: tuple[int, ...], axis: int) -> UOp:
    """The number of the mode at each place of a transform: 0, 1, ..., -2, -1."""
    n = shape[axis]
    k = UOp.range(n)
    number = (k < UOp.const((n + 1) // 2, k.dtype)).where(k, k - UOp.const(n, k.dtype)).cast(f64)
    return number.reshape(tuple(n if a == axis else 1 for a in range(len(shape))))


def field(u: Any, name: str) -> UOp | Complex:
    x: UOp | Complex = u if isinstance(u, Complex) else as_uop(u)
    if not x.ndim:
        raise ShapeError.here(f"{name} of one number", "It needs a field on a grid: u: tp.Vec[64].")
    if not x.size:
        raise ShapeError.here(f"{name} of a field of shape {x.shape}", "Every axis has a number at least.")
    return x


@heeds("dx", "tp.dx(u, 2, length=L)")
def dx(u: Any, order: int = 1, axis: int = -1, length: Any = 2 * pi) -> UOp | Complex:
    """Returns a derivative of the periodic field u along an axis, of some order: exact for all waves that the grid holds.

    u may be complex. `length` is that of the period. At odd orders the mode of half the grid is dropped: it has no real
    derivative there.
    """
    x = field(u, "tp.dx")
    if isinstance(order, bool) or not isinstance(order, int) or order < 0:
        raise InputError.here(f"tp.dx of order {order!r}", "The order is a whole number from 0 on.")
    if isinstance(length, (int, float)) and not length > 0:
        raise InputError.here(f"tp.dx with length={length!r}", "It is the length of the period, above 0.")
    if not order:
        return x
    a = axis_of(axis, x.ndim)
    n = x.shape[a]
    number = modes(x.shape, a)
    if order % 2 and n % 2 == 0:
        number = number.eq(-float(n // 2)).where(0.0, number)
    factor = number
    for _ in range(order - 1):
        factor = factor * number
    scale = as_uop(2 * pi / length if isinstance(length, (int, float)) else 2 * pi / as_uop(length))
    power = scale
    for _ in range(order - 1):
        power = power * scale
    sign = -1.0 if order % 4 in (2, 3) else 1.0
    factor = factor * (power * (sign / n))
    z = fft(x, axis=a)
    y = (
        Complex(-(z.imag * factor), z.real * factor)
        if order % 2
        else Complex(z.real * factor, z.imag * factor)
    )
    out = Complex(*transform((y.real, y.imag), 1, a))
    return out if isinstance(x, Complex) else out.real


@heeds("dealias", "tp.dealias(u)")
def dealias(u: Any, axis: Any = None) -> UOp | Complex:
    """Returns the periodic field u without the modes from a third of the grid on, along an axis or all: the 2/3 rule.

    Products of two such fields have no modes that the grid takes for others of those that are left.
    """
    x = field(u, "tp.dealias")
    axes = range(x.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    z, kept, count = as_complex(x), None, 1.0
    for a in sorted({axis_of(a, x.ndim) for a in axes}):
        n = x.shape[a]
        number = modes(x.shape, a)
        here = abs(number) * 3.0 < float(n)
        kept = here if kept is None else kept & here
        count *= n
        z = fft(z, axis=a)
    if kept is None:
        return x
    z = z.both(lambda part: kept.where(part * (1.0 / count), 0.0))
    for a in sorted({axis_of(a, x.ndim) for a in axes}):
        z = Complex(*transform((z.real, z.imag), 1, a))
    return z if isinstance(x, Complex) else z.real
