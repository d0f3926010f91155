"""How is a line of several fields solved, or one whose numbers look further than their neighbours?  By reduction in blocks.

With m fields that look w places far, the w numbers of each field from a place on are a block of m*w unknowns, and the
equations of those places couple it to the blocks w places before and behind it, whose numbers it does not share. That is a
system of three diagonals whose entries are small matrices, at every place at once: cyclic reduction doubles the distance as
it does with numbers (flows/solvers/cyclic.py). Blocks of neighbouring places share numbers, so any length will do, on a ring
too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from tinyphysics.flows.solvers.cyclic import BEYOND, LEVELS
from tinyphysics.flows.solvers.krylov import ConjugateGradients
from tinyphysics.flows.solvers.solver import Arrays, Slopes
from tinyphysics.flows.solvers.stencil import Diagonals, at, closes, diagonals_of, product, width
from tinyphysics.ir import UOp
from tinyphysics.rules.calculus.linear import ONE, ZERO, Rows, inverse, is_number, less, times

MOST = 2  # unknowns of a block: levels of larger ones take longer to compile than most runs
FURTHER = 5  # levels after the distance is that of the whole ring, where no rounds follow
Matrix = Rows  # of arrays


@dataclass(frozen=True, eq=False)
class Band:
    """The operator of fields along a line: a row of diagonals for each, and how far they reach."""

    rows: list[Diagonals]
    reach: int
    ring: bool

    @property
    def block(self) -> int:
        return self.reach * len(self.rows)


def band_of(f: Slopes, most: int = MOST) -> Band | None:
    """f' of all states along a line; None where it is not one, or where blocks would be too large."""
    return banded(f, range(len(f.states)), range(len(f.states)), most)


def banded(f: Slopes, of: Sequence[int], by: Sequence[int], most: int = MOST) -> Band | None:
    """How the slopes of some states change with others."""
    if len(f.states[0].shape) != 1:
        return None
    slopes, states = [f.slopes[k] for k in of], [f.states[k] for k in by]
    rows = diagonals_of(slopes, states)
    if rows is None:
        return None
    reach = max(width(rows), 1)
    # blocks of several places share numbers across the ends of a line
    found = Band(at(rows, dict(zip(f.states, f.at))), reach, reach > 1 or closes(slopes))
    return found if found.block <= most and 2 * found.reach < f.states[0].shape[0] else None


# --- matrices of arrays ----------------------------------------------------------------------------------------
def plus(a: UOp, b: UOp) -> UOp:
    return b if is_number(a, 0.0) else a if is_number(b, 0.0) else a + b


def matmul(a: Matrix, b: Matrix) -> Matrix:
    out = []
    for row in a:
        line = []
        for k in range(len(b[0])):
            total = ZERO
            for x, other in zip(row, b):
                total = plus(total, times(x, other[k]))
            line.append(total)
        out.append(line)
    return out


def minus(a: Matrix, b: Matrix) -> Matrix:
    return [[less(x, y) for x, y in zip(p, q)] for p, q in zip(a, b)]


def rolled(a: Matrix, k: int) -> Matrix:
    return [[x if not x.shape else x.roll(k, 0) for x in row] for row in a]


def negative(a: Matrix) -> Matrix:
    return [[x if is_number(x, 0.0) else -x for x in row] for row in a]


def one(n: int) -> Matrix:
    return [[ONE if i == k else ZERO for k in range(n)] for i in range(n)]


def blocks(band: Band, weight: UOp, shape: tuple[int, ...]) -> tuple[Matrix, Matrix, Matrix]:
    """1 - weight times the operator: what couples a block to that before it, to itself and to that behind it."""
    m, w = len(band.rows), band.reach

    def entry(of: int, by: int, shift: int, place: int) -> UOp:
        c = band.rows[of].get((by, (shift,)))
        value = ZERO if c is None else (-weight * c).expand(shape)
        value = plus(ONE.expand(shape), value) if of == by and shift == 0 else value
        return value.roll(-place, 0) if value.shape and place else value

    def matrix(to: int) -> Matrix:
        return [
            [
                entry(of, by, k + to * w - j, j) if abs(k + to * w - j) <= w else ZERO
                for by in range(m)
                for k in range(w)
            ]
            for of in range(m)
            for j in range(w)
        ]

    return matrix(-1), matrix(0), matrix(1)


