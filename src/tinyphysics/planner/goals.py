"""Which method meets the goals for the least work, and with which step?  Measured on the user's state, never assumed.

Candidates are whatever the catalogue has for the system. Each is handed to `run`, which pilots it: the error of the
state is what halving the step shows, the energy is looked at in every step. The longest step that meets every goal
times the operations of a step is a candidate's price; the lowest is taken. No clock is looked at.

A pilot may be shorter than the run. Between the two the error of a symplectic method is taken to grow linearly with
time, as the phase of regular motion does (else quadratically), and the energy error not at all (else linearly). In
chaos errors grow faster: that is why the run itself is measured too.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tinyphysics.errors import InputError, PlanError
from tinyphysics.facts import Facts
from tinyphysics.plan import Alternative, Decision, Goal, Plan, Trial
from tinyphysics.planner.catalog import BY_NAME, CHOICES, METHODS, Method
from tinyphysics.planner.choose import named
from tinyphysics.planner.needs import objection
from tinyphysics.planner.stability import half_trace
from tinyphysics.system import System
from tinyphysics.tpir.precision import PRECISIONS

STATE_ERROR = 1e-3  # asked for, if only the energy is: energy is not accuracy
FLOOR = 1e-13  # of rounding, about, in one radian: a first pilot does not aim below it
LOOKS = 16  # a pilot has a multiple of so many steps: it is compared with half of them at eight times
AIM = 0.7  # of a goal that a step is shortened or lengthened to
NEAR = 1.1  # a step that could be so much longer is long enough
MOST_TRIES = 10
MOST_STEPS = 1 << 19  # of one pilot
MOST_FINALISTS = 8  # methods that are piloted, once one of them has met the goals
FINALISTS = 2.0  # times its work: who would need more, by what was felt so far, is not piloted then
CHEAPEST = 1.4  # a method whose next pilot would cost so much more than the best is not tried further
PARTED = 1e-2  # an error above it may be that of two runs which have parted: then a shorter step may still help
STUCK = 2  # times that a smaller error has not fallen with the step: it is one of rounding, which chaos makes larger


@dataclass(frozen=True)
class Measured:
    error: float  # of the state: what halving the step shows, infinite if it did not stay finite
    drift: float | None = None  # of the energy, over every step


Runner = Callable[[Method, float, int], Measured]  # (method, dt, steps)


@dataclass(frozen=True)
class Course:
    """Where a pilot goes: its time, the run's, and what is known about the state."""

    span: float
    reach: float
    frequency: float | None
    dt: float | None = None  # if the user has chosen it
    steps: int = 0  # of a pilot with that dt

    @property
    def stretch(self) -> float:
        return max(abs(self.reach / self.span), 1.0)


# --- what is asked ------------------------------------------------------------------------------------------
def asked(goal: Goal) -> tuple[float, float | None]:
    """(error of the state, drift of the energy)."""
    return STATE_ERROR if goal.error is None else goal.error, goal.energy_drift


def in_words(goal: Goal) -> str:
    error, drift = asked(goal)
    energy = [] if drift is None else [f"energy to {drift:g}"]
    return "keeps " + " and ".join([*energy, f"the state to {error:g}"])


def symplectic(m: Method) -> bool:
    return "symplectic" in m.keeps


def over_the_run(found: Measured, m: Method, course: Course) -> Measured:
    """Extrapolated from the pilot to the run."""
    grows = course.stretch if symplectic(m) else course.stretch**2
    drift = None if found.drift is None else found.drift * (1.0 if symplectic(m) else course.stretch)
    return Measured(found.error * grows, drift)


def excess(found: Measured, goal: Goal) -> float:
    """By which factor the worst goal is missed; at most 1 where all are met."""
    error, drift = asked(goal)
    out = found.error / error
    if drift is not None and found.drift is not None:
        out = max(out, found.drift / drift)
    return out if math.isfinite(out) else math.inf


