"""Does a motion of states leave an energy as it is, and stay on its side of every place where it jumps?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tinyphysics.ir import Ops, UOp
from tinyphysics.rules.calculus.items import Items, NotFollowed, Places, Total
from tinyphysics.rules.equality.normal import Normal
from tinyphysics.rules.formulas.smoothness import JUMP, Rough, conditions, rough_places
from tinyphysics.rules.identities.real import simplify

Rule = Callable[[UOp, Places], "UOp | None"]


def arguments(r: Rough) -> Iterator[UOp]:
    """What decides on which side of a jump a state is."""
    u = r.node
    if r.cutoff is not None:
        near = u.src[0].src[0] if u.src[0].op is Ops.WHERE else u
        while near.op is Ops.AND:  # excluded pairs are left out behind it
            near = near.src[0]
        yield near.src[0] if near.op is Ops.LT else u
    elif u.op in (Ops.WHERE, Ops.WHERE_RARELY):
        for c in conditions(u.src[0]):
            yield c.src[0] - c.src[1] if len(c.src) == 2 and c.src[0].dtype.is_float else c
    else:
        yield from u.src


def stays_beside(
    jumps: Sequence[Rough], moving: frozenset[UOp], rule: Rule, vanishes: Callable[[Total], bool]
) -> bool:
    """Does nothing that decides about a jump change along the motion?"""
    for r in jumps:
        items = Items(rule, moving)
        try:
            for u in arguments(r):
                _, everywhere = items.indices(u.sum(), (), 0) if u.shape else ((), [()])
                if u.leaves & moving and not all(vanishes(items.rate(u, at)) for at in everywhere):
                    return False
        except NotFollowed:
            return False
    return True


def vanishes(total: Total) -> bool:
    """Is each item of each sum shown to be zero?"""
    return all(Normal().same(simplify([item])[0], UOp.const(0.0)) for item in total.values())


def translates(energy: UOp, positions: Sequence[UOp], momenta: Sequence[UOp], axis: int) -> bool:
    """Is an energy shown to stay as it is where all bodies are shifted along an axis of space, the last of their arrays?"""
    moving, shifted = frozenset((*positions, *momenta)), frozenset(positions)

    def rule(u: UOp, places: Places) -> UOp | None:
        if u not in shifted:
            return None
        component = places[-1] if u.shape[-1] in (2, 3) else 0
        if not isinstance(component, int):
            raise NotFollowed
        return UOp.const(1.0) if component == axis else None

    try:
        still = vanishes(Items(rule, moving).rate(energy))
    except NotFollowed:
        return False
    jumps = [r for r in rough_places([energy], moving) if r.order <= JUMP]
    return still and stays_beside(jumps, moving, rule, vanishes)
