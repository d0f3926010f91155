"""Is the kinetic energy quadratic in the momenta?  Then [V, [T, V]] is a function of the positions alone."""
from __future__ import annotations

from tinyphysics.analysis.quadratic import degrees
from tinyphysics.facts import Fact
from tinyphysics.ir import UOp, toposort
from tinyphysics.system import System


def quadratic_in_momenta(system: System, kinetic: UOp) -> Fact:
    found = degrees(kinetic, frozenset(system.p))
    degree = found[kinetic]
    if degree is None:
        culprit = next(u for u in toposort([kinetic]) if found[u] is None)
        return Fact.no("quadratic in p", because=f"{culprit} is not a polynomial of p", site=system.sites.get(culprit))
    if degree > 2:
        return Fact.no("quadratic in p", because=f"the degree of {kinetic} may be {degree}")
    return Fact.yes("quadratic in p", because=f"degree {degree} at most")
