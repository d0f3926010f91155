"""How far along its first axis does an expression look at an array?"""

from __future__ import annotations

from collections.abc import Sequence

from tinyphysics.ir import Ops, UOp, toposort
from tinyphysics.ir.ops import ELEMENTWISE

Places = frozenset[int] | None  # None: it is not seen


def shifted(x: Places, k: int) -> Places:
    return None if x is None else frozenset(i + k for i in x)


def joined(parts: Sequence[Places]) -> Places:
    known = [p for p in parts if p is not None]
    return frozenset().union(*known) if len(known) == len(parts) else None


def reach(roots: Sequence[UOp], state: UOp) -> Places:
    """The places beside its own that number i of each root looks at, i the index of the first axis."""
    memo: dict[UOp, Places] = {}
    for u in toposort(list(roots)):
        memo[u] = frozenset({0}) if u is state else looked(u, state, [memo[s] for s in u.src])
    return joined([memo[u] for u in roots])


def looked(u: UOp, state: UOp, seen: Sequence[Places]) -> Places:
    if state not in u.leaves:
        return frozenset()
    if u.op in ELEMENTWISE:
        alike = all(s.shape[:1] == u.shape[:1] or state not in s.leaves for s in u.src)
        return joined(seen) if alike else None
    (source, *_), (own, *_) = u.src, seen
    first = u.arg[0] if isinstance(u.arg, tuple) and u.arg else None
    match u.op:
        case Ops.RESHAPE | Ops.EXPAND if source.shape[:1] == u.shape[:1] and source.shape:
            return own
        case Ops.REDUCE if u.arg[0] in ("sum", "dot") and 0 not in u.arg[1]:
            return joined(seen)
        case Ops.SLICE if first is not None and first[2] == 1:
            return shifted(own, first[0])
        case Ops.PAD if first is not None and first[2] == 0:
            return shifted(own, -first[0])
        case Ops.STACK | Ops.CONCAT if u.op is Ops.CONCAT and u.arg != 0:
            return joined(seen)
        case Ops.CONCAT:
            begin, parts = 0, []
            for s, x in zip(u.src, seen):
                parts.append(shifted(x, -begin))
                begin += s.shape[0]
            return joined(parts)
    return None
