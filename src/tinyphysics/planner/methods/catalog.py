"""Every method that exists, in one table: what each needs, keeps, costs and stands, and how its step is made."""

from __future__ import annotations

from functools import partial

from tinyphysics.planner.methods.families.absorbing import Absorbing
from tinyphysics.planner.methods.families.as_written import AsWritten
from tinyphysics.planner.methods.families.bath import InBath, Overdamped, Stretching, TurnsInBath
from tinyphysics.planner.methods.families.collocation import Collocation
from tinyphysics.planner.methods.families.constrained import Rattle, RattleInBath
from tinyphysics.planner.methods.families.discrete_gradient import DiscreteGradient
from tinyphysics.planner.methods.families.doubled import Doubled
from tinyphysics.planner.methods.families.embedded import Embedded
from tinyphysics.planner.methods.families.exact_flow import ExactFlow
from tinyphysics.planner.methods.families.exponential import Exponential
from tinyphysics.planner.methods.families.impulses import Impulses
from tinyphysics.planner.methods.families.interaction import Interaction
from tinyphysics.planner.methods.families.magnus import Magnus
from tinyphysics.planner.methods.families.multirate import Multirate
from tinyphysics.planner.methods.families.orbits import Orbits
from tinyphysics.planner.methods.families.parts import Parts
from tinyphysics.planner.methods.families.pushers import BORIS, EXACT, HIGUERA_CARY, VAY
from tinyphysics.planner.methods.families.runge_kutta import RungeKutta
from tinyphysics.planner.methods.families.solved_turns import SphericalMidpoint, in_cayley_steps
from tinyphysics.planner.methods.families.split_steps import SplitSteps
from tinyphysics.planner.methods.families.splitting import Splitting
from tinyphysics.planner.methods.families.taylor import Taylor
from tinyphysics.planner.methods.families.variational import Variational
from tinyphysics.planner.methods.method import (
    AXES,
    CAYLEY,
    CONTACT,
    LEVELS,
    PARTS,
    PHASES,
    PIECES,
    ROTATIONS,
    Method,
    Sequence_,
)
from tinyphysics.planner.methods.method import INTERACTION as BY_TURNS
from tinyphysics.synth.coefficients.clocks import palindrome
from tinyphysics.synth.coefficients.coefficients import COMPOSITION
from tinyphysics.synth.coefficients.quality import price
from tinyphysics.synth.coefficients.schemes import BY_NAME as SCHEMES
from tinyphysics.synth.coefficients.schemes import FOUND, drifts_and_kicks
from tinyphysics.synth.methods.bracket_parts import bracket_parts
from tinyphysics.synth.methods.chebyshev import runge_kutta_chebyshev
from tinyphysics.synth.methods.chebyshev4 import runge_kutta_chebyshev4
from tinyphysics.synth.methods.closed_forms import along_axes, contact_parts
from tinyphysics.synth.methods.explicit_pair import EIGHT, FIVE, explicit_pair
from tinyphysics.synth.methods.interaction import leapfrogs, of_orbits, of_scheme
from tinyphysics.synth.methods.parts import COMPOSED
from tinyphysics.synth.methods.propagate import FLOW
from tinyphysics.synth.methods.rosenbrock import rosenbrock
from tinyphysics.synth.methods.rotations import decay, in_turns, of_length_one
from tinyphysics.synth.methods.rungekutta import EULER, MIDPOINT, RK4
from tinyphysics.synth.methods.takahashi_imada import PROCESSOR, TAKAHASHI_IMADA
from tinyphysics.synth.methods.wisdom_holman import CORRECTORS, NEAR_INTEGRABLE

LAYERED = "leapfrog_layers"  # the default where absorb= is given
WAVES = "a part that is linear in Fourier space"
TURNS_PHASES = "waves and phases"


def phases_outside(name: str) -> Sequence_:
    """A scheme for two parts, whose first and last turns are those in space: what merges costs no transform."""
    return [("T" if part == "V" else "V", weight) for part, weight in drifts_and_kicks(name)]


