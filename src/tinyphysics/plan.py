"""What the user asked for (Goal) and what the compiler decided to do (Plan)."""
from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Goal:
    dt: float | None
    method: str = "auto"
    order: int | None = None
    forbid: tuple[str, ...] = ()
    precision: str = "float64"  # of the states, and of every operation on them
    scale: str = "off"  # or "auto": states in the units in which a step is shortest
    approximate: float | None = None  # the relative error that forces of 1/r may have
    propagator: str = "loop"  # or "exact", "method": n steps of a linear system at once


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
