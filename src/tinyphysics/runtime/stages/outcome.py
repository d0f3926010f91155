"""What does a run return?  A Trajectory of what was recorded, sealed, or of what is read from where it was written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from tinyphysics.device.cuda.dlpack import DeviceArray
from tinyphysics.device.host.cores import available
from tinyphysics.ir import UOp
from tinyphysics.runtime.stages.origin import CompileRecord, Origin
from tinyphysics.runtime.stages.own_time import AT, dated, times_of
from tinyphysics.runtime.state.across import History
from tinyphysics.runtime.state.digest import state_hash
from tinyphysics.runtime.state.ensemble import shaped
from tinyphysics.runtime.state.record import Record
from tinyphysics.runtime.state.run import Run
from tinyphysics.runtime.state.schedule import Schedule, time_at, times_at
from tinyphysics.runtime.state.schedule import times_of as of_steps
from tinyphysics.runtime.state.windows import Windows
from tinyphysics.runtime.storage.writer_thread import Stream, Value
from tinyphysics.trajectory import Frame, Trajectory


def trajectory(
    r: Run, record: Record, windows: Windows | None, values: Mapping[str, UOp], asked: CompileRecord
) -> Trajectory:
    steps, between = record.schedule.frames(record.last)
    view = shaped(r.given)
    final = view({name: sealed(v) for name, v in record.final.items()})
    if windows is not None:
        return streamed(r, record, windows, final, values, asked)
    frames = {name: sealed(v[: len(steps)]) for name, v in record.frames.items()}
    kept = frames if r.given.is_ensemble else {name: v[:, 0] for name, v in frames.items()}
    own = r.system.clock is not None
    seen = {name: record.series(name) for name in record.observed}
    seen = seen if r.given.is_ensemble else {name: v[:, 0] for name, v in seen.items()}
    at = seen.pop(AT) if AT in seen else times_at(record.observed_at, r.dt, r.t0) if seen else None
    observed = {name: (at, rows) for name, rows in seen.items()}
    if own:
        record.stops = dated(record.stops, r, record.final)
    t = times_of(r, frames) if own else of_steps((steps, between), r.dt, r.t0)
    rows = asked_for(record.schedule, len(steps))
    if rows is not None:
        kept = {name: sealed(v[rows]) for name, v in kept.items()}
    values = {n: values[n] for n in observed}
    kept_of = frames, steps, record.last, values, asked, between, rows, record.carried
    out = Trajectory(
        t=t if rows is None else t[rows],
        steps=steps if rows is None else steps[rows],
        frames={name: sealed(v) for name, v in shown(r, kept).items()},
        kept=kept,
        final=last_frame(r, record, final),
        hash_of=partial(state_hash, final, r.threads or available()),
        hashes=record.hashes,
        stops=tuple(record.stops),
        observed=observed,
        origin=Origin(from_the_start(r), *kept_of, changed=changed(record)),
    )
    if r.gridless and observed:  # it has no steps to observe: its frames are observed instead
        found = out.origin.looked(values)
        out.observed = {name: (out.t, sealed(out.origin.seen(v))) for name, v in found.items()}
    label(r, record, out)
    return out


def asked_for(s: Schedule, count: int) -> Any:
    """The numbers of the frames that a user asked for, of so many; None: all."""
    if s.shown is None:
        return None
    rows = s.shown[s.shown < count]
    return slice(int(rows[0]), int(rows[-1]) + 1) if len(rows) and np.ptp(rows) == len(rows) - 1 else rows


def label(r: Run, record: Record, out: Trajectory) -> None:
    """Says which frames were reached by a part of a step. A method that has its solution between steps takes none."""
    if not record.schedule.most_between or r.adaptive:
        return
    if r.jump is not None and r.jump.flows(r.given.own, r.dt):
        return
    n, end, t = record.last, record.schedule.end, np.asarray(out.t)
    part = (t - times_at(np.asarray(out.steps), r.dt, r.t0)) / r.dt
    if part.any():
        out.metrics["fractions"] = part
    if end is not None and n == record.schedule.steps:
        fraction = (end - time_at(n, r.dt, r.t0)) / r.dt
        out.metrics["end"] = {"fraction": fraction, "of_step": n + 1, "off": 0.0, "fed_back": False}


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
    asked: CompileRecord,
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
        out.origin = Origin(
            from_the_start(r), frames, out.steps, record.last, values, asked, carried=record.carried
        )
        if record.schedule.most_between:
            t, n = np.asarray(out.t), np.asarray(out.steps)
            out.origin = replace(out.origin, between=np.where(t == times_at(n, r.dt, r.t0), np.nan, t))
    label(r, record, out)
    return out


def last_frame(r: Run, record: Record, final: Mapping[str, Any]) -> Frame:
    """The end of a run, as it is kept and as it is shown."""
    kept = shown(r, final).items()
    states = {name: sealed(v if isinstance(v, DeviceArray) else np.asarray(v)) for name, v in kept}
    s = record.schedule
    t: Any = time_at(record.last, r.dt, r.t0)
    if s.end is not None and record.last == s.steps and (r.given.is_ensemble or not record.stops):
        t = s.end
    elif r.system.clock is not None:
        t = times_of(r, {n: v[None] for n, v in final.items()})[0]
    given = not_the_default(r) | {name: h.values[-1] for name, h in changed(record).items()}
    return Frame(states, record.last, t, final, given)


def changed(record: Record) -> Mapping[str, History]:
    """Of a run whose members were changed together: the parameters that were not the same all the time."""
    return {} if record.worker is None else record.worker.changed()


def not_the_default(r: Run) -> dict[str, Any]:
    """The parameters of a run that a system would not have by itself, as a user would give them."""
    usual = {p.name: p.default for p in r.system.seen.parameters}
    return {
        name: v if len(v) > 1 else v[0]
        for name, v in r.given.own.items()
        if name in usual and (usual[name] is None or len(v) > 1 or not np.array_equal(v[0], usual[name]))
    }


def shown(r: Run, kept: Mapping[str, Any]) -> dict[str, Any]:
    """The states as the user sees them: without t and its momentum, where they are states."""
    values = dict(kept) if r.encoding.plain else r.encoding.values(kept)
    return values if r.system.clock is None else {s.name: values[s.name] for s in r.system.seen.states}


def from_the_start(r: Run) -> Run:
    """The run of which this one is the last part: what is asked of every step is asked of those before it too."""
    if r.events or r.watches or r.poles is not None:  # what was found is known
        r = replace(r, events={}, watches=(), poles=None)
    if r.begun is None:
        return r
    return replace(r, begun=None, given=replace(r.given, states=dict(r.begun.start)))


def jumped(r: Run, n: int, way: str) -> dict[str, Any]:
    """What is known of the last jump of a run; of the first member's, if each has its own matrices."""
    assert r.jump is not None
    return {
        "way": way,
        "drift": "over frames",
        **(r.jump.told(r, n) if n and r.given.members else {}),
    }
