"""Every method that exists, in one table: what each needs, keeps, costs and stands, and how its step is made."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from tinyphysics.planner.bibliography import work
from tinyphysics.planner.stability import PARTS, of_splitting, of_tableau
from tinyphysics.synth.coefficients import COMPOSITION
from tinyphysics.synth.rungekutta import EULER, MIDPOINT, RK4, Tableau
from tinyphysics.synth.splitting import palindrome


@dataclass(frozen=True)
class Method:
    name: str
    order: int
    summary: str
    needs: tuple[str, ...] = ()  # rows of planner/needs.py; a splitting has those of every splitting too
    sequence: Callable[[], list[tuple[str, float]]] | None = None  # a splitting
    tableau: Tableau | None = None  # a Runge–Kutta method: by name only, never certified
    symmetric: bool = False
    source: str = ""

    @property
    def splits(self) -> bool:
        return self.sequence is not None

    @property
    def keeps(self) -> tuple[str, ...]:
        """What the verifier is asked to show about a program of this method, given an energy."""
        if not self.splits:
            return ()
        return ("symplectic", "consistent", "symmetric") if self.symmetric else ("symplectic", "consistent")

    @property
    def requires(self) -> tuple[str, ...]:
        """What must be shown about a system before it is stepped so."""
        return ("separable", "one clock", *self.needs) if self.splits else self.needs

    @property
    def stages(self) -> int:
        """Kicks, or slopes, in one step."""
        if self.sequence is not None:
            parts = [part for part, *_ in self.sequence()]
            merged = self.symmetric and parts[0] == parts[-1]
            return parts.count("V") - (merged and parts[0] == "V")
        return len(self.tableau.b) if self.tableau else 1

    @property
    def limit(self) -> float | None:
        """The largest omega*dt at which oscillations stay bounded; None for what is not made of kicks and drifts."""
        return limit_of(self)

    @property
    def reference(self) -> str:
        """Where it is from, in one line: the source is a work of planner/bibliography.py, by its key or its line."""
        return work(self.source).short if self.source else ""


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
    Method("kahan_li6", 6, "nine leapfrogs, drift-kick-drift",
           sequence=lambda: palindrome("T", "V", COMPOSITION["kahan_li6"]), symmetric=True, source=KAHAN_LI),
    Method("kahan_li8", 8, "seventeen leapfrogs, drift-kick-drift",
           sequence=lambda: palindrome("T", "V", COMPOSITION["kahan_li8"]), symmetric=True, source=KAHAN_LI),
    Method("euler", 1, "explicit Euler", tableau=EULER),
    Method("midpoint", 2, "explicit midpoint rule", tableau=MIDPOINT),
    Method("rk4", 4, "the classical Runge–Kutta method", tableau=RK4, source=KUTTA),
)
# fmt: on
ALIASES = {"leapfrog": "leapfrog_kdk"}
CHOICES = ("auto", "symplectic")  # names that let the planner choose
BY_NAME = {m.name: m for m in METHODS}
BY_ORDER = {1: "symplectic_euler", 2: "leapfrog_kdk", 4: "yoshida4", 6: "kahan_li6", 8: "kahan_li8"}

MAP = Method("map", 0, "the map as it is written")


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
