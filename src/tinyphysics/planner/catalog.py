"""Every method that exists, in one table: the names users may ask for, and how each step is made."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tinyphysics.synth.coefficients import COMPOSITION
from tinyphysics.synth.gradients import (
    CHIN_4A,
    CHIN_4B,
    CHIN_4C,
    FORCE_GRADIENT_6,
    PROCESSOR,
    TAKAHASHI_IMADA,
    with_gradients,
)  # fmt: skip
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
    source: str = ""
    processor: Callable[[], list[tuple[str, float]]] | None = None  # before the first step, undone where one looks

    @property
    def splits(self) -> bool:
        return self.sequence is not None

    @property
    def gradients(self) -> bool:
        """Does it kick by [V, [T, V]] too?"""
        makers = [make for make in (self.sequence, self.processor) if make is not None]
        return any(part == "W" for make in makers for part, _ in make())

    @property
    def stages(self) -> int:
        """Kicks, or slopes, in one step."""
        if self.sequence is not None:
            parts = [part for part, _ in self.sequence()]
            merged = len(parts) > 2 and parts[0] == parts[-1]
            return parts.count("V") - (merged and parts[0] == "V")
        return len(self.tableau.b) if self.tableau else 1


VERLET = "Verlet 1967, Phys. Rev. 159, 98"
YOSHIDA = "Yoshida 1990, Phys. Lett. A 150, 262"
DE_VOGELAERE = "de Vogelaere 1956, report 4, University of Notre Dame"
KAHAN_LI = "Kahan and Li 1997, Math. Comp. 66, 1089"
CHIN = "Chin 1997, Phys. Lett. A 226, 344"
TAKAHASHI = "Takahashi and Imada 1984, J. Phys. Soc. Jpn. 53, 3765"
OMELYAN = "order conditions: Omelyan, Mryglod and Folk 2003, Comput. Phys. Commun. 151, 272"
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
    Method("chin4a", 4, "two kicks, one with its force gradient; every coefficient positive",
           sequence=lambda: with_gradients(CHIN_4A), symmetric=True, source=CHIN),
    Method("chin4b", 4, "two kicks with their force gradients, drift-kick-drift; every coefficient positive",
           sequence=lambda: with_gradients(CHIN_4B), symmetric=True, source=CHIN),
    Method("chin4", 4, "three kicks, the middle one with its force gradient; every coefficient positive",
           sequence=lambda: with_gradients(CHIN_4C), symmetric=True, source=CHIN),
    Method("takahashi_imada4", 4, "one kick with its force gradient; a processor before the first step, undone for frames",
           sequence=lambda: with_gradients(TAKAHASHI_IMADA), processor=lambda: list(PROCESSOR),
           source=TAKAHASHI),
    Method("force_gradient6", 6, "five kicks with their force gradients, drift-kick-drift",
           sequence=lambda: with_gradients(FORCE_GRADIENT_6), symmetric=True, source=OMELYAN),
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


def names() -> tuple[str, ...]:
    """Everything that `method=` accepts."""
    return (*CHOICES, *ALIASES, *BY_NAME)
