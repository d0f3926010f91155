"""Is T quadratic in p?  Then brackets of three V's with one T vanish, and Nyström splittings have their order.

The degree is an upper bound, so a T that is not written as a polynomial of p is a no. What multiplies the p's
(masses, parameters, whole matrices) is free, but for time: a T that depends on t moves while V acts.
"""

from __future__ import annotations

from tinyphysics.facts import Fact
from tinyphysics.ir import UOp, toposort
from tinyphysics.rules.calculus.degree import degrees
from tinyphysics.system import System

NAME = "T quadratic"


def kinetic_quadratic(system: System, T: UOp) -> Fact:
    found = degrees(T, frozenset(system.p))
    degree = found[T]
    if degree is None:
        culprit = next(u for u in toposort([T]) if found[u] is None)
        return Fact.no(NAME, f"{culprit} is not a polynomial of the momenta", system.sites.get(culprit))
    if degree > 2:
        return Fact.no(NAME, f"the degree in the momenta may be {degree}")
    if system.time is not None and system.time in T.leaves:
        return Fact.no(NAME, "T depends on t, which advances while V acts")
    return Fact.yes(NAME, "the momenta enter T with degree 2 at most")
