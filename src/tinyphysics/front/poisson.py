"""What does a user write for Poisson's and Helmholtz's equation?  tp.poisson(f): the u with -div(k grad u) + s*u = f."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tinyphysics.errors import InputError, ShapeError
from tinyphysics.given import shown
from tinyphysics.ir import Ops, UOp, as_uop, f64
from tinyphysics.options import heeds
from tinyphysics.rules.calculus.elliptic import MULTIGRID, PERIODIC, TRANSFORMS, Elliptic
from tinyphysics.util import did_you_mean, one_of

BOUNDARIES = ("periodic", "dirichlet", "neumann")
WAYS = ("auto", "fft", "multigrid")
SMOOTH = ("chebyshev", "jacobi", "red-black")


@heeds("poisson", 'tp.poisson(f, spacing=0.1, boundary="dirichlet")')
def poisson(
    f: Any,
    spacing: Any = 1.0,
    coefficient: Any = 1.0,
    shift: Any = 0.0,
    boundary: str | Sequence[str] = "periodic",
    method: str = "auto",
    tolerance: float | None = None,
    cycles: int | None = None,
    smoother: str | None = None,
) -> UOp:
    """Returns the u with -div(coefficient grad u) + shift*u = f, on a grid of 1 to 3 dimensions.

    `spacing` is that of the nodes, or one for each axis. `coefficient` and `shift` are numbers or arrays like f; on a face
    between two nodes the coefficient is their harmonic mean. `boundary` is "periodic", "dirichlet" (u is zero one spacing
    beyond the ends) or "neumann" (nothing flows half a spacing beyond them), or one of these for each axis.

    `method="fft"` solves by transforms, where coefficient and shift are numbers; "multigrid" by V-cycles: as many as make
    the residual `tolerance` (1e-10) times f, or exactly `cycles`, with the `smoother` "chebyshev" (which is taken if none is
    said), "jacobi" or "red-black". "auto" takes transforms where it can, unless cycles or a smoother are asked for. Where no
    boundary holds u and shift is 0, the mean of f is taken out, and u has the mean 0.
    """
    x = as_uop(f)
    if not 1 <= x.ndim <= 3:
        raise ShapeError.here(
            f"tp.poisson of an array of {x.ndim} axes", "It needs a field of 1 to 3: f: tp.Array[64, 64]."
        )
    if 0 in x.shape:
        raise ShapeError.here(f"tp.poisson of a field of shape {x.shape}", "Every axis has a node at least.")
    x = x.cast(f64) if not x.dtype.is_float else x
    ends = tuple(chosen(b, BOUNDARIES, "boundary") for b in for_each(boundary, x.ndim, "boundary"))
    k, s = (of_field(y, x, name) for y, name in ((coefficient, "coefficient"), (shift, "shift")))
    way, smooth = chosen(method, WAYS, "method"), chosen(smoother or "chebyshev", SMOOTH, "smoother")
    by_numbers = not k.shape and not s.shape
    check_numbers(k, s, way)
    if cycles is not None and (isinstance(cycles, bool) or not isinstance(cycles, int) or cycles < 1):
        raise InputError.here(f"tp.poisson with cycles={cycles!r}", "It is a whole number from 1 on.")
    if tolerance is not None and cycles is not None:
        raise InputError.here(
            f"tp.poisson with cycles={cycles} and tolerance=",
            "Cycles are either counted or end by a tolerance.",
        )
    if tolerance is not None and not (isinstance(tolerance, (int, float)) and 1e-15 <= tolerance < 1.0):
        raise InputError.here(
            f"tp.poisson with tolerance={shown(tolerance)}",
            "It is a number from 1e-15 to below 1: what is left of the residual, in parts of f.",
        )
    if way == 1 and not by_numbers:
        name = "coefficient" if k.shape else "shift"
        raise InputError.here(
            f'tp.poisson with method="fft" and a {name} of shape {(k if k.shape else s).shape}',
            'Transforms need one number. Write method="multigrid".',
        )
    own = {"cycles": cycles, "tolerance": tolerance, "smoother": smoother}
    asked = [name for name, value in own.items() if value is not None]
    if way == 1 and asked:
        raise InputError.here(
            f'tp.poisson with method="fft" and {asked[0]}=', 'That is of multigrid: method="multigrid".'
        )
    weights = []
    for h in for_each(spacing, x.ndim, "spacing"):
        if isinstance(h, (int, float)) and not (h > 0 and math.isfinite(h)):
            raise InputError.here(
                f"tp.poisson with spacing={shown(h)}", "It is the distance of two nodes, above 0."
            )
        weights.append(weight_of(h, k))
    transforms = way == 1 or way == 0 and by_numbers and cycles is None and smoother is None
    if not transforms:
        check_rings(x.shape, ends)
    if smooth == SMOOTH.index("red-black"):
        check_colours(x.shape, ends, by_numbers)
    more = k if k.shape else None
    if transforms:
        e = Elliptic(x, s, tuple(weights), None, 0.0, ends, TRANSFORMS, 0, 0)
    else:
        e = Elliptic(
            x, s, tuple(weights), more, float(tolerance or TOLERANCE), ends, MULTIGRID, cycles or 0, smooth
        )
    return e.node


TOLERANCE = 1e-10  # what is left of the residual, in parts of f
LONGEST_RING = 9  # nodes of a periodic axis that no coarser grid follows


def check_rings(shape: tuple[int, ...], ends: tuple[int, ...]) -> None:
    """A periodic axis is halved as long as its length is even."""
    for n, end in zip(shape, ends):
        odd = n // (n & -n)
        if end == PERIODIC and odd > LONGEST_RING:
            near = min(
                (m << j for m in range(1, LONGEST_RING + 1) for j in range(20)), key=lambda m: abs(m - n)
            )
            raise InputError.here(
                f"tp.poisson by multigrid along a periodic axis of {n} nodes, which is {odd} times a power of 2",
                f"Take a length that is at most {LONGEST_RING} times a power of 2, such as {near}.",
            )


def check_colours(shape: tuple[int, ...], ends: tuple[int, ...], by_numbers: bool) -> None:
    """Two colours are enough where every grid has the differences of the first."""
    wrong = [n for n, end in zip(shape, ends) if end == 2 or (m := n + (end == 1)) & (m - 1)]
    if wrong or not by_numbers:
        what = f"an axis of {wrong[0]} nodes" if by_numbers else "a coefficient that is an array"
        raise InputError.here(
            f'tp.poisson with smoother="red-black" and {what}',
            'Axes of 2**k nodes that are periodic, of 2**k - 1 between zeros; otherwise smoother="chebyshev".',
        )


def weight_of(h: Any, k: UOp) -> UOp:
    """1/h², times k where it is one number."""
    if isinstance(h, (int, float)) and (k.shape or k.op is Ops.CONST):
        return UOp.const((1.0 if k.shape else float(k.arg)) / (float(h) * float(h)))
    width = as_uop(h)
    if width.shape:
        raise InputError.here(
            f"tp.poisson with a spacing of shape {width.shape}",
            "It is one number for each axis: spacing=(hx, hy).",
        )
    over = 1.0 / (width * width)
    return over if k.shape else k * over


def for_each(given: Any, n: int, name: str) -> list[Any]:
    """One thing for each axis."""
    if not isinstance(given, (tuple, list)):
        return [given] * n
    if len(given) != n:
        raise InputError.here(
            f"tp.poisson with {len(given)} of {name}= for {n} {'axis' if n == 1 else 'axes'}",
            "Give one, or one for each axis.",
        )
    return list(given)


def chosen(given: Any, names: Sequence[str], option: str) -> int:
    if given not in names:
        near = did_you_mean(str(given), dict.fromkeys(names))
        raise InputError.here(f"tp.poisson with {option}={given!r}", f"{near}It is {one_of(names)}.")
    return names.index(given)


def of_field(given: Any, f: UOp, name: str) -> UOp:
    """A number, or an array of f's shape."""
    x = as_uop(given)
    x = x.cast(f.dtype) if x.dtype is not f.dtype else x
    if x.shape and x.shape != f.shape:
        raise ShapeError.here(
            f"tp.poisson with a {name} of shape {x.shape} for a field of shape {f.shape}",
            "It is one number, or one for each node.",
        )
    return x


def check_numbers(k: UOp, s: UOp, way: int) -> None:
    """What is known to have no solution, or none by cycles."""
    if k.op is Ops.CONST and not (k.arg > 0 and math.isfinite(k.arg)):
        raise InputError.here(f"tp.poisson with coefficient={k.arg:g}", "It is above 0.")
    if s.op is Ops.CONST and not math.isfinite(s.arg):
        raise InputError.here(f"tp.poisson with shift={s.arg:g}", "It is a finite number.")
    if s.op is Ops.CONST and s.arg < 0 and (way == 2 or k.shape):
        raise InputError.here(
            f"tp.poisson by multigrid with shift={s.arg:g}: the equation is not positive",
            'Transforms solve it, with a coefficient that is one number: method="fft".',
        )


assert PERIODIC == BOUNDARIES.index("periodic")
