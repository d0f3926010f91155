"""Does a motion of the state stay on its side of every place where H jumps?  Else it is no symmetry.

floor(q) has the derivative 0 wherever it has one, and a shift of q changes it all the same. So a quantity that moves the
state across a jump is not conserved; one that moves it along the jump, as a rotation does inside a round well, may be.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from tinyphysics.ir import UOp
from tinyphysics.rules.calculus.items import Places, Total
from tinyphysics.rules.formulas.motions import stays_beside
from tinyphysics.rules.formulas.smoothness import JUMP, Rough, rough_places
from tinyphysics.system import System


@lru_cache(maxsize=64)
def jumps(system: System) -> tuple[Rough, ...]:
    """Where the energy may jump."""
    assert system.energy is not None
    moving = frozenset((*system.q, *system.p))
    return tuple(r for r in rough_places([system.energy], moving) if r.order <= JUMP)


def stays(
    system: System, rule: Callable[[UOp, Places], UOp | None], vanishes: Callable[[Total], bool]
) -> bool:
    """Does nothing that decides about a jump change along the motion?"""
    return stays_beside(jumps(system), frozenset((*system.q, *system.p)), rule, vanishes)
