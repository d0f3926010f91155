"""Which equations keep a bracket of turning bodies, for any energy?  The spherical midpoint, and the step of Cayley.

z1 - z0 = h f(m), with m in the middle of z0 and z1 and as long as z0 (McLachlan, Modin, Verdier 2014); and with
w = dH/dL at M, M + (h/2) w x M + (h²/4)(w·M) w = L0, the same with -h for L1, and R1 = R0 (1, h w/2)/sqrt(1 + h² w²/4).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tinyphysics.ir import UOp
from tinyphysics.ir.vectors import crossed

Numbers = list[UOp]
Slopes = Callable[[Sequence[UOp]], Sequence[UOp]]


def length(v: Sequence[UOp]) -> UOp:
    return UOp.sum_of([x * x for x in v]).sqrt()


def middle(a: Sequence[UOp], b: Sequence[UOp]) -> Numbers:
    """Of rows of three numbers: half way on the sphere, as long as the first."""
    out: Numbers = []
    for k in range(0, len(a), 3):
        both = [x + y for x, y in zip(a[k : k + 3], b[k : k + 3])]
        size = length(both)
        share = length(a[k : k + 3]) / size.eq(0.0).where(size.lift(1.0), size)
        out += [x * share for x in both]
    return out


def cayley(M: Sequence[UOp], w: Sequence[UOp], h: UOp) -> Numbers:
    """Of rows of three numbers: M + (h/2) w x M + (h²/4)(w·M) w."""
    out: Numbers = []
    for k in range(0, len(M), 3):
        m, v = M[k : k + 3], w[k : k + 3]
        along = UOp.sum_of([x * y for x, y in zip(v, m)]) * (h * h * 0.25)
        out += [x + (h * 0.5) * c + along * y for x, c, y in zip(m, crossed(v, m), v)]
    return out


def turned_by_cayley(R: Sequence[UOp], w: Sequence[UOp], h: UOp) -> Numbers:
    """Quaternions after a turn by (1, h w/2)/sqrt(1 + h² w²/4): twice the arctangent of h|w|/2, without a sine."""
    out: Numbers = []
    for k in range(len(w) // 3):
        q, v = R[4 * k : 4 * k + 4], [x * (h * 0.5) for x in w[3 * k : 3 * k + 3]]
        scale = 1.0 / (UOp.sum_of([x * x for x in v]) + 1.0).sqrt()
        a, b, c, d = q
        x, y, z = v
        turned = (
            a - b * x - c * y - d * z,
            b + a * x + c * z - d * y,
            c + a * y + d * x - b * z,
            d + a * z + b * y - c * x,
        )
        out += [u * scale for u in turned]
    return out


def rows_by_cayley(R: Sequence[UOp], w: Sequence[UOp], h: UOp, bodies: int) -> Numbers:
    """Vectors that are fixed in space, as a body sees them: (1 + a²) r' = (1 - a²) r + 2 (a·r) a - 2 a x r, a = h w/2."""
    out: Numbers = []
    each = len(R) // bodies
    for k in range(bodies):
        a = [x * (h * 0.5) for x in w[3 * k : 3 * k + 3]]
        square = UOp.sum_of([x * x for x in a])
        for j in range(each * k, each * (k + 1), 3):
            r = R[j : j + 3]
            along = UOp.sum_of([x * y for x, y in zip(a, r)])
            rows = zip(r, a, crossed(a, r))
            out += [((1.0 - square) * x + 2.0 * along * y - 2.0 * c) / (square + 1.0) for x, y, c in rows]
    return out
