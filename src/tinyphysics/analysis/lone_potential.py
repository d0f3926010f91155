"""Is a part of the energy a potential, though another mixes q and p?  Then it need not be solved for: it is a kick."""

from __future__ import annotations

from itertools import islice

from tinyphysics.analysis.separable import mixes, signed_sum, terms
from tinyphysics.facts import Fact
from tinyphysics.system import System

MOST_TERMS = 300  # of a sum that is opened: a chain of five rods has thousands


def apart(system: System) -> Fact:
    """H = V(q) + R(q, p), V being every term without momenta."""
    assert system.energy is not None
    q, p = frozenset(system.q), frozenset(system.p)
    found = list(islice(terms(system.energy, mixes(system)), MOST_TERMS + 1))
    if len(found) > MOST_TERMS:
        return Fact.no("a potential apart", f"opened, it has more than {MOST_TERMS:,} terms")
    potential = [(u, minus) for u, minus in found if u.leaves & q and not u.leaves & p]
    if not potential:
        return Fact.no("a potential apart", "every term holds momenta")
    rest = [(u, minus) for u, minus in found if not (u.leaves & q and not u.leaves & p)]
    return Fact.yes(
        "a potential apart", "some terms hold no momenta", V=signed_sum(potential), rest=signed_sum(rest)
    )
