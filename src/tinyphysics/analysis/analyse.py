"""Every question that is asked about a system, in the order in which the report prints the answers."""

from __future__ import annotations

from tinyphysics.analysis.coupling import reads
from tinyphysics.analysis.noise import drawn
from tinyphysics.analysis.nystrom import kinetic_quadratic
from tinyphysics.analysis.pairwise import pairwise
from tinyphysics.analysis.quadratic import polynomial, quadratic
from tinyphysics.analysis.separable import separable
from tinyphysics.analysis.shears import shears
from tinyphysics.analysis.smooth import smooth, smooth_rates
from tinyphysics.analysis.symmetry import even_in_p
from tinyphysics.analysis.timedep import explicit_time
from tinyphysics.facts import Fact, Facts
from tinyphysics.system import System


def facts_of(system: System) -> Facts:
    if system.energy is None:
        names = [s.name for s in system.states]
        pieces = system.forces if system.kind == "forces" else system.update
        parts = {f"F({n})" if system.kind == "forces" else n: u for n, u in zip(names, pieces)}
        noise = drawn(system, parts)
        rates = [] if system.kind == "map" else [smooth_rates(system)]
        return Facts(
            (explicit_time(system, parts), *rates, *([noise] if noise else []), reads(system, parts))
        )
    split = separable(system)
    parts = {"T": split.T, "V": split.V} if split else {"H": system.energy}
    pairs = pairwise(system)
    sums = [Fact.yes("linked", because=system.linked)] if system.linked else []
    if system.motion is not None:
        sums.append(
            Fact.yes(
                "Legendre", because="L is quadratic in the velocities: H is explicit, with momenta dL/dv"
            )
        )
    kinetic = [kinetic_quadratic(system, split.T)] if split else []
    parts_of = [] if split else [shears(system)]
    return Facts(
        (
            *sums,
            split,
            *parts_of,
            *kinetic,
            polynomial(system),
            quadratic(system),
            explicit_time(system, parts),
            smooth(system),
            even_in_p(system),
            reads(system, parts),
            *([] if pairs is None else [pairs]),
        )
    )