def solved(name: str, summary: str) -> Method:
    """A method of synth/coefficients/schemes.py: its weights are solved for when a step is made of it."""
    s = SCHEMES[name]
    return Method(
        name,
        s.order,
        summary,
        Splitting(lambda: drifts_and_kicks(name), s.kicks),
        symmetric=True,
        source="" if s.source == FOUND else s.source,
        needs=NEEDS.get(s.kind, ()),
    )


# of schemes, by their kind
NEEDS = {"nystrom": ("quadratic T",), "force gradient": ("quadratic T", "force gradients")}

# fmt: off
METHODS: tuple[Method, ...] = (
    Method("symplectic_euler", 1, "drift, then kick",
           Splitting(lambda: [("T", 1.0), ("V", 1.0)]), source="devogelaere1956"),
    Method("leapfrog_kdk", 2, "half kick, drift, half kick; adjacent half kicks are merged",
           Splitting(lambda: palindrome("V", "T", COMPOSITION["leapfrog"])), symmetric=True, source="verlet1967"),
    Method("leapfrog_dkd", 2, "half drift, kick, half drift; adjacent half drifts are merged",
           Splitting(lambda: palindrome("T", "V", COMPOSITION["leapfrog"])), symmetric=True, source="verlet1967"),
    Method("yoshida4", 4, "three leapfrogs, the middle one backwards",
           Splitting(lambda: palindrome("V", "T", COMPOSITION["yoshida4"])), symmetric=True, source="yoshida1990"),
    solved("suzuki4", "five leapfrogs, the middle one backwards"),
    solved("mclachlan4", "five kicks and drifts, each with its own weight"),
    solved("blanes_moan4", "six kicks and drifts, each with its own weight"),
    solved("blanes_moan_nystrom4", "six kicks and drifts, best where T is quadratic in p"),
    solved("nystrom4", "six kicks and drifts, best where T is quadratic in p"),
    solved("yoshida6", "seven leapfrogs, drift-kick-drift"),
    Method("kahan_li6", 6, "nine leapfrogs, drift-kick-drift",
           Splitting(lambda: palindrome("T", "V", COMPOSITION["kahan_li6"])), symmetric=True, source="kahan1997"),
    solved("blanes_moan6", "ten kicks and drifts, each with its own weight"),
    solved("blanes_moan_nystrom6", "eleven kicks and drifts, for T quadratic in p"),
    solved("blanes_moan_nystrom6_14", "fourteen kicks and drifts, for T quadratic in p"),
    solved("nystrom6", "thirteen kicks and drifts, for T quadratic in p"),
    Method("kahan_li8", 8, "seventeen leapfrogs, drift-kick-drift",
           Splitting(lambda: palindrome("T", "V", COMPOSITION["kahan_li8"])), symmetric=True, source="kahan1997"),
    solved("nystrom8", "twenty-one kicks and drifts, for T quadratic in p"),
    solved("sofroniou_spaletta10", "thirty-five leapfrogs, drift-kick-drift"),
    Method("respa", 2, "slow kicks, with many fast kicks between them", Multirate(), symmetric=True, source="tuckerman1992",
           needs=("separable", "still T", "levels")),
    Method("respa4", 4, "five respa steps, the middle one backwards", Multirate("suzuki4"), symmetric=True,
           source="suzuki1990", needs=("separable", "still T", "levels")),
    solved("chin4a", "two kicks, one with its force gradient; every coefficient positive"),
    solved("chin4b", "two kicks with their force gradients, drift-kick-drift; every coefficient positive"),
    solved("chin4", "three kicks, the middle one with its force gradient; every coefficient positive"),
    Method("takahashi_imada4", 4, "one kick with its force gradient; a processor before the first step, undone for frames",
           Splitting(lambda: list(TAKAHASHI_IMADA), processor=lambda: list(PROCESSOR)),
           source="takahashi1984", needs=NEEDS["force gradient"]),
    solved("force_gradient6", "five kicks with their force gradients, drift-kick-drift"),
    *(Method(name, order, f"the parts of H in order and back{', repeated' if order > 2 else ''}: for terms that mix "
             "q and p", Parts(COMPOSED[name]), symmetric=True, source=source, needs=("shears", "no clock"))
      for name, order, source in (("strang", 2, "strang1968"), ("strang4", 4, "suzuki1990"), ("strang6", 6, "kahan1997"),
                                  ("strang8", 8, "kahan1997"))),
    Method("split_step", 2, "complex fields: half a turn of all phases in space, a turn of all waves, half a turn of phases",
           SplitSteps(lambda: palindrome("V", "T", COMPOSITION["leapfrog"])), symmetric=True, source="hardin1973",
           needs=(TURNS_PHASES, "no clock")),
    Method("split_step4", 4, "complex fields: six turns of waves, each with its own weight, and turns of phases between",
           SplitSteps(partial(phases_outside, "blanes_moan4")), symmetric=True, source=SCHEMES["blanes_moan4"].source,
           needs=(TURNS_PHASES, "no clock")),
    Method("split_step6", 6, "complex fields: ten turns of waves, each with its own weight, and turns of phases between",
           SplitSteps(partial(phases_outside, "blanes_moan6")), symmetric=True, source=SCHEMES["blanes_moan6"].source,
           needs=(TURNS_PHASES, "no clock")),
    *(Method(f"rotations{order if order > 2 else ''}", order, "exact turns about the axes of bodies in order and back"
             f"{', repeated' if order > 2 else ''}, kicks by torques between",
             Parts(COMPOSED[name], in_turns, ROTATIONS, of_length_one, decay), symmetric=True, source=source,
             needs=("bodies",))
      for name, order, source in (("strang", 2, "strang1968"), ("strang4", 4, "suzuki1990"), ("strang6", 6, "kahan1997"),
                                  ("strang8", 8, "kahan1997"))),
    *(Method(f"spherical_midpoint{order if order > 2 else ''}", order, "the slope half way on the sphere, solved for"
             f"{', repeated' if order > 2 else ''}: angular momenta and spins of any energy",
             SphericalMidpoint(COMPOSED[name]), symmetric=True, source="mclachlan2014", needs=("turning", "no clock"))
      for name, order in (("strang", 2), ("strang4", 4), ("strang6", 6))),
    *(Method(f"lie_cayley{order if order > 2 else ''}", order, "the variational step of Cayley's map, solved for, without "
             f"sines{', repeated' if order > 2 else ''}; kicks by torques between",
             Parts(COMPOSED[name], in_cayley_steps, CAYLEY, of_length_one, decay), symmetric=True, source="",
             needs=("turning", "no clock")) for name, order in (("strang", 2), ("strang4", 4), ("strang6", 6))),
    Method("higuera_cary", 2, "boris for fast particles, with a mass in the turn that keeps u where E = -v x B",
           HIGUERA_CARY, symmetric=True, source="higuera2017", needs=("a magnetic field",)),
    Method("boris", 2, "half a drift, half a kick, a turn about B by Cayley's transform, half a kick, half a drift",
           BORIS, symmetric=True, source="boris1970", needs=("a magnetic field",)),
    Method("boris_exact", 2, "boris with turns by the true angle, and the electric force across B longer to match", EXACT,
           symmetric=True, source="boris1970", needs=("a magnetic field",)),
    Method("vay", 2, "for fast particles: the Lorentz force with the mean of both velocities, solved for; keeps no volume",
           VAY, symmetric=True, source="vay2008", needs=("a magnetic field",)),
    *(Method(f"{kind}{order if order > 2 else ''}", order, f"{summary}{', repeated' if order > 2 else ''}",
             Parts(COMPOSED[name], made, kind), symmetric=True, needs=(need, "no clock"),
             source="strang1968" if kind == PIECES and order == 2 else source)
      for kind, made, need, summary in (
        (AXES, along_axes, "a magnetic field",
         "charges move along one axis after the other and back, momenta by line integrals of B"),
        (CONTACT, contact_parts, "a contact energy",
         "exact flows of a contact energy: of q, of p and of a multiple of s, in order and back"),
        (PIECES, bracket_parts, "a bracket J(z)",
         "exact flows of parts that move each number alone, in a bracket J(z), in order and back"))
      for name, order, source in (("strang", 2, "he2015"), ("strang4", 4, "suzuki1990"), ("strang6", 6, "kahan1997"))),
    *(Method(f"rattle{order if order > 2 else ''}", order, "kicks, and drifts that end on the constraints, by multipliers "
             f"that are solved for{', repeated' if order > 2 else ''}", Rattle(COMPOSED[name]), symmetric=True, source=source,
             needs=("constraints", "separable", "quadratic T", "no clock"))
      for name, order, source in (("strang", 2, "andersen1983"), ("strang4", 4, "suzuki1990"),
                                  ("strang6", 6, "kahan1997"))),
    Method("baoab", 2, "half a kick, half a drift, the bath, half a drift, half a kick; adjacent half kicks are merged",
           InBath((("V", 0.5), ("T", 0.5), ("F", 1.0), ("T", 0.5), ("V", 0.5))), symmetric=True, source="leimkuhler2013",
           needs=("a bath", "momenta in it", "separable", "still T")),
    Method("obabo", 2, "half of the bath, half a kick, a drift, half a kick, half of the bath",
           InBath((("F", 0.5), ("V", 0.5), ("T", 1.0), ("V", 0.5), ("F", 0.5))), symmetric=True, source="bussi2007",
           needs=("a bath", "momenta in it", "separable", "still T")),
    Method("rattle_baoab", 2, "half a kick, half a drift along the constraints, the bath, half a drift, half a kick",
           RattleInBath((("V", 0.5), ("T", 0.5), ("F", 1.0), ("T", 0.5), ("V", 0.5))), symmetric=True,
           source="leimkuhler2016", needs=("a bath", "momenta in it", "constraints", "separable", "quadratic T", "no clock")),
    Method("rotations_bath", 2, "half a kick, half a turn about each axis, the bath of angular momenta, and all of them back",
           TurnsInBath(), symmetric=True, source="davidchack2015", needs=("a bath", "turning", "no clock")),
    Method("brownian", 2, "positions move by forces and noise, half of which is that of the step before", Overdamped(),
           source="leimkuhler2013", needs=("a brownian bath", "separable", "no clock")),
    Method("nose_poincare", 2, "half a kick, half a drift, the thermostat, half a drift, half a kick, of one Hamiltonian",
           Stretching(), symmetric=True, source="nose2001",
           needs=("a bath", "the bath nose_poincare", "separable", "no clock")),
    Method("impulses", 2, "half a drift, a kick, impulses at contacts by sweeps over their rows, half a drift", Impulses(),
           source="moreau1999", needs=("contacts", "separable", "quadratic T", "no clock")),
    Method("implicit_midpoint", 2, "the slope at the middle of the step, solved for", Collocation(1), symmetric=True),
    Method("gauss4", 4, "two slopes at the Gauss points, solved for", Collocation(2), symmetric=True, source="butcher1964"),
    Method("gauss6", 6, "three slopes at the Gauss points, solved for", Collocation(3), symmetric=True, source="butcher1964"),
    Method("stormer_verlet_implicit", 2, "half a step by a generating function of (q, P), half by its adjoint of (Q, p)",
           Collocation(2, "leapfrog"), symmetric=True, source="devogelaere1956"),
    Method("stormer_verlet_implicit4", 4, "three steps of stormer_verlet_implicit, the middle one backwards",
           Collocation(6, "yoshida4"), symmetric=True, source="yoshida1990"),
    Method("stormer_verlet_implicit6", 6, "nine steps of stormer_verlet_implicit", Collocation(18, "kahan_li6"),
           symmetric=True, source="kahan1997"),
    *(Method(f"kick_midpoint{order if order > 2 else ''}", order, summary, Collocation(stages, weights), symmetric=True,
             source=source, needs=("a potential apart",)) for order, weights, stages, source, summary in (
        (2, "leapfrog", 1, "", "half a kick by the terms without p, the midpoint rule for the rest, half a kick"),
        (4, "yoshida4", 3, "yoshida1990", "three steps of kick_midpoint, the middle one backwards"),
        (6, "kahan_li6", 9, "kahan1997", "nine steps of kick_midpoint"))),
    *(Method(f"extended_phase_space{order if order > 2 else ''}", order, f"{count} of two copies of the "
    f"state, projected symmetrically",
             Doubled(weights, kicks), symmetric=True, source="jayawardana2023", needs=("an energy", "no clock"))
      for order, weights, kicks, count in ((2, "leapfrog", 3, "a leapfrog"), (4, "yoshida4", 7, "three leapfrogs"),
                                           (6, "kahan_li6", 19, "nine leapfrogs"))),
    Method("variational_midpoint", 2, "from a Lagrangian: the velocity at the middle of the step, solved for", Variational(1),
           symmetric=True, source="marsden2001", needs=("a Lagrangian",)),
    Method("variational_trapezoidal", 2, "from a Lagrangian: one velocity for both ends of the step, solved for; Verlet's "
           "method for any L", Variational(), symmetric=True, source="marsden2001", needs=("a Lagrangian",)),
    Method("galerkin4", 4, "from a Lagrangian: velocities at two Gauss points, solved for", Variational(2), symmetric=True,
           source="marsden2001", needs=("a Lagrangian",)),
    Method("galerkin6", 6, "from a Lagrangian: velocities at three Gauss points, solved for", Variational(3), symmetric=True,
           source="marsden2001", needs=("a Lagrangian",)),
    Method("avf", 2, "the mean of the gradient between the ends of a step, which are solved for: keeps a polynomial energy",
           DiscreteGradient(2, linear=True), symmetric=True, source="quispel2008",
           needs=("an energy", "no clock", "a polynomial")),
    Method("gonzalez", 2, "the gradient at the middle of the step, corrected along the step, solved for: keeps the energy",
           DiscreteGradient(4), symmetric=True, source="gonzalez1996", needs=("an energy", "no clock")),
    Method("itoh_abe", 2, "difference quotients number by number, in both orders, solved for: keeps the energy",
           DiscreteGradient(2), symmetric=True, source="itoh1988",
           needs=("an energy", "no clock", "few numbers")),
    Method("euler", 1, "explicit Euler", RungeKutta(EULER)),
    Method("midpoint", 2, "explicit midpoint rule", RungeKutta(MIDPOINT)),
    Method("rk4", 4, "the classical Runge–Kutta method", RungeKutta(RK4), source="kutta1901"),
    Method("etdrk4", 4, "fields: what multiplies each wave is solved, the rest integrated against its exponential",
           Exponential(), source="cox2002", needs=(WAVES,)),
    Method("ifrk4", 4, "fields: the classical Runge–Kutta method behind an integrating factor for each wave",
           Exponential(), source="lawson1967", needs=(WAVES,)),
    Method(LAYERED, 2, "waves: leapfrog, and what absorbing layers remember by exponentials",
           Absorbing(), source="berenger1994", needs=("absorbing layers",)),
    Method("taylor", 0, "the Taylor series of the solution; the tolerance sets its order, and each step "
    "is as long as its last "
           "terms allow", Taylor(), source="jorba2005", needs=("smooth rates",)),
    Method("dop853", 8, "the Dormand–Prince pair: explicit, with steps as long as its error estimate allows",
           Embedded(1e-10, 12, partial(explicit_pair, EIGHT)), source="prince1981"),
    Method("dopri5", 5, "the Dormand–Prince pair of order 5: explicit, for few digits and for arrays",
           Embedded(1e-6, 6, partial(explicit_pair, FIVE)), source="dormand1980"),
    Method("rkc", 2, "Runge–Kutta–Chebyshev of 20 stages: explicit, with long steps for diffusion",
           Embedded(1e-4, 20, runge_kutta_chebyshev), source="sommeijer1998"),
    Method("rock4", 4, "Runge–Kutta–Chebyshev of order 4 and 40 stages: explicit, for diffusion to more digits",
           Embedded(1e-6, 40, runge_kutta_chebyshev4), source="abdulle2002"),
    Method("rodas", 4, "Rosenbrock's method of six linear systems, with steps of its own choice: for stiff arrays",
           Embedded(1e-5, 6, linear=rosenbrock), source="hairer1996"),
    Method("radau", 5, "implicit collocation at the Radau points, with steps of its own choice: for stiff systems",
           Embedded(1e-6, 9), source="hairer1999"),
    Method("wisdom_holman", 2, "half a Kepler orbit, kick by the rest, half an orbit: error eps h**2",
           Orbits(NEAR_INTEGRABLE["wisdom_holman"]), symmetric=True, source="wisdom1991", needs=("orbits",)),
    *(Method(f"wisdom_holman_c{n}", 2, f"wisdom_holman with a corrector, applied at the start and at "
    f"each output: error eps h**"
             f"{n + 1} + eps**2 h**2", Orbits(NEAR_INTEGRABLE["wisdom_holman"], n), symmetric=True, source="wisdom1996",
             needs=("orbits",)) for n in CORRECTORS),
    Method("saba2", 2, "Kepler orbits and two kicks: error eps h**4 + eps**2 h**2",
           Orbits(NEAR_INTEGRABLE["saba2"]), symmetric=True, source="laskar2001", needs=("orbits",)),
    Method("saba3", 2, "Kepler orbits and three kicks: error eps h**6 + eps**2 h**2",
           Orbits(NEAR_INTEGRABLE["saba3"]), symmetric=True, source="laskar2001", needs=("orbits",)),
    Method("saba4", 2, "Kepler orbits and four kicks: error eps h**8 + eps**2 h**2",
           Orbits(NEAR_INTEGRABLE["saba4"]), symmetric=True, source="laskar2001", needs=("orbits",)),
    Method("aba84", 4, "Kepler orbits and five kicks: error eps h**8 + eps**2 h**4",
           Orbits(NEAR_INTEGRABLE["aba84"]), symmetric=True, source="mclachlan1995b", needs=("orbits",)),
    Method("aba864", 4, "Kepler orbits and seven kicks: error eps h**8 + eps**2 h**6 + eps**3 h**4",
           Orbits(NEAR_INTEGRABLE["aba864"]), symmetric=True, source="blanes2013", needs=("orbits",)),
    Method("aba104", 4, "Kepler orbits and seven kicks: error eps h**10 + eps**2 h**4",
           Orbits(NEAR_INTEGRABLE["aba104"]), symmetric=True, source="blanes2013", needs=("orbits",)),
    Method("aba1064", 4, "Kepler orbits and eight kicks: error eps h**10 + eps**2 h**6 + eps**3 h**4",
           Orbits(NEAR_INTEGRABLE["aba1064"]), symmetric=True, source="blanes2013", needs=("orbits",)),
    Method("interaction", 2, "half a turn of the quadratic part, kick by the rest, half a turn",
           Interaction(leapfrogs("leapfrog")), symmetric=True, source="garcia1999", needs=("quadratic part",)),
    *(Method(f"interaction{order}", order, f"exact turns of the quadratic part and kicks by the rest, as {name}",
             Interaction(partial(of_scheme, name), kicks=SCHEMES[name].kicks), symmetric=True,
             source=SCHEMES[name].source if SCHEMES[name].source != FOUND else "", needs=("quadratic part",))
      for order, name in ((4, "nystrom4"), (6, "nystrom6"), (8, "nystrom8"))),
    *(Method(f"interaction_{name}", order, f"exact turns of the quadratic part and kicks by a weak rest: error {error}",
             Interaction(partial(of_orbits, name)), symmetric=True, source=source, needs=("quadratic part",))
      for name, order, error, source in (("saba3", 2, "eps h**6 + eps**2 h**2", "laskar2001"),
                                         ("aba84", 4, "eps h**8 + eps**2 h**4", "mclachlan1995b"))),
    Method("interaction_mollified", 2, "as interaction, with the rest evaluated at positions averaged "
    "over a step: no resonance grows", Interaction(leapfrogs("leapfrog"), mollified=True), symmetric=True,
           source="garcia1999", needs=("quadratic part",)),
    Method("interaction_mollified4", 4, "three steps of interaction_mollified, the middle one "
    "backwards", Interaction(leapfrogs("yoshida4"), mollified=True), symmetric=True, source="yoshida1990",
           needs=("quadratic part",)),
    Method("magnus4", 4, "one matrix exponential a step, from A(t) at two times",
           Magnus(2), source="blanes2000", needs=("linear",)),
    Method("magnus6", 6, "one matrix exponential a step, from A(t) at three times",
           Magnus(3), source="blanes2000", needs=("linear",)),
)
# fmt: on
ALIASES = {"leapfrog": "leapfrog_kdk"}
CHOICES = ("auto", "symplectic")  # names that let the planner choose
BY_NAME = {m.name: m for m in METHODS}
FIRST = {1: "symplectic_euler", 2: "leapfrog_kdk"}  # in every release; from order 4 on the smallest price
ORDERS = (1, 2, 4, 6, 8, 10)


