"""Where do the frames of a run go?  Into a store of its own, made for it or gone on with, and all that describes it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tinyphysics.errors import StoreError
from tinyphysics.ir import UOp
from tinyphysics.runtime.state.ensemble import Inputs
from tinyphysics.runtime.state.run import Checkpoint, Identity, Run
from tinyphysics.runtime.state.schedule import time_at, times_at
from tinyphysics.runtime.state.windows import Window
from tinyphysics.runtime.storage.block_rows import part_of
from tinyphysics.runtime.storage.run_store import (
    FORMAT,
    MEMBER,
    OBSERVED,
    TIME,
    RunStore,
    axis_names,
    check_names,
    check_place,
    create,
    open_store,
)
from tinyphysics.runtime.storage.writer_thread import Stream
from tinyphysics.runtime.storage.zarr3 import Layout, growing
from tinyphysics.version import __version__


def check_save(path: Path, resumed: Checkpoint | None) -> bool:
    """Is there a store to go on with?  An error if frames could not be written here, or would destroy others."""
    check_place(path)
    if not path.exists():
        return False
    there = open_store(path)
    if resumed is None:
        raise StoreError(
            f"save={str(path)!r} already holds the store of a run",
            fix="Continue that run from its checkpoint with resume=, or remove the store first.",
        )
    if there.attributes["run"] != resumed.run.key:
        raise StoreError(
            f"save={str(path)!r} is the store of another run, of `{there.attributes['system']}`",
            fix="Pass another save=, or remove it first.",
        )
    return True


def described_run(r: Run, run: Identity, description: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes that reproduce a run; plain text and numbers, which every format can hold."""
    i, s = r.given, r.schedule
    scalars = {name: float(v[0]) for name, v in i.own.items() if len(v) == 1 and v.ndim == 1}
    every = {
        "save_every": s.save_every if s.told_every else None,
        "observe_every": s.observe_every,
        "hash_every": s.hash_every,
    }
    return {
        "tinyphysics": __version__,
        "format": FORMAT,
        "bits": run.bits,
        "system": r.system.name,
        "program": run.program,
        "run": run.key,
        "dt": run.dt,
        "t0": run.t0,
        "seed": run.seed,
        "precision": r.encoding.precision.name,
        "parameters": json.dumps(scalars),
        "ensemble": int(i.is_ensemble),
        "begins": s.first,
        **{name: n for name, n in every.items() if n is not None},
        "simulation": json.dumps(description),
        "coordinates": "step observed_step",
    }


def arrays_given(i: Inputs) -> dict[str, Any]:
    """The parameters that are more than one number."""
    return {name: v[0] if len(v) == 1 else v for name, v in i.own.items() if len(v) > 1 or v.ndim > 1}


def layouts(r: Run, values: Mapping[str, UOp], in_blocks: bool = False) -> list[Layout]:
    """The arrays of a store; chunks of a run whose members are done in blocks are of some members each."""
    i, s = r.given, r.schedule
    part = part_of(i.members) if in_blocks and i.is_ensemble else 0
    lead, members = ((i.members,), (MEMBER,)) if i.is_ensemble else ((), ())
    frames, seen = s.kept(s.steps), len(s.observed(s.steps))
    number: Any = np.float64(0.0)

    def axes(name: str, shape: tuple[int, ...]) -> tuple[str, ...]:
        return axis_names(name, shape, r.system.axes)

    out = [
        growing("time", number, (TIME,), None, frames),
        growing("step", np.int64(0), (TIME,), None, frames),
        growing("hash", np.zeros(16, np.uint8), (TIME, "hash_byte"), None, frames),
    ]
    for x in r.system.states:
        for word in r.encoding.precision.names(x.name):
            like = np.broadcast_to(np.zeros((), i.states[word].dtype), lead + x.var.shape)
            out.append(
                growing(word, like, (TIME, *members, *axes(x.name, x.var.shape)), x.unit, frames, part)
            )
    out.append(growing(OBSERVED, number, (OBSERVED,), None, seen))
    out.append(growing("observed_step", np.int64(0), (OBSERVED,), None, seen))
    for name, u in values.items():
        like = np.broadcast_to(number, lead + u.shape)
        out.append(growing(name, like, (OBSERVED, *members, *axes(name, u.shape)), None, seen, part))
    units = {p.name: p.unit for p in r.system.parameters}
    for name, v in arrays_given(i).items():
        dims = (*((MEMBER,) if len(i.own[name]) > 1 else ()), *axes(name, i.own[name].shape[1:]))
        out.append(Layout(name, v.dtype.newbyteorder("<").str, v.shape, dims, grows=False, unit=units[name]))
    return out


def begun(
    path: Path,
    r: Run,
    values: Mapping[str, UOp],
    run: Identity,
    description: Mapping[str, Any],
    in_blocks: bool = False,
) -> tuple[Stream, int]:
    """(where the windows of a run go, up to which step it has everything)."""
    i, c = r.given, r.begun
    own = [*(x.name for x in r.system.states), *(x.name for x in r.system.parameters)]
    check_names(own, list(values))
    if check_save(path, c):
        assert c is not None
        there = gone_on(path, r, values, c)
        return Stream(there), -1 if c.step == there.attributes["begins"] else c.step
    new = create(path, layouts(r, values, in_blocks), described_run(r, run, description), arrays_given(i))
    out = Stream(new)
    if c is not None and c.step > 0:  # a store begins where a replay does, whatever it was made for
        start = {name: v[None] if i.is_ensemble else v for name, v in c.start.items()}
        none = {n: np.empty((0, *new.layouts[n].row)) for n in values}
        out.put(Window([0], times_at([0], r.dt, r.t0), start, range(0), times_at([], r.dt, r.t0), none), {})
    return out, -1


def gone_on(path: Path, r: Run, values: Mapping[str, UOp], c: Checkpoint) -> RunStore:
    """The store of the run that goes on, as it was at the step of the checkpoint."""
    there, s = open_store(path), r.schedule
    shapes = {m.name: m.row for m in layouts(r, values) if m.dims[:1] == (OBSERVED,)}
    if shapes != {n: m.row for n, m in there.layouts.items() if m.dims[:1] == (OBSERVED,)}:
        raise StoreError(
            f"`{path}` has the observables {', '.join(there.observables) or 'none'}; this run has "
            f"{', '.join(values) or 'none'}",
            fix="Observe the same functions, or pass another save=.",
        )
    every = s.save_every if s.told_every else None
    asked = {"save_every": every, "observe_every": s.observe_every}
    for name, n in asked.items():
        if there.attributes.get(name) != n:
            raise StoreError(
                f"{name}={n}, but `{path}` has {name}={there.attributes.get(name)}",
                fix=f"Pass {name}={there.attributes.get(name)}, or another save=.",
            )
    if c.step == there.attributes["begins"]:  # all that the run itself wrote is written again
        there.commit(int(np.searchsorted(there.read("step"), c.step)), 0, {})
    else:
        there.truncate(c.step, time_at(c.step, r.dt, r.t0), every)
    return there
