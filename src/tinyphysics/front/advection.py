"""What does a user write to move a field with a flow by long steps?  tp.advect(rho, velocity, dt): where did it come from?

A semi-Lagrangian step takes each node back along the flow and reads the field there, between nodes. It is stable however many
cells a step goes, as long as paths do not cross: dt times the slopes of the velocity stays below 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from itertools import product
from typing import Any

from tinyphysics.errors import InputError, ShapeError
from tinyphysics.front.complex import Complex
from tinyphysics.front.fourier import fftn, ifftn
from tinyphysics.given import shown
from tinyphysics.ir import UOp, as_uop, evaluate, f64, i64
from tinyphysics.options import heeds
from tinyphysics.util import did_you_mean, one_of

SCHEMES = ("linear", "cubic", "spline", "conservative")
ITERATIONS = 4  # of the point halfway; each leaves less than half of the error
Weights = Callable[
    [UOp], list[tuple[int, UOp]]
]  # of the nodes from the one below, for a place between 0 and 1


@heeds("advect", "tp.advect(rho, velocity, dt, spacing=0.1)")
def advect(rho: Any, velocity: Any, dt: Any, spacing: Any = 1.0, scheme: str = "cubic") -> UOp:
    """Returns a periodic field after a time dt in a flow: what was at the places that the flow has brought to the nodes.

    `velocity` has a component for each axis of rho, in their order: of one axis an array like rho, else a list of arrays, or
    one with a first axis for the components; components may be numbers. `spacing` is that of the nodes, or one for each axis.
    `scheme` says what is between nodes: "linear" keeps bounds and smears; "cubic" takes four nodes along each axis, "spline"
    the smooth curve through all. "conservative" moves what is in each cell, axis by axis, and keeps the sum.
    Where dt times the slopes of a component, added up, reaches 1, paths may cross: the result is NaN, and a run stops there.
    """
    u = as_uop(rho)
    u = u if u.dtype.is_float else u.cast(f64)
    if not 1 <= u.ndim <= 3 or 0 in u.shape:
        raise ShapeError.here(
            f"tp.advect of a field of shape {u.shape}", "It needs 1 to 3 axes: rho: tp.Vec[64]."
        )
    if scheme not in SCHEMES:
        near = did_you_mean(str(scheme), dict.fromkeys(SCHEMES))
        raise InputError.here(f"tp.advect with scheme={scheme!r}", f"{near}It is {one_of(SCHEMES)}.")
    widths = spacing if isinstance(spacing, (tuple, list)) else [spacing] * u.ndim
    if len(widths) != u.ndim:
        raise InputError.here(
            f"tp.advect with {len(widths)} of spacing= for {u.ndim} axes", "Give one, or one for each axis."
        )
    for h in widths:
        if isinstance(h, (int, float)) and not (h > 0 and math.isfinite(h)):
            raise InputError.here(
                f"tp.advect with spacing={shown(h)}", "It is the distance of two nodes, above 0."
            )
    cells = [as_uop(dt) / as_uop(h) * v for h, v in zip(widths, components(velocity, u.shape))]
    cells = [c.expand(u.shape) for c in cells]
    check_known(cells, scheme)
    out = (
        conservative(u, cells) if scheme == "conservative" else between(u, departures(cells, scheme), scheme)
    )
    crossing = reduce(UOp.maximum, [steepest(k, c, scheme) for k, c in enumerate(cells)])
    return (crossing < 1.0).expand(u.shape).where(out, UOp.const(math.nan, u.dtype, u.shape))


def components(velocity: Any, shape: tuple[int, ...]) -> list[UOp]:
    """Of a velocity, one for each axis: numbers, or arrays of the shape."""
    n = len(shape)
    if n == 1 and not isinstance(velocity, (list, tuple)):
        own = [as_uop(velocity)]
        if own[0].ndim == 2 and own[0].shape[0] == 1:
            own = [own[0].reshape(shape)]
    elif isinstance(velocity, (list, tuple)):
        own = [as_uop(v) for v in velocity]
    else:
        v = as_uop(velocity)
        own = [v[k] for k in range(v.shape[0])] if v.ndim == n + 1 else [v]
    if len(own) != n or any(v.shape not in ((), shape) for v in own):
        found = ", ".join(str(v.shape) for v in own)
        raise ShapeError.here(
            f"tp.advect with a velocity of the shapes {found} for a field of shape {shape}",
            f"Give a component for each axis, {n} in all: numbers, or arrays like the field.",
        )
    return [v if v.dtype.is_float else v.cast(f64) for v in own]


def steepest(component: int, cells: UOp, scheme: str) -> UOp:
    """The largest sum of the slopes of a component along all axes: where it is below 1 for each, no two paths meet.

    A conservative step goes along one axis at a time, and each component has its own.
    """
    axes = (component,) if scheme == "conservative" else range(cells.ndim)
    slopes = [abs(cells.roll(-1, a) - cells) for a in axes]
    return UOp.sum_of(slopes).max()


def check_known(cells: Sequence[UOp], scheme: str) -> None:
    """A flow that is known while tracing is judged there."""
    for k, c in enumerate(cells):
        if c.leaves:
            continue
        (most,) = evaluate([steepest(k, c, scheme)], {})
        if not isinstance(most, list) and most >= 1.0:
            raise InputError.here(
                f"tp.advect where dt times the slopes of the velocity is {most:.3g}: paths cross",
                "Shorten dt until it is below 1.",
            )


# --- between nodes -----------------------------------------------------------------------------------------------------
def linear(x: UOp) -> list[tuple[int, UOp]]:
    return [(0, 1.0 - x), (1, x)]


def cubic(x: UOp) -> list[tuple[int, UOp]]:
    """Lagrange's polynomial through four nodes."""
    before, after, beyond = x + 1.0, x - 1.0, x - 2.0
    return [
        (-1, x * after * beyond * (-1 / 6)),
        (0, before * after * beyond * 0.5),
        (1, before * x * beyond * -0.5),
        (2, before * x * after * (1 / 6)),
    ]


