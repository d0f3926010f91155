"""Which method meets the goals for the least work, and with which step?  Measured on the user's state, never assumed.

Candidates are whatever the catalogue has for the system. Each is handed to `run`, which pilots it: the error of the
state is what halving the step shows, the energy is looked at in every step. The longest step that meets every goal
times the operations of a step is a candidate's price; the lowest is taken. No clock is looked at.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Real
from typing import Any

from tinyphysics.errors import InputError, PlanError
from tinyphysics.facts import Facts
from tinyphysics.plan import Alternative, Decision, Goal, Plan, Trial
from tinyphysics.planner.choice.choose import asked_for, named
from tinyphysics.planner.choice.longest import (
    Course,
    Measured,
    Runner,
    asked,
    frequency_felt,
    guess,
    longest,
    symplectic,
    with_dt,
)
from tinyphysics.planner.conflicts import OWN_STEPS, Ask, check
from tinyphysics.planner.methods.catalog import BY_NAME, CHOICES, METHODS
from tinyphysics.planner.methods.method import DOUBLED, MAGNUS, ORBITS, Method
from tinyphysics.planner.methods.needs import objection, splits
from tinyphysics.system import System
from tinyphysics.tpir.precision.precision import PRECISIONS
from tinyphysics.util import plural

SHOWN = 3  # methods that an error names
MOST_FINALISTS = 8  # methods that are piloted, once one of them has met the goals
RUNS = 4  # that a pilot takes: with a step, half of it twice, and once more to watch its energy
MOST_SPENT = 1e10  # operations of pilots, after which no more methods are tried if none has met the goals
FINALISTS = 2.0  # times its work: who would need more, by what was felt so far, is not piloted then


# --- what is asked ------------------------------------------------------------------------------------------
def in_words(goal: Goal) -> str:
    error, drift = asked(goal)
    energy = [] if drift is None else [f"energy to {drift:g}"]
    return "keeps " + " and ".join([*energy, f"the state to {error:g}"])


def check_goals(goal: Goal, system: Any, adapts: bool = False) -> None:
    """What cannot be promised is refused before anything is compiled; `adapts`: the method chooses its own steps."""
    for word, value in (("energy_drift", goal.energy_drift), ("error", goal.error)):
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, Real) or not 0.0 < value < 1.0:
            raise InputError(
                f"{word}={value!r} is not a relative error between 0 and 1", fix=f"Pass {word}=1e-6."
            )
    check("goals", Ask.of(goal, system, {OWN_STEPS: adapts}))


# --- candidates ---------------------------------------------------------------------------------------------
def candidates(system: System, facts: Facts, goal: Goal) -> list[Method]:
    """Of the user's choice: a method, an order, or every symplectic one from order 2 on."""
    forbidden = {named(n).name for n in goal.forbid}
    if goal.method not in CHOICES:
        return [asked_for(goal)]
    able = [
        m
        for m in METHODS
        if symplectic(m) and m.family.kind not in (ORBITS, MAGNUS) and not m.family.mollified and m.order >= 2
    ]  # beyond its bound it is refused, and pilots begin with long steps
    # what need not be solved for costs less, and so does what has no copies
    able = [m for m in able if not (m.solves and splits(system, facts)) and m.family.kind != DOUBLED]
    if goal.order is not None:
        order = min((m.order for m in able if m.order >= goal.order), default=goal.order)
        able = [m for m in able if m.order == order]
    fit = [m for m in able if m.name not in forbidden and not objection(m, system, facts)]
    if not fit:
        why = {m.name: "forbidden" if m.name in forbidden else objection(m, system, facts) for m in able}
        lines = [f"{name}: {because}" for name, because in why.items()]
        if (others := len(lines) - SHOWN) > 1:
            lines[SHOWN:] = [f"and {others} others; all methods are listed in docs/methods.md"]
        reasons = "\n  ".join(lines)
        what = "" if goal.order is None else f" of order {goal.order}"
        raise PlanError(
            f"no certified method{what} applies to `{system.name}`. Tried:\n  {reasons}",
            fix='method="rk4" applies to any energy, without a certificate.',
        )
    return fit


# --- all of them ---------------------------------------------------------------------------------------------
def told(t: Trial) -> str:
    """A trial in a line."""
    if not math.isfinite(t.error) and t.verdict:
        return f"dt = {t.dt:.3g}: {t.verdict}"
    energy = "" if t.drift is None else f", energy drift {t.drift:.1e}"
    measured = f"error {t.error:.1e}{energy}" if math.isfinite(t.error) else "not finite"
    seen = f"dt = {t.dt:.3g}: {measured}"
    return f"{seen}; {t.verdict}" if t.verdict else seen


