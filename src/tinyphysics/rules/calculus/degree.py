"""Of which degree is an expression, as a polynomial of some variables?  A bound from above, or that it is none.

Terms that cancel are still counted.
"""

from __future__ import annotations

from tinyphysics.ir.ops import MOVEMENT, Ops
from tinyphysics.ir.uop import UOp, toposort


def degrees(energy: UOp, states: frozenset[UOp]) -> dict[UOp, int | None]:
    """For each node, a bound on its degree in the states; None where it is not a polynomial."""
    out: dict[UOp, int | None] = {}
    for u in toposort([energy]):
        out[u] = 0 if not u.leaves & states else _degree(u, [out[s] for s in u.src])
    return out


def _degree(u: UOp, src: list[int | None]) -> int | None:
    if u.op is Ops.VAR:
        return 1
    known = [d for d in src if d is not None]
    if len(known) < len(src):
        return None
    match u.op:
        case Ops.ADD | Ops.SUB | Ops.NEG:
            return max(known)
        case Ops.MUL:
            return sum(known)
        case Ops.FMA:
            return max(known[0] + known[1], known[2])
        case Ops.DIV if known[1] == 0:
            return known[0]
        case Ops.POW if u.src[1].op is Ops.CONST and u.src[1].arg >= 0 and u.src[1].arg % 1 == 0:
            return known[0] * int(u.src[1].arg)
        case Ops.REDUCE if u.arg[0] in ("sum", "pairs"):
            return known[0]
        case Ops.ELLIPTIC if not any(known[1:]):
            return known[0]
        case op if op in MOVEMENT or op is Ops.FOURIER:
            return max(known)
    return None
