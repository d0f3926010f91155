"""Which divisions can be done once instead of at every step?  Those by something that no state changes."""
from __future__ import annotations

from collections.abc import Sequence

from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp, toposort


def reciprocals(roots: Sequence[UOp], states: frozenset[UOp]) -> list[UOp]:
    """x/m as x*(1/m) where m holds no state: the reciprocal is computed before the loop.

    >>> p, m = UOp.var("p"), UOp.var("m")
    >>> reciprocals([p / m], frozenset({p}))
    [p*(1/m)]
    """
    new: dict[UOp, UOp] = {}
    for u in toposort(roots):
        src = tuple(new[s] for s in u.src)
        if u.op is Ops.DIV and u.src[0].leaves & states and not u.src[1].leaves & states:
            # an expanded scalar is inverted before it is expanded
            below = src[1].src[0] if src[1].op is Ops.EXPAND else src[1]
            new[u] = src[0] * (1.0 / below).expand(u.shape)
        else:
            new[u] = u.replace(src)
    return [new[r] for r in roots]
