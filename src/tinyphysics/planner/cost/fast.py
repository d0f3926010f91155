"""What does math="fast" promise, and where is it refused?  Errors that are stated, and bits of one machine and backend."""

from __future__ import annotations

from dataclasses import replace

from tinyphysics.errors import PlanError
from tinyphysics.plan import Goal
from tinyphysics.planner.methods.catalog import Method
from tinyphysics.report import Row
from tinyphysics.rules.functions.fast import BOUNDS
from tinyphysics.step import Solve, Step
from tinyphysics.target import PYTHON, Target

FAST_IN = ("float64", "float32", "mixed")
NOT_OF_BITS = Row(
    "arithmetic",
    "fast",
    "what is shown above is of exact arithmetic; this run departs from it by more "
    "roundings than an exact one, and not in the same way on every machine",
)


def check_fast(step: Step, method: Method, goal: Goal, requested: str) -> None:
    """What would lose what it is for is refused."""
    if goal.math != "fast":
        return
    if goal.precision not in FAST_IN:
        raise PlanError(
            f'math="fast" cannot be combined with precision={goal.precision!r}, whose digits rely on math="exact"',
            fix="Leave one of the two out.",
        )
    what = (
        "jumps over its steps"
        if step.jump is not None
        else "chooses its own steps"
        if method.adaptive or step.loops is not None or step.going is not None
        else "solves equations"
        if any(isinstance(part, Solve) for part in step.body)
        else "turns oscillators"
        if step.oscillators or step.coupled
        else "goes on Kepler orbits"
        if step.frame is not None
        else ""
    )
    if what:
        other = 'propagator="loop"' if step.jump is not None else "a method of kicks and drifts"
        raise PlanError(
            f'`{step.name}` {what}, which math="fast" does not support',
            fix=f"Leave math= out, or choose {other}.",
        )
    if requested == PYTHON.backend:
        raise PlanError(
            'the backend `python` is the exact reference, and has no math="fast"',
            fix="Leave math= out, or choose another backend.",
        )


def made_fast(target: Target) -> Target:
    if target.backend == PYTHON.backend:
        raise PlanError(
            'this program runs on the backend `python` alone, which has no math="fast"',
            fix="Leave math= out.",
        )
    return replace(target, bit_exact=False)


def fast_rows(precision: str) -> list[Row]:
    """The errors, and what they cost."""
    which = 0 if precision == "float64" else 1
    told = ", ".join(f"{name} {bounds[which]:g}" for name, bounds in BOUNDS.items())
    return [
        Row("math", "fast", f"largest errors in units in the last place: {told}; others as in exact runs"),
        Row(
            "its price",
            "bits",
            "a run repeats to the last bit on one machine and backend alone; out.hash says so",
        ),
    ]
