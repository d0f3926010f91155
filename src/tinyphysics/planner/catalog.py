"""Every method that exists, in one table: the names users may ask for, and how each step is made."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tinyphysics.synth.coefficients import COMPOSITION
from tinyphysics.synth.quality import price
from tinyphysics.synth.rungekutta import EULER, MIDPOINT, RK4, Tableau
from tinyphysics.synth.schemes import BY_NAME as SCHEMES
from tinyphysics.synth.schemes import FOUND, drifts_and_kicks
from tinyphysics.synth.splitting import palindrome


@dataclass(frozen=True)
class Method:
    name: str
    order: int
    summary: str
    sequence: Callable[[], list[tuple[str, float]]] | None = None  # a splitting
    tableau: Tableau | None = None  # a Runge–Kutta method: by name only, never certified
    symmetric: bool = False
    source: str = ""
    quadratic: bool = False  # has its order only where T is quadratic in p
    kicks: int = 0  # of one step, where they are known without its weights

    @property
    def splits(self) -> bool:
        return self.sequence is not None

    @property
    def stages(self) -> int:
        """Kicks, or slopes, in one step."""
        if self.kicks:
            return self.kicks
        if self.sequence is not None:
            parts = [part for part, _ in self.sequence()]
            merged = self.symmetric and parts[0] == parts[-1]
            return parts.count("V") - (merged and parts[0] == "V")
        return len(self.tableau.b) if self.tableau else 1


def solved(name: str, summary: str) -> Method:
    """A method of synth/schemes.py: its weights are solved for when a step is made of it."""
    s = SCHEMES[name]
    return Method(name, s.order, summary, sequence=lambda: drifts_and_kicks(name), symmetric=True,
                  source="" if s.source == FOUND else s.source, quadratic=s.kind == "nystrom", kicks=s.kicks)  # fmt: skip


VERLET = "Verlet 1967, Phys. Rev. 159, 98"
YOSHIDA = "Yoshida 1990, Phys. Lett. A 150, 262"
DE_VOGELAERE = "de Vogelaere 1956, report 4, University of Notre Dame"
KAHAN_LI = "Kahan and Li 1997, Math. Comp. 66, 1089"
KUTTA = "Kutta 1901, Z. Math. Phys. 46, 435"

# fmt: off
METHODS: tuple[Method, ...] = (
    Method("symplectic_euler", 1, "drift, then kick",
           sequence=lambda: [("T", 1.0), ("V", 1.0)], source=DE_VOGELAERE),
    Method("leapfrog_kdk", 2, "half kick, drift, half kick; the half kicks of neighbours merged",
           sequence=lambda: palindrome("V", "T", COMPOSITION["leapfrog"]), symmetric=True, source=VERLET),
    Method("leapfrog_dkd", 2, "half drift, kick, half drift; the half drifts of neighbours merged",
           sequence=lambda: palindrome("T", "V", COMPOSITION["leapfrog"]), symmetric=True, source=VERLET),
    Method("yoshida4", 4, "three leapfrogs, the middle one backwards",
           sequence=lambda: palindrome("V", "T", COMPOSITION["yoshida4"]), symmetric=True, source=YOSHIDA),
    solved("suzuki4", "five leapfrogs, the middle one backwards"),
    solved("mclachlan4", "five kicks and drifts of their own weights"),
    solved("blanes_moan4", "six kicks and drifts of their own weights"),
    solved("blanes_moan_nystrom4", "six kicks and drifts, at their best for T quadratic in p"),
    solved("nystrom4", "six kicks and drifts, at their best for T quadratic in p"),
    solved("yoshida6", "seven leapfrogs, drift-kick-drift"),
    Method("kahan_li6", 6, "nine leapfrogs, drift-kick-drift",
           sequence=lambda: palindrome("T", "V", COMPOSITION["kahan_li6"]), symmetric=True, source=KAHAN_LI),
    solved("blanes_moan6", "ten kicks and drifts of their own weights"),
    solved("blanes_moan_nystrom6", "eleven kicks and drifts, for T quadratic in p"),
    solved("blanes_moan_nystrom6_14", "fourteen kicks and drifts, for T quadratic in p"),
    solved("nystrom6", "thirteen kicks and drifts, for T quadratic in p"),
    Method("kahan_li8", 8, "seventeen leapfrogs, drift-kick-drift",
           sequence=lambda: palindrome("T", "V", COMPOSITION["kahan_li8"]), symmetric=True, source=KAHAN_LI),
    solved("nystrom8", "twenty-one kicks and drifts, for T quadratic in p"),
    solved("sofroniou_spaletta10", "thirty-five leapfrogs, drift-kick-drift"),
    Method("euler", 1, "explicit Euler", tableau=EULER),
    Method("midpoint", 2, "explicit midpoint rule", tableau=MIDPOINT),
    Method("rk4", 4, "the classical Runge–Kutta method", tableau=RK4, source=KUTTA),
)
# fmt: on
ALIASES = {"leapfrog": "leapfrog_kdk"}
CHOICES = ("auto", "symplectic")  # names that let the planner choose
BY_NAME = {m.name: m for m in METHODS}
FIRST = {1: "symplectic_euler", 2: "leapfrog_kdk"}  # in every release; from order 4 on the smallest price
ORDERS = (1, 2, 4, 6, 8, 10)


def by_order(order: int, quadratic: bool) -> list[Method]:
    """The splittings of an order, the best first."""
    all_ = [m for m in METHODS if m.order == order and m.splits]
    return sorted(all_, key=lambda m: (m.name != FIRST.get(order), price(m.name, quadratic)))


BY_ORDER = {order: by_order(order, quadratic=True)[0].name for order in ORDERS}  # where T is quadratic in p

MAP = Method("map", 0, "the map as it is written")


def names() -> tuple[str, ...]:
    """Everything that `method=` accepts."""
    return (*CHOICES, *ALIASES, *BY_NAME)
