"""Which divisions are one?  x/d, y/d and z/d are one division and three products: f = 1/d, then f*x, f*y, f*z.

A division takes as long as eight products. What all numerators share is divided with the rest: the force of a pair,
m*dx/r**3 in each direction, is f = m/r**3, then f*dx. Each quotient may change in its last bit, so what steps or
compares on one keeps it as it was written: floor(x/d) must find x = 3*d.
"""

from __future__ import annotations

from collections.abc import Sequence

from tinyphysics.ir.ops import COMPARE, Ops
from tinyphysics.ir.uop import UOp, toposort

DISCRETE = COMPARE | {Ops.FLOOR, Ops.RINT, Ops.SIGN, Ops.CAST, Ops.BITCAST}


def one_division(roots: Sequence[UOp]) -> list[UOp]:
    """The roots with one division for each denominator.

    >>> x, y, m, d = (UOp.var(n) for n in "xymd")
    >>> one_division([m * x / d, y * m / d])
    [m/d*x, m/d*y]
    >>> one_division([x / d])
    [x/d]
    """
    order = toposort(roots)
    kept = as_written(order)
    groups: dict[UOp, list[UOp]] = {}
    for u in order:
        if u.op is Ops.DIV and u.dtype.is_float and u not in kept and u.src[1].leaves:
            groups.setdefault(u.src[1], []).append(u)
    new: dict[UOp, UOp] = {}
    common = {d: in_all([factors(u.src[0]) for u in us]) for d, us in groups.items() if len(us) > 1}
    for u in order:
        new[u] = u.replace(tuple(new[s] for s in u.src))
        if u.op is not Ops.DIV or u in kept or u.src[1] not in common:
            continue
        shared = common[u.src[1]]
        rest = without(factors(u.src[0]), shared)
        top = product([new[s] for s in shared]) if shared else u.lift(1.0).expand(u.shape)
        quotient = top / new[u.src[1]]
        new[u] = quotient * product([new[s] for s in rest]) if rest else quotient
    return [new[r] for r in roots]


def as_written(order: Sequence[UOp]) -> dict[UOp, None]:
    """What something steps or compares on, however far below."""
    kept: dict[UOp, None] = {}
    for u in reversed(order):
        if u.op in DISCRETE or u in kept:
            kept |= dict.fromkeys(u.src)
    return kept


def factors(u: UOp) -> list[UOp]:
    return [*factors(u.src[0]), *factors(u.src[1])] if u.op is Ops.MUL else [u]


def in_all(lists: Sequence[Sequence[UOp]]) -> list[UOp]:
    """What occurs in every list, as often as in each; numbers do not count: 1/d is as short as 2/d."""
    out: list[UOp] = []
    rest = [list(each) for each in lists[1:]]
    for x in lists[0]:
        if x.op is not Ops.CONST and all(any(x is y for y in each) for each in rest):
            out.append(x)
            rest = [without(each, [x]) for each in rest]
    return out


def without(items: Sequence[UOp], gone: Sequence[UOp]) -> list[UOp]:
    out = list(items)
    for x in gone:
        del out[next(k for k, y in enumerate(out) if y is x)]
    return out


def product(items: Sequence[UOp]) -> UOp:
    out = items[0]
    for x in items[1:]:
        out = out * x
    return out
