"""What the user asked for (Goal) and what the compiler decided to do (Plan)."""
from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Hierarchy:
    """The bodies of a system, innermost first, as they were at its first state."""

    order: tuple[int, ...]
    # the largest ratio of what a body feels besides its orbit to what keeps it there
    perturbation: float = field(default=0.0, repr=False, compare=False)


@dataclass(frozen=True)
class Goal:
    dt: float | None
    method: str = "auto"
    order: int | None = None
    forbid: tuple[str, ...] = ()
    precision: str = "float64"  # of the states, and of every operation on them
    scale: str = "off"  # or "auto": states in the units in which a step is shortest
    approximate: float | None = None  # the relative error that forces of 1/r may have
    hierarchy: Hierarchy | None = None  # measured at the first state, for methods that go on orbits


@dataclass(frozen=True)
class Alternative:
    method: str
    because: str


@dataclass(frozen=True)
class Plan:
    method: str
    order: int
    because: str
    turned_down: tuple[Alternative, ...] = ()
