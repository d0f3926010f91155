"""Between which numbers does a value lie, whatever the states are?  Intervals, from the leaves up; infinite where unknown.

One-sided, as every analysis here: the interval holds every value there is, and may be wider. Rounding is not looked at.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from tinyphysics.ir.ops import MOVEMENT, Ops
from tinyphysics.ir.uop import UOp, toposort

Range = tuple[float, float]
ANY: Range = (-math.inf, math.inf)
UNIT: Range = (-1.0, 1.0)

LARGEST = 709.0  # beyond, exp is out of the range of float64

# functions that grow with their argument, of which the ends are those of the ends
GROWING: dict[Ops, Callable[[float], float]] = {
    Ops.SQRT: lambda x: math.sqrt(max(x, 0.0)),
    Ops.EXP: lambda x: math.exp(x) if x < LARGEST else math.inf,
    Ops.TANH: math.tanh,
    Ops.ATAN: math.atan,
    Ops.ERF: math.erf,
}


def range_of(u: UOp, known: Mapping[UOp, Range]) -> Range:
    """Of an expression, with what is known of some variables: `known` of a parameter is where its numbers lie."""
    return ranges_of([u], known)[u]


def has_one_sign(u: UOp) -> str | None:
    """What is known of its sign, of a function that cannot change it; a zero that is touched counts as no change."""
    low, high = range_of(u, {})
    if low > 0.0:
        return "positive"
    if high <= 0.0:
        return "never positive"
    square = u.op is Ops.MUL and u.src[0] is u.src[1]
    even = u.op is Ops.POW and u.src[1].op is Ops.CONST and float(u.src[1].arg) % 2 == 0
    return "never negative" if square or even or u.op in (Ops.ABS, Ops.SQRT) else None


def ranges_of(roots: Sequence[UOp], known: Mapping[UOp, Range]) -> dict[UOp, Range]:
    """Of every node of some expressions."""
    found: dict[UOp, Range] = {}
    for x in toposort(roots):
        if x.op is Ops.VAR:
            found[x] = known.get(x, ANY)
        elif x.op is Ops.CONST:
            found[x] = (float(x.arg), float(x.arg))
        else:
            r = _range(x, [found[s] for s in x.src])
            found[x] = ANY if math.isnan(r[0]) or math.isnan(r[1]) else r
    return found


def _range(u: UOp, src: Sequence[Range]) -> Range:
    match u.op, src:
        case Ops.NEG, [(a, b)]:
            return -b, -a
        case Ops.ADD, [(a, b), (c, d)]:
            return a + c, b + d
        case Ops.SUB, [(a, b), (c, d)]:
            return a - d, b - c
        case Ops.MUL, [x, _] if u.src[0] is u.src[1]:
            return even(x, 2.0)
        case Ops.MUL, [x, y]:
            return times(x, y)
        case Ops.FMA, [x, y, (c, d)]:
            a, b = even(x, 2.0) if u.src[0] is u.src[1] else times(x, y)
            return a + c, b + d
        case Ops.DIV, [x, (c, d)]:
            return times(x, over(c, d))
        case Ops.POW, [x, (n, m)] if n == m and n % 1 == 0:
            whole = even(x, abs(n)) if n % 2 == 0 else (x[0] ** abs(n), x[1] ** abs(n))
            return whole if n >= 0 else over(*whole)
        case Ops.POW, [(a, _), _] if a >= 0:
            return 0.0, math.inf
        case (Ops.ABS, [x]):
            return even(x, 1.0)
        case (Ops.SIN | Ops.COS, _):
            return UNIT
        case Ops.RSQRT, [(a, b)]:
            return over(math.sqrt(max(a, 0.0)), math.sqrt(max(b, 0.0)))
        case (Ops.HYPOT, _):
            return 0.0, math.inf
        case (Ops.COSH, _):
            return 1.0, math.inf
        case (Ops.MAX, [(a, b), (c, d)]):
            return max(a, c), max(b, d)
        case (Ops.MIN, [(a, b), (c, d)]):
            return min(a, c), min(b, d)
        case ((Ops.WHERE | Ops.WHERE_RARELY), [_, (a, b), (c, d)]):
            return min(a, c), max(b, d)
        case op, [(a, b)] if op in GROWING:
            return GROWING[op](a), GROWING[op](b)
        case Ops.REDUCE, [(a, b)]:
            return (a, b) if u.arg[0] in ("max", "min") else summed(u, a, b)
        case op, _ if op in MOVEMENT and op not in (Ops.GATHER, Ops.SCATTER):
            zeros = [(0.0, 0.0)] if op in (Ops.PAD, Ops.TRIU) else []
            return min(a for a, _ in [*src, *zeros]), max(b for _, b in [*src, *zeros])
    return ANY


def even(x: Range, n: float) -> Range:
    """Of |x|**n."""
    a, b = abs(x[0]), abs(x[1])
    low = 0.0 if x[0] <= 0.0 <= x[1] else min(a, b)
    return low**n, max(a, b) ** n


def times(x: Range, y: Range) -> Range:
    corners = [0.0 if a == 0.0 or b == 0.0 else a * b for a in x for b in y]
    return min(corners), max(corners)


def over(c: float, d: float) -> Range:
    """Of 1/x: both ends of one sign, or nothing is known."""
    if c < 0.0 < d:
        return ANY
    reach = [1 / v if v else math.inf * (1 if c >= 0 else -1) for v in (c, d)]
    return min(reach), max(reach)


def summed(u: UOp, a: float, b: float) -> Range:
    """Of a sum: over none, one or all of the numbers."""
    n = u.src[0].size
    return (min(a * n, 0.0) if a < 0 else 0.0), (max(b * n, 0.0) if b > 0 else 0.0)
