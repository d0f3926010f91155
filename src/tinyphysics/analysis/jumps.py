"""Does a motion of the state stay on its side of every place where H jumps?  Else it is no symmetry.

floor(q) has the derivative 0 wherever it has one, and a shift of q changes it all the same. So a quantity that moves the
state across a jump is not conserved; one that moves it along the jump, as a rotation does inside a round well, may be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache

from tinyphysics.ir import Ops, UOp
from tinyphysics.rules.calculus.items import Items, NotFollowed, Places, Total
from tinyphysics.rules.formulas.smoothness import JUMP, Rough, conditions, rough_places
from tinyphysics.system import System


@lru_cache(maxsize=64)
def jumps(system: System) -> tuple[Rough, ...]:
    """Where the energy may jump."""
    assert system.energy is not None
    moving = frozenset((*system.q, *system.p))
    return tuple(r for r in rough_places([system.energy], moving) if r.order <= JUMP)


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


def stays(
    system: System, rule: Callable[[UOp, Places], UOp | None], vanishes: Callable[[Total], bool]
) -> bool:
    """Does nothing that decides about a jump change along the motion?"""
    moving = frozenset((*system.q, *system.p))
    for r in jumps(system):
        items = Items(rule, moving)
        try:
            for u in arguments(r):
                _, everywhere = items.indices(u.sum(), (), 0) if u.shape else ((), [()])
                if u.leaves & moving and not all(vanishes(items.rate(u, at)) for at in everywhere):
                    return False
        except NotFollowed:
            return False
    return True
