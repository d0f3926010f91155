"""Which sums are over pairs?  Those do half of the work of a double sum, and both of a pair feel the same force.

rules/equality/pairs.py has recognised them when the energy was traced; a double sum that is left is named, with what was not
shown of it.
"""

from __future__ import annotations

from tinyphysics.facts import Fact
from tinyphysics.ir import Ops, toposort
from tinyphysics.rules.equality.pairs import why_not
from tinyphysics.system import System


def pairwise(system: System) -> Fact | None:
    """None if the energy has neither pairs nor double sums."""
    assert system.energy is not None
    sums = [u for u in toposort([system.energy]) if u.op is Ops.REDUCE]
    for u in sums:
        if why := why_not(u):
            return Fact.no("pairs", f"{u} stays a double sum: {why}", system.sites.get(u))
    pairs = [u for u in sums if u.src[0].op is Ops.TRIU]
    if not pairs:
        return None
    if len(pairs[0].src[0].arg) > 2:
        how = "a sum over neighbours within a cutoff, by a list; each pair is computed once, for both"
        return Fact.yes("pairs", how, system.sites.get(pairs[0]))
    n = pairs[0].src[0].shape[pairs[0].src[0].arg[0]]
    return Fact.yes(
        "pairs",
        f"a sum over i < j, {n * (n - 1) // 2:,} pairs; each is computed once, for both",
        system.sites.get(pairs[0]),
    )
