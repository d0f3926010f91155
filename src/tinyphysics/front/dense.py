"""How is a small linear system solved inside an energy?  Written out, up to six unknowns, by NumPy's names.

Two unknowns by Cramer's rule: quotients of polynomials, so that a mass matrix M(q) leaves an energy smooth. With
three it loses hundreds of times more digits than the condition of the matrix asks for; so from there on by
elimination, the largest pivot brought up by choices. What chooses is not shown to be smooth.
"""

from __future__ import annotations

from typing import Any

from tinyphysics.errors import ShapeError
from tinyphysics.front.functions import on_symbols
from tinyphysics.ir import UOp, as_uop
from tinyphysics.ir.uop import NUMPY

LARGEST = 6
CRAMER = 2
Rows = list[list[UOp]]


def square(a: UOp, what: str) -> Rows:
    """The entries of a matrix, or of many along leading axes."""
    if a.ndim < 2 or a.shape[-1] != a.shape[-2] or not 1 <= a.shape[-1] <= LARGEST:
        raise ShapeError.here(
            f"{what} of shape {a.shape}", f"It must be a square matrix with at most {LARGEST} rows."
        )
    n = a.shape[-1]
    return [[a[..., i, j] for j in range(n)] for i in range(n)]


def cofactor(m: Rows, i: int, j: int) -> UOp:
    minor = [[x for c, x in enumerate(row) if c != j] for r, row in enumerate(m) if r != i]
    d = expanded(minor) if minor else m[0][0] * 0.0 + 1.0
    return -d if (i + j) % 2 else d


def expanded(m: Rows) -> UOp:
    """The determinant along its first row."""
    if len(m) == 1:
        return m[0][0]
    return UOp.sum_of(m[0][j] * cofactor(m, 0, j) for j in range(len(m)))


def eliminated(m: Rows, right: Rows) -> tuple[Rows, Rows, UOp]:
    """(an upper triangle, right sides that go with it, the sign of the exchanges)."""
    m, right = [list(r) for r in m], [list(r) for r in right]
    n, sign = len(m), m[0][0] * 0.0 + 1.0
    for k in range(n):
        for r in range(k + 1, n):
            larger = abs(m[k][k]) < abs(m[r][k])
            for rows in (m, right):
                up = [larger.where(y, x) for x, y in zip(rows[k], rows[r])]
                rows[r] = [larger.where(x, y) for x, y in zip(rows[k], rows[r])]
                rows[k] = up
            sign = larger.where(-sign, sign)
        for r in range(k + 1, n):
            factor = m[r][k] / m[k][k]
            m[r] = [x if c <= k else x - factor * y for c, (x, y) in enumerate(zip(m[r], m[k]))]
            right[r] = [x - factor * y for x, y in zip(right[r], right[k])]
    return m, right, sign


def solved(m: Rows, right: Rows) -> Rows:
    n = len(m)
    if n <= CRAMER:
        d = expanded(m)
        inverse = [[cofactor(m, j, i) for j in range(n)] for i in range(n)]
        return [
            [UOp.sum_of(inverse[i][k] * right[k][c] for k in range(n)) / d for c in range(len(right[0]))]
            for i in range(n)
        ]
    upper, y, _ = eliminated(m, right)
    x: Rows = [[] for _ in range(n)]
    for i in reversed(range(n)):
        for c in range(len(right[0])):
            known = UOp.sum_of(upper[i][k] * x[k][c] for k in range(i + 1, n)) if i + 1 < n else None
            x[i].append((y[i][c] if known is None else y[i][c] - known) / upper[i][i])
    return x


def stacked(rows: Rows) -> UOp:
    stack = NUMPY["stack"]
    out: UOp = stack([stack(row, -1) for row in rows], -2)
    return out


@on_symbols
def det(a: Any) -> UOp:
    """The determinant of a small matrix."""
    m = square(as_uop(a), "det")
    if len(m) <= CRAMER:
        return expanded(m)
    upper, _, sign = eliminated(m, [[] for _ in m])
    for i, row in enumerate(upper):
        sign = sign * row[i]
    return sign


@on_symbols
def inv(a: Any) -> UOp:
    """The inverse of a small matrix."""
    m = square(as_uop(a), "inv")
    one, zero = m[0][0] * 0.0 + 1.0, m[0][0] * 0.0
    return stacked(solved(m, [[one if i == j else zero for j in range(len(m))] for i in range(len(m))]))


@on_symbols
def solve(a: Any, b: Any) -> UOp:
    """x with a @ x = b, of a small matrix and a vector or a matrix."""
    m, right = square(as_uop(a), "solve"), as_uop(b)
    n = len(m)
    if right.ndim not in (1, 2) or right.shape[0] != n:
        raise ShapeError.here(
            f"solve with a right side of shape {right.shape}",
            f"It must have {n} rows, one for each row of the matrix.",
        )
    if right.ndim == 1:
        x = solved(m, [[right[i]] for i in range(n)])
        out: UOp = NUMPY["stack"]([row[0] for row in x], -1)
        return out
    return stacked(solved(m, [[right[i, c] for c in range(right.shape[1])] for i in range(n)]))


NUMPY.update({"linalg.det": det, "linalg.inv": inv, "linalg.solve": solve})
