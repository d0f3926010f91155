"""What the user asked for (Goal) and what the compiler decided to do (Plan)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace
from typing import Any


@dataclass(frozen=True)
class Hierarchy:
    """The bodies of a system, innermost first, as they were at its first state."""

    order: tuple[int, ...]
    # the largest ratio of what a body feels besides its orbit to what keeps it there
    perturbation: float = field(default=0.0, repr=False, compare=False)


@dataclass(frozen=True)
class Spectrum:
    """The largest eigenvalue of the Jacobian of derivatives at a first state, and the method that it asks for."""

    method: str  # "" where the default stays
    default: str = field(default="", repr=False, compare=False)
    real: float = field(default=0.0, repr=False, compare=False)
    imaginary: float = field(default=0.0, repr=False, compare=False)
    span: float = field(default=0.0, repr=False, compare=False)
    of: str = field(
        default="the run", repr=False, compare=False
    )  # or "dt", where it is given: what takes so long

    @property
    def size(self) -> float:
        return math.hypot(self.real, self.imaginary)


@dataclass(frozen=True)
class Trial:
    """What the pilots of one method have shown."""

    method: str
    dt: float
    error: float  # of the state, over the whole run by extrapolation
    drift: float | None  # of the energy; None where no energy is known
    work: float  # operations for one unit of time
    meets: bool
    verdict: str = ""  # why it was not taken
    rounded: str = ""  # the goal that rounding makes impossible, if one

    def measured(self, goal: str) -> float:
        """What was found of one goal."""
        return self.error if goal == "error" or self.drift is None else self.drift


@dataclass(frozen=True)
class Decision:
    """A method and a step that were measured to meet the goals, on a state of the user's."""

    method: str
    dt: float
    error: float
    drift: float | None
    span: float  # the time that the pilots ran for
    reach: float  # the time of the run that the error was extrapolated to
    frequency: float | None  # the fastest vibration at that state
    trials: tuple[Trial, ...] = ()
    tolerance: float | None = None  # of a method that chooses its own steps: what was found instead of dt


@dataclass(frozen=True)
class Goal:
    dt: float | None
    method: str = "auto"
    order: int | None = None
    forbid: tuple[str, ...] = ()
    precision: str = "float64"  # of the states, and of every operation on them
    scale: str = "off"  # or "auto": states in the units in which a step is shortest
    approximate: float | None = None  # the relative error that forces of 1/r may have
    # loop; exact, method: n steps of a linear system at once; None: the planner decides
    propagator: str | None = None
    inner: tuple[int, ...] = ()  # how many kicks of each level there are in one of the next slower
    # units of states that are whole numbers; "" is any other state
    lattice: tuple[tuple[str, float], ...] = ()
    backwards: bool = False  # the inverse of the step: its sub-steps taken back, the last one first
    hierarchy: Hierarchy | None = None  # measured at the first state, for methods that go on orbits
    energy_drift: float | None = None  # the largest |E - E0|/S that a run may have, at any step
    # the largest error of a state that a run may have, relative to the state's size
    error: float | None = None
    decision: Decision | None = None  # what pilots have shown about those two, once they have
    # the relative error of one step of a method that chooses its own; None: the method's
    tolerance: float | None = None
    # and what an error may be beside that, where the method looks at each number
    absolute: float | None = None
    # (name, expression) of invariants that every step is put back to
    project: tuple[tuple[str, str], ...] = ()
    # or "fast": kernels with the errors of rules/functions/fast.py, whose bits are their machine's own
    math: str = "exact"
    spectrum: Spectrum | None = None  # of derivatives, measured at the first state where `auto` chooses
    stiff: float = 0.0  # omega*dt of a quadratic part at which leapfrog is shown to be unstable
    # (name, value) of options that few files ask for, where they are given: numbers, words and tuples of them
    more: tuple[tuple[str, Any], ...] = ()

    @property
    def options(self) -> dict[str, Any]:
        """All that was asked for, by name."""
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "more"}
        return own | dict(self.more)

    def given(self, **options: Any) -> Goal:
        """With more of those that few files ask for."""
        return replace(self, more=tuple({**dict(self.more), **options}.items()))

    @property
    def is_accurate(self) -> bool:
        """Is an accuracy asked for?  Then a method, and a step if none is given, are found by pilots."""
        return self.energy_drift is not None or self.error is not None

    def by_method(self, method: str, **others: Any) -> Goal:
        """The same by a method that is named, with nothing left for the planner to choose or to measure."""
        chosen = {"method": method, "order": None, "forbid": (), "energy_drift": None, "error": None}
        return replace(self, **chosen | {"decision": None} | others)


@dataclass(frozen=True)
class Alternative:
    method: str
    because: str


@dataclass(frozen=True)
class Plan:
    method: str
    order: int
    because: str
    not_chosen: tuple[Alternative, ...] = ()
    decision: Decision | None = None
