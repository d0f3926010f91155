"""Is a run as accurate as was asked?  Planned by pilots on the user's state, and measured again in the run."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tinyphysics.device.cuda.dlpack import DeviceArray, here
from tinyphysics.errors import InputError, PhysicsIntegrityError, PlanError, ShapeError
from tinyphysics.pipeline import check_promised
from tinyphysics.plan import Decision, Goal
from tinyphysics.planner.choice.goals import check_goals, decide, step_for
from tinyphysics.planner.choice.longest import STATE_ERROR, asked, unstable
from tinyphysics.planner.methods.catalog import BY_NAME
from tinyphysics.rules.formulas.thermostats import NOSE_POINCARE
from tinyphysics.runtime.measure import multirate as paces
from tinyphysics.runtime.measure import stiffness
from tinyphysics.runtime.measure.fast_parts import look_for_paces
from tinyphysics.runtime.measure.loss_function import evaluate
from tinyphysics.runtime.measure.operations import wrong_operations
from tinyphysics.runtime.measure.pilot import Pilots, apart, estimate, last_row, looks_in, part, sample
from tinyphysics.runtime.measure.tolerance import Tolerances, choose_tolerance, error_of_run
from tinyphysics.runtime.stages import pilot_cache as decisions
from tinyphysics.runtime.stages.at_zero import eta_of
from tinyphysics.runtime.stages.momenta_of_velocities import given_momenta
from tinyphysics.runtime.stages.resolve import Beginning, checked_step
from tinyphysics.runtime.stages.setup import Setup
from tinyphysics.runtime.state.ensemble import Inputs, inputs, sizes_from
from tinyphysics.runtime.state.first_state import first_state
from tinyphysics.runtime.state.frames import count_steps
from tinyphysics.runtime.state.from_frame import BEGINS, opened
from tinyphysics.runtime.state.schedule import checked_time
from tinyphysics.system import SizedFamily
from tinyphysics.trajectory import Trajectory

LOG = logging.getLogger("tinyphysics")


# --- before a run -------------------------------------------------------------------------------------------
def plan_by_pilot(sim: Setup, pilot: Any) -> None:
    """What `compile(..., pilot=)` does: the plan is made for this state now."""
    if not isinstance(pilot, Mapping):
        raise InputError(
            f"pilot={pilot!r} is not an initial state",
            fix='Pass pilot={"q": ..., "p": ...}: the initial values that evolve takes.',
        )
    given = dict(pilot)
    given, t0 = opened(sim.own_names, given, given.pop("t0", BEGINS))
    t0, until = checked_time(t0), given.pop("until", None)
    i = state_of(sim, given, "in pilot={...}")
    look_at_operations(sim, part(i, sample(i)), t0)
    reach = None if until is None else time_of(until, t0)
    if (reach is not None or sim.goal.dt is not None) and stiffness.is_open(sim) and i.members:
        stiffness.decide(sim, i, t0, abs(sim.goal.dt or reach or 0.0), sim.goal.dt is not None)
    if sim.goal.is_accurate:
        plan(sim, i, t0, reach, sim.goal.dt)
        remember(sim, i, sim.goal.decision.dt if sim.goal.decision is not None else None, reach)
        return
    remember(sim, i, sim.goal.dt, reach)
    if sim.system.levels and sim.goal.propagator in (None, "loop"):
        found = paces.decide(sim, i, sim.goal.dt, t0)
        if sim.goal.dt is not None:
            paces.judged(sim, found, sim.goal.dt)
        return
    fastest = Pilots(sim, part(i, sample(i)), t0).frequency().fastest
    sim.frequency = fastest if math.isfinite(fastest) else None
    look_for_paces(sim, part(i, sample(i)), t0)
    if sim.goal.dt is not None:
        stability(sim, sim.goal.dt)


def look_at_operations(sim: Setup, i: Inputs, t0: float) -> None:
    """A simulation with an operation whose derivative is wrong here is compiled again: its certificate says less."""
    if wrong_operations(sim.system, i, t0):
        sim.certify_again()


def remember(sim: Setup, i: Inputs, dt: float | None, reach: float | None) -> None:
    """The state of a pilot, for reports that need one."""
    if dt is not None:
        sim.began = first_state(i, dt, None if reach is None else round(reach / abs(dt)))


def stability(sim: Setup, dt: float) -> dict[str, dict[str, float]]:
    """A step against the limit of the method, where the fastest vibration is known; one that is too long is said."""
    method = BY_NAME.get(sim.compiled.known.method)
    d = sim.goal.decision
    omega = sim.frequency if d is None else d.frequency
    if omega is None or method is None or method.limit is None:
        return {}
    if why := unstable(method, dt, omega):
        LOG.warning("%s: dt=%g is too long for %s; %s", sim.system.name, dt, method.name, why)
    return {"stability": {"omega": omega, "omega_dt": abs(dt) * omega, "limit": method.limit}}


def beginning(sim: Setup, given: Mapping[str, Any]) -> Inputs:
    """The states and parameters of trial runs."""
    system, encoding = sim.system, sim.compiled.encoding
    given = given_momenta(system, given)
    if system.bath != NOSE_POINCARE:
        return inputs(system, given, encoding)
    eta, value = eta_of(system)
    if eta in given:
        return inputs(system, given, encoding)
    i = inputs(system, {**given, eta: 0.0}, encoding)
    env = encoding.values(i.states)
    env |= {name: np.broadcast_to(v, (i.members, *v.shape[1:])) for name, v in i.params.items()}
    found = evaluate({"eta": value}, env, i.members)
    return replace(i, states={**i.states, **encoding.stored(eta, found["eta"])})


def state_of(sim: Setup, given: Mapping[str, Any], where: str) -> Inputs:
    """What a plan is made for; errors name the place where it was given."""
    try:
        if isinstance(sim.source, SizedFamily):
            sim.bind(sim.source, sizes_from(sim.source, given))
        return beginning(sim, given)
    except (InputError, ShapeError) as error:
        raise type(error)(
            f"{error.what} ({where})", site=error.site, fix=(error.fix or "").replace("to evolve", where)
        ) from None


def time_of(until: Any, t0: float) -> float:
    """The time of a run; forwards."""
    end = checked_time(until) if until is not None else math.nan
    if not end > t0:
        raise InputError(f"until={until!r} does not lie after t0={t0:g}", fix=f"Pass until={t0 + 10:g}.")
    return end - t0


def span_of(steps: Any, until: Any, dt: float, t0: float) -> float:
    """The time of a run, whichever way it goes."""
    n, end = count_steps(steps, until, dt, t0)
    return n * abs(dt) if end is None else abs(end - t0)


def plan(sim: Setup, i: Inputs, t0: float, reach: float | None, dt: float | None) -> None:
    """A method, and a step if there is none, that meet the goals from this state on."""
    goal = replace(sim.goal, dt=dt)
    if i.members == 0:
        raise InputError("an empty ensemble has no state to plan for", fix="Give it members, or pass pilot=.")
    if sim.compiled.adaptive:
        goal = replace(goal, dt=None, tolerance=None, decision=None)
    pilots = Pilots(sim, part(i, sample(i)), t0)
    look_at_operations(sim, pilots.given, t0)
    name = decisions.key(sim.system, goal, pilots.given, t0, reach)
    found = decisions.recall(name)
    if found is None:
        found = (own_steps if sim.compiled.adaptive else decision)(pilots, goal, reach)
        decisions.remember(name, found)
    sim.decide(found)


def own_steps(pilots: Pilots, goal: Goal, reach: float | None) -> Decision:
    """A tolerance that meets the goal, of a method that chooses its own steps."""
    sim = pilots.sim
    if reach is None and sim.system.p and (course := pilots.course(None, None)) is not None:
        reach = course.span
    if reach is None:
        raise PlanError(
            f"the length of the run of `{sim.system.name}` is not known, and its error depends on it",
            fix='Pass the final time too: pilot={..., "until": 10.0}.',
        )
    return choose_tolerance(Tolerances(pilots), goal, reach)


def decision(pilots: Pilots, goal: Goal, reach: float | None) -> Decision:
    sim = pilots.sim
    if sim.system.levels:
        raise PlanError(
            "suggest_dt is not available for fast and slow parts: their step must avoid resonances",
            fix='Compile with pilot={"q": ..., "p": ...} and see sim.explain().',
        )
    b = sim.built
    check_promised(b.system, b.facts, b.step, b.certificate)
    course = pilots.course(reach, goal.dt)
    if course is None:
        what = "no force acts" if sim.system.pairs else "no vibration is known"
        raise PlanError(
            f"{what} at the state given as pilot= of `{sim.system.name}`, so there is no time scale for a trial run",
            fix='Pass the final time too: pilot={"q": ..., "p": ..., "until": 10.0}.',
        )
    return decide(sim.system, sim.built.facts, goal, course, pilots.measure, pilots.operations, pilots.effort)


def resolve_dt(sim: Setup, begin: Beginning) -> float:
    """The step of a run with goals: the plan is made at its first state, unless a pilot has made it."""
    dt: float | None = begin.dt
    given, t0, c = begin.on_host, checked_time(begin.t0), begin.begun
    steps, until = begin.request.steps, begin.request.until
    if c is not None:
        if sim.goal.decision is None:
            raise InputError(
                "resume= cannot be used with goals before the plan for them is made",
                fix='Pass pilot={"q": ..., "p": ...} to compile: the initial state of the run.',
            )
        return c.run.dt if dt is None else dt
    if dt is not None:
        dt = checked_step(dt)
    if (steps is None) == (until is None) or dt is None and steps is not None and sim.goal.decision is None:
        raise InputError(
            "a run whose step is to be found needs an end"
            if until is None
            else "evolve needs either steps= or until=, and not both",
            fix="Pass until=10.0; or choose the step yourself: tp.compile(..., dt=0.01). "
            "With pilot= it is found when you compile.",
        )
    if sim.goal.decision is None or outruns(sim, steps, until, dt, t0):
        i = beginning(sim, given)
        reach = time_of(until, t0) if dt is None else span_of(steps, until, dt, t0)
        if dt is not None and reach == 0:
            return dt
        plan(sim, i, t0, reach, dt)
    if dt is not None:
        return dt
    d = sim.goal.decision
    assert d is not None
    return d.dt if until is None else step_for(d, time_of(until, t0))[0]


def outruns(sim: Setup, steps: Any, until: Any, dt: float | None, t0: float) -> bool:
    """Is a run longer than its tolerance was chosen for?  Then one is chosen again; a step of dt is shortened instead."""
    d = sim.goal.decision
    if d is None or d.tolerance is None or dt is None:
        return False
    return span_of(steps, until, dt, t0) > d.reach * (1 + 1e-9)


# --- after a run --------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class GoalVerdict:
    """What a run was measured to be."""

    asked: float
    measured: float

    @property
    def met(self) -> bool:
        return self.measured <= self.asked


def judge_goals(sim: Setup, out: Trajectory) -> None:
    """The goals, measured in the run itself: out.metrics["goals"]. What fails is said, or raised if checks are strict."""
    if sim.checks == "off" or out.origin is None or out.origin.last == 0:
        return
    if out.stops:
        out.metrics["goals"] = {"met": False, "note": f"the run stopped: {out.stops[0].cause}"}
        return
    run = out.origin.run
    who = sample(run.given)
    some = part(run.given, who)
    (error, drift), note = asked(sim.goal), ""
    measure = error_of_run if run.adaptive else state_error
    found = {"error": GoalVerdict(error, measure(sim, out, some, who))}
    if drift is not None:
        again = replace(out.origin, run=replace(run, given=some))
        wandering = again.drift("energy")
        found["energy_drift"] = GoalVerdict(drift, float(np.max(wandering.value)))
        note = wandering.note
    met = all(v.met for v in found.values())
    out.metrics["goals"] = {
        "met": met,
        "members": who if run.given.is_ensemble else None,
        **({"note": note} if note else {}),
        **{name: {"asked": v.asked, "measured": v.measured, "met": v.met} for name, v in found.items()},
    }
    if met:
        return
    told = " and ".join(
        f"{name} = {v.measured:.3g}, not {v.asked:g}" for name, v in found.items() if not v.met
    ) + (f"; {note}" if note else "")
    LOG.warning("%s: a goal was not met in the run: %s", sim.system.name, told)
    if sim.checks == "strict":
        raise PhysicsIntegrityError(
            f"a goal was not met in the run: {told}",
            out=out,
            fix="Shorten dt, or pass pilot= with until=: the error may grow faster than linearly, "
            "as in chaotic motion. The run is in .out.",
        )


def state_error(sim: Setup, out: Trajectory, some: Inputs, who: list[int]) -> float:
    """Of the last state, by a run with two thirds of the step (with half, if the steps are odd).

    Longer steps would cost less, and show less: a goal is met with steps that are as long as they may be.
    """
    run, steps = out.origin.run, out.origin.last
    m = BY_NAME[sim.compiled.known.method]
    pilots, more = Pilots(sim, some, run.t0), 3 * steps // 2 if steps % 2 == 0 else 2 * steps
    dt = run.dt * (steps / more)
    finer = pilots.states(pilots.run(m.name, dt, more, looks_in(more)))
    if finer is None:
        return math.inf
    last, row = out.final.states, -1
    if run.schedule.end is not None:  # the last whole step is the frame before it
        row -= 1
    # in words, of everyone
    if row < -1 or any(isinstance(v, DeviceArray) for v in out.origin.frames.values()):
        seen = run.encoding.values({name: here(v[row]) for name, v in out.origin.frames.items()})
        last = {name: seen[name] if run.given.is_ensemble else seen[name][0] for name in last}
    final = last_row(last, who, run.given.is_ensemble)
    mine = {name: np.concatenate([v[:-1], final[name]]) for name, v in finer.items()}
    return estimate(apart(mine, finer, pilots.largest(m.name, dt, more)), m.order, more / steps)


# --- a step for a method that is chosen --------------------------------------------------------------------
def suggest_dt(
    sim: Setup, given: dict[str, Any], error: float | None, energy_drift: float | None, until: Any, t0: float
) -> float:
    """What `sim.suggest_dt` returns."""
    if sim.compiled.adaptive:
        raise PlanError(
            "this method chooses its own steps",
            fix="Set their accuracy with tp.compile(..., tolerance=1e-9).",
        )
    if sim.compiled.known.way != "loop":
        raise PlanError(
            f"`{sim.system.name}` is solved instead of stepped: dt does not change its error",
            fix='Choose dt for the output times you want; for a run in steps, compile with propagator="loop".',
        )
    if sim.compiled.known.draws:
        raise PlanError(
            f"a step of `{sim.system.name}` draws random numbers: with half the step it draws others, which hide its error",
            fix="Compile the system without its noise, and ask that simulation: tp.compile(system).suggest_dt(...).",
        )
    t0 = checked_time(t0)
    i = state_of(sim, given, "to suggest_dt")
    goal = sim.goal.by_method(
        sim.compiled.known.method,
        dt=None,
        error=STATE_ERROR if error is None else error,
        energy_drift=energy_drift,
    )
    check_goals(goal, sim.system)
    pilots = Pilots(sim, part(i, sample(i)), t0)
    reach = None if until is None else time_of(until, t0)
    d = decision(pilots, goal, reach)
    return d.dt if reach is None else step_for(d, reach)[0]
