"""What is the sum over waves, done on a mesh?  Charges spread by splines, transforms, and what the splines see of them.

Smooth particle mesh Ewald (Essmann et al. 1995): the energy is a smooth function of the positions, and its derivative is
what particles feel. Forces of such a mesh do not add up to zero, and a particle feels a force of its own. So the energy that
is evaluated may be that of positions relative to a fixed mean of all, less what each particle has with its own mesh: two
harmonics along each axis of the cell (Ballenegger, Cerdà & Holm 2012 tell of both).
"""

from __future__ import annotations

from cmath import exp as exponential
from functools import lru_cache
from math import pi, sin

from tinyphysics.front.lattice_sums import LatticeSum
from tinyphysics.ir import UOp, as_uop, evaluate
from tinyphysics.ir.mesh import AXES, spline
from tinyphysics.planner.systems.ewald import fractions, inverse, no_wave, of_waves, volume
from tinyphysics.rules.calculus.mesh import half_square, spread
from tinyphysics.rules.formulas.ewald import GAUSSIAN

ALIASES = (
    6  # of a wave, on each side: the transform of a spline falls like their number to the power of its order
)


@lru_cache(maxsize=32)
def knots(order: int) -> tuple[float, ...]:
    """The spline at whole numbers."""
    values = evaluate([w for w in spline(UOp.const(0.0), order)], {})
    return tuple(float(v) for v in values)


def numbers_of_waves(size: int) -> list[int]:
    return [k if 2 * k <= size else k - size for k in range(size)]


@lru_cache(maxsize=64)
def deconvolved(order: int, size: int) -> tuple[float, ...]:
    """1/|sum of the spline at whole numbers times waves|²: what makes splines interpolate waves; 0 where they cannot."""
    out = []
    for m in range(size):
        total = sum(w * exponential(2j * pi * m * j / size) for j, w in enumerate(knots(order)))
        out.append(0.0 if abs(total) < 1e-7 else 1.0 / abs(total) ** 2)
    return tuple(out)


@lru_cache(maxsize=64)
def overlap(order: int, size: int, harmonic: int) -> tuple[float, ...]:
    """For each wave the sum over its aliases of the spline's transform times that `harmonic` aliases further."""

    def transformed(x: float) -> float:
        if x == int(x):
            return 1.0 if x == 0.0 else 0.0
        return (sin(pi * x) / (pi * x)) ** order

    return tuple(
        sum(
            transformed(m / size + a) * transformed(m / size + a + harmonic) * (-1.0) ** (order * harmonic)
            for a in range(-ALIASES, ALIASES + 1)
        )
        for m in numbers_of_waves(size)
    )


def along_axes(parts: list[tuple[float, ...]], shape: tuple[int, ...]) -> UOp:
    """The product of numbers along each axis."""
    out: UOp | None = None
    for a, own in enumerate(parts):
        x = as_uop(list(own)).reshape(*(-1 if k == a else 1 for k in range(AXES))).expand(shape)
        out = x if out is None else out * x
    assert out is not None
    return out


def numbers_of_mesh(
    t: LatticeSum, split: UOp, grid: tuple[int, int, int], order: int, plain: bool = False
) -> UOp:
    """For each wave what the square of the charges' transform is multiplied by, twice.

    `plain`: splines are not corrected for, which waves that do not fall off would make larger still.
    """
    own = [[float(m) for m in numbers_of_waves(n)] for n in grid]
    numbers = [
        as_uop(m).reshape(*(-1 if k == a else 1 for k in range(AXES))).expand(grid) for a, m in enumerate(own)
    ]
    back = inverse(t.cell)
    if t.cell.ndim == 1:
        parts = [m * back[a].expand(grid) for a, m in enumerate(numbers)]
    else:
        parts = [
            numbers[0] * back[b, 0].expand(grid)
            + numbers[1] * back[b, 1].expand(grid)
            + numbers[2] * back[b, 2].expand(grid)
            for b in range(AXES)
        ]
    k2 = (parts[0] * parts[0] + parts[1] * parts[1] + parts[2] * parts[2]) * (4.0 * pi * pi)
    f = of_waves(t, split, k2, no_wave(tuple(numbers)))
    scale = 2.0 * t.factor / volume(t.cell)
    return f * scale if plain else f * along_axes([deconvolved(order, n) for n in grid], grid) * scale


def in_units(points: UOp, cell: UOp, grid: tuple[int, int, int]) -> UOp:
    """Places in units of the mesh."""
    return fractions(points, cell) * as_uop([float(n) for n in grid])[None, :]


def relative_to_mean(points: UOp, weights: UOp) -> UOp:
    """Positions less a mean of all of them, with these weights: what the forces of any energy of it add up to is zero."""
    mean = (points * weights[:, None].expand(points.shape)).sum(0)
    return points - mean[None, :].expand(points.shape)


def own_mesh(t: LatticeSum, f: UOp, waves: UOp, grid: tuple[int, int, int], order: int) -> UOp:
    """What particles have with their own meshes, as far as it depends on where they are between the nodes."""
    squares = t.charges * t.charges
    out: UOp | None = None
    plain = [overlap(order, n, 0) for n in grid]
    for a, n in enumerate(grid):
        turn = (f[:, a] * (2.0 * pi)).cos()
        harmonics = (turn, 2.0 * turn * turn - 1.0)
        for h, wave in enumerate(harmonics, 1):
            parts = [overlap(order, n, h) if b == a else plain[b] for b in range(AXES)]
            # both signs of the harmonic, half the square
            size = (
                (waves * along_axes(parts, grid)).reshape(-1).sum()
            )  # of one axis: it is kept, not done again for each
            term = size * (squares * wave).sum()
            out = term if out is None else out + term
    assert out is not None
    return out


def on_mesh(
    t: LatticeSum,
    split: UOp,
    grid: tuple[int, int, int],
    order: int,
    weights: UOp | None,
    plain: bool = False,
) -> UOp:
    """The sum over waves; with `weights` of a mean, positions are anchored to it and own meshes are taken out."""
    points = t.points if weights is None else relative_to_mean(t.points, weights)
    f = in_units(points, t.cell, grid)
    waves = numbers_of_mesh(t, split, grid, order, plain and t.form != GAUSSIAN)
    out = half_square(spread(f, t.charges, order, grid), waves)
    if weights is not None:
        out = out - own_mesh(t, f, waves, grid, order)
    return out
