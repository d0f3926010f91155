"""How are several fields along a line solved exactly?  Place by place, down the line and back (rules/calculus/lines.py).

A ring is a line whose first place is solved last: what the others owe to it is a few right-hand sides more, the same for
all systems of a step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tinyphysics.flows.solvers.banded import Band, Matrix, blocks
from tinyphysics.flows.solvers.krylov import ConjugateGradients
from tinyphysics.flows.solvers.solver import Arrays, Slopes
from tinyphysics.ir import Ops, UOp
from tinyphysics.rules.calculus.linear import less_product, solved
from tinyphysics.rules.calculus.lines import Mask, line

MOST = 5  # unknowns of a block: a place is then some 300 products
SHORTEST = 64  # blocks: shorter ones may be written out


@dataclass(frozen=True, eq=False)
class LineElimination:
    f: Slopes
    band: Band

    @property
    def told(self) -> str:
        return f"with blocks of {self.band.block} along the line, by elimination from end to end"

    def correction(self, weight: UOp, residual: Sequence[UOp]) -> Arrays:
        return solved_along(self.band, weight, list(residual))


@dataclass(frozen=True, eq=False)
class LineMomenta(ConjugateGradients):
    """Positions and momenta apart: the momenta of a line whose blocks are too large for cyclic reduction."""

    band: Band | None = None

    @property
    def told(self) -> str:
        assert self.band is not None
        return (
            f"with blocks of {self.band.block} momenta along the line, by elimination from end to end, second "
            "derivatives at one state per step"
        )

    def momenta(self, weight: UOp, b: Arrays) -> Arrays:
        assert self.band is not None
        return solved_along(self.band, weight * weight, b)


def goes_along(band: Band, n: int) -> bool:
    """Does the line consist of whole blocks, few unknowns each?"""
    return band.block <= MOST and n % band.reach == 0 and n // band.reach > SHORTEST


def stack(rows: Matrix) -> UOp:
    """A matrix of arrays as one array."""
    shape = rows[0][0].shape
    lines = [joined([x.reshape((1, 1, *shape)) for x in row], 1) for row in rows]
    return joined(lines, 0)


def joined(parts: Sequence[UOp], axis: int) -> UOp:
    first, *rest = parts
    shape = list(first.shape)
    shape[axis] = sum(u.shape[axis] for u in parts)
    return UOp(Ops.CONCAT, first.dtype, tuple(shape), tuple(parts), axis) if rest else first


def taken(u: UOp, i: int, k: int) -> UOp:
    """One array out of a stack."""
    cut = u.slice([(i, i + 1, 1), (k, k + 1, 1), *((0, n, 1) for n in u.shape[2:])])
    return cut.reshape(u.shape[2:])


def mask_of(a: Matrix) -> Mask:
    n = len(a)
    zero = [u.op is Ops.CONST and u.arg == 0.0 for row in a for u in row]
    return sum(1 << k for k in range(n * n) if not zero[k])


def solve_line(a: Matrix, own: Matrix, c: Matrix, right: Matrix) -> Matrix:
    """The columns x of an open line."""
    n, shape = len(own), own[0][0].shape
    low, middle, high, columns = (
        stack([[u.expand(shape) for u in row] for row in rows]) for rows in (a, own, c, right)
    )
    found = line(low, middle, high, columns, (mask_of(a), mask_of(c)))
    return [[taken(found, i, n + k) for k in range(len(right[0]))] for i in range(n)]


def places(a: Matrix, begin: int, end: int) -> Matrix:
    return [[u.slice([(begin, end, 1)]) if u.shape else u for u in row] for row in a]


def one_place(a: Matrix, k: int) -> Matrix:
    return [[u.element(k) for u in row] for row in a]


def minus_product(x: Matrix, a: Matrix, b: Matrix) -> Matrix:
    out = [list(row) for row in x]
    for i, row in enumerate(a):
        for k, factor in enumerate(row):
            out[i] = [less_product(y, factor, z) for y, z in zip(out[i], b[k])]
    return out


def solved_along(band: Band, weight: UOp, right: Arrays) -> Arrays:
    """The d with d - weight times the operator times d = right."""
    w, (n,) = band.reach, right[0].shape
    count = n // w
    matrices = blocks(band, weight, (n,))
    a, own, c = ([[every(u, w) for u in row] for row in rows] for rows in matrices)
    b = [[every(u.roll(-j, 0) if j else u, w)] for u in right for j in range(w)]
    if not band.ring:
        return back_to_fields(solve_line(a, own, c, b), w)
    a0, own0, c0, b0 = (one_place(rows, 0) for rows in (a, own, c, b))
    a, own, c, b = (places(rows, 1, count) for rows in (a, own, c, b))
    m = len(own)
    first, last = (one_place(rows, k) for rows, k in ((a, 0), (c, count - 2)))
    owing = [[at_ends(first[i][k], last[i][k], count - 1) for k in range(m)] for i in range(m)]
    y, z = solve_line(a, own, c, b), solve_line(a, own, c, owing)
    near = [(a0, count - 2), (c0, 0)]  # the places on either side of the first
    matrix, left = own0, b0
    for factor, k in near:
        matrix = minus_product(matrix, factor, one_place(z, k))
        left = minus_product(left, factor, one_place(y, k))
    s = solved(matrix, left, fused=True)
    rest = minus_product(y, z, [[u.expand((count - 1,)) for u in row] for row in s])
    whole = [[joined([u.reshape((1,)), x], 0)] for (u,), (x,) in zip(s, rest)]
    return back_to_fields(whole, w)


def at_ends(first: UOp, last: UOp, n: int) -> UOp:
    """Two numbers at the ends of a line of zeros."""
    return first.reshape((1,)).pad([(0, n - 1, 0)]) + last.reshape((1,)).pad([(n - 1, 0, 0)])


def every(u: UOp, w: int) -> UOp:
    return u.slice([(0, u.shape[0], w)]) if u.shape and w > 1 else u


def back_to_fields(d: Matrix, w: int) -> Arrays:
    """Each field from the rows of its block."""
    rows = [row[0] for row in d]
    if w == 1:
        return rows
    fields = [rows[k : k + w] for k in range(0, len(rows), w)]
    return [joined([u.reshape((*u.shape, 1)) for u in f], 1).reshape((f[0].shape[0] * w,)) for f in fields]
