"""Is the loop of an energy of degree 2 deleted by default?  Where that costs at most 2 ms, and no bit is a library's.

What decides is in the compiled system alone. Frame k must have the bits of a run that ends there, so neither the steps of
a run, nor its frames, observables, members or backend can have a part in it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tinyphysics.analysis.free_bodies import free_bodies
from tinyphysics.errors import PlanError
from tinyphysics.facts import Facts
from tinyphysics.plan import Goal
from tinyphysics.planner.choice.propagator import (
    FRAMES,
    cost_rows,
    few,
    loop_seconds,
    means,
    pairs_of,
    plan_jump,
    refusal,
    seconds,
    sooner_from,
)
from tinyphysics.planner.methods.catalog import CHOICES, OF_FLOW
from tinyphysics.planner.methods.method import not_taken
from tinyphysics.report import Row
from tinyphysics.system import System


@dataclass(frozen=True)
class Choice:
    """What the planner does about a loop, and why."""

    way: str  # loop, exact, method
    because: str
    rows: tuple[Row, ...] = ()  # the comparison, where a loop is kept
    instead: str = ""  # what a user may ask for where the loop is long


def quadratic(facts: Facts) -> bool:
    return "polynomial" in facts and bool(facts["polynomial"]) and facts["polynomial"].degree <= 2


def one_free_body(system: System) -> bool:
    """Of several the jump may cost more than 2 ms, and is asked for."""
    found = free_bodies(system)
    return not isinstance(found, str) and len(found) == 3


def pinned(system: System, goal: Goal) -> str:
    """Which option asks for steps; empty if none does."""
    asked = {
        "method": goal.method not in CHOICES,
        "order": goal.order is not None,
        "forbid": bool(goal.forbid),
        "math": goal.math != "exact",
        "project": bool(goal.project),
        "time": system.clock is not None,
    }
    if system.levels:
        return "fast and slow parts ask"
    return next((f"{name}= asks" for name, said in asked.items() if said), "")


def deleted(system: System, facts: Facts, goal: Goal) -> Choice | None:
    """The flow of H instead of a loop, by default; None where the loop stays."""
    if system.kind != "hamiltonian" or pinned(system, goal):
        return None
    if one_free_body(system):
        asked = replace(goal, propagator="exact")
        why = "the default for a free rigid body: it is solved exactly, so any number of steps is one jump"
        return None if refusal(system, facts, asked) is not None else Choice("exact", why)
    if not quadratic(facts):
        return None
    if not_taken(OF_FLOW, system):
        return None
    asked = replace(goal, propagator="exact")
    if refusal(system, facts, asked) is not None:
        return None
    if not facts["separable"]:  # no loop of kicks and drifts is given up for it
        taken = next((m for m in means(system, facts, "exact") if not m.objection), None)
        if taken is None or taken.bits != "exact":
            return None
        return Choice("exact", f"it is not T(p) + V(q), of degree 2, and solved by {taken.name}")
    if few(system) is None:
        return None
    n = pairs_of(system)
    size = "1 pair of q and p" if n == 1 else f"{n} pairs of q and p"
    return Choice(
        "exact",
        f"the default for an energy of degree 2 with {size}: it is solved exactly, so any number of steps is one jump",
    )


def kept(system: System, facts: Facts, goal: Goal, operations: int) -> Choice | None:
    """Why a loop of so many operations a step stays; None where nothing could be done about it."""
    if not quadratic(facts):
        return None
    steps = pinned(system, goal)
    way = "method" if goal.method not in CHOICES or goal.order is not None else "exact"
    try:
        plan_jump(system, facts, replace(goal, propagator=way))
    except PlanError as error:
        return Choice(
            "loop", why := f"the loop stays: {error.what.splitlines()[0]}", (Row("propagator", "loop", why),)
        )
    found = means(system, facts, way)
    taken = next(m for m in found if not m.objection)
    step = loop_seconds(pairs_of(system), operations)
    if steps:
        why = f"{steps} for steps"
    elif taken.bits != "exact":
        why = f"its last bits are not in the contract, {taken.bits}"
    else:
        jumps = seconds(taken.build + FRAMES * taken.apply)
        why = f"{FRAMES} frames take {jumps} by {taken.name}, more than 2 ms beyond a short loop"
    note = (
        f'{why}; propagator="{way}" deletes it, for a billion steps at once: '
        f"sooner from {sooner_from(taken, step)} on"
    )
    return Choice("loop", note, (Row("propagator", "loop", note), *cost_rows(found, step)), way)
