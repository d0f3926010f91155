"""How is a small linear system written out?  Elimination on expressions, for matrices close enough to 1 to need no pivots."""

from __future__ import annotations

from collections.abc import Sequence

from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp

Rows = list[list[UOp]]
ZERO, ONE = UOp.const(0.0), UOp.const(1.0)


def is_number(u: UOp, value: float) -> bool:
    return u.op is Ops.CONST and u.arg == value


def times(a: UOp, b: UOp) -> UOp:
    if is_number(a, 0.0) or is_number(b, 0.0):
        return ZERO
    return b if is_number(a, 1.0) else a if is_number(b, 1.0) else a * b


def less(a: UOp, b: UOp) -> UOp:
    return a if is_number(b, 0.0) else -b if is_number(a, 0.0) else a - b


def less_product(x: UOp, a: UOp, b: UOp) -> UOp:
    """x - a*b, rounded once."""
    if is_number(a, 0.0) or is_number(b, 0.0):
        return x
    return -(a * b) if is_number(x, 0.0) else (-a).fma(b, x)


def identity(n: int) -> Rows:
    return [[ONE if i == k else ZERO for k in range(n)] for i in range(n)]


def solved(matrix: Sequence[Sequence[UOp]], right: Sequence[Sequence[UOp]], fused: bool = False) -> Rows:
    """X with matrix X = right; a zero pivot makes infinities. Zeros that are written are not computed with.

    `fused` says that it is not decided later which products join which sums.
    """
    minus = less_product if fused else lambda x, a, b: less(x, times(a, b))
    a, b = [list(r) for r in matrix], [list(r) for r in right]
    n = len(a)
    for k in range(n):
        pivot = times(ONE, ONE / a[k][k]) if not is_number(a[k][k], 1.0) else ONE
        a[k] = [x if c <= k else times(x, pivot) for c, x in enumerate(a[k])]
        b[k] = [times(x, pivot) for x in b[k]]
        for r in range(k + 1, n):
            factor = a[r][k]
            a[r] = [x if c <= k else minus(x, factor, y) for c, (x, y) in enumerate(zip(a[r], a[k]))]
            b[r] = [minus(x, factor, y) for x, y in zip(b[r], b[k])]
    for k in reversed(range(n)):
        for r in range(k):
            b[r] = [minus(x, a[r][k], y) for x, y in zip(b[r], b[k])]
    return b


def inverse(matrix: Sequence[Sequence[UOp]]) -> Rows:
    return solved(matrix, identity(len(matrix)))


def determinant(matrix: Sequence[Sequence[UOp]], most: int = 256) -> UOp | None:
    """By minors, without a division, so that it is as smooth as its entries; None if there are more than `most` of them.

    Those of the first rows that are zero are left out: a matrix of three diagonals has two for each row.
    """
    minors: dict[tuple[int, ...], UOp] = {(): ONE}
    for row in matrix:
        new: dict[tuple[int, ...], UOp] = {}
        for columns, minor in minors.items():
            for c, x in enumerate(row):
                if c in columns or is_number(x, 0.0):
                    continue
                behind = sum(k > c for k in columns)  # columns that it passes
                term = times(x, minor)
                key = tuple(sorted((*columns, c)))
                if key not in new:
                    new[key] = -term if behind % 2 else term
                else:
                    new[key] = new[key] - term if behind % 2 else new[key] + term
        if len(new) > most:
            return None
        minors = new
    return next(iter(minors.values()), ZERO)
