"""What is the longest step of a method that meets the goals?  Searched by pilots, each of which is a measurement.

A pilot may be shorter than the run. Between the two the error of a symplectic method is taken to grow linearly with
time, as the phase of regular motion does (else quadratically), and the energy error not at all (else linearly). In
chaos errors grow faster: that is why the run itself is measured too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache

from tinyphysics.plan import Goal, Trial
from tinyphysics.planner.methods.catalog import BY_NAME
from tinyphysics.planner.methods.method import SYMPLECTIC, Method
from tinyphysics.planner.methods.stability import half_trace

STATE_ERROR = 1e-3  # asked for, if only the energy is: energy is not accuracy
FLOOR = 1e-13  # of rounding, about, in one radian: a first pilot does not aim below it
SHORT = 0.25  # omega*dt up to which the phase error is taken for a power of it
LOOKS = 8  # times in a pilot at which two runs are compared: it has a multiple of so many steps
MARGIN = 0.75  # of a goal that a step which the planner has found may use up: the run is another measurement
AIM = 0.6  # of a goal that a step is shortened or lengthened to
NEAR = 1.1  # a step that could be so much longer is long enough
MOST_TRIES = 10
MOST_STEPS = 1 << 19  # of one pilot
CHEAPEST = 1.4  # a method whose next pilot would cost so much more than the best is not tried further
# an error above it may be that of two runs which have parted: then a shorter step may still help
PARTED = 1e-2
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
    work: float = math.inf  # operations that one pilot may take

    @property
    def stretch(self) -> float:
        return max(abs(self.reach / self.span), 1.0)


# --- what is asked, and what was found -----------------------------------------------------------------------
def asked(goal: Goal) -> tuple[float, float | None]:
    """(error of the state, drift of the energy)."""
    return STATE_ERROR if goal.error is None else goal.error, goal.energy_drift


def symplectic(m: Method) -> bool:
    return SYMPLECTIC in m.keeps


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


# --- where to begin ----------------------------------------------------------------------------------------
@lru_cache(maxsize=4096)
def phase_error_at(m: Method, x: float) -> float:
    """By which angle a step of length x turns an oscillator too far."""
    return abs(math.acos(max(-1.0, min(1.0, half_trace(m.sequence(), x)))) - x)


def phase_error(m: Method, x: float) -> float:
    """The same; of a short step, in which it would drown in rounding, by its order."""
    return phase_error_at(m, x) if x > SHORT else phase_error_at(m, SHORT) * (x / SHORT) ** (m.order + 1)


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
        return max(8 * LOOKS, least)
    if not m.splits or m.limit is None:
        return max(multiple(course.span * felt / 0.2), least)
    turned = felt * course.reach
    aim = AIM * max(asked(goal)[0], FLOOR * turned)
    x = longest_below(lambda x: phase_error(m, x) / x * turned <= aim, min(limit, 3.0))
    return max(multiple(course.span * felt / x), least)


def frequency_felt(t: Trial, course: Course, before: float | None) -> float | None:
    """The frequency of a vibration that would have had the error of a trial: slow motion in a stiff system has a low one."""
    m = BY_NAME[t.method]
    if not m.splits or m.limit is None or t.error > PARTED:
        return before
    turns = course.reach / t.dt
    x = longest_below(
        lambda x: phase_error(m, x) * turns <= max(t.error, FLOOR * x * turns), min(m.limit, 3.0)
    )
    return x / t.dt


def multiple(steps: float) -> int:
    return LOOKS * max(1, math.ceil(steps / LOOKS * (1 - 1e-9)))


def unstable(m: Method, dt: float, frequency: float | None) -> str:
    """Why a step is too long for a method whatever is asked of it; empty if it is not known to be."""
    if frequency is None or not m.limit or abs(dt) * frequency <= m.limit:
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


@dataclass
class StepSearch:
    """A method on the way to its longest step: what has been measured, and how many steps to try next."""

    m: Method
    goal: Goal
    course: Course
    operations: int  # of a step
    best: float  # the work of another method
    effort: int  # of a step, in operations: what it costs to call is counted too
    good: tuple[int, Trial] | None = None  # the fewest steps that have met the goals
    near: tuple[int, float, Trial] | None = None  # the most that have not, and by which factor
    missed: list[Trial] = field(default_factory=list)
    stuck: int = 0
    verdict: str = "no step was found that meets them"
    rounded: str = ""

    @property
    def least(self) -> int:
        """The fewest steps with which the method is stable at the state."""
        if self.m.limit:
            return multiple((self.course.frequency or 0.0) * self.course.span / self.m.limit)
        return LOOKS

    @property
    def most(self) -> int:
        return multiple(min(MOST_STEPS, self.course.work / self.effort))

    def work(self, steps: int) -> float:
        return self.operations * steps / self.course.span

    def after(self, n: int, measured: Measured) -> int | None:
        """How many steps to try after n of them; None where that is enough."""
        found = over_the_run(measured, self.m, self.course)
        off = excess(found, self.goal) / MARGIN
        trial = Trial(self.m.name, self.course.span / n, found.error, found.drift, self.work(n), off <= 1)
        new = self.fewer(n, off, trial) if trial.meets else self.more(n, off, trial)
        if new is not None and new > self.most:
            self.verdict, new = f"would take more than {self.most:,} steps in the pilot", None
        return new

    def fewer(self, n: int, off: float, trial: Trial) -> int | None:
        self.good = n, trial
        new = multiple(n * max((off * MARGIN / AIM) ** (1 / self.m.order), 0.25))
        if self.near is not None:
            new = max(new, multiple(math.sqrt(self.near[0] * n)))
        new = max(new, self.least)
        return new if new * NEAR < n else None

    def more(self, n: int, off: float, trial: Trial) -> int | None:
        self.missed.append(trial)
        if self.is_rounded(n, off, trial):
            return None
        self.near = (n, off, trial) if self.near is None or n > self.near[0] else self.near
        factor = (off * MARGIN / AIM) ** (1 / self.m.order) if math.isfinite(off) else 2.0
        new = multiple(n * min(max(factor, NEAR), 4.0))
        if self.good is not None:
            new = min(new, multiple(math.sqrt(n * self.good[0])))
            return new if n * NEAR < new < self.good[0] else None
        if self.work(new) > CHEAPEST * self.best:
            self.verdict = f"would take about {self.work(new):.2g} operations a unit of time"
            return None
        return new

    def is_rounded(self, n: int, off: float, trial: Trial) -> bool:
        """Has the error not fallen again, though the step is shorter?"""
        if self.near is None or trial.error > PARTED or n < 1.4 * self.near[0]:
            return False
        self.stuck += off > self.near[1] * math.sqrt(self.near[0] / n)
        if self.stuck < STUCK:
            return False
        error, drift = asked(self.goal)
        of_state = drift is None or trial.error / error >= (trial.drift or 0.0) / drift
        self.rounded = "error" if of_state else "energy_drift"
        lowest = min(self.missed, key=lambda t: t.measured(self.rounded))
        self.near = n, off, lowest
        self.verdict = (
            f"rounding: no step brings {self.rounded} below about {lowest.measured(self.rounded):.1e}"
        )
        return True

    @property
    def outcome(self) -> Trial:
        if self.good is not None:
            return self.good[1]
        assert self.near is not None
        return replace(self.near[2], verdict=self.verdict, rounded=self.rounded)


def longest(
    m: Method,
    goal: Goal,
    course: Course,
    run: Runner,
    operations: int,
    first: int,
    best: float,
    effort: int = 0,
) -> Trial:
    """The longest step of a method that was measured to meet the goals, or the one that came nearest.

    The step is never longer than the method's own limit allows at the state. The first pilot has `first` steps; `best`
    is the work of another method.
    """
    search = StepSearch(m, goal, course, operations, best, max(operations, effort))
    n: int | None = max(min(first, multiple(search.most / 2)), search.least)
    for _ in range(MOST_TRIES):
        if n is None:
            break
        n = search.after(n, run(m, course.span / n, n))
    return search.outcome
