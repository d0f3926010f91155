"""Every method that exists, in one table: the names users may ask for, and how each step is made."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tinyphysics.synth.coefficients import COMPOSITION
from tinyphysics.synth.orbits import CORRECTORS, NEAR_INTEGRABLE, Weights
from tinyphysics.synth.rungekutta import EULER, MIDPOINT, RK4, Tableau
from tinyphysics.synth.splitting import palindrome


@dataclass(frozen=True)
class Method:
    name: str
    order: int
    summary: str
    sequence: Callable[[], list[tuple[str, float]]] | None = None  # a splitting
    tableau: Tableau | None = None  # a Runge–Kutta method: by name only, never certified
    symmetric: bool = False
    orbits: Weights | None = None  # a splitting into Kepler orbits and the rest
    corrected: int = 0  # the order of its corrector
    source: str = ""

    @property
    def splits(self) -> bool:
        return self.sequence is not None

    @property
    def stages(self) -> int:
        """Kicks, or slopes, in one step."""
        if self.sequence is not None:
            parts = [part for part, _ in self.sequence()]
            merged = self.symmetric and parts[0] == parts[-1]
            return parts.count("V") - (merged and parts[0] == "V")
        if self.orbits is not None:
            return len(self.orbits[1])
        return len(self.tableau.b) if self.tableau else 1


VERLET = "Verlet 1967, Phys. Rev. 159, 98"
YOSHIDA = "Yoshida 1990, Phys. Lett. A 150, 262"
DE_VOGELAERE = "de Vogelaere 1956, report 4, University of Notre Dame"
KAHAN_LI = "Kahan and Li 1997, Math. Comp. 66, 1089"
WISDOM_HOLMAN = "Wisdom and Holman 1991, Astron. J. 102, 1528"
CORRECTED = "Wisdom, Holman and Touma 1996, Fields Inst. Commun. 10, 217"
LASKAR_ROBUTEL = "Laskar and Robutel 2001, Celest. Mech. Dyn. Astron. 80, 39"
BLANES_2013 = "Blanes, Casas, Farrés, Laskar, Makazaga and Murua 2013, Appl. Numer. Math. 68, 58"
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
    Method("wisdom_holman", 2, "half a Kepler orbit, kick by the rest, half an orbit: error eps h**2",
           orbits=NEAR_INTEGRABLE["wisdom_holman"], symmetric=True, source=WISDOM_HOLMAN),
    *(Method(f"wisdom_holman_c{n}", 2, f"the same with a corrector where a run begins and where one looks: error eps h**"
             f"{n + 1} + eps**2 h**2", orbits=NEAR_INTEGRABLE["wisdom_holman"], symmetric=True, source=CORRECTED, corrected=n)
      for n in CORRECTORS),
    Method("saba2", 2, "Kepler orbits and two kicks: error eps h**4 + eps**2 h**2",
           orbits=NEAR_INTEGRABLE["saba2"], symmetric=True, source=LASKAR_ROBUTEL),
    Method("saba3", 2, "Kepler orbits and three kicks: error eps h**6 + eps**2 h**2",
           orbits=NEAR_INTEGRABLE["saba3"], symmetric=True, source=LASKAR_ROBUTEL),
    Method("saba4", 2, "Kepler orbits and four kicks: error eps h**8 + eps**2 h**2",
           orbits=NEAR_INTEGRABLE["saba4"], symmetric=True, source=LASKAR_ROBUTEL),
    Method("aba84", 4, "Kepler orbits and five kicks: error eps h**8 + eps**2 h**4",
           orbits=NEAR_INTEGRABLE["aba84"], symmetric=True, source=BLANES_2013),
    Method("aba864", 4, "Kepler orbits and seven kicks: error eps h**8 + eps**2 h**6 + eps**3 h**4",
           orbits=NEAR_INTEGRABLE["aba864"], symmetric=True, source=BLANES_2013),
    Method("aba104", 4, "Kepler orbits and seven kicks: error eps h**10 + eps**2 h**4",
           orbits=NEAR_INTEGRABLE["aba104"], symmetric=True, source=BLANES_2013),
    Method("aba1064", 4, "Kepler orbits and eight kicks: error eps h**10 + eps**2 h**6 + eps**3 h**4",
           orbits=NEAR_INTEGRABLE["aba1064"], symmetric=True, source=BLANES_2013),
)
# fmt: on
ALIASES = {"leapfrog": "leapfrog_kdk"}
CHOICES = ("auto", "symplectic")  # names that let the planner choose
BY_NAME = {m.name: m for m in METHODS}
BY_ORDER = {1: "symplectic_euler", 2: "leapfrog_kdk", 4: "yoshida4", 6: "kahan_li6", 8: "kahan_li8"}

MAP = Method("map", 0, "the map as it is written")


def names() -> tuple[str, ...]:
    """Everything that `method=` accepts."""
    return (*CHOICES, *ALIASES, *BY_NAME)
