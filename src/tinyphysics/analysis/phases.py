"""Is an energy of complex fields a sum of two, one that turns their waves and one that turns their numbers?

Then split steps have exact flows: of tp.dx(psi) and its kind in Fourier space, of |psi|**2 in space. A term that is shown
to be neither is a no, and says which.
"""

from __future__ import annotations

from functools import lru_cache

from tinyphysics.analysis.separable import signed_sum, terms
from tinyphysics.facts import Fact
from tinyphysics.ir import Ops, UOp, toposort
from tinyphysics.rules.formulas.phases import turned_by_waves, turned_phases
from tinyphysics.system import System

NAME = "waves and phases"
T, V = "T", "V"  # of what turns waves, and of what turns numbers


def waves_and_phases(system: System) -> Fact | None:
    """A yes carries `parts`: (label, energy, its turns) of T and V. Not asked of energies without complex fields."""
    if system.energy is None or not system.complexes:
        return None
    if not any(u.op is Ops.FOURIER for u in toposort([system.energy])):
        return None
    return found_in(system)


@lru_cache(maxsize=16)
def found_in(system: System) -> Fact:
    pairs, states = system.pairs, frozenset((*system.q, *system.p))
    assert system.energy is not None
    if system.time is not None and system.time in system.energy.leaves:
        return Fact.no(
            NAME, "H depends on t, and the rates of exact turns would change meanwhile", system.site
        )
    known: dict[UOp, bool] = {}

    def turns(u: UOp) -> bool:
        """Does it turn each number of the fields?"""
        if u not in known:
            known[u] = turned_phases(u.sum() if u.shape else u, pairs) is not None
        return known[u]

    def mixed(u: UOp) -> bool:
        return bool(u.leaves & states) and not turns(u)

    held: dict[str, list[tuple[UOp, bool]]] = {V: [], T: []}
    for term, minus in terms(system.energy, mixed, whole=turns):
        if mixed(term) and not any(u.op is Ops.FOURIER and u.leaves & states for u in toposort([term])):
            why = f"{term} is no function of the sizes abs(z)**2 of complex states"
            return Fact.no(NAME, why, system.sites.get(term) or system.site)
        held[T if mixed(term) else V].append((term, minus))
    parts = []
    for label, own in held.items():
        energy = signed_sum(own)
        if not energy.leaves & states:
            continue
        found = turned_phases(energy, pairs) if label == V else turned_by_waves(energy, pairs)
        if found is None:
            first = own[0][0]
            why = f"of {first} each wave is not shown to turn by itself: it may couple no two waves, and no two fields"
            return Fact.no(NAME, why, system.sites.get(first) or system.site)
        parts.append((label, energy, tuple(found)))
    told = {T: "one part turns each wave", V: "one turns each number, at a rate of abs(z)**2"}
    return Fact.yes(
        NAME, ", ".join(told[label] for label, *_ in reversed(parts)), system.site, parts=tuple(parts)
    )
