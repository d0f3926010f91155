"""Runs whose own time is a state: where do they begin, at which step do they reach a time, and how do they end there?

A run to `until` takes the steps that end before it, and then a part of one more, by the same method, whose length is found
so that t is `until`. That last part is for whoever looks: what a checkpoint keeps, and a longer run goes on from, is the
state before it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from tinyphysics.device.cuda.dlpack import here, longer
from tinyphysics.errors import InputError, PlanError
from tinyphysics.ir import UOp
from tinyphysics.planner.conflicts import ENSEMBLE, Ask, check
from tinyphysics.rules.equality.ranges import range_of
from tinyphysics.runtime.stages.execute import execute, observe_states
from tinyphysics.runtime.state.digest import state_hash
from tinyphysics.runtime.state.ensemble import Inputs, inputs
from tinyphysics.runtime.state.record import Record
from tinyphysics.runtime.state.run import Run
from tinyphysics.runtime.state.schedule import Schedule, checked_time
from tinyphysics.system import System
from tinyphysics.tpir.precision.probe import REST
from tinyphysics.trajectory import Frame, Stop, Trajectory

AT = "time of an observation"  # no name of a user's has a space
FIRST_STEPS = 1024  # after which the pace of a run is known
AHEAD = 1.25  # times as many steps as that pace asks for
MOST_STEPS = 1 << 40
MOST_TRIES = 200  # of the length of the last step: bisection alone needs fewer


def begun_in_time(r: Run, given: Mapping[str, Any]) -> Inputs:
    """The states and parameters that were given, with t as it is and p_t = -H, so that H + p_t is zero."""
    system, e = r.system, r.encoding
    clock = system.clock
    assert clock is not None
    if clock.momentum in given:  # the states of another run
        return inputs(system, given, e)
    own = inputs(clock.system, given, e)
    check_rate(system, own)
    first = replace(r, system=clock.system, given=own)
    assert clock.system.energy is not None
    values = {"H": clock.system.energy, "rate": clock.rate}
    if e.precision.wide:
        values[f"{REST}H"] = clock.system.energy
    found = observe_states(first, values, {n: v[None] for n, v in own.states.items()}, [0])
    seen = {name: v[0] for name, v in found.items()}
    for k in np.flatnonzero(~((seen["rate"] > 0) & np.isfinite(seen["rate"]))).tolist():
        who = f" of member {k}" if own.is_ensemble else ""
        raise InputError(
            f"at the first state{who} dt/ds = {seen['rate'][k]:g}, which is not a positive, finite rate",
            fix="Leave time= out, or choose another.",
        )
    words = e.stored(clock.momentum, -seen["H"])
    if e.precision.wide:
        words = dict(zip(e.precision.names(clock.momentum), (-seen["H"], -seen[f"{REST}H"])))
    times = e.stored(clock.time, np.full(own.members, r.t0))
    return replace(own, states={**own.states, **times, **words})


def check_rate(system: System, i: Inputs) -> None:
    """t goes on wherever the run goes: dt/ds is shown to be positive, or zero and infinite at single places.

    Nothing in a step would notice: it goes on as if ln(-V) were ln|V|, and runs back in time.
    """
    clock = system.clock
    assert clock is not None
    known = {
        p.var: (float(i.params[p.name].min()), float(i.params[p.name].max()))
        for p in system.parameters
        if i.params[p.name].size
    }
    if range_of(clock.rate, known)[0] >= 0.0:
        return
    if clock.way == "function":
        raise PlanError(
            f"time=: dt/ds = {clock.rate} is not shown to be positive everywhere",
            fix="Use a rate that is: a distance, a power of one, or 1/(a + b) of such.",
        )
    raise PlanError(
        f'time="{clock.way}": V of `{system.name}` is not shown to be negative everywhere, with these '
        "parameters",
        fix="Add a constant to V so that it is, or give dt/ds as a function of the "
        "positions: time=lambda q: ...",
    )


def times_of(r: Run, frames: Mapping[str, Any]) -> Any:
    """The times of frames: of one run, or of each member of an ensemble."""
    assert r.system.clock is not None
    t = np.asarray(here(r.encoding.shown(r.system.clock.time, frames)), np.float64)
    return t if r.given.is_ensemble or t.ndim < 2 else t[:, 0]


def dated(stops: list[Stop], r: Run, final: Mapping[str, Any]) -> list[Stop]:
    """Stops at the time of the last good state."""
    t = np.ravel(times_of(r, final))
    return [replace(s, t=float(t[s.member or 0])) for s in stops]


def with_times(system: System, values: Mapping[str, UOp]) -> dict[str, UOp]:
    """What is observed, and when, where that is a state."""
    if system.clock is None or not values:
        return dict(values)
    time = next(s.var for s in system.states if s.name == system.clock.time)
    return {**values, AT: time}


# --- until a time -------------------------------------------------------------------------------------------
def steps_until(r: Run, until: Any) -> int:
    """How many steps end before a time, by a run that looks at nothing else."""
    clock = r.system.clock
    assert clock is not None
    end = checked_time(until, "until=10.0")
    check("until", Ask({"until": until, "time": clock}, traits={ENSEMBLE: r.given.is_ensemble}))
    way = math.copysign(1.0, r.dt)
    begin = float(r.encoding.shown(clock.time, r.given.states)[0])
    if way * (end - begin) < 0:
        raise InputError(
            f"until={end:g} lies before t = {begin:g}", fix="Time runs forward; use a negative dt to go back."
        )
    steps = FIRST_STEPS
    while True:
        reached, last, stopped = counted(r, clock.time, steps, lambda t: way * t <= way * end)
        if stopped:  # before its time: the run stops at that step, too
            return reached + 1
        if reached < steps:
            return reached
        pace = (last - begin) / steps
        if steps >= MOST_STEPS or not way * pace > 0:
            raise InputError(
                f"t is {last:g} after {steps:,} steps and gets no closer to until={end:g}",
                fix="Pass steps=, or a longer dt.",
            )
        steps = min(max(math.ceil(AHEAD * (end - begin) / pace), 2 * steps), MOST_STEPS)


def counted(r: Run, time: str, steps: int, before: Callable[[Any], Any]) -> tuple[int, float, bool]:
    """(how many of the steps end before, the time of the last of them, whether the run stopped before any other)."""
    n, last, later = -1, math.nan, False  # the first that is counted is where it begins

    def count(values: Mapping[str, Any], here: slice) -> None:
        nonlocal n, last, later
        t = values[time].reshape(-1)
        t = t[np.isfinite(t)]
        good = t[before(t)]
        n += len(good)
        last = float(good[-1]) if len(good) else last
        later = later or len(good) < len(t)

    state = next(s.var for s in r.system.states if s.name == time)
    out, *_ = execute(r, Record(Schedule(steps, None, 1, None), {}), {time: state}, lambda n: None, count)
    out.raise_error()
    return n, last, bool(out.stops) and not later


@dataclass(frozen=True)
class End:
    """The end of a run at a time that no step hits."""

    states: Mapping[str, Any]  # (members, shape...), word by word
    fraction: float  # of a step
    off: float  # what is left between its time and the one that was asked for


def ended(r: Run, state: Mapping[str, Any], until: float) -> End:
    """One step from a synchronised state, as long as it takes to be at a time: by secants within a bracket."""
    clock = r.system.clock
    assert clock is not None

    def after(fraction: float) -> tuple[float, Mapping[str, Any]]:
        given = replace(r.given, states=dict(state))
        part = replace(r, given=given, dt=fraction * r.dt, begun=None, events={})
        frames = {name: np.array(v)[None].repeat(2, axis=0) for name, v in state.items()}
        record, *_ = execute(part, Record(Schedule(1, None, None, None), frames), {}, lambda n: None)
        return float(r.encoding.shown(clock.time, record.final)[0]), record.final

    t = float(r.encoding.shown(clock.time, state)[0])
    low, below, best = 0.0, t - until, End(state, 0.0, abs(t - until))
    if below == 0.0:
        return best
    high, above = 1.0, math.nan
    for k in range(MOST_TRIES):
        x = high if k == 0 else low + (high - low) * below / (below - above) if k % 3 else (low + high) / 2
        t, found = after(x)
        off = t - until
        if math.isnan(off):
            break
        if k == 0 or abs(off) < best.off:
            best = End(found, x, abs(off))
        if off == 0.0:
            break
        if off * below > 0:
            if k == 0:  # by rounding, a whole step does not reach what was counted as behind it
                break
            low, below = x, off
        else:
            high, above = x, off
        if math.nextafter(low, high) >= high:
            break
    return best


def end_at(r: Run, record: Record, out: Trajectory, until: float) -> None:
    """The run ends at a time: its last frame is replaced, or one is added, and `out.metrics["end"]` says how."""
    clock = r.system.clock
    assert clock is not None
    e = ended(r, {name: np.array(here(v)) for name, v in record.final.items()}, until)
    out.metrics["end"] = {"fraction": e.fraction, "of_step": record.last + 1, "off": e.off, "fed_back": False}
    if e.fraction == 0.0:
        return
    kept = {name: longer(v, e.states[name]) for name, v in out.kept.items()}  # its member axis is one frame
    names = [s.name for s in r.system.seen.states]
    values = r.encoding.values(kept)
    out.kept, out.frames = kept, {name: values[name] for name in names}
    out.t, out.steps = times_of(r, kept), np.append(out.steps, record.last)
    last = {name: v[0] for name, v in e.states.items()}
    given = out.final.given
    out.final = Frame({name: values[name][-1] for name in names}, record.last, float(out.t[-1]), last, given)
    out.hash_of = partial(state_hash, last)
    origin = out.origin
    out.origin = replace(
        origin, frames={name: v[:, None] for name, v in kept.items()}, steps=out.steps.tolist()
    )