def spline(x: UOp) -> list[tuple[int, UOp]]:
    """The cubic B-splines of four nodes."""
    y = 1.0 - x
    own = [y * y * y * (1 / 6), (4.0 - 3.0 * x * x * (2.0 - x)) * (1 / 6)]
    other = [(4.0 - 3.0 * y * y * (2.0 - y)) * (1 / 6), x * x * x * (1 / 6)]
    return list(zip((-1, 0, 1, 2), [*own, *other]))


WEIGHTS: dict[str, Weights] = {"linear": linear, "cubic": cubic, "spline": spline}


def index(shape: tuple[int, ...], axis: int) -> UOp:
    n = shape[axis]
    return (
        UOp.range(n).cast(f64).reshape(tuple(n if a == axis else 1 for a in range(len(shape)))).expand(shape)
    )


def read(u: UOp, at: Sequence[UOp], weights: Weights) -> UOp:
    """A periodic field at places in units of cells."""
    below = [x.floor() for x in at]
    along = [weights(x - b) for x, b in zip(at, below)]
    first = [b.cast(i64) for b in below]
    out = None
    for nodes in product(*along):
        places = [(b + k) % n for (k, _), b, n in zip(nodes, first, u.shape)]
        value = u.gather(tuple(places))
        for _, w in nodes:
            value = w * value
        out = value if out is None else out + value
    assert out is not None
    return out


def between(u: UOp, at: Sequence[UOp], scheme: str) -> UOp:
    return read(through_nodes(u) if scheme == "spline" else u, at, WEIGHTS[scheme])


def through_nodes(u: UOp) -> UOp:
    """The B-splines whose sum has the values of u at the nodes."""
    factor = None
    for a, n in enumerate(u.shape):
        wave = ((index(u.shape, a) * (2 * math.pi / n)).cos() + 2.0) * (1 / 3)
        factor = wave if factor is None else factor * wave
    assert factor is not None
    z = fftn(u)
    over = 1.0 / factor
    return ifftn(Complex(z.real * over, z.imag * over)).real


def departures(cells: Sequence[UOp], scheme: str) -> list[UOp]:
    """Where the flow came from, in units of cells: as far as it goes in a step at the point halfway, which is iterated."""
    shape = cells[0].shape
    here = [index(shape, a) for a in range(len(shape))]
    weights = linear if scheme == "linear" else cubic
    gone = list(cells)
    if any(not is_one_number(c) for c in cells):
        for _ in range(ITERATIONS):
            half = [x - 0.5 * d for x, d in zip(here, gone)]
            gone = [c if is_one_number(c) else read(c, half, weights) for c in cells]
    return [x - d for x, d in zip(here, gone)]


def is_one_number(u: UOp) -> bool:
    return u.op.value == "expand" and u.src[0].size == 1


# --- cells ------------------------------------------------------------------------------------------------------------------
def conservative(u: UOp, cells: Sequence[UOp]) -> UOp:
    """What lies between the places from which the faces of a cell came, along one axis after the other."""
    for axis, c in enumerate(cells):
        u = along_axis(u, c, axis)
    return u


def along_axis(u: UOp, cells: UOp, axis: int) -> UOp:
    """By the sum of all up to a place: a cubic through four faces. What leaves one cell enters another, to rounding."""
    n, shape = u.shape[axis], u.shape
    faces = 0.5 * (cells.roll(1, axis) + cells)  # below each node
    gone = faces
    here = index(shape, axis)
    if not is_one_number(cells):
        for _ in range(ITERATIONS):
            gone = read_along(faces, here - 0.5 * gone, axis)
    total = cumulative(u, axis)  # up to the face below each node
    whole = u.sum(axis, keepdims=True).expand(shape)
    place = here - gone
    below = place.floor()
    x, first = place - below, below.cast(i64)
    others = [index(shape, a).cast(i64) for a in range(len(shape))]
    value = None
    for k, w in cubic(x):
        at = first + k
        row = [at % n if a == axis else y for a, y in enumerate(others)]
        turns = (at // n).cast(f64)  # once around is the sum of all
        one = w * (total.gather(tuple(row)) + turns * whole)
        value = one if value is None else value + one
    assert value is not None
    last = (here.eq(float(n - 1))).where(whole, UOp.const(0.0, u.dtype, shape))
    return value.roll(-1, axis) + last - value


def read_along(u: UOp, at: UOp, axis: int) -> UOp:
    """A periodic field between the nodes of one axis."""
    below = at.floor()
    first, others = below.cast(i64), [index(u.shape, a).cast(i64) for a in range(u.ndim)]
    values = [
        w * u.gather(tuple((first + k) % u.shape[axis] if a == axis else x for a, x in enumerate(others)))
        for k, w in cubic(at - below)
    ]
    return UOp.sum_of(values)


def cumulative(u: UOp, axis: int) -> UOp:
    """The sums of all before each, by doubling."""
    n = u.shape[axis]

    def moved(x: UOp, k: int) -> UOp:
        cut = x.slice([(0, m - k if a == axis else m, 1) for a, m in enumerate(x.shape)])
        return cut.pad([(k if a == axis else 0, 0, 0) for a in range(x.ndim)])

    out, k = moved(u, 1), 1
    while k < n:
        out, k = out + moved(out, k), 2 * k
    return out
