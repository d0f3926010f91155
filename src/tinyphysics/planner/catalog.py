"""Every method that exists, in one table: what each needs, keeps, costs and stands, and how its step is made."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from tinyphysics.planner.bibliography import work
from tinyphysics.planner.stability import PARTS, of_splitting, of_tableau
from tinyphysics.synth.coefficients import COMPOSITION
from tinyphysics.synth.gradients import PROCESSOR, TAKAHASHI_IMADA
from tinyphysics.synth.orbits import CORRECTORS, NEAR_INTEGRABLE, Weights
from tinyphysics.synth.quality import price
from tinyphysics.synth.rungekutta import EULER, MIDPOINT, RK4, Tableau
from tinyphysics.synth.schemes import BY_NAME as SCHEMES
from tinyphysics.synth.schemes import FOUND, drifts_and_kicks
from tinyphysics.synth.splitting import palindrome

ROUNDS = 6  # of a solution, about, the last look at its slopes included


@dataclass(frozen=True)
class Method:
    name: str
    order: int
    summary: str
    sequence: Callable[[], list[tuple[str, float]]] | None = None  # a splitting
    tableau: Tableau | None = None  # a Runge–Kutta method: by name only, never certified
    symmetric: bool = False
    source: str = ""  # a key of planner/bibliography.py
    needs: tuple[str, ...] = ()  # rows of planner/needs.py; a splitting has those of every splitting too
    kicks: int = 0  # of one step, where they are known without its weights
    processor: Callable[[], list[tuple[str, float]]] | None = None  # before the first step, undone where one looks
    orbits: Callable[[], Weights] | None = None  # a splitting into Kepler orbits and the rest
    corrected: int = 0  # the order of its corrector
    slopes: int = 0  # that a collocation solves for
    composed: str = ""  # of steps by a generating function: the weights of their lengths
    kind: str = ""  # the family, of a method that is nothing of these

    @property
    def family(self) -> str:
        """How its step is made: a row of planner/families.py."""
        if self.sequence is not None:
            return "splitting"
        if self.tableau is not None:
            return "Runge–Kutta"
        return self.kind if self.orbits is None else "orbits"

    @property
    def splits(self) -> bool:
        return self.sequence is not None

    @property
    def keeps(self) -> tuple[str, ...]:
        """What the verifier is asked to show about a program of this method, given an energy."""
        solves = self.slopes or self.kind == "doubled"
        if not (self.splits or self.orbits or solves or "levels" in self.needs):
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
        if self.slopes:
            return self.slopes * ROUNDS
        return len(self.tableau.b) if self.tableau else 1

    @property
    def limit(self) -> float | None:
        """The largest omega*dt at which oscillations stay bounded; None for what is not made of kicks and drifts."""
        return limit_of(self)

    @property
    def reference(self) -> str:
        """Where it is from, in one line: the source is a work of planner/bibliography.py, by its key or its line."""
        return work(self.source).short if self.source else ""


def solved(name: str, summary: str) -> Method:
    """A method of synth/schemes.py: its weights are solved for when a step is made of it."""
    s = SCHEMES[name]
    return Method(name, s.order, summary, sequence=lambda: drifts_and_kicks(name), symmetric=True,
                  source="" if s.source == FOUND else s.source, needs=NEEDS.get(s.kind, ()),
                  kicks=s.kicks)  # fmt: skip


NEEDS = {"nystrom": ("quadratic T",), "force gradient": ("quadratic T", "force gradients")}  # of schemes, by their kind

# fmt: off
METHODS: tuple[Method, ...] = (
    Method("symplectic_euler", 1, "drift, then kick",
           sequence=lambda: [("T", 1.0), ("V", 1.0)], source="devogelaere1956"),
    Method("leapfrog_kdk", 2, "half kick, drift, half kick; the half kicks of neighbours merged",
           sequence=lambda: palindrome("V", "T", COMPOSITION["leapfrog"]), symmetric=True, source="verlet1967"),
    Method("leapfrog_dkd", 2, "half drift, kick, half drift; the half drifts of neighbours merged",
           sequence=lambda: palindrome("T", "V", COMPOSITION["leapfrog"]), symmetric=True, source="verlet1967"),
    Method("yoshida4", 4, "three leapfrogs, the middle one backwards",
           sequence=lambda: palindrome("V", "T", COMPOSITION["yoshida4"]), symmetric=True, source="yoshida1990"),
    solved("suzuki4", "five leapfrogs, the middle one backwards"),
    solved("mclachlan4", "five kicks and drifts of their own weights"),
    solved("blanes_moan4", "six kicks and drifts of their own weights"),
    solved("blanes_moan_nystrom4", "six kicks and drifts, at their best for T quadratic in p"),
    solved("nystrom4", "six kicks and drifts, at their best for T quadratic in p"),
    solved("yoshida6", "seven leapfrogs, drift-kick-drift"),
    Method("kahan_li6", 6, "nine leapfrogs, drift-kick-drift",
           sequence=lambda: palindrome("T", "V", COMPOSITION["kahan_li6"]), symmetric=True, source="kahan1997"),
    solved("blanes_moan6", "ten kicks and drifts of their own weights"),
    solved("blanes_moan_nystrom6", "eleven kicks and drifts, for T quadratic in p"),
    solved("blanes_moan_nystrom6_14", "fourteen kicks and drifts, for T quadratic in p"),
    solved("nystrom6", "thirteen kicks and drifts, for T quadratic in p"),
    Method("kahan_li8", 8, "seventeen leapfrogs, drift-kick-drift",
           sequence=lambda: palindrome("T", "V", COMPOSITION["kahan_li8"]), symmetric=True, source="kahan1997"),
    solved("nystrom8", "twenty-one kicks and drifts, for T quadratic in p"),
    solved("sofroniou_spaletta10", "thirty-five leapfrogs, drift-kick-drift"),
    Method("respa", 2, "slow kicks, and between them many of the fast ones", symmetric=True, source="tuckerman1992",
           needs=("separable", "still T", "levels"), kind="paces"),
    solved("chin4a", "two kicks, one with its force gradient; every coefficient positive"),
    solved("chin4b", "two kicks with their force gradients, drift-kick-drift; every coefficient positive"),
    solved("chin4", "three kicks, the middle one with its force gradient; every coefficient positive"),
    Method("takahashi_imada4", 4, "one kick with its force gradient; a processor before the first step, undone for frames",
           sequence=lambda: list(TAKAHASHI_IMADA), processor=lambda: list(PROCESSOR),
           source="takahashi1984", needs=NEEDS["force gradient"]),
    solved("force_gradient6", "five kicks with their force gradients, drift-kick-drift"),
    Method("implicit_midpoint", 2, "the slope at the middle of the step, solved for", symmetric=True,
           kind="collocation", slopes=1),
    Method("gauss4", 4, "two slopes at the points of Gauss, solved for", symmetric=True, source="butcher1964",
           kind="collocation", slopes=2),
    Method("gauss6", 6, "three slopes at the points of Gauss, solved for", symmetric=True, source="butcher1964",
           kind="collocation", slopes=3),
    Method("stormer_verlet_implicit", 2, "half a step by a generating function of (q, P), half by its adjoint of (Q, p)",
           symmetric=True, source="devogelaere1956", kind="collocation", slopes=2, composed="leapfrog"),
    Method("stormer_verlet_implicit4", 4, "three of these, the middle one backwards",
           symmetric=True, source="yoshida1990", kind="collocation", slopes=6, composed="yoshida4"),
    Method("stormer_verlet_implicit6", 6, "nine of these", symmetric=True, source="kahan1997",
           kind="collocation", slopes=18, composed="kahan_li6"),
    *(Method(f"kick_midpoint{order if order > 2 else ''}", order, summary, symmetric=True, source=source, kind="collocation",
             slopes=stages, composed=weights, needs=("a potential apart",)) for order, weights, stages, source, summary in (
        (2, "leapfrog", 1, "", "half a kick by the terms without p, the midpoint rule for the rest, half a kick"),
        (4, "yoshida4", 3, "yoshida1990", "three of these, the middle one backwards"),
        (6, "kahan_li6", 9, "kahan1997", "nine of these"))),
    *(Method(f"extended_phase_space{order if order > 2 else ''}", order, f"{count} of two copies, projected symmetrically",
             symmetric=True, source="jayawardana2023", kind="doubled", composed=weights, kicks=kicks, needs=("an energy",))
      for order, weights, kicks, count in ((2, "leapfrog", 3, "a leapfrog"), (4, "yoshida4", 7, "three leapfrogs"),
                                           (6, "kahan_li6", 19, "nine leapfrogs"))),
    Method("euler", 1, "explicit Euler", tableau=EULER),
    Method("midpoint", 2, "explicit midpoint rule", tableau=MIDPOINT),
    Method("rk4", 4, "the classical Runge–Kutta method", tableau=RK4, source="kutta1901"),
    Method("wisdom_holman", 2, "half a Kepler orbit, kick by the rest, half an orbit: error eps h**2",
           orbits=NEAR_INTEGRABLE["wisdom_holman"], symmetric=True, source="wisdom1991", needs=("orbits",)),
    *(Method(f"wisdom_holman_c{n}", 2, f"the same with a corrector where a run begins and where one looks: error eps h**"
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
)
# fmt: on
ALIASES = {"leapfrog": "leapfrog_kdk"}
CHOICES = ("auto", "symplectic")  # names that let the planner choose
BY_NAME = {m.name: m for m in METHODS}
FIRST = {1: "symplectic_euler", 2: "leapfrog_kdk"}  # in every release; from order 4 on the smallest price
ORDERS = (1, 2, 4, 6, 8, 10)


def by_solving(order: int) -> list[Method]:
    """What steps any energy at an order; odd orders are the next."""
    return [m for m in METHODS if m.slopes and m.order == max(order, 2)]


def by_order(order: int, quadratic: bool) -> list[Method]:
    """The splittings of an order, the best first."""
    all_ = [m for m in METHODS if m.order == order and m.splits]
    return sorted(all_, key=lambda m: (m.name != FIRST.get(order), price(m.name, quadratic)))


BY_ORDER = {order: by_order(order, quadratic=True)[0].name for order in ORDERS}  # where T is quadratic in p

MAP = Method("map", 0, "the map as it is written", kind="map")
RESPA = BY_NAME["respa"]
FLOW_METHOD = Method("exact_flow", 0, "the flow of H itself")  # by propagator="exact" alone


@cache
def limit_of(m: Method) -> float | None:
    """Found when somebody asks, once for each method."""
    if m.tableau is not None:
        return of_tableau(m.tableau)
    sequence = [] if m.sequence is None else m.sequence()
    plain = bool(sequence) and all(len(entry) == 2 and entry[0] in PARTS for entry in sequence)
    return of_splitting(sequence) if plain else None


def names() -> tuple[str, ...]:
    """Everything that `method=` accepts."""
    return (*CHOICES, *ALIASES, *BY_NAME)
