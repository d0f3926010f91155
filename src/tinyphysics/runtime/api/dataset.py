"""A run as an xarray.Dataset: named axes, units as annotated, and attributes that reproduce it."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinyphysics.device.cuda.dlpack import numbers
from tinyphysics.errors import BackendError, PlanError
from tinyphysics.runtime.stages.description import described
from tinyphysics.runtime.stages.origin import CompileRecord, Origin
from tinyphysics.runtime.state.ensemble import shaped
from tinyphysics.runtime.state.run import Run, told
from tinyphysics.runtime.storage.open_store import arrays_given, described_run, layouts
from tinyphysics.runtime.storage.resume import identity
from tinyphysics.runtime.storage.run_store import OBSERVED, TIME
from tinyphysics.runtime.storage.writer_thread import Stored, Value
from tinyphysics.trajectory import Trajectory


def to_xarray(out: Trajectory) -> Any:
    """The frames, observables and parameters of a run; of one that was streamed, its store, read when asked for."""
    try:
        import xarray
    except ImportError as error:
        raise BackendError("xarray is not installed", fix='pip install "tinyphysics[io]"') from error
    first = next(iter(out.kept.values()), None)
    if isinstance(first, Stored) and first.tail is None:
        return valued(xarray.open_zarr(first.store.root, decode_times=False), out)
    if not isinstance(out.origin, Origin) or out.origin.asked is None:
        raise PlanError(
            "this trajectory does not know its system",
            fix="Call it before the trajectory is saved or sent to another process.",
        )
    if np.ndim(out.t) > 1:
        raise PlanError(
            "the members of this run are at different times, and a dataset has one time axis",
            fix="Run one member alone, or build a dataset from out.t, out.q and out.p yourself.",
        )
    run, values = out.origin.run, out.origin.values
    given = arrays_given(run.given)
    variables: dict[str, Any] = {}
    for m in layouts(run, values):
        if m.name in ("time", "step", "hash", "observed_time", "observed_step"):
            continue
        if m.grows and m.dims[0] == TIME and m.name not in out.frames:
            continue  # an error word, which is in the value of its state
        found = given[m.name] if not m.grows else out.frames[m.name] if m.dims[0] == TIME else out[m.name]
        variables[m.name] = (m.dims, np.asarray(numbers(found)), {} if m.unit is None else {"units": m.unit})
    coordinates = {TIME: np.asarray(out.t), "step": (TIME, np.asarray(out.steps))}
    if out.observed:
        coordinates[OBSERVED] = np.asarray(next(iter(out.observed.values()))[0])
    attributes = attributes_of(run, out.origin.asked)
    return xarray.Dataset(variables, coordinates, {**attributes, "hash": out.hash})


def valued(found: Any, out: Trajectory) -> Any:
    """A store with the values of its states, where several words are kept of them."""
    for name, v in out.frames.items():
        if isinstance(v, Value):
            words = {w.name: found[w.name] for w in v.words}
            shown = v.shown(name, words).assign_attrs(found[name].attrs)
            found = found.assign({name: shown}).drop_vars([w for w in words if w != name])
    return found


def attributes_of(run: Run, asked: CompileRecord) -> dict[str, Any]:
    shown, acts = shaped(run.given)(run.given.states), told(run.acts)
    who = identity(run.system, asked.program, run.dt, run.t0, asked.seed, shown, run.given.params, acts)
    data = described(run.system, asked.goal, asked.backend, asked.checks, asked.program, run.acts)
    return {name: v for name, v in described_run(run, who, data).items() if name != "coordinates"}