def reduced(band: Band, weight: UOp, right: Arrays, most: int) -> Arrays:
    """The d with d - weight times the operator times d = right, by so many levels at most.

    Matrices are the same for every right-hand side of a step: what makes the next of them is computed once.
    """
    shape, w = right[0].shape, band.reach
    n = shape[0]
    a, own, c = blocks(band, weight, shape)
    k = inverse(own)
    a, c, d = (
        matmul(k, a),
        matmul(k, c),
        matmul(k, [[u.roll(-j, 0) if j else u] for u in right for j in range(w)]),
    )
    for level in range(most):
        far = (w << level) % n
        if far == 0:  # then every block is coupled to itself alone
            whole = [[plus(plus(x, y), z) for x, y, z in zip(*rows)] for rows in zip(one(len(d)), a, c)]
            return numbers(matmul(inverse(whole), d), w)
        before, behind = ([rolled(x, by) for x in (a, c, d)] for by in (far, -far))
        k = inverse(minus(minus(one(len(d)), matmul(a, before[1])), matmul(c, behind[0])))
        ka, kc = matmul(k, a), matmul(k, c)
        d = minus(minus(matmul(k, d), matmul(ka, before[2])), matmul(kc, behind[2]))
        a, c = negative(matmul(ka, before[0])), negative(matmul(kc, behind[1]))
    return numbers(d, w)


def numbers(d: Matrix, w: int) -> Arrays:
    """The first of every field in a block."""
    return [row[0] for row in d[::w]]


def levels(band: Band, n: int, beyond: int) -> int:
    """Until a block reaches the whole line; on a ring further on, where it meets itself."""
    own = max((n - 1) // band.reach, 1).bit_length()
    return own + (beyond if band.ring else 0)


# --- solvers ------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class BlockElimination:
    """All fields of a line at once; `exactly` where no rounds follow."""

    f: Slopes
    band: Band
    exactly: bool = False

    @cached_property
    def told(self) -> str:
        return f"with a band of blocks of {self.band.block} by cyclic reduction"

    def correction(self, weight: UOp, residual: Sequence[UOp]) -> Arrays:
        n = residual[0].shape[0]
        most = levels(self.band, n, FURTHER if self.exactly else BEYOND)
        return reduced(self.band, weight, list(residual), most if self.exactly else min(most, LEVELS))


@dataclass(frozen=True, eq=False)
class BandedMomenta(ConjugateGradients):
    """Positions and momenta apart: the momenta of a line that look further than their neighbours."""

    band: Band | None = None

    @property
    def told(self) -> str:
        return "with a band of blocks for the momenta by cyclic reduction, second derivatives at one state per step"

    def momenta(self, weight: UOp, b: Arrays) -> Arrays:
        assert self.band is not None
        most = min(LEVELS, levels(self.band, b[0].shape[0], BEYOND))
        return reduced(self.band, weight * weight, b, most)


def band_of_momenta(f: Slopes, q: Sequence[int], p: Sequence[int], most: int = MOST) -> Band | None:
    """V'' T'' of a line, with the sign that the slopes have."""
    first, second = banded(f, p, q, most), banded(f, q, p, most)
    if first is None or second is None:
        return None
    shape = f.states[0].shape
    rows = product(first.rows, second.rows, shape)
    reach = max(width(rows), 1)
    found = Band(rows, reach, reach > 1 or first.ring or second.ring)
    return found if found.block <= most and 2 * found.reach < shape[0] else None
