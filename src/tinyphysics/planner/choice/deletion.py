"""Is the loop deleted where nobody said?  Only where that costs nobody anything: which steps will be looked at is not known.

What decides is in the compiled system alone. Frame k must have the bits of a run that ends there, so neither the steps of
a run, nor its frames, observables or members can have a part in it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tinyphysics.errors import PlanError
from tinyphysics.facts import Facts
from tinyphysics.plan import Goal
from tinyphysics.planner.choice.propagator import (
    Means,
    cost_rows,
    loop_seconds,
    means,
    pairs_of,
    plan_jump,
    refusal,
    seconds,
    sooner_from,
)
from tinyphysics.planner.methods.catalog import CHOICES
from tinyphysics.report import Row
from tinyphysics.system import System

# the run that stands for all: who saves often must not wait for jumps, of which each is made from the beginning
FRAMES = 100
STRIDE = 100  # steps from one frame to the next


@dataclass(frozen=True)
class Choice:
    """What the planner does about a loop, and why."""

    way: str  # loop, exact, method
    because: str
    rows: tuple[Row, ...] = ()  # the comparison, where a loop is kept
    instead: str = ""  # what a user may ask for where the loop is long


def quadratic(facts: Facts) -> bool:
    return "polynomial" in facts and bool(facts["polynomial"]) and facts["polynomial"].degree <= 2


def nominal(m: Means) -> float:
    """Seconds for the frames of that run."""
    if (
        m.name == "polynomials"
    ):  # a term for two radians, and two radians for two steps, all the way from the beginning
        return m.build + m.apply * STRIDE * FRAMES * (FRAMES + 1) / 4
    return m.build + m.apply * FRAMES


def instead_of_nothing(system: System, facts: Facts, goal: Goal, requested: str) -> Choice | None:
    """The exact flow of an energy that is not T(p) + V(q): no loop of kicks and drifts is given up for it."""
    if not quadratic(facts) or facts["separable"] or goal.method not in CHOICES or goal.order is not None:
        return None
    asked = replace(goal, propagator="exact")
    if refusal(system, facts, asked, requested) is not None:
        return None
    taken = next((m for m in means(system, facts, "exact") if not m.objection), None)
    if taken is None or taken.bits != "exact":
        return None
    return Choice("exact", f"it is not T(p) + V(q), of degree 2, and solved by {taken.name}")


def decided(system: System, facts: Facts, goal: Goal, requested: str, operations: int) -> Choice | None:
    """What is done about a loop of so many operations a step; None where nothing could be done about it."""
    if not quadratic(facts):
        return None
    pinned = goal.method not in CHOICES or goal.order is not None
    way = "method" if pinned else "exact"
    asked = replace(goal, propagator=way)
    try:
        plan_jump(system, facts, asked, requested)
    except PlanError as error:
        return Choice(
            "loop", why := f"the loop stays: {error.what.splitlines()[0]}", (Row("propagator", "loop", why),)
        )
    found = means(system, facts, way)
    taken = next(m for m in found if not m.objection)
    step = loop_seconds(pairs_of(system), operations)
    loop, jumps = STRIDE * FRAMES * step, nominal(taken)
    compared = f"{FRAMES} frames {STRIDE} steps apart take {seconds(loop)} by the loop, {seconds(jumps)} by {taken.name}"
    if jumps < loop and taken.bits == "exact":
        return Choice(way, f"chosen by the planner: {compared}")
    why = f"its last bits are not in the contract, {taken.bits}" if jumps < loop else compared
    note = (
        f'{why}; propagator="{way}" deletes it, for a billion steps at once: '
        f"sooner from {sooner_from(taken, step)} on"
    )
    return Choice("loop", note, (Row("propagator", "loop", note), *cost_rows(found, step)), way)
