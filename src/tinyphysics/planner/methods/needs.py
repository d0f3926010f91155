"""Why may a method not be used for a system?  One question for each word that the catalogue uses under `needs`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tinyphysics.analysis.lone_potential import apart
from tinyphysics.analysis.phases import NAME as PHASES
from tinyphysics.facts import Facts
from tinyphysics.ir import Ops, toposort
from tinyphysics.planner.methods.families.exponential import linear_part
from tinyphysics.planner.methods.families.interaction import quadratic_part
from tinyphysics.planner.methods.families.orbits import HIERARCHY
from tinyphysics.planner.methods.method import Method, not_taken
from tinyphysics.rules.calculus.custom import inline
from tinyphysics.rules.calculus.jet import rough
from tinyphysics.synth.coefficients.clocks import damped
from tinyphysics.system import System

Reason = str | None  # why not, or None
MOST_NUMBERS = 12  # of a state whose matrix is written out
MOST_DEGREES = 24  # of a polynomial whose mean along a line is a sum over points
MOST_INCREMENTS = 24  # numbers of a state that change one after the other


@dataclass(frozen=True)
class Need:
    means: str
    lacking: Callable[[Method, System, Facts], Reason]


def not_separable(m: Method, system: System, facts: Facts) -> Reason:
    if system.kind == "ode":
        return "it is given by derivatives: no energy says what kicks and what drifts"
    if system.kind != "hamiltonian" or facts["separable"]:
        return None  # forces of positions alone are a kick by definition
    return f"H is not shown to be separable: {facts['separable'].because}"


def time_in_both_parts(m: Method, system: System, facts: Facts) -> Reason:
    if system.kind != "hamiltonian":
        return None
    time = facts["explicit time"]
    if time and len(time.inside) > 1 and not m.family.in_three_parts():
        return "T and V both depend on t; then time is a third part, and only compositions of leapfrogs have three"
    return None


def friction_between(m: Method, system: System, facts: Facts) -> Reason:
    if not system.friction:
        return None
    time = facts["explicit time"]
    if m.family.processed or damped(m.sequence()) is None or "quadratic T" in m.needs:
        return "its order rests on there being two parts, and friction is a third: compositions of leapfrogs have three"
    if time and system.kind == "hamiltonian" and len(time.inside) > 1:
        return "T and V both depend on t, and friction would be a fourth part"
    return None


def no_bath(m: Method, system: System, facts: Facts) -> Reason:
    return None if system.heat else "it has no bath: tp.compile(system, dt, temperature=1.0)"


def no_brownian(m: Method, system: System, facts: Facts) -> Reason:
    return None if system.bath == "brownian" else 'its bath is not brownian: bath="brownian"'


def without_momenta(m: Method, system: System, facts: Facts) -> Reason:
    if system.bath == "nose_poincare":
        return "its bath is moved by kicks and drifts too: `nose_poincare` alone knows it"
    return "a brownian bath moves positions alone" if system.bath == "brownian" else None


def no_stretching(m: Method, system: System, facts: Facts) -> Reason:
    return (
        None
        if system.bath == "nose_poincare"
        else 'its bath is not that of Nosé and Poincaré: bath="nose_poincare"'
    )


def no_field(m: Method, system: System, facts: Facts) -> Reason:
    if (
        system.bracket == "magnetic"
        or system.kind == "hamiltonian"
        and not system.bracket
        and not facts["separable"]
    ):
        return None  # its family looks for a vector potential
    return "no magnetic field is declared, and no vector potential is in H"


def no_bracket(m: Method, system: System, facts: Facts) -> Reason:
    return None if system.bracket == "poisson" else "its bracket is not given as a function J(z)"


def no_contact(m: Method, system: System, facts: Facts) -> Reason:
    return (
        None
        if system.bracket == "contact"
        else "its states are not positions, momenta and s of a contact energy"
    )


def no_contacts(m: Method, system: System, facts: Facts) -> Reason:
    return None if system.bracket == "contacts" else "its bodies do not touch: energy + tp.contact(gap)"


def no_constraints(m: Method, system: System, facts: Facts) -> Reason:
    return None if system.bracket == "constrained" else "no constraint holds its positions: energy + rod"


def is_quadratic(system: System, facts: Facts) -> bool:
    """Forces of position come with T = p**2/2m."""
    return system.kind == "forces" or "T quadratic" in facts and bool(facts["T quadratic"])


def not_quadratic(m: Method, system: System, facts: Facts) -> Reason:
    if "T quadratic" not in facts or facts["T quadratic"]:
        return None  # what does not split has no T, and another need says so
    return f"T is not shown to be quadratic in p: {facts['T quadratic'].because}"


def no_gradients(m: Method, system: System, facts: Facts) -> Reason:
    if system.kind != "hamiltonian":
        return "the gradient of a force is that of an energy, and none is given"
    if facts["separable"] and any(u.op is Ops.NEIGHBOURS for u in toposort([facts["separable"].V])):
        return "a list of neighbours gives forces, not their derivatives along a direction"
    return None


def not_analytic(m: Method, system: System, facts: Facts) -> Reason:
    moving = frozenset([s.var for s in system.states] + ([] if system.time is None else [system.time]))
    found = rough(inline(system.equations), moving)  # operations of the user's own, too
    if found is None:
        return None
    at = system.sites.get(found)
    return f"`{found.op.value}` in it has no Taylor series where it turns or jumps{f' ({at})' if at else ''}"


def one_pace(m: Method, system: System, facts: Facts) -> Reason:
    return None if system.levels else "no part of it was said to be fast or slow: tp.fast(a) + tp.slow(b)"


def kinetic_clock(m: Method, system: System, facts: Facts) -> Reason:
    if system.time is None or "separable" not in facts or not facts["separable"]:
        return None
    timed = system.time in facts["separable"].T.leaves
    return "T depends on t, and time advances in the drifts" if timed else None


def not_linear(m: Method, system: System, facts: Facts) -> Reason:
    if system.kind != "hamiltonian":
        return f"it is given by its {system.kind}, and a matrix is read off an energy"
    if not facts["quadratic"]:
        return f"H is not shown to be of degree 2: {facts['quadratic'].because}"
    size = len(facts["quadratic"].linear)
    if size <= MOST_NUMBERS:
        return None
    return f"{size} numbers have a matrix too large to write out: {MOST_NUMBERS} at most"


def no_orbits(m: Method, system: System, facts: Facts) -> Reason:
    if HIERARCHY not in facts:
        return "no bodies on orbits are shown: not looked for"
    return None if facts[HIERARCHY] else f"no bodies on orbits are shown: {facts[HIERARCHY].because}"


def not_shears(m: Method, system: System, facts: Facts) -> Reason:
    if PHASES in facts and facts[PHASES]:
        return "its waves and phases turn exactly: split_step and its kind are made for it"
    if "shears" not in facts:
        return "leapfrog is the Strang splitting of what has no term that mixes q and p"
    return None if facts["shears"] else f"H is not shown to be a sum of shears: {facts['shears'].because}"


def not_phases(m: Method, system: System, facts: Facts) -> Reason:
    if PHASES not in facts:
        return "it has no complex states whose waves are in an energy: @tp.hamiltonian, psi: tp.Complex, tp.dx(psi)"
    return None if facts[PHASES] else f"waves and phases are not shown to turn: {facts[PHASES].because}"


def not_turning(m: Method, system: System, facts: Facts) -> Reason:
    if "turns" not in facts:
        return "no state of it turns: it has no angular momenta"
    return None if facts["turns"] else f"H is not shown to turn bodies axis by axis: {facts['turns'].because}"


def without_bodies(m: Method, system: System, facts: Facts) -> Reason:
    return None if "turns" in facts else "no state of it turns: it has no angular momenta"


def depends_on_time(m: Method, system: System, facts: Facts) -> Reason:
    return "H depends on t" if facts["explicit time"] else None


def no_energy(m: Method, system: System, facts: Facts) -> Reason:
    return None if system.energy is not None else "it is not given by an energy"


def not_polynomial(m: Method, system: System, facts: Facts) -> Reason:
    if system.energy is None:
        return None  # another need says so
    if not facts["polynomial"]:
        return f"its mean along a line is computed exactly of polynomials only, and {facts['polynomial'].because}"
    degree = facts["polynomial"].degree
    if degree <= MOST_DEGREES:
        return None
    return f"the degree of H may be {degree}, and quadratures go up to {MOST_DEGREES}"


def state_too_large(m: Method, system: System, facts: Facts) -> Reason:
    size = sum(s.var.size for s in system.states)
    if size <= MOST_INCREMENTS:
        return None
    return f"{size} numbers have as many quotients, each of H: {MOST_INCREMENTS} at most"


def all_mixed(m: Method, system: System, facts: Facts) -> Reason:
    if system.energy is None:
        return None  # and another need says so
    if system.time is not None:
        return "the energy depends on t"
    found = apart(system)
    return None if found else f"no potential stands apart: {found.because}"


def no_lagrangian(m: Method, system: System, facts: Facts) -> Reason:
    return None if system.motion is not None else "it is not given by a Lagrangian: @tp.lagrangian"


def splits(system: System, facts: Facts) -> bool:
    """Has it a kick and a drift?"""
    return system.kind != "hamiltonian" or bool(facts["separable"])


def no_quadratic_part(m: Method, system: System, facts: Facts) -> Reason:
    found = quadratic_part(system, facts)
    return None if found else f"no quadratic part and rest are shown: {found.because}"


def no_layers(m: Method, system: System, facts: Facts) -> Reason:
    return None if system.absorbed else "it has no absorbing layers: tp.compile(system, dt, absorb=20)"


def no_linear_part(m: Method, system: System, facts: Facts) -> Reason:
    found = linear_part(system, facts)
    return None if found else found.because


# fmt: off
NEEDS: dict[str, Need] = {
    "separable": Need("the energy is T(p) + V(q), or a force depends on positions alone", not_separable),
    "one clock": Need("t occurs in T or in V; in both only for compositions of leapfrogs", time_in_both_parts),
    "friction": Need("no friction, or a method whose order does not rest on there being two parts", friction_between),
    "a bath": Need("a temperature: tp.compile(system, dt, temperature=1.0)", no_bath),
    "a brownian bath": Need('temperature=1.0, bath="brownian"', no_brownian),
    "momenta in it": Need("another bath than `brownian` and `nose_poincare`", without_momenta),
    "the bath nose_poincare": Need('temperature=1.0, bath="nose_poincare"', no_stretching),
    "a magnetic field": Need("charges in a field: bracket=tp.magnetic(B), or a vector potential in H", no_field),
    "a contact energy": Need('positions, momenta and s: bracket="contact"', no_contact),
    "a bracket J(z)": Need("a bracket that is a function of the state: bracket=J", no_bracket),
    "contacts": Need("bodies that touch by tp.contact: boxes + floor", no_contacts),
    "constraints": Need("positions that are held by @tp.constraint: energy + rod", no_constraints),
    "quadratic T": Need("T is quadratic in p, with masses that may be parameters", not_quadratic),
    "force gradients": Need("an energy without lists of neighbours: forces are differentiated once more", no_gradients),
    "still T": Need("t does not occur in T", kinetic_clock),
    "orbits": Need("bodies that attract each other as 1/r, and move almost on Kepler orbits at the start", no_orbits),
    "shears": Need("a term mixes q and p, and every term is a shear: it moves no variable it depends on", not_shears),
    "waves and phases": Need("complex states whose energy turns waves, as tp.dx does, and numbers, as abs(z)**2 does",
                             not_phases),
    "bodies": Need("bodies that turn, whose angular momenta enter the energy axis by axis", not_turning),
    "turning": Need("bodies that turn, with any energy of their angular momenta", without_bodies),
    "no clock": Need("H does not depend on t", depends_on_time),
    "smooth rates": Need("no abs, floor, min, max, sign or choice by the state in the equations of motion", not_analytic),
    "an energy": Need("a system given by its energy", no_energy),
    "a potential apart": Need("some terms of the energy contain no momenta, and none contains t", all_mixed),
    "quadratic part": Need("an oscillator for each number of q, and a rest that depends on positions", no_quadratic_part),
    "linear": Need(f"H is of degree 2 in q and p, of {MOST_NUMBERS} numbers at most; it may depend on t", not_linear),
    "a polynomial": Need(f"H is a polynomial of the state, of degree {MOST_DEGREES} at most", not_polynomial),
    "few numbers": Need(f"{MOST_INCREMENTS} numbers of the state at most", state_too_large),
    "a Lagrangian": Need("a system given by its Lagrangian", no_lagrangian),
    "levels": Need("a sum of parts marked as fast and slow", one_pace),
    "a part that is linear in Fourier space": Need("rates by @tp.ode, some of whose addends multiply each wave by a number",
                                                   no_linear_part),
    "absorbing layers": Need("layers at the ends of a lattice: absorb=20", no_layers),
}
# fmt: on


def objection(m: Method, system: System, facts: Facts) -> Reason:
    """Why a method does not apply, or None."""
    structure = system.structure
    if structure.families and m.family.kind not in structure.families:
        return structure.unasked
    reasons = (NEEDS[need].lacking(m, system, facts) for need in m.requires)
    why = not_taken(m, system) or next((why for why in reasons if why), None)
    return why or m.family.lacking(system, facts)
