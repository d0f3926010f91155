"""Are these bodies that may go round each other on Kepler orbits?  Sums of p**2/2m and of -G m_i m_j/r, with the same m.

Shown is the form. Which body is central, in which order the others are, and whether what they do to each other besides
is small, is a matter of the state, and measured there. Anything else in the potential counts as a perturbation.
"""

from __future__ import annotations

from tinyphysics.analysis.inverse_distance import inverse_distance
from tinyphysics.analysis.masses import masses
from tinyphysics.facts import Fact, Facts
from tinyphysics.ir import UOp
from tinyphysics.ir.reduction import COMPONENTS
from tinyphysics.rules.equality.normal import same
from tinyphysics.rules.identities.real import simplify
from tinyphysics.system import System

NAME = "orbits"


def hierarchy(system: System, facts: Facts) -> Fact:
    """With the parts `masses`, one for each body, and `G`."""
    if system.kind != "hamiltonian":
        return Fact.no(NAME, f"it is given by its {system.kind}, not by its energy", system.site)
    split = facts["separable"]
    if not split:
        return Fact.no(NAME, f"H is not shown to be separable: {split.because}", split.site)
    if facts["explicit time"]:
        return Fact.no(NAME, "it depends on time explicitly", system.site)
    found = inverse_distance(system, split.V)
    if not found:
        return Fact.no(NAME, f"no sum over pairs of -G*m[i]*m[j]/r was found: {found.because}", found.site)
    n = system.q[0].shape[0]
    if not 2 <= n <= COMPONENTS:
        return Fact.no(
            NAME, f"there are {n} bodies; orbits are written out for 2 to {COMPONENTS}", found.site
        )
    moving = masses(system, split.T)
    if not moving:
        return Fact.no(NAME, moving.because)
    (p,), (inverse,) = system.p, moving.inverse
    m = found.masses
    if not same(inverse * m.reshape((n, 1)).expand(p.shape), UOp.const(1.0, p.dtype, p.shape)):
        return Fact.no(
            NAME, f"the masses in the potential, {m}, are not shown to be those of p**2/2m", found.site
        )
    (G,) = simplify([-found.factor])
    return Fact.yes(NAME, f"p**2/2m and {found.because}", found.site, masses=m, G=G)
