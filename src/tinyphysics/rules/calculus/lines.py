"""How are block tridiagonal equations along a line solved?  Place by place, without pivots: down the line, and back.

A[i] x[i-1] + D[i] x[i] + C[i] x[i+1] = r[i], with small matrices of n rows. On the way down each place is solved for what
the next one still holds: x[i] = y[i] - G[i] x[i+1], where (D[i] - A[i] G[i-1]) [G[i] | y[i]] = [C[i] | r[i] - A[i] y[i-1]].
On the way back these are numbers. Entries that are zero at every place are known beforehand and not computed with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tinyphysics.ir import Ops, UOp
from tinyphysics.ir.dtype import DType
from tinyphysics.ir.value import evaluate
from tinyphysics.rules.calculus.linear import ZERO, Rows, less_product, solved
from tinyphysics.util import prod

Mask = int  # a bit for each entry of a square matrix, row by row: may it be other than zero?


def line(low: UOp, own: UOp, high: UOp, right: UOp, masks: tuple[Mask, Mask]) -> UOp:
    """[G | x]; arrays (n, n, ...), (n, columns, ...) along the third axis, each place of the axes after it on its own."""
    n, columns = right.shape[:2]
    shape = (n, n + columns, *right.shape[2:])
    return UOp(Ops.LINE, right.dtype, shape, (low, own, high, right), masks)


def holds(mask: Mask, n: int, row: int, column: int) -> bool:
    return bool(mask >> row * n + column & 1)


def reaching(mask: Mask, n: int) -> list[int]:
    """The columns of G that are not zero: those of C."""
    return [j for j in range(n) if any(holds(mask, n, i, j) for i in range(n))]


def down(u: UOp, low: Rows, own: Rows, high: Rows, right: Rows, before: Rows) -> Rows:
    """[G | y] of a place, from that of the place before."""
    (below, above), n = u.arg, len(own)
    reach = reaching(above, n)
    a = [[x if holds(below, n, i, k) else ZERO for k, x in enumerate(row)] for i, row in enumerate(low)]
    c = [[row[j] if holds(above, n, i, j) else ZERO for j in reach] for i, row in enumerate(high)]
    matrix = [[own[i][j] for j in range(n)] for i in range(n)]
    wanted = [list(row) for row in right]
    for i in range(n):
        for k in range(n):
            for j in reach:
                matrix[i][j] = less_product(matrix[i][j], a[i][k], before[k][j])
            wanted[i] = [less_product(r, a[i][k], y) for r, y in zip(wanted[i], before[k][n:])]
    found = solved(matrix, [[*c[i], *wanted[i]] for i in range(n)], fused=True)
    return [
        [*(row[reach.index(j)] if j in reach else ZERO for j in range(n)), *row[len(reach) :]]
        for row in found
    ]


def back(u: UOp, here: Rows, behind: Sequence[Sequence[UOp]]) -> Rows:
    """x of a place, from its [G | y] and the x of the place behind it."""
    n = len(here)
    out = [list(row[n:]) for row in here]
    for j in reaching(u.arg[1], n):
        out = [[less_product(x, row[j], z) for x, z in zip(line, behind[j])] for row, line in zip(here, out)]
    return out


def matrix_of(name: str, rows: int, columns: int, dtype: DType) -> Rows:
    return [[UOp.var(f"{name}{i},{k}", (), dtype) for k in range(columns)] for i in range(rows)]


def flat(rows: Rows) -> list[UOp]:
    return [x for row in rows for x in row]


def written_out(u: UOp, sources: Sequence[Sequence[UOp]]) -> list[UOp]:
    """The numbers of u, from those of its sources."""
    n, wide, m, *rest = u.shape
    beside = prod(rest)
    out = [ZERO] * u.size
    for lane in range(beside):

        def grid(source: Sequence[UOp], columns: int, i: int, lane: int = lane) -> Rows:
            return [
                [source[((j * columns + k) * m + i) * beside + lane] for k in range(columns)]
                for j in range(n)
            ]

        left = [[[UOp.const(0.0, u.dtype)] * wide for _ in range(n)]]
        for i in range(m):
            low, own, high, right = (grid(s, columns, i) for s, columns in zip(sources, (n, n, n, wide - n)))
            left.append(down(u, low, own, high, right, left[-1]))
        found = [[UOp.const(0.0, u.dtype)] * (wide - n) for _ in range(n)]
        for i in reversed(range(m)):
            here = left[i + 1]
            found = back(u, here, found)
            for j in range(n):
                for k, x in enumerate((*here[j][:n], *found[j])):
                    out[((j * wide + k) * m + i) * beside + lane] = x
    return out


def values(u: UOp) -> Callable[..., list[float]]:
    """What numbers become, place by place: for machines that have no loops."""
    n, wide, m, *rest = u.shape
    low, own, high = (matrix_of(name, n, n, u.dtype) for name in ("low", "own", "high"))
    right = matrix_of("right", n, wide - n, u.dtype)
    names = (low, own, high, right)
    before, behind = matrix_of("before", n, wide, u.dtype), matrix_of("behind", n, wide - n, u.dtype)
    first, here = flat(down(u, low, own, high, right, before)), matrix_of("here", n, wide, u.dtype)
    last, beside = flat(back(u, here, behind)), prod(rest)

    def run(*sources: Sequence[float]) -> list[float]:
        out = [0.0] * u.size
        for lane in range(beside):
            at = [i * beside + lane for i in range(m)]
            rows, found = [[0.0] * (n * wide)], [0.0] * (n * (wide - n))
            for i in at:
                env = {str(x.arg): y for x, y in zip(flat(before), rows[-1])}
                for group, source in zip(names, sources):
                    env |= {str(x.arg): source[k * m * beside + i] for k, x in enumerate(flat(group))}
                rows.append(evaluate(first, env))
            for i, row in zip(reversed(at), reversed(rows)):
                env = {str(x.arg): y for x, y in (*zip(flat(here), row), *zip(flat(behind), found))}
                found = evaluate(last, env)
                for j in range(n):
                    numbers = (*row[j * wide : j * wide + n], *found[j * (wide - n) : (j + 1) * (wide - n)])
                    for k, x in enumerate(numbers):
                        out[(j * wide + k) * m * beside + i] = x
        return out

    return run