def decide(
    system: System,
    facts: Facts,
    goal: Goal,
    course: Course,
    run: Runner,
    operations: Callable[[Method], int],
    effort: Callable[[Method], int] | None = None,
) -> Decision:
    """The cheapest that was measured to meet every goal, or a PlanError with all that was measured.

    `effort` is what a step of a pilot takes, in operations, where that is more than its operations.
    """
    waiting, felt = candidates(system, facts, goal), course.frequency
    effort = operations if effort is None else effort
    best: Trial | None = None
    trials: list[Trial] = []
    spent = 0.0

    def counted(m: Method, dt: float, steps: int) -> Measured:
        nonlocal spent
        spent += RUNS * steps * effort(m)
        return run(m, dt, steps)

    while waiting:
        steps = {m.name: guess(m, goal, course, felt) if course.dt is None else course.steps for m in waiting}
        m = min(waiting, key=lambda m: m.stages * steps[m.name])
        waiting, why = [other for other in waiting if other is not m], ""
        if best is not None:
            worse = m.stages * steps[m.name] / (BY_NAME[best.method].stages * course.span / abs(best.dt))
            if course.dt is not None or worse > FINALISTS or len(trials) >= MOST_FINALISTS:
                why = f"not piloted: about {worse:.2g} times the work of {best.method}"
        elif spent > MOST_SPENT:
            why = "not piloted: no method before it came near, and the pilots took long"
        if why:
            trials.append(Trial(m.name, course.span / steps[m.name], math.inf, None, math.inf, False, why))
            continue
        if course.dt is not None:
            t = with_dt(m, goal, course, counted, operations(m))
        else:
            most = math.inf if best is None else best.work
            t = longest(m, goal, course, counted, operations(m), steps[m.name], most, effort(m))
            felt = frequency_felt(t, course, felt)
        trials.append(t)
        if t.meets and (best is None or t.work < best.work):
            best = t
    if best is None:
        raise PlanError(refused(system, goal, course, trials), fix=remedy(goal, course, trials))
    found = best.method, best.dt, best.error, best.drift
    return Decision(*found, course.span, course.reach, course.frequency, tuple(trials))


def plan_of_pilots(decision: Decision) -> Plan:
    """The plan that follows from what was measured."""
    work = next(t.work for t in decision.trials if t.method == decision.method)
    others = [t for t in decision.trials if t.method != decision.method]
    more = [f"; {t.work / work:.2g} times the operations" if t.meets else "" for t in others]
    turned = tuple(Alternative(t.method, told(t) + words) for t, words in zip(others, more))
    why = "the least work that was measured to meet the goals"
    if decision.tolerance is not None:
        why = "with the largest tolerance that was measured to meet the goal"
    return Plan(decision.method, BY_NAME[decision.method].order, why, turned, decision)


def provisional(plan: Plan) -> Plan:
    """The plan before anything was measured."""
    return Plan(
        plan.method, plan.order, "provisional: a method and a step are chosen by pilots when a state is known"
    )


def step_for(decision: Decision, reach: float) -> tuple[float, int]:
    """(dt, steps) of a run of some time: a step that divides it, and is no longer than the one that was measured.

    For a longer time than was planned for it is shortened as the error grows.
    """
    m = BY_NAME[decision.method]
    further = max(abs(reach / decision.reach), 1.0) ** (1 if symplectic(m) else 2)
    exact = abs(reach / decision.dt) * further ** (1 / m.order)
    # even: the run is compared with one of half as many more
    steps = 2 * max(1, math.ceil(exact / 2 * (1 - 1e-9)))
    return reach / steps, steps


def refused(system: System, goal: Goal, course: Course, trials: list[Trial]) -> str:
    at = "" if course.dt is None else f" at dt={course.dt:g}"
    near = sorted((t for t in trials if math.isfinite(t.error)), key=lambda t: missed(t, goal)) or trials
    lines = [f"{t.method}, order {BY_NAME[t.method].order}: {told(t)}" for t in near[:SHOWN]]
    if (others := len(trials) - len(lines)) > 0:
        lines.append(f"and {plural(others, 'other')}, further off; all methods are listed in docs/methods.md")
    return (
        f"no method {in_words(goal)}{at} over a time of {abs(course.reach):g} for `{system.name}`. The nearest:\n  "
        + "\n  ".join(lines)
    )


def missed(t: Trial, goal: Goal) -> float:
    """How many times its goals a trial has measured, of the worse of them."""
    error, drift = asked(goal)
    return max(t.error / error, 0.0 if drift is None or t.drift is None else t.drift / drift)


def remedy(goal: Goal, course: Course, trials: list[Trial]) -> str:
    lowest: dict[str, float] = {}
    for t in trials:
        if t.rounded:
            lowest[t.rounded] = min(t.measured(t.rounded), lowest.get(t.rounded, math.inf))
    if lowest:
        wider = ""
        if "dd" in PRECISIONS and goal.precision != "dd":
            wider = ', or choose dt yourself with precision="dd"'
        less = " and ".join(f"{name}={3 * value:.0e}" for name, value in lowest.items())
        return f"The rounding of {goal.precision} is in the way: ask for {less} or more, or for a shorter time{wider}."
    if course.dt is not None:
        return "Leave dt= out: then the planner finds a step too."
    return "Allow a larger error or a shorter time: in chaotic motion errors grow exponentially."
