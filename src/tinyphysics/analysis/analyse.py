"""Every question about a system; its structure says which of them are asked, in the order of the report."""

from __future__ import annotations

from collections.abc import Callable

from tinyphysics.analysis.bracket import bracket
from tinyphysics.analysis.coupling import reads
from tinyphysics.analysis.noise import drawn
from tinyphysics.analysis.nystrom import kinetic_quadratic
from tinyphysics.analysis.pairwise import pairwise
from tinyphysics.analysis.phases import NAME as PHASES
from tinyphysics.analysis.phases import waves_and_phases
from tinyphysics.analysis.quadratic import polynomial, quadratic
from tinyphysics.analysis.separable import separable
from tinyphysics.analysis.shears import shears
from tinyphysics.analysis.smooth import smooth, smooth_rates
from tinyphysics.analysis.symmetry import even_in_p
from tinyphysics.analysis.timedep import explicit_time
from tinyphysics.analysis.turns import turns
from tinyphysics.facts import Fact, Facts
from tinyphysics.ir import UOp
from tinyphysics.rules.equality.measured_in import added_to_momentum, units_of
from tinyphysics.structure import Nothing
from tinyphysics.system import System


def units(system: System) -> Fact | None:
    """Whether annotated units fit, and which follow from them; without any, whether positions are added to momenta."""
    found = units_of(system)
    if found is not None:
        told = ", ".join(f"{name} {u}" for name, u in found.rows().items())
        return Fact.yes("units", f"terms agree: {told}")
    if not system.p or (u := added_to_momentum(system)) is None:
        return None
    why = f"{u} adds a position to a momentum: right only where both are measured in one unit"
    return Fact.no("units", why, system.sites.get(u))


QUADRATIC = "L is quadratic in the velocities: H is explicit, with momenta dL/dv"


def parts_of(system: System, found: Facts) -> dict[str, UOp]:
    """What it is given by, in parts that a question may name."""
    if system.energy is not None:
        split = found["separable"]
        return {"T": split.T, "V": split.V} if split else {"H": system.energy}
    forces = system.kind == "forces"
    pieces = system.forces if forces else system.update
    return {f"F({s.name})" if forces else s.name: u for s, u in zip(system.states, pieces)}


def smoothness(system: System) -> Fact | None:
    if system.energy is not None:
        return smooth(system)
    return None if system.kind == "map" else smooth_rates(system)


# by the names of the facts; what was found before is there to be asked, and None is said where a question has no meaning
# fmt: off
QUESTIONS: dict[str, Callable[[System, Facts], Fact | None]] = {
    "linked":         lambda s, f: Fact.yes("linked", s.linked) if s.linked else None,
    "Legendre":       lambda s, f: Fact.yes("Legendre", QUADRATIC) if s.motion is not None else None,
    "separable":      lambda s, f: separable(s),
    PHASES:           lambda s, f: waves_and_phases(s),
    "shears":         lambda s, f: None if f["separable"] or PHASES in f and f[PHASES] else shears(s),
    "bracket":        lambda s, f: bracket(s),
    "turns":          lambda s, f: turns(s),
    "T quadratic":    lambda s, f: kinetic_quadratic(s, f["separable"].T) if f["separable"] else None,
    "polynomial":     lambda s, f: polynomial(s),
    "quadratic":      lambda s, f: quadratic(s),
    "explicit time":  lambda s, f: explicit_time(s, parts_of(s, f)),
    "smooth":         lambda s, f: smoothness(s),
    "even in p":      lambda s, f: even_in_p(s),
    "random numbers": lambda s, f: drawn(s, parts_of(s, f)) or None,
    "reads":          lambda s, f: reads(s, parts_of(s, f)),
    "pairs":          lambda s, f: pairwise(s),
    "units":          lambda s, f: units(s),
}
# fmt: on


def facts_of(system: System) -> Facts:
    """What is asked of an energy is said by its structure; of forces, rates and maps, what needs no energy."""
    structure = system.structure if system.energy is not None else Nothing()
    found = Facts((), structure.unasked)
    for name in structure.facts:
        fact = QUESTIONS[name](system, found)
        found = found if fact is None else found.plus(fact)
    return found
