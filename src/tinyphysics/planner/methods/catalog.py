"""Every method that exists, in one table: what each needs, keeps, costs and stands, and how its step is made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

from tinyphysics.plan import Goal
from tinyphysics.planner.methods.bibliography import work
from tinyphysics.planner.methods.stability import PARTS, of_splitting, of_tableau
from tinyphysics.synth.coefficients.clocks import palindrome
from tinyphysics.synth.coefficients.coefficients import COMPOSITION
from tinyphysics.synth.coefficients.quality import price
from tinyphysics.synth.coefficients.schemes import BY_NAME as SCHEMES
from tinyphysics.synth.coefficients.schemes import FOUND, drifts_and_kicks, steps
from tinyphysics.synth.methods.interaction import Sequence_, kicks_of, leapfrogs, of_orbits, of_scheme
from tinyphysics.synth.methods.parts import COMPOSED
from tinyphysics.synth.methods.rungekutta import EULER, MIDPOINT, RK4, Tableau
from tinyphysics.synth.methods.takahashi_imada import PROCESSOR, TAKAHASHI_IMADA
from tinyphysics.synth.methods.taylor import TOLERANCE
from tinyphysics.synth.methods.wisdom_holman import CORRECTORS, NEAR_INTEGRABLE, Weights

ROUNDS = 6  # of a solution, about, the last look at its slopes included


@dataclass(frozen=True)
class Method:
    name: str
    order: int
    summary: str
    sequence: Callable[[], list[tuple[str, float]]] | None = None  # a splitting
    tableau: Tableau | None = None  # a Runge–Kutta method: by name only, never certified
    symmetric: bool = False
    source: str = ""  # a key of planner/methods/bibliography.py
    # rows of planner/methods/needs.py; a splitting has those of every splitting too
    needs: tuple[str, ...] = ()
    kicks: int = 0  # of one step, where they are known without its weights
    processor: Callable[[], list[tuple[str, float]]] | None = (
        None  # before the first step, undone where one looks
    )
    orbits: Callable[[], Weights] | None = None  # a splitting into Kepler orbits and the rest
    corrected: int = 0  # the order of its corrector
    slopes: int = 0  # that a collocation solves for
    # of the steps that one is made of, where equations are solved: a row of synth/coefficients/coefficients.py
    lengths: str = ""
    turns: Callable[[], Sequence_] | None = None  # a splitting into oscillators and the rest
    mollified: bool = False  # kicks see means of positions
    points: int = 0  # of a quadrature of the Lagrangian, none for the trapezoidal rule; or of an energy between two ends
    kind: str = ""  # the family, of a method that is nothing of these
    adaptive: bool = (
        False  # does it choose its own steps?  Then dt is that of the times at which one may look
    )
    tolerance: float = 0.0  # of a step that chooses its own length, if none is asked for
    composed: str = ""  # the scheme of synth/coefficients/schemes.py that its steps are composed by

    @property
    def family(self) -> str:
        """How its step is made: a row of planner/methods/families.py."""
        if self.sequence is not None:
            return "splitting"
        if self.tableau is not None:
            return "Runge–Kutta"
        if self.turns is not None:
            return "interaction"
        return self.kind if self.orbits is None else "orbits"

    @property
    def splits(self) -> bool:
        return self.sequence is not None

    @property
    def looks_at_each(self) -> bool:
        """Is the error of a step that of each number, in parts of itself?"""
        return self.kind in ("embedded", "collocated")

    @property
    def keeps(self) -> tuple[str, ...]:
        """What the verifier is asked to show about a program of this method, given an energy."""
        if self.kind == "exponential":
            return ("symplectic",)
        shears = self.kind == "shears"
        solves = self.slopes or self.kind == "doubled"
        if not (self.splits or self.orbits or solves or self.turns or shears or "levels" in self.needs):
            return ()
        symmetric = self.symmetric and not self.corrected
        return ("symplectic", "consistent", "symmetric") if symmetric else ("symplectic", "consistent")

    @property
    def requires(self) -> tuple[str, ...]:
        """What must be shown about a system before it is stepped so."""
        if self.slopes:
            return ("an energy", *self.needs)
        return ("separable", "one clock", *self.needs) if self.splits else self.needs

    @property
    def gradients(self) -> bool:
        """Does it kick by [V, [T, V]] too?"""
        return "force gradients" in self.needs

    @property
    def weights(self) -> tuple[float, ...]:
        """Of the steps that it is composed of."""
        return steps(self.composed) if self.composed else (1.0,)

    @property
    def stages(self) -> int:
        """Kicks, or slopes, in one step: what it costs."""
        if self.kicks:
            return self.kicks
        if self.sequence is not None:
            parts = [part for part, *_ in self.sequence()]
            merged = len(parts) > 2 and parts[0] == parts[-1]
            return parts.count("V") - (merged and parts[0] == "V")
        if self.orbits is not None:
            return len(self.orbits()[1])
        if self.slopes or self.kind in ("variational", "discrete gradient"):
            return (self.slopes or self.points or 2) * ROUNDS  # the trapezoidal rule looks at both ends
        if self.turns is not None:
            return kicks_of(self.turns())
        return len(self.tableau.b) if self.tableau else 1

    @property
    def limit(self) -> float | None:
        """The largest omega*dt at which oscillations stay bounded; None for what is not made of kicks and drifts."""
        return limit_of(self)

    @property
    def reference(self) -> str:
        """Where it is from, in one line: the source is a work of planner/methods/bibliography.py, by its key or its line."""
        return work(self.source).short if self.source else ""


def solved(name: str, summary: str) -> Method:
    """A method of synth/coefficients/schemes.py: its weights are solved for when a step is made of it."""
    s = SCHEMES[name]
    return Method(
        name,
        s.order,
        summary,
        sequence=lambda: drifts_and_kicks(name),
        symmetric=True,
        source="" if s.source == FOUND else s.source,
        needs=NEEDS.get(s.kind, ()),
        kicks=s.kicks,
    )


NEEDS = {
    "nystrom": ("quadratic T",),
    "force gradient": ("quadratic T", "force gradients"),
}  # of schemes, by their kind

# fmt: off
METHODS: tuple[Method, ...] = (
    Method("symplectic_euler", 1, "drift, then kick",
           sequence=lambda: [("T", 1.0), ("V", 1.0)], source="devogelaere1956"),
    Method("leapfrog_kdk", 2, "half kick, drift, half kick; adjacent half kicks are merged",
           sequence=lambda: palindrome("V", "T", COMPOSITION["leapfrog"]), symmetric=True, source="verlet1967"),
    Method("leapfrog_dkd", 2, "half drift, kick, half drift; adjacent half drifts are merged",
           sequence=lambda: palindrome("T", "V", COMPOSITION["leapfrog"]), symmetric=True, source="verlet1967"),
    Method("yoshida4", 4, "three leapfrogs, the middle one backwards",
           sequence=lambda: palindrome("V", "T", COMPOSITION["yoshida4"]), symmetric=True, source="yoshida1990"),
    solved("suzuki4", "five leapfrogs, the middle one backwards"),
    solved("mclachlan4", "five kicks and drifts, each with its own weight"),
    solved("blanes_moan4", "six kicks and drifts, each with its own weight"),
    solved("blanes_moan_nystrom4", "six kicks and drifts, best where T is quadratic in p"),
    solved("nystrom4", "six kicks and drifts, best where T is quadratic in p"),
    solved("yoshida6", "seven leapfrogs, drift-kick-drift"),
    Method("kahan_li6", 6, "nine leapfrogs, drift-kick-drift",
           sequence=lambda: palindrome("T", "V", COMPOSITION["kahan_li6"]), symmetric=True, source="kahan1997"),
    solved("blanes_moan6", "ten kicks and drifts, each with its own weight"),
    solved("blanes_moan_nystrom6", "eleven kicks and drifts, for T quadratic in p"),
    solved("blanes_moan_nystrom6_14", "fourteen kicks and drifts, for T quadratic in p"),
    solved("nystrom6", "thirteen kicks and drifts, for T quadratic in p"),
    Method("kahan_li8", 8, "seventeen leapfrogs, drift-kick-drift",
           sequence=lambda: palindrome("T", "V", COMPOSITION["kahan_li8"]), symmetric=True, source="kahan1997"),
    solved("nystrom8", "twenty-one kicks and drifts, for T quadratic in p"),
    solved("sofroniou_spaletta10", "thirty-five leapfrogs, drift-kick-drift"),
    Method("respa", 2, "slow kicks, with many fast kicks between them", symmetric=True, source="tuckerman1992",
           needs=("separable", "still T", "levels"), kind="paces"),
    Method("respa4", 4, "five respa steps, the middle one backwards", symmetric=True, source="suzuki1990",
           needs=("separable", "still T", "levels"), kind="paces", composed="suzuki4"),
    solved("chin4a", "two kicks, one with its force gradient; every coefficient positive"),
    solved("chin4b", "two kicks with their force gradients, drift-kick-drift; every coefficient positive"),
    solved("chin4", "three kicks, the middle one with its force gradient; every coefficient positive"),
    Method("takahashi_imada4", 4, "one kick with its force gradient; a processor before the first step, undone for frames",
           sequence=lambda: list(TAKAHASHI_IMADA), processor=lambda: list(PROCESSOR),
           source="takahashi1984", needs=NEEDS["force gradient"]),
    solved("force_gradient6", "five kicks with their force gradients, drift-kick-drift"),
    *(Method(name, order, f"the parts of H in order and back{', repeated' if order > 2 else ''}: for terms that mix "
             "q and p", symmetric=True, source=source, needs=("shears", "no clock"), kind="shears", kicks=len(COMPOSED[name]))
      for name, order, source in (("strang", 2, "strang1968"), ("strang4", 4, "suzuki1990"), ("strang6", 6, "kahan1997"),
                                  ("strang8", 8, "kahan1997"))),
    Method("implicit_midpoint", 2, "the slope at the middle of the step, solved for", symmetric=True,
           kind="collocation", slopes=1),
    Method("gauss4", 4, "two slopes at the Gauss points, solved for", symmetric=True, source="butcher1964",
           kind="collocation", slopes=2),
    Method("gauss6", 6, "three slopes at the Gauss points, solved for", symmetric=True, source="butcher1964",
           kind="collocation", slopes=3),
    Method("stormer_verlet_implicit", 2, "half a step by a generating function of (q, P), half by its adjoint of (Q, p)",
           symmetric=True, source="devogelaere1956", kind="collocation", slopes=2, lengths="leapfrog"),
    Method("stormer_verlet_implicit4", 4, "three steps of stormer_verlet_implicit, the middle one backwards",
           symmetric=True, source="yoshida1990", kind="collocation", slopes=6, lengths="yoshida4"),
    Method("stormer_verlet_implicit6", 6, "nine steps of stormer_verlet_implicit", symmetric=True, source="kahan1997",
           kind="collocation", slopes=18, lengths="kahan_li6"),
    *(Method(f"kick_midpoint{order if order > 2 else ''}", order, summary, symmetric=True, source=source, kind="collocation",
             slopes=stages, lengths=weights, needs=("a potential apart",)) for order, weights, stages, source, summary in (
        (2, "leapfrog", 1, "", "half a kick by the terms without p, the midpoint rule for the rest, half a kick"),
        (4, "yoshida4", 3, "yoshida1990", "three steps of kick_midpoint, the middle one backwards"),
        (6, "kahan_li6", 9, "kahan1997", "nine steps of kick_midpoint"))),
    *(Method(f"extended_phase_space{order if order > 2 else ''}", order, f"{count} of two copies of the "
    f"state, projected symmetrically",
             symmetric=True, source="jayawardana2023", kind="doubled", lengths=weights, kicks=kicks,
             needs=("an energy", "no clock"))
      for order, weights, kicks, count in ((2, "leapfrog", 3, "a leapfrog"), (4, "yoshida4", 7, "three leapfrogs"),
                                           (6, "kahan_li6", 19, "nine leapfrogs"))),
    Method("variational_midpoint", 2, "from a Lagrangian: the velocity at the middle of the step, solved for", symmetric=True,
           source="marsden2001", kind="variational", points=1, needs=("a Lagrangian",)),
    Method("variational_trapezoidal", 2, "from a Lagrangian: one velocity for both ends of the step, solved for; Verlet's "
           "method for any L", symmetric=True, source="marsden2001", kind="variational", needs=("a Lagrangian",)),
    Method("galerkin4", 4, "from a Lagrangian: velocities at two Gauss points, solved for", symmetric=True,
           source="marsden2001", kind="variational", points=2, needs=("a Lagrangian",)),
    Method("galerkin6", 6, "from a Lagrangian: velocities at three Gauss points, solved for", symmetric=True,
           source="marsden2001", kind="variational", points=3, needs=("a Lagrangian",)),
    Method("avf", 2, "the mean of the gradient between the ends of a step, which are solved for: keeps a polynomial energy",
           symmetric=True, source="quispel2008", kind="discrete gradient", points=2,
           needs=("an energy", "no clock", "a polynomial")),
    Method("gonzalez", 2, "the gradient at the middle of the step, corrected along the step, solved for: keeps the energy",
           symmetric=True, source="gonzalez1996", kind="discrete gradient", points=4, needs=("an energy", "no clock")),
    Method("itoh_abe", 2, "difference quotients number by number, in both orders, solved for: keeps the energy",
           symmetric=True, source="itoh1988", kind="discrete gradient", points=2,
           needs=("an energy", "no clock", "few numbers")),
    Method("euler", 1, "explicit Euler", tableau=EULER),
    Method("midpoint", 2, "explicit midpoint rule", tableau=MIDPOINT),
    Method("rk4", 4, "the classical Runge–Kutta method", tableau=RK4, source="kutta1901"),
    Method("taylor", 0, "the Taylor series of the solution; the tolerance sets its order, and each step "
    "is as long as its last "
           "terms allow", source="jorba2005", needs=("smooth rates",), kind="Taylor", adaptive=True,
           tolerance=TOLERANCE["float64"]),
    Method("dop853", 8, "the Dormand–Prince pair: explicit, with steps as long as its error estimate allows",
           source="prince1981", kind="embedded", adaptive=True, tolerance=1e-10, kicks=12),
    Method("radau", 5, "implicit collocation at the Radau points, with steps of its own choice: for stiff systems",
           source="hairer1999", kind="collocated", adaptive=True, tolerance=1e-6, kicks=9),
    Method("wisdom_holman", 2, "half a Kepler orbit, kick by the rest, half an orbit: error eps h**2",
           orbits=NEAR_INTEGRABLE["wisdom_holman"], symmetric=True, source="wisdom1991", needs=("orbits",)),
    *(Method(f"wisdom_holman_c{n}", 2, f"wisdom_holman with a corrector, applied at the start and at "
    f"each output: error eps h**"
             f"{n + 1} + eps**2 h**2", orbits=NEAR_INTEGRABLE["wisdom_holman"], symmetric=True, source="wisdom1996",
             needs=("orbits",), corrected=n) for n in CORRECTORS),
    Method("saba2", 2, "Kepler orbits and two kicks: error eps h**4 + eps**2 h**2",
           orbits=NEAR_INTEGRABLE["saba2"], symmetric=True, source="laskar2001", needs=("orbits",)),
    Method("saba3", 2, "Kepler orbits and three kicks: error eps h**6 + eps**2 h**2",
           orbits=NEAR_INTEGRABLE["saba3"], symmetric=True, source="laskar2001", needs=("orbits",)),
    Method("saba4", 2, "Kepler orbits and four kicks: error eps h**8 + eps**2 h**2",
           orbits=NEAR_INTEGRABLE["saba4"], symmetric=True, source="laskar2001", needs=("orbits",)),
    Method("aba84", 4, "Kepler orbits and five kicks: error eps h**8 + eps**2 h**4",
           orbits=NEAR_INTEGRABLE["aba84"], symmetric=True, source="mclachlan1995b", needs=("orbits",)),
    Method("aba864", 4, "Kepler orbits and seven kicks: error eps h**8 + eps**2 h**6 + eps**3 h**4",
           orbits=NEAR_INTEGRABLE["aba864"], symmetric=True, source="blanes2013", needs=("orbits",)),
    Method("aba104", 4, "Kepler orbits and seven kicks: error eps h**10 + eps**2 h**4",
           orbits=NEAR_INTEGRABLE["aba104"], symmetric=True, source="blanes2013", needs=("orbits",)),
    Method("aba1064", 4, "Kepler orbits and eight kicks: error eps h**10 + eps**2 h**6 + eps**3 h**4",
           orbits=NEAR_INTEGRABLE["aba1064"], symmetric=True, source="blanes2013", needs=("orbits",)),
    Method("interaction", 2, "half a turn of the quadratic part, kick by the rest, half a turn", turns=leapfrogs("leapfrog"),
           symmetric=True, source="garcia1999", needs=("quadratic part",)),
    *(Method(f"interaction{order}", order, f"exact turns of the quadratic part and kicks by the rest, as {name}",
             turns=partial(of_scheme, name), symmetric=True, source=SCHEMES[name].source if SCHEMES[name].source != FOUND
             else "", needs=("quadratic part",), kicks=SCHEMES[name].kicks)
      for order, name in ((4, "nystrom4"), (6, "nystrom6"), (8, "nystrom8"))),
    *(Method(f"interaction_{name}", order, f"exact turns of the quadratic part and kicks by a weak rest: error {error}",
             turns=partial(of_orbits, name), symmetric=True, source=source, needs=("quadratic part",))
      for name, order, error, source in (("saba3", 2, "eps h**6 + eps**2 h**2", "laskar2001"),
                                         ("aba84", 4, "eps h**8 + eps**2 h**4", "mclachlan1995b"))),
    Method("interaction_mollified", 2, "as interaction, with the rest evaluated at positions averaged "
    "over a step: no resonance grows",
           turns=leapfrogs("leapfrog"), mollified=True, symmetric=True, source="garcia1999", needs=("quadratic part",)),
    Method("interaction_mollified4", 4, "three steps of interaction_mollified, the middle one "
    "backwards", turns=leapfrogs("yoshida4"),
           mollified=True, symmetric=True, source="yoshida1990", needs=("quadratic part",)),
    Method("magnus4", 4, "one matrix exponential a step, from A(t) at two times",
           source="blanes2000", needs=("linear",), kicks=2, kind="exponential"),
    Method("magnus6", 6, "one matrix exponential a step, from A(t) at three times",
           source="blanes2000", needs=("linear",), kicks=3, kind="exponential"),
)
# fmt: on
ALIASES = {"leapfrog": "leapfrog_kdk"}
CHOICES = ("auto", "symplectic")  # names that let the planner choose
BY_NAME = {m.name: m for m in METHODS}
FIRST = {1: "symplectic_euler", 2: "leapfrog_kdk"}  # in every release; from order 4 on the smallest price
ORDERS = (1, 2, 4, 6, 8, 10)


def of_parts(order: int) -> list[Method]:
    """Those of an order for an energy that does not split into T and V."""
    return [m for m in METHODS if m.order == order and m.kind == "shears"]


def by_solving(order: int) -> list[Method]:
    """What steps any energy at an order; odd orders are the next."""
    return [m for m in METHODS if m.slopes and m.order == max(order, 2)]


def by_order(order: int, quadratic: bool) -> list[Method]:
    """The splittings of an order, the best first."""
    all_ = [m for m in METHODS if m.order == order and m.splits]
    return sorted(all_, key=lambda m: (m.name != FIRST.get(order), price(m.name, quadratic)))


BY_ORDER = {order: by_order(order, quadratic=True)[0].name for order in ORDERS}  # where T is quadratic in p

MAP = Method("map", 0, "the map as it is written", kind="map")
TAYLOR = BY_NAME["taylor"]
PACES = "paces"
PACED = {m.order: m for m in METHODS if m.kind == PACES}  # those for fast and slow parts
INTERACTION = BY_NAME["interaction"]
TURNING = frozenset(m.name for m in METHODS if m.turns is not None)
FLOW_METHOD = Method("exact_flow", 0, "the exact flow of H")  # by propagator="exact" alone


@cache
def limit_of(m: Method) -> float | None:
    """Found when somebody asks, once for each method."""
    if m.tableau is not None:
        return of_tableau(m.tableau)
    sequence = [] if m.sequence is None else m.sequence()
    plain = bool(sequence) and all(len(entry) == 2 and entry[0] in PARTS for entry in sequence)
    return of_splitting(sequence) if plain else None


def tolerance_of(m: Method, goal: Goal) -> float:
    """The error of a step that a method with its own steps is asked for: rounding, where it can do that."""
    return goal.tolerance or (
        TOLERANCE.get(goal.precision, m.tolerance) if m.kind == "Taylor" else m.tolerance
    )


def is_adaptive(kind: str, method: str) -> bool:
    """Does a system of this kind, with what was asked by name, get a method that chooses its own steps?"""
    if method in CHOICES:
        return kind == "ode" and method == "auto"
    name = ALIASES.get(method, method)
    return name in BY_NAME and BY_NAME[name].adaptive


def names() -> tuple[str, ...]:
    """Everything that `method=` accepts."""
    return (*CHOICES, *ALIASES, *BY_NAME)