def check_goals(kind: str, name: str, goal: Goal) -> None:
    """What cannot be promised is refused before anything is compiled."""
    for word, value in (("energy_drift", goal.energy_drift), ("error", goal.error)):
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0.0 < value < 1.0:
            raise InputError(f"{word}={value!r} is not a relative error between 0 and 1", fix=f"Pass {word}=1e-6.")
    if kind == "map":
        raise PlanError(f"`{name}` is a map: it has no step that could be made accurate",
                        fix="Leave energy_drift=, error= and pilot= out.")  # fmt: skip
    if goal.energy_drift is not None and kind == "forces":
        raise PlanError(f"energy_drift= for `{name}`, which is given by its forces: no energy is known for it",
                        fix="Ask for error= alone, or write it as a Hamiltonian.")  # fmt: skip
    if goal.approximate is not None:
        raise PlanError("goals do not go with approximate=: halving the step does not show the error of a tree",
                        fix="Leave one of the two out.")  # fmt: skip


# --- candidates ---------------------------------------------------------------------------------------------
def candidates(system: System, facts: Facts, goal: Goal) -> list[Method]:
    """Of the user's choice: a method, an order, or every symplectic one from order 2 on."""
    if "random numbers" in facts and facts["random numbers"]:
        raise PlanError(f"goals for `{system.name}`, which draws random numbers: half the step is another run",
                        site=facts["random numbers"].site, fix="Leave energy_drift= and error= out.")  # fmt: skip
    forbidden = {named(n).name for n in goal.forbid}
    if goal.method not in CHOICES:
        return [named(goal.method)]
    able = [m for m in METHODS if symplectic(m) and m.order >= 2 and goal.order in (None, m.order)]
    fit = [m for m in able if m.name not in forbidden and not objection(m, system, facts)]
    if not fit:
        why = {m.name: "forbidden" if m.name in forbidden else objection(m, system, facts) for m in able}
        reasons = "\n  ".join(f"{name}: {because}" for name, because in why.items())
        what = "" if goal.order is None else f" of order {goal.order}"
        raise PlanError(f"no certified method{what} applies to `{system.name}`. Tried:\n  {reasons}",
                        fix='method="rk4" applies to any energy, without a certificate.')  # fmt: skip
    return fit


def phase_error(sequence: Sequence[tuple[str, float]], x: float) -> float:
    """By which angle a step of length x turns an oscillator too far."""
    return abs(math.acos(max(-1.0, min(1.0, half_trace(sequence, x)))) - x)


def longest_below(f: Callable[[float], bool], most: float) -> float:
    low, high = 0.0, most
    for _ in range(40):
        x = (low + high) / 2
        low, high = (x, high) if f(x) else (low, x)
    return max(low, 1e-9)


def guess(m: Method, goal: Goal, course: Course, felt: float | None) -> int:
    """Steps of a pilot in which a vibration of the frequency that is felt would be as accurate as the goal.

    Never fewer than the fastest vibration at the state lets the method do.
    """
    limit = m.limit or math.inf
    least = multiple((course.frequency or 0.0) * course.span / limit)
    if not felt:
        return max(4 * LOOKS, least)
    if m.sequence is None or m.limit is None:
        return max(multiple(course.span * felt / 0.2), least)
    sequence, turned = m.sequence(), felt * course.reach
    aim = AIM * max(asked(goal)[0], FLOOR * turned)
    x = longest_below(lambda x: phase_error(sequence, x) / x * turned <= aim, min(limit, 3.0))
    return max(multiple(course.span * felt / x), least)


def frequency_felt(t: Trial, course: Course, before: float | None) -> float | None:
    """The frequency of a vibration that would have had the error of a trial: slow motion in a stiff system has a low one."""
    m = BY_NAME[t.method]
    if m.sequence is None or m.limit is None or t.error > PARTED:
        return before
    sequence = m.sequence()
    turns = course.reach / t.dt
    x = longest_below(lambda x: phase_error(sequence, x) * turns <= max(t.error, FLOOR * x * turns), min(m.limit, 3.0))
    return x / t.dt


def multiple(steps: float) -> int:
    return LOOKS * max(1, math.ceil(steps / LOOKS * (1 - 1e-9)))


