"""Which frames does a run keep?  Those that were asked for; otherwise evenly spaced ones, as many as a plot needs.

`until=` and `save_at=` take any time. One that is no whole number of steps from t0 is reached by a shorter step from the
last whole one before it. That step is for the reader alone: the run goes on from the whole step.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tinyphysics.device.host.arrays import fma64
from tinyphysics.errors import InputError
from tinyphysics.given import no_number, number, shown, whole
from tinyphysics.options import LATER
from tinyphysics.plan import Goal
from tinyphysics.planner.conflicts import Ask, check
from tinyphysics.runtime.state.schedule import Marks, Schedule, checked_time, counted, time_at
from tinyphysics.system import System

BYTES = 16 << 20  # of the frames that a run keeps unasked
MOST = 500  # of them: a plot shows no more
SMALL = 64 * 8  # bytes of a frame that costs a run next to nothing
MEDIUM = 64 << 10  # bytes of a frame of which a short run has a few
FEW = 11
# steps from one larger frame to the next: to synchronise and to copy one costs as much as some steps
APART = 64
CLOSE = 1e-9  # of a step: a time this near to a step is meant to be that step
ROUNDED = 1e-15  # of the number of steps: what their quotient may be off by
ULPS = 4 * 2.0**-52  # of the times themselves, which are rounded too
SAVE_AT = "save_at=[0.5, 1.0, 2.0]"


@dataclass(frozen=True, eq=False)
class Wanted:
    """What a call says about its frames; at most one of the three."""

    every: int | None = None
    at: Any = None  # times, in the order of the run
    count: int | None = None
    told_every: bool = True

    @property
    def unsaid(self) -> bool:
        return self.every is None and self.at is None and self.count is None


def named_options(
    own: Sequence[str], given: Mapping[str, Any], call: Any, options: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    """(states and parameters, options that came after 0.1) of a call. A name that the system has is the system's.

    For those, the option is given by `options={"frames": 400}`.
    """
    given, found = dict(given), {name: getattr(call, name) for name in LATER}
    if "options" in own and options is not None:
        given["options"], options = options, None
    for name in LATER:
        if name in own and found[name] is not None:
            given[name], found[name] = found[name], None
    if options is not None and not isinstance(options, Mapping):
        raise InputError(f"options={shown(options)} is not a dict", fix='Pass options={"frames": 400}.')
    for name, value in (options or {}).items():
        if name not in LATER:
            *first, last = (f"`{x}`" for x in LATER)
            raise InputError(
                f"options= takes only {', '.join(first)} and {last}, not {shown(name)}",
                fix=f"Pass it directly: {name}=...",
            )
        if found[name] is not None:
            raise InputError(
                f"evolve received `{name}` twice", fix=f"Leave out {name}=, or leave it out of options=."
            )
        found[name] = value
    return given, found


def no_part(system: System, goal: Goal) -> str:
    """Why there is no part of a step; empty where there is one."""
    if system.kind == "map":
        return "a map has no part of a step"
    return "the lattice has no part of a step" if goal.precision == "lattice" else ""


def wanted(save_every: Any, save_at: Any, frames: Any) -> Wanted:
    check("frames", Ask({"save_every": save_every, "save_at": save_at, "frames": frames}))
    return Wanted(
        None if save_every is None else whole("save_every", save_every, 1),
        None if save_at is None else checked_times(save_at),
        None if frames is None else checked_count(frames),
        save_every is not None,
    )


def checked_count(value: Any) -> int:
    try:
        return whole("frames", value, 2)
    except InputError as error:
        raise InputError(
            error.what, fix="Pass frames=400; frames=2 keeps only the first and the last frame."
        ) from None


def checked_times(value: Any) -> Any:
    """Finite numbers, as an array; in which order they have to be depends on dt."""
    if isinstance(value, (str, bytes, Mapping)) or not np.iterable(value):
        what = no_number(value) or "one number"
        raise InputError(
            f"save_at={shown(value)} is not a list of times: it is {what}", fix=f"Pass {SAVE_AT}."
        )
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "iuf":
        value = [number(f"save_at[{k}]", x, SAVE_AT, "time") for k, x in enumerate(value)]
    out = np.array(value, np.float64)
    if out.ndim != 1 or not len(out):
        told = "is empty" if not out.size else f"has the shape {out.shape}"
        raise InputError(f"save_at= {told}", fix=f"Pass {SAVE_AT}.")
    bad = np.flatnonzero(~np.isfinite(out))
    if len(bad):
        raise InputError(
            f"save_at[{bad[0]}]={out[bad[0]]:g} is not a time: it is not finite", fix=f"Pass {SAVE_AT}."
        )
    return out


# --- times as steps ---------------------------------------------------------------------------------
def placed_at(times: Any, dt: float, t0: float) -> tuple[Any, Any]:
    """(steps, times) of some times: the whole step where it is one, with NaN; else the step before and the time."""
    with np.errstate(over="ignore"):
        exact = (times - t0) / dt
    n = np.rint(exact)
    close = np.maximum(CLOSE, ROUNDED * np.abs(n))
    close = np.maximum(close, ULPS * (np.abs(times) + abs(t0)) / abs(dt))
    inside = np.abs(exact - n) > close
    n = np.where(inside, np.floor(exact), n)
    if inside.any():  # the quotient is rounded: what counts is the time of the step itself
        off = (times - fma64(n, dt, t0)) / dt
        n = np.where(inside, n + np.where(off <= 0.0, -1.0, np.where(off >= 1.0, 1.0, 0.0)), n)
    return n, np.where(inside, times, math.nan)


def count_steps(steps: Any, until: Any, dt: float, t0: float, no_part: str = "") -> tuple[int, float | None]:
    """(whole steps of a run, the time at which it ends if that is between two of them).

    `no_part` says why there is no part of a step, where there is none.
    """
    check("length", Ask({"steps": steps, "until": until}))
    if steps is not None:
        return counted("steps", steps, whole("steps", steps, 0)), None
    end = checked_time(until, "until=10.0")
    exact = (end - t0) / dt
    counted("until", until, round(exact) if math.isfinite(exact) else 10**300)
    found, times = placed_at(np.array([end]), dt, t0)
    n, inside = int(found[0]), not math.isnan(times[0])
    if n < 0:
        raise InputError(
            f"until={end:g} lies before t0={t0:g}"
            if dt > 0
            else f"until={end:g} lies after t0={t0:g}, and dt is negative",
            fix="Time runs forward; use a negative dt to go back."
            if dt > 0
            else "Time runs backward: pass an earlier time, or a positive dt.",
        )
    if inside and no_part:
        raise between_steps("until", end, n, dt, t0, no_part)
    return n, end if inside else None


def between_steps(name: str, t: float, n: int, dt: float, t0: float, why: str) -> InputError:
    first, second = (f"{name}={time_at(k, dt, t0)!r} (steps={k})" for k in (n, n + 1))
    return InputError(
        f"{name}={t:g} is not a whole number of steps of dt={dt:g} from t0={t0:g}, and {why}",
        fix=f"The neighbours are {first} and {second}.",
    )


def check_order(times: Any, dt: float, t0: float, end: float) -> None:
    """In the order of the run, and inside it."""
    way = math.copysign(1.0, dt)
    wrong = np.flatnonzero(way * np.diff(times) <= 0.0)
    if len(wrong):
        k = int(wrong[0])
        raise InputError(
            f"save_at has {times[k]:g} twice"
            if times[k] == times[k + 1]
            else f"save_at has {times[k + 1]:g} after {times[k]:g}",
            fix="Pass the times in the order of the run, each once: save_at=np.unique(times)."
            if dt > 0
            else "dt is negative: pass the times from the latest to the earliest.",
        )
    room = 1e-9 * abs(dt) + ULPS * (abs(t0) + abs(end))
    if way * (times[0] - t0) < -room:
        raise InputError(
            f"save_at has {times[0]:g}, before the run begins at t = {t0:g}",
            fix="Leave the times before it out, or pass an earlier t0=.",
        )
    if way * (times[-1] - end) > room:
        raise InputError(
            f"save_at has {times[-1]:g}, after the run ends at t = {end:g}",
            fix=f"Pass until={times[-1]:g}, or leave the later times out.",
        )


# --- a schedule -------------------------------------------------------------------------------------
def most_frames(steps: int, size: int) -> int:
    """How many frames a run keeps unasked: of so many steps, and of frames of so many bytes."""
    most = min(MOST, max(2, BYTES // max(size, 1)))
    if size <= SMALL:
        return most
    return min(most, max(FEW if size <= MEDIUM else 2, 1 + steps // APART))


def stride_of(steps: int, most: int) -> int:
    """Steps from one frame to the next, for so many frames at most; all gaps are equal where that costs few frames."""
    gaps = max(most - 1, 1)
    if steps <= gaps:
        return 1
    for n in range(gaps, gaps // 2, -1):
        if steps % n == 0:
            return steps // n
    return -(-steps // gaps)


def scheduled(
    w: Wanted, s: Schedule, dt: float, t0: float, size: int, gridless: bool = False, no_part: str = ""
) -> Schedule:
    """The frames of a run whose steps, strides and end are known. A frame has so many bytes.

    A run without a grid has its own steps: its frames are evenly spaced in time.
    """
    if w.at is not None:
        return at_times(w.at, s, dt, t0, no_part)
    if w.every is not None:
        return replace(s, save_every=w.every, told_every=w.told_every)
    span, most = s.steps - s.first, MOST
    if gridless:
        most = min(MOST, max(2, BYTES // max(size, 1))) if w.count is None else w.count
        return replace(s, told_every=False) if most < 3 or not span else evenly_in_time(most, s, dt, t0)
    if w.count is not None:
        return evenly(w.count, s) if s.end is None else evenly_to_the_end(w.count, s, dt, t0)
    most = most_frames(span, size)
    every = None if span < 2 or most < 3 else stride_of(span, most - (s.first > 0))
    return replace(s, save_every=every, told_every=False)


def evenly(count: int, s: Schedule) -> Schedule:
    """So many frames, at the steps that are nearest to equal gaps; every step, if there are fewer."""
    span, gaps = s.steps - s.first, count - 1
    if gaps == 1:
        return replace(s, told_every=False)
    if span <= gaps:
        return replace(s, save_every=1, told_every=False)
    steps = np.array([s.first + (2 * k * span + gaps) // (2 * gaps) for k in range(count)], np.int64)
    return with_marks(s, steps, np.full(count, math.nan))


def evenly_to_the_end(count: int, s: Schedule, dt: float, t0: float) -> Schedule:
    """The same of a run that ends between two steps: the end is one of them, the last whole step may be none."""
    assert s.end is not None
    gaps, span = count - 1, (s.end - t0) / dt - s.first
    if s.steps - s.first < gaps:
        return replace(s, save_every=1, told_every=False)
    steps = np.array([*(s.first + round(k * span / gaps) for k in range(gaps)), s.steps], np.int64)
    return with_marks(s, steps, np.array([*[math.nan] * gaps, s.end]), asked=True)


def evenly_in_time(count: int, s: Schedule, dt: float, t0: float) -> Schedule:
    first, last = (time_at(n, dt, t0) for n in (s.first, s.steps))
    steps, times = placed_at(first + (last - first) * (np.arange(1, count - 1) / (count - 1)), dt, t0)
    return with_marks(s, steps.astype(np.int64), times)


def at_times(times: Any, s: Schedule, dt: float, t0: float, no_part: str) -> Schedule:
    """Frames at these times, which are the ones that the user sees."""
    begin, end = time_at(s.first, dt, t0), time_at(s.steps, dt, t0) if s.end is None else s.end
    check_order(times, dt, begin, end)
    if s.end is not None:
        times = np.where(np.abs(times - end) <= CLOSE * abs(dt), end, times)
    steps, inside = placed_at(times, dt, t0)
    if no_part and not np.isnan(inside).all():
        k = int(np.flatnonzero(~np.isnan(inside))[0])
        raise between_steps("save_at", float(times[k]), int(steps[k]), dt, t0, no_part)
    same = np.flatnonzero((np.diff(steps) == 0) & np.isnan(inside[1:]) & np.isnan(inside[:-1]))
    if len(same):
        a, b = (float(t) for t in times[same[0] : same[0] + 2])
        raise InputError(
            f"save_at has {a!r} and {b!r}, which are one time to 1e-9 of a step", fix="Pass each time once."
        )
    return with_marks(s, steps.astype(np.int64), inside, asked=True)


def with_marks(s: Schedule, steps: Any, times: Any, asked: bool = False) -> Schedule:
    """Frames at or after these steps; with equal strides instead, which run faster, where they come to the same.

    A run has a frame of its first step, of its last, and of its end. The user sees those that were asked for.
    """
    own = range(len(steps))
    if not len(steps) or steps[0] > s.first or not math.isnan(times[0]):
        steps, times, own = np.append(s.first, steps), np.append(math.nan, times), range(1, len(own) + 1)
    rows = list(own)
    last = int(np.searchsorted(steps, s.steps))
    if s.steps > s.first and (last == len(steps) or not math.isnan(times[last])):
        steps, times = np.insert(steps, last, s.steps), np.insert(times, last, math.nan)
        rows = [k + (k >= last) for k in rows]
    if s.end is not None and times[-1] != s.end:
        steps, times = np.append(steps, s.steps), np.append(times, s.end)
    shown = np.array(rows) if asked and len(rows) < len(steps) else None
    out = replace(s, save_every=None, told_every=False, shown=shown)
    inner = steps[(steps > s.first) & (steps < s.steps)]
    inside = ~np.isnan(times)
    if inside.sum() == (s.end is not None):  # whole steps, and the end
        if not len(inner):
            return out
        every = int(inner[0]) if s.first == 0 else int(inner[1] - inner[0]) if len(inner) > 1 else 0
        if every and np.array_equal(inner, np.arange(s.first - s.first % every + every, s.steps, every)):
            return replace(out, save_every=every)
    return replace(out, marks=Marks(steps, times))