def of_parts(order: int) -> list[Method]:
    """Those of an order for an energy that does not split into T and V."""
    return [m for m in METHODS if m.order == order and m.family.kind == PARTS]


def of_phases(order: int) -> list[Method]:
    """Those of an order for complex fields whose waves and phases turn."""
    return [m for m in METHODS if m.order == order and m.family.kind == PHASES]


def by_solving(order: int) -> list[Method]:
    """What steps any energy at an order; odd orders are the next."""
    return [m for m in METHODS if m.solves and m.order == max(order, 2)]


def by_order(order: int, quadratic: bool) -> list[Method]:
    """The splittings of an order, the best first."""
    all_ = [m for m in METHODS if m.order == order and m.splits]
    return sorted(all_, key=lambda m: (m.name != FIRST.get(order), price(m.name, quadratic)))


BY_ORDER = {order: by_order(order, quadratic=True)[0].name for order in ORDERS}  # where T is quadratic in p

MAP = Method("map", 0, "the map as it is written", AsWritten())
TAYLOR = BY_NAME["taylor"]
PACED = {m.order: m for m in METHODS if m.family.kind == LEVELS}  # those for fast and slow parts
INTERACTION = BY_NAME["interaction"]
OSCILLATOR_METHODS = frozenset(m.name for m in METHODS if m.family.kind == BY_TURNS)
OF_FLOW = Method(FLOW, 0, "the exact flow of H", ExactFlow())  # by propagator="exact" alone


def method_of(name: str) -> Method:
    """That of a plan."""
    return BY_NAME.get(name, OF_FLOW if name == FLOW else MAP)


def is_adaptive(kind: str, method: str) -> bool:
    """Does a system of this kind, with what was asked by name, get a method that chooses its own steps?"""
    if method in CHOICES:
        return kind == "ode" and method == "auto"
    name = ALIASES.get(method, method)
    return name in BY_NAME and BY_NAME[name].adaptive


def names() -> tuple[str, ...]:
    """Everything that `method=` accepts."""
    return (*CHOICES, *ALIASES, *BY_NAME)
