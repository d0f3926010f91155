"""What does a run return?  A Trajectory of what was recorded, sealed, or of what is read from where it was written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from tinyphysics.device.cuda.dlpack import DeviceArray
from tinyphysics.ir import UOp
from tinyphysics.runtime.stages.loop import shaped
from tinyphysics.runtime.stages.origin import Asked, Origin
from tinyphysics.runtime.stages.own_time import AT, dated, times_of
from tinyphysics.runtime.state.digest import state_hash
from tinyphysics.runtime.state.record import Record
from tinyphysics.runtime.state.run import Run
from tinyphysics.runtime.state.schedule import time_at, times_at
from tinyphysics.runtime.state.windows import Windows
from tinyphysics.runtime.state.workers import available
from tinyphysics.runtime.storage.writer_thread import Stream, Value
from tinyphysics.trajectory import Frame, Trajectory


def trajectory(
    r: Run, record: Record, windows: Windows | None, values: Mapping[str, UOp], asked: Asked
) -> Trajectory:
    steps, view = record.steps, shaped(r.given)
    final = view({name: sealed(v) for name, v in record.final.items()})
    if windows is not None:
        return streamed(r, record, windows, final, values, asked)
    frames = {name: sealed(v[: len(steps)]) for name, v in record.frames.items()}
    kept = frames if r.given.is_ensemble else {name: v[:, 0] for name, v in frames.items()}
    own = r.system.clock is not None
    seen = {
        name: rows if r.given.is_ensemble else rows[:, 0]
        for name in record.observed
        for rows in [record.series(name)]
    }
    at = seen.pop(AT) if AT in seen else times_at(record.observed_at, r.dt, r.t0) if seen else None
    observed = {name: (at, rows) for name, rows in seen.items()}
    if own:
        record.stops = dated(record.stops, r, record.final)
    return Trajectory(
        t=times_of(r, frames) if own else times_at(steps, r.dt, r.t0),
        steps=np.array(steps),
        frames={name: sealed(v) for name, v in shown(r, kept).items()},
        kept=kept,
        final=last_frame(r, record, final),
        hash_of=partial(state_hash, final, r.threads or available()),
        hashes=record.hashes,
        stops=tuple(record.stops),
        observed=observed,
        origin=Origin(from_the_start(r), frames, steps, record.last, {n: values[n] for n in observed}, asked),
    )


def sealed(a: Any) -> Any:
    """The array, not to be written to: out.final, out.energy and the drift are about these numbers."""
    if isinstance(a, DeviceArray):  # other libraries have no such arrays
        return a
    out = a.view()
    out.flags.writeable = False
    return out


def streamed(
    r: Run,
    record: Record,
    windows: Windows,
    final: Mapping[str, Any],
    values: Mapping[str, UOp],
    asked: Asked,
) -> Trajectory:
    """Of a run whose frames are elsewhere: read when they are asked for."""
    e, last = r.encoding, last_frame(r, record, final)
    hashed = partial(state_hash, final, r.threads or available())
    out = Trajectory(np.empty(0), np.empty(0, int), {}, last, hashed, record.hashes, tuple(record.stops))
    if isinstance(windows.target, Stream):
        read, lift = windows.target.reading, not r.given.is_ensemble
        out.t, out.steps, out.kept = read("time"), read("step"), {name: read(name) for name in final}
        words = {s.name: [out.kept[n] for n in e.precision.names(s.name)] for s in r.system.states}
        out.frames = {name: w[0] if e.plain else Value(name, w, e.shown) for name, w in words.items()}
        out.observed = {name: (read("observed_time"), read(name)) for name in record.observed}
        frames = {name: read(name, lift) for name in final}
        out.origin = Origin(from_the_start(r), frames, out.steps, record.last, values, asked)
    return out


def last_frame(r: Run, record: Record, final: Mapping[str, Any]) -> Frame:
    """The end of a run, as it is kept and as it is shown."""
    states = {
        name: sealed(v if isinstance(v, DeviceArray) else np.asarray(v))
        for name, v in shown(r, final).items()
    }
    t = (
        time_at(record.last, r.dt, r.t0)
        if r.system.clock is None
        else times_of(r, {n: v[None] for n, v in final.items()})[0]
    )
    return Frame(states, record.last, t, final)


def shown(r: Run, kept: Mapping[str, Any]) -> dict[str, Any]:
    """The states as the user sees them: without t and its momentum, where they are states."""
    values = dict(kept) if r.encoding.plain else r.encoding.values(kept)
    return values if r.system.clock is None else {s.name: values[s.name] for s in r.system.seen.states}


def from_the_start(r: Run) -> Run:
    """The run of which this one is the last part: what is asked of every step is asked of those before it too."""
    if r.events:  # what was found is known
        r = replace(r, events={})
    return (
        r if r.begun is None else replace(r, begun=None, given=replace(r.given, states=dict(r.begun.start)))
    )


def jumped(r: Run, n: int, way: str) -> dict[str, Any]:
    """What is known of the last jump of a run; of the first member's, if each has its own matrices."""
    assert r.jump is not None
    return {
        "way": way,
        "drift": "over frames",
        **(r.jump.told(r.given.own, r.dt, n) if n and r.given.members else {}),
    }