def unstable(m: Method, dt: float, frequency: float | None) -> str:
    """Why a step is too long for a method whatever is asked of it; empty if it is not known to be."""
    if frequency is None or m.limit is None or abs(dt) * frequency <= m.limit:
        return ""
    return f"unstable: omega*dt = {abs(dt) * frequency:.3g} is above its limit, {m.limit:.4g}"


# --- one method ---------------------------------------------------------------------------------------------
def with_dt(m: Method, goal: Goal, course: Course, run: Runner, operations: int) -> Trial:
    """What a method does with the step that the user has chosen."""
    assert course.dt is not None
    work = operations / abs(course.dt)
    if why := unstable(m, course.dt, course.frequency):
        return Trial(m.name, course.dt, math.inf, None, work, False, why)
    found = over_the_run(run(m, course.dt, course.steps), m, course)
    return Trial(m.name, course.dt, found.error, found.drift, work, excess(found, goal) <= 1)


def longest(m: Method, goal: Goal, course: Course, run: Runner, operations: int, first: int, best: float) -> Trial:
    """The longest step of a method that was measured to meet the goals, or the one that came nearest.

    The step is never longer than the method's own limit allows at the state. The first pilot has `first` steps; `best`
    is the work of another method.
    """
    stable = (course.frequency or 0.0) * abs(course.span) / m.limit if m.limit else 0.0
    least = multiple(stable)
    n, verdict = min(first, MOST_STEPS // 2), "no step was found that meets them"
    good, stuck, rounded = None, 0, ""
    near: tuple[int, float, Trial] | None = None  # the last that did not meet the goals
    for _ in range(MOST_TRIES):
        dt = course.span / n
        found = over_the_run(run(m, dt, n), m, course)
        off = excess(found, goal)
        trial = Trial(m.name, dt, found.error, found.drift, operations / abs(dt), off <= 1)
        if off <= 1:
            good = trial
            shorter = multiple(n * max((off / AIM) ** (1 / m.order), 0.25))
            new = max(shorter if near is None else max(shorter, multiple(math.sqrt(near[0] * n))), least)
            if new * NEAR >= n:
                break
        else:
            if near is not None and n >= 1.4 * near[0] and off > near[1] * math.sqrt(near[0] / n) and found.error < PARTED:
                stuck += 1
                if stuck == STUCK:
                    energy = asked(goal)[1] is not None and off > found.error / asked(goal)[0]
                    rounded = "energy_drift" if energy else "error"
                    near = (n, off, min(trial, near[2], key=lambda t: seen(t, rounded)))
                    verdict = f"rounding: no step brings {rounded} below about {seen(near[2], rounded):.1e}"
                    break
            near = (n, off, trial) if near is None or n > near[0] else near
            longer = (off / AIM) ** (1 / m.order) if math.isfinite(off) else 2.0
            new = multiple(n * min(max(longer, NEAR), 4.0))
            if good is not None:
                new = min(new, multiple(math.sqrt(n * abs(course.span / good.dt))))
                if new <= n * NEAR or new >= abs(course.span / good.dt):
                    break
            elif operations * new / abs(course.span) > CHEAPEST * best:
                verdict = f"would take about {operations * new / abs(course.span):.2g} operations a unit of time"
                break
        if new > MOST_STEPS:
            verdict = f"would take more than {MOST_STEPS:,} steps in the pilot"
            break
        n = new
    if good is not None:
        return good
    assert near is not None
    return Trial(m.name, near[2].dt, near[2].error, near[2].drift, near[2].work, False, verdict, rounded)


# --- all of them ---------------------------------------------------------------------------------------------
def told(t: Trial) -> str:
    """A trial in a line."""
    if not math.isfinite(t.error) and t.verdict:
        return f"dt = {t.dt:.3g}: {t.verdict}"
    energy = "" if t.drift is None else f", energy drift {t.drift:.1e}"
    seen = f"dt = {t.dt:.3g}: error {t.error:.1e}{energy}" if math.isfinite(t.error) else f"dt = {t.dt:.3g}: not finite"
    return f"{seen}; {t.verdict}" if t.verdict else seen


def decide(
    system: System, facts: Facts, goal: Goal, course: Course, run: Runner, operations: Callable[[Method], int]
) -> Decision:
    """The cheapest that was measured to meet every goal, or a PlanError with all that was measured."""
    waiting, felt = candidates(system, facts, goal), course.frequency
    best: Trial | None = None
    trials: list[Trial] = []
    while waiting:
        steps = {m.name: guess(m, goal, course, felt) if course.dt is None else course.steps for m in waiting}
        m = min(waiting, key=lambda m: m.stages * steps[m.name])
        waiting = [other for other in waiting if other is not m]
        if best is not None:
            worse = m.stages * steps[m.name] / (BY_NAME[best.method].stages * course.span / abs(best.dt))
            if course.dt is not None or worse > FINALISTS or len(trials) >= MOST_FINALISTS:
                why = f"not piloted: about {worse:.2g} times the work of {best.method}"
                trials.append(Trial(m.name, course.span / steps[m.name], math.inf, None, math.inf, False, why))
                continue
        if course.dt is not None:
            t = with_dt(m, goal, course, run, operations(m))
        else:
            t = longest(m, goal, course, run, operations(m), steps[m.name], math.inf if best is None else best.work)
            felt = frequency_felt(t, course, felt)
        trials.append(t)
        if t.meets and (best is None or t.work < best.work):
            best = t
    if best is None:
        raise PlanError(refused(system, goal, course, trials), fix=remedy(goal, course, trials))
    return Decision(best.method, best.dt, best.error, best.drift, course.span, course.reach, course.frequency, tuple(trials))


def decided(decision: Decision) -> Plan:
    """The plan that follows from what was measured."""
    work = next(t.work for t in decision.trials if t.method == decision.method)
    turned = tuple(Alternative(t.method, told(t) if not t.meets else f"{told(t)}; {t.work / work:.2g} times the operations")
                   for t in decision.trials if t.method != decision.method)  # fmt: skip
    return Plan(decision.method, BY_NAME[decision.method].order, "the least work that was measured to meet the goals",
                turned, decision)  # fmt: skip


def provisional(plan: Plan) -> Plan:
    """The plan before anything was measured."""
    return Plan(plan.method, plan.order, "provisional: a method and a step are chosen by pilots when a state is known")


def step_for(decision: Decision, reach: float) -> tuple[float, int]:
    """(dt, steps) of a run of some time: a step that divides it, and is no longer than the one that was measured.

    For a longer time than was planned for it is shortened as the error grows.
    """
    m = BY_NAME[decision.method]
    further = max(abs(reach / decision.reach), 1.0) ** (1 if symplectic(m) else 2)
    exact = abs(reach / decision.dt) * further ** (1 / m.order)
    steps = 2 * max(1, math.ceil(exact / 2 * (1 - 1e-9)))  # even: the run is compared with one of half as many
    return reach / steps, steps


def refused(system: System, goal: Goal, course: Course, trials: list[Trial]) -> str:
    at = "" if course.dt is None else f" at dt={course.dt:g}"
    lines = "\n  ".join(f"{t.method}, order {BY_NAME[t.method].order}: {told(t)}" for t in trials)
    return f"no method {in_words(goal)}{at} over a time of {abs(course.reach):g} for `{system.name}`. Tried:\n  {lines}"


def seen(t: Trial, goal: str) -> float:
    """What was measured of one goal."""
    return t.error if goal == "error" or t.drift is None else t.drift


def remedy(goal: Goal, course: Course, trials: list[Trial]) -> str:
    lowest: dict[str, float] = {}
    for t in trials:
        if t.rounded:
            lowest[t.rounded] = min(seen(t, t.rounded), lowest.get(t.rounded, math.inf))
    if lowest:
        wider = ', or take precision="dd"' if "dd" in PRECISIONS and goal.precision != "dd" else ""
        less = " and ".join(f"{name}={2 * value:.0e}" for name, value in lowest.items())
        return f"The rounding of {goal.precision} is in the way: ask for {less} or more, or for a shorter time{wider}."
    if course.dt is not None:
        return "Leave dt= out: then the planner finds a step too."
    return "Ask for less, or for a shorter time: in chaotic motion errors grow exponentially."
