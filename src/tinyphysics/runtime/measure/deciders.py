"""What does a run decide at its first state?  The order of bodies, inner steps, and the method and step of a goal: a table.

What only some systems need is imported when it is needed: a first result does not wait for it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tinyphysics.errors import InputError
from tinyphysics.pipeline import on_orbits
from tinyphysics.planner.choice.stiff import stiffest
from tinyphysics.planner.conflicts import NO_DT, Ask, check
from tinyphysics.runtime.stages.compiled import Compiled
from tinyphysics.runtime.stages.order_bodies import hierarchy_of
from tinyphysics.runtime.stages.resolve import Beginning, Decider, checked_step
from tinyphysics.runtime.stages.setup import Setup
from tinyphysics.runtime.state.ensemble import Inputs, inputs
from tinyphysics.runtime.state.schedule import checked_time
from tinyphysics.system import System


def order_bodies(setup: Setup, at: Beginning) -> Any:
    """Of bodies on orbits, unless it was decided: then the state must be a hierarchy in that order."""
    system = setup._bodies if setup._compiled is None else setup._compiled.system
    if system is None:
        assert isinstance(setup.source, System)
        system = setup.source
    c = at.begun
    if c is None:
        start = inputs(system, at.on_host)
    else:
        start = Inputs(dict(c.start), dict(c.params), c.members, c.is_ensemble)
    known = setup.goal.hierarchy
    found = hierarchy_of(system, setup.goal, start, None if known is None else known.order)
    if setup._compiled is None:
        setup.goal = replace(setup.goal, hierarchy=found)
        setup._compiled = Compiled(system, setup.goal, setup.requested)
    return at.dt


def inner_is_open(setup: Setup, at: Beginning) -> bool:
    left_open = not setup.goal.inner or setup.paces is None and setup._asked is not None
    return bool(setup.system.levels) and left_open and setup.goal.propagator in (None, "loop")


def inner_steps(setup: Setup, at: Beginning) -> Any:
    from tinyphysics.runtime.measure.multirate import choose_inner_steps

    dt = None if at.dt is None else checked_step(at.dt)
    choose_inner_steps(setup, at.on_host, dt, checked_time(at.t0), at.begun)
    return at.dt


def whole_span(setup: Setup, at: Beginning) -> float:
    """The one step of a run that chooses its own, and was given no times to look at: it leads to the end."""
    until, t0 = at.request.until, checked_time(at.t0)
    if at.begun is not None:
        return at.begun.run.dt
    if until is None:
        raise InputError(
            "steps= needs dt: this method chooses its own steps",
            fix="Pass until=10.0, or the spacing of frames to compile: dt=0.1.",
        )
    span = checked_time(until) - t0
    if span <= 0.0:
        raise InputError(
            f"until={until:g} does not lie after t0={t0:g}",
            fix="A method that chooses its own steps runs forward in time only: pass a later until=.",
        )
    counts = {name: getattr(at.request, name) for name in ("save_every", "hash_every", "checkpoint_every")}
    check("grid", Ask(counts, traits={NO_DT: True}))
    return span


def step_is_new(setup: Setup, at: Beginning) -> bool:
    goal = setup.goal
    return goal.dt is None and not goal.is_accurate and not setup.compiled.adaptive and at.dt is not None


def heed_step(setup: Setup, at: Beginning) -> Any:
    """The step came with the run: what `compile(..., dt=)` would have chosen for one that is too long for leapfrog."""
    goal = replace(setup.goal, dt=checked_step(at.dt))
    if not setup.compiled.goal.stiff and stiffest(setup.system, goal):
        setup.compile_again(goal)
    return at.dt


def stiffness_is_open(setup: Setup, at: Beginning) -> bool:
    if setup.system.kind != "ode" or setup.goal.method != "auto":
        return False
    from tinyphysics.runtime.measure.stiffness import is_open

    return is_open(setup)


def choose_by_stiffness(setup: Setup, at: Beginning) -> Any:
    from tinyphysics.runtime.measure.stiffness import choose_by_stiffness as choose

    return choose(setup, at)


def meet_goals(setup: Setup, at: Beginning) -> float:
    from tinyphysics.runtime.measure.accuracy import resolve_dt

    return resolve_dt(setup, at)


def sums_are_open(setup: Setup, at: Beginning) -> bool:
    if setup._compiled is None or setup.system.long_range is None:
        return False
    from tinyphysics.runtime.measure.long_range import is_open

    return is_open(setup, at)


def choose_sums(setup: Setup, at: Beginning) -> Any:
    from tinyphysics.runtime.measure.long_range import decide

    return decide(setup, at)


# fmt: off
DECIDERS: tuple[Decider, ...] = (
    Decider("order of bodies", lambda s, at: on_orbits(s.goal), order_bodies),
    Decider("sums over images", sums_are_open, choose_sums),
    Decider("inner steps", inner_is_open, inner_steps),
    Decider("method for stiff rates", stiffness_is_open, choose_by_stiffness),
    Decider("whole span", lambda s, at: s.compiled.adaptive and at.dt is None, whole_span),
    Decider("stiffness", step_is_new, heed_step),
    Decider("goals", lambda s, at: s.goal.is_accurate, meet_goals),
)
# fmt: on
