"""What is a sum over all images, as sums that converge?  A sum over neighbours, a sum over waves, and terms that are numbers.

Plain Ewald sums: every wave of the box up to some number along each of its vectors, as products of cosines and sines
along the three of them, so that a structure factor is a product of matrices.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import pi

from tinyphysics.front.dense import det, inv
from tinyphysics.front.lattice_sums import LatticeSum
from tinyphysics.front.neighbours import near_sum, nearest, pair_distance2
from tinyphysics.ir import UOp, as_uop
from tinyphysics.ir.dtype import i64
from tinyphysics.rules.formulas.ewald import FORMS


def inverse(cell: UOp) -> UOp:
    return inv(cell) if cell.ndim == 2 else 1.0 / cell


def volume(cell: UOp) -> UOp:
    return det(cell) if cell.ndim == 2 else cell[0] * cell[1] * cell[2]


def width(cell: UOp) -> UOp:
    """The smallest distance of opposite faces."""
    if cell.ndim == 1:
        return cell[0].minimum(cell[1]).minimum(cell[2])
    back = inv(cell)
    lengths = (back * back).sum(0)
    out: UOp = 1.0 / lengths[0].maximum(lengths[1]).maximum(lengths[2]).sqrt()
    return out


def fractions(points: UOp, cell: UOp) -> UOp:
    """Positions in units of the vectors of the box."""
    return points @ inv(cell) if cell.ndim == 2 else points / cell


def near_part(t: LatticeSum, split: UOp, cutoff: UOp, switch: UOp | None) -> UOp:
    """The sum over neighbours, which ends smoothly where there is a switch."""
    r2 = pair_distance2(t.points, box=t.cell, cutoff=cutoff, switch=switch, exclude=t.partners)
    f = FORMS[t.form].near(r2, split.expand(r2.shape), t.parameter.expand(r2.shape))
    return t.factor * near_sum(t.charges[:, None] * t.charges[None, :] * f)


def constants(t: LatticeSum, split: UOp) -> UOp:
    """What each particle has with itself, and what a net charge adds."""
    form = FORMS[t.form]
    squares = (t.charges * t.charges).sum()
    out = -0.5 * form.at_zero(split, t.parameter) * squares
    net = t.charges.sum()
    if form.uniform is not None:
        out = out + form.uniform(split, t.parameter) / volume(t.cell) * (net * net)
    if form.background is not None:
        out = out + form.background(split, t.parameter) / volume(t.cell) * (net * net)
    return t.factor * out


def exclusions(t: LatticeSum, split: UOp) -> UOp | None:
    """The far part of pairs that do not interact, taken out again: all waves hold it."""
    if t.partners is None:
        return None
    n, most = t.partners.shape
    there = t.partners >= 0.0
    at = there.where(t.partners, UOp.range(n).cast(t.partners.dtype)[:, None].expand((n, most))).cast(i64)
    d = nearest(t.points[:, None].expand((n, most, 3)), t.points.gather((at,)), (t.cell,))
    r2 = there.where((d * d).sum(-1), 1.0)
    far = FORMS[t.form].far(r2, split.expand(r2.shape), t.parameter.expand(r2.shape))
    pairs = t.charges[:, None].expand((n, most)) * t.charges.gather((at,)) * far
    return t.factor * -0.5 * there.where(pairs, 0.0).sum()


def surface(t: LatticeSum) -> UOp:
    """Of a large sphere of boxes in vacuum: 2 pi |dipole|² / 3V."""
    dipole = (t.charges[:, None] * t.points).sum(0)
    return t.factor * (2.0 * pi / 3.0) / volume(t.cell) * (dipole * dipole).sum()


def squares_of_waves(cell: UOp, numbers: Sequence[UOp]) -> UOp:
    """k² of the waves with these numbers along the three axes, which broadcast."""
    back = inverse(cell)
    if cell.ndim == 1:
        parts = [m * back[a] for a, m in enumerate(numbers)]
    else:
        parts = [sum_of([m * back[b, a] for a, m in enumerate(numbers)]) for b in range(3)]
    return sum_of([x * x for x in parts]) * (4.0 * pi * pi)


def sum_of(parts: list[UOp]) -> UOp:
    a, b, c = parts
    return a + b + c


def of_waves(t: LatticeSum, split: UOp, k2: UOp, zero: UOp) -> UOp:
    """What the square of a structure factor is multiplied by; `zero` says which wave has no length."""
    square = k2 + zero.where(1.0, 0.0)
    f = FORMS[t.form].waves(square, split.expand(k2.shape), t.parameter.expand(k2.shape))
    return zero.where(0.0, f)


def far_part(t: LatticeSum, split: UOp, waves: tuple[int, int, int]) -> UOp:
    """The sum over waves up to so many along each axis; those of opposite signs count once, for both."""
    (a, b, c) = waves
    shape = (2 * a + 1, 2 * b + 1, c + 1)
    axes = [as_uop([float(m) for m in range(-n, n + 1)]) for n in (a, b)]
    axes.append(as_uop([float(m) for m in range(c + 1)]))
    at = fractions(t.points, t.cell)
    n = at.shape[0]
    turns = [
        (at[:, k] * (2.0 * pi))[:, None].expand((n, m.shape[0])) * m[None, :].expand((n, m.shape[0]))
        for k, m in enumerate(axes)
    ]
    (cx, sx), (cy, sy), (cz, sz) = ((u.cos(), u.sin()) for u in turns)
    columns = shape[1] * shape[2]
    over = (n, *shape[1:])
    y, y_, z, z_ = (
        *(u.reshape(n, shape[1], 1).expand(over) for u in (cy, sy)),
        *(u.reshape(n, 1, shape[2]).expand(over) for u in (cz, sz)),
    )
    re, im = (u.reshape(n, columns) for u in (y * z - y_ * z_, y * z_ + y_ * z))
    charged = t.charges[:, None].expand(cx.shape)
    first, second = (charged * cx).T, (charged * sx).T
    real = first @ re - second @ im
    imaginary = first @ im + second @ re
    numbers = [m.reshape(*(-1 if k == i else 1 for k in range(3))) for i, m in enumerate(axes)]
    spread = tuple(m.expand(shape) for m in numbers)
    k2 = squares_of_waves(t.cell, spread)
    f = of_waves(t, split, k2, no_wave(spread)) * spread[2].eq(0.0).where(1.0, 2.0)
    squares = real * real + imaginary * imaginary
    return t.factor / volume(t.cell) * (f.reshape(shape[0], columns) * squares).sum()


def no_wave(numbers: tuple[UOp, ...]) -> UOp:
    """The wave whose numbers are all zero."""
    a, b, c = (m.eq(0.0) for m in numbers)
    return a & b & c
