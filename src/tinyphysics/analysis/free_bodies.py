"""Is H that of free rigid bodies?  Then it is solved by Jacobi's functions, for any time at once."""

from __future__ import annotations

from functools import lru_cache

from tinyphysics.rules.calculus.laurent import Laurent
from tinyphysics.rules.calculus.squares import squares
from tinyphysics.rules.functions.random import draws
from tinyphysics.system import System

MOST_BODIES = 4096


@lru_cache(maxsize=64)
def free_bodies(system: System) -> tuple[Laurent, ...] | str:
    """The inverse moments of inertia, of every number of the momenta; or why it is not shown to be."""
    kinds = system.structure.turning
    if system.kind != "hamiltonian" or system.energy is None or not kinds:
        return "no state of it is an angular momentum"
    if sum(len(kind.states) for kind in kinds) < len(system.states):
        return "it has other states beside bodies"
    if system.time is not None or system.clock is not None or system.is_open:
        return "its motion depends on more than its energy"
    if draws(system.energy):
        return "it draws random numbers"
    own = [L for kind in kinds for L, _ in kind.bodies]
    if sum(L.size for L in own) > 3 * MOST_BODIES:
        return f"{MOST_BODIES:,} bodies at most are solved at once"
    found = squares(system.energy, own, [p.var for p in system.parameters])
    return found if isinstance(found, str) else tuple(found)
