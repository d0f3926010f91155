"""What became of an exchange of replicas?  out.exchange, and out.at(temperature=T): what was seen at one value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from tinyphysics.errors import InputError
from tinyphysics.given import shown
from tinyphysics.physics.statistics import Statistics, statistics
from tinyphysics.runtime.stages.diagnose import Finished
from tinyphysics.runtime.stages.swaps import Replicas
from tinyphysics.runtime.state.across import Swaps
from tinyphysics.trajectory import Trajectory


@dataclass(frozen=True, eq=False)
class At:
    """The frames and observables of whichever replica had one value: `x.q`, `x["name"]`, `x.mean("name")`."""

    parameter: str
    value: Any
    t: Any
    frames: Mapping[str, Any]  # (frames, shape...)
    observed: Mapping[str, tuple[Any, Any]]  # name -> (times, values)
    _energies: Any = field(repr=False)

    def __getattr__(self, name: str) -> Any:
        frames = self.__dict__.get("frames", {})
        if name in frames:
            return frames[name]
        raise AttributeError(f"there is no `{name}` here; states: {', '.join(frames)}")

    def __getitem__(self, name: str) -> Any:
        if name in self.observed:
            return self.observed[name][1]
        if name in self.frames:
            return self.frames[name]
        raise InputError(
            f"`{shown(name)}` was not observed", fix=f"Observables: {', '.join(self.observed) or 'none'}."
        )

    @cached_property
    def energy(self) -> Any:
        return self._energies()

    def mean(self, name: str) -> Statistics:
        """The average of a series with its error."""
        found: Statistics = statistics(self[name])
        return found


def exchanged(f: Finished) -> Mapping[str, Any]:
    """Adds both to a run."""
    worker = f.record.worker
    if not isinstance(worker, Replicas):
        return {}
    swaps = worker.told()
    first = holders(worker, f.call.begun.memory if f.call.begun is not None else {})
    found = {
        "exchange": lambda: swaps,
        "at": lambda: lambda **value: at(f.out, worker, swaps, first, f.call.first, value),
    }
    f.out._later = {**f.out._later, **found}
    return {"exchange": {"every": swaps.every, "acceptance": swaps.acceptance.tolist()}}


def holders(worker: Replicas, memory: Mapping[str, Any]) -> Any:
    """Which replica had the value k when the call began."""
    return np.array(memory.get("at", np.arange(len(worker.at))), int)


def at(
    out: Trajectory, worker: Replicas, swaps: Swaps, first: Any, begun: int, value: Mapping[str, Any]
) -> At:
    if list(value) != [swaps.parameter]:
        raise InputError(
            f"out.at({', '.join(value) or ''}): replicas have a `{swaps.parameter}` each",
            fix=f"Write out.at({swaps.parameter}={shown(swaps.values[0].tolist())}).",
        )
    wanted = np.asarray(value[swaps.parameter], float)
    near = [k for k, v in enumerate(swaps.values) if np.allclose(v, wanted, rtol=1e-6, atol=0.0)]
    if len(near) != 1:
        raise InputError(
            f"out.at({swaps.parameter}={shown(value[swaps.parameter])}): "
            f"{'no replica has' if not near else 'several replicas have'} that value",
            fix=f"The values are {', '.join(str(v) for v in swaps.values.tolist())}.",
        )
    k = near[0]
    by_round = np.concatenate([[first[k]], swaps.walker[:, k]]) if len(swaps.walker) else np.array([first[k]])

    def who(steps: Any) -> Any:
        return by_round[np.searchsorted(swaps.steps, steps, side="right")]

    frames_who = who(np.asarray(out.steps))
    rows = np.arange(len(frames_who))
    frames = {name: np.asarray(v)[rows, frames_who] for name, v in out.frames.items()}
    dt, t0 = out.origin.run.dt, out.origin.run.t0
    observed = {}
    for name, (t, v) in out.observed.items():
        steps = np.rint((np.asarray(t) - t0) / dt).astype(int)
        observed[name] = t, np.asarray(v)[np.arange(len(steps)), who(steps)]
    energies = lambda: np.asarray(out.energy)[rows, frames_who]  # noqa: E731
    return At(swaps.parameter, value[swaps.parameter], out.t, frames, observed, energies)
