"""Is H even in p?  Then negating the momenta runs time backwards (p -> -p is a reversing symmetry)."""

from __future__ import annotations

from tinyphysics.facts import Fact
from tinyphysics.ir import substitute
from tinyphysics.rules.equality.normal import same
from tinyphysics.system import System


def even_in_p(system: System) -> Fact:
    assert system.energy is not None
    (mirrored,) = substitute([system.energy], system.structure.mirror())
    if same(system.energy, mirrored):
        return Fact.yes("even in p", "H(q, -p) = H(q, p)")
    return Fact.no("even in p", "H(q, -p) = H(q, p) could not be shown")
