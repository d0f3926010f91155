"""What does a bias say when a run is over?  The free energy, weights of frames, and the work that the bias has done."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tinyphysics.errors import InputError
from tinyphysics.planner.systems.bias import HILLS, SPRINGS
from tinyphysics.runtime.stages.diagnose import Finished
from tinyphysics.runtime.stages.hills import Hills, spline_at
from tinyphysics.runtime.stages.origin import Origin

LOOKS = 20  # at the free energy in the second half of a run, for its error


@dataclass(frozen=True, eq=False)
class FreeEnergy:
    """F along collective variables, its lowest value 0: `s` (places, or one array for each axis), `F`, `error`."""

    s: Any
    F: Any
    error: Any

    def __iter__(self) -> Iterator[Any]:
        return iter((self.s, self.F, self.error))


def biased(f: Finished) -> Mapping[str, Any]:
    """Adds them to a run."""
    how = f.run.system.biased_by
    origin = f.out.origin
    if not how or not isinstance(origin, Origin):
        return {}
    later: dict[str, Callable[[], Any]] = {
        "bias_work": partial(work, f, origin),
        "cv": partial(collective, origin),
    }
    worker = f.record.worker
    if how[0] == HILLS and isinstance(worker, Hills):
        later |= {
            "free_energy": lambda: partial(free_energy, worker),
            "weights": partial(weights, f, origin, worker),
            "bias": lambda: worker.grid.copy(),
        }
        f.out._later = {**f.out._later, **later}
        factor = worker.factor
        told = {"hills": worker.added, "every": worker.every, "converges": not math.isinf(factor)}
        return {"metadynamics": told}
    f.out._later = {**f.out._later, **later}
    return {SPRINGS: {"members": f.run.given.members}}


def collective(origin: Origin) -> Any:
    """Collective variables at every frame: (frames, [members], cvs), or without the last axis if there is one."""
    _, _, *cvs = origin.run.system.bias
    seen = origin.looked({f"s{k}": u for k, u in enumerate(cvs)})
    out = np.stack([origin.seen(seen[f"s{k}"]) for k in range(len(cvs))], -1)
    return out[..., 0] if len(cvs) == 1 else out


def grids(worker: Hills, steps: Any) -> Iterator[tuple[Any, Any]]:
    """(numbers of the spline, jumps of the bias at the walkers so far) at each of these steps."""
    grid, jumps = (x.copy() for x in worker.before)
    k = 0
    for n in steps:
        while k < len(worker.steps) and worker.steps[k] <= n:
            s = worker.places[k]
            left = np.isfinite(s).all(-1)
            added = worker.together(s, worker.heights[k], left)
            grid = grid + added
            jumps = jumps + np.where(left, spline_at(added, s, worker.axes), 0.0)
            k += 1
        yield grid, jumps


def work(f: Finished, origin: Origin) -> Any:
    """The work that the bias has done on each member up to each frame: what its own energy lost on the way."""
    worker = f.record.worker
    many = f.run.given.is_ensemble
    if not isinstance(worker, Hills):
        (name,) = ("B",)
        own = origin.seen(origin.looked({name: origin.run.system.bias[1]})[name])
        return own[0] - own
    s = places(origin, many)
    out = []
    for row, (grid, jumps) in zip(s, grids(worker, [int(n) for n in origin.steps])):
        out.append(jumps - spline_at(grid, row, worker.axes))
    found = np.array(out)
    found = found if origin.rows is None else found[origin.rows]
    return found if many else found[:, 0]


def places(origin: Origin, many: bool) -> Any:
    """(frames, members, cvs)"""
    _, _, *cvs = origin.run.system.bias
    seen = origin.looked({f"s{k}": u for k, u in enumerate(cvs)})
    return np.stack([seen[f"s{k}"] for k in range(len(cvs))], -1)


def nodes(worker: Hills) -> tuple[Any, Any]:
    """(values along each axis, all places of the grid)"""
    values = [np.linspace(low, high, n + 1)[: n if p else n + 1] for low, high, n, p in worker.axes]
    return values, np.stack(np.meshgrid(*values, indexing="ij"), -1).reshape(-1, len(values))


def shape(grid: Any, worker: Hills, at: Any, sizes: tuple[int, ...]) -> Any:
    f = worker.factor
    factor = 1.0 if math.isinf(f) else f / (f - 1.0)
    V = spline_at(grid, at, worker.axes).reshape(sizes)
    return -factor * V


def free_energy(worker: Hills) -> FreeEnergy:
    """F = -f/(f - 1) V on the grid. Its error is how far F has moved in the second half of the run, places aligned."""
    values, at = nodes(worker)
    sizes = tuple(len(v) for v in values)
    if not worker.steps:
        raise InputError(
            "out.free_energy(): the run has no hills yet", fix=f"Run {worker.every} steps or more."
        )
    last = worker.steps[-1]
    looks: Any = np.unique(np.linspace(last / 2, last, LOOKS).astype(int)) if worker.steps else []
    found = np.array([shape(g, worker, at, sizes) for g, _ in grids(worker, looks)])
    F = found[-1] - found[-1].min()
    weight = np.exp(-F)
    aligned = found - (found * weight).sum(tuple(range(1, found.ndim)), keepdims=True) / weight.sum()
    error = aligned.std(0) if len(found) > 1 else np.full(sizes, np.nan)
    return FreeEnergy(values[0] if len(values) == 1 else tuple(values), F, error)


def weights(f: Finished, origin: Origin, worker: Hills) -> Any:
    """Of each frame, for averages without the bias: exp((V(s, t) - c(t))/kT), those of a run summing to 1.

    c(t) is kT ln of the mean of exp(V/kT) over exp(-F/kT) (Tiwary & Parrinello 2015): else late frames count more.
    """
    s = places(origin, f.run.given.is_ensemble)
    kT = np.asarray(origin.looked({"kT": origin.run.system.heat[0]})["kT"], float)
    values, at = nodes(worker)
    scale = 1.0 / float(np.mean(kT))
    f_ = worker.factor
    up = 1.0 if math.isinf(f_) else f_ / (f_ - 1.0)
    down = 0.0 if math.isinf(f_) else 1.0 / (f_ - 1.0)
    logs = []
    for row, (grid, _) in zip(s, grids(worker, [int(n) for n in origin.steps])):
        V = spline_at(grid, at, worker.axes) * scale
        top = up * V
        level = log_sum(top) - log_sum(down * V)
        logs.append(spline_at(grid, row, worker.axes) * scale - level)
    found = np.array(logs)
    found = np.exp(found - np.nanmax(found))
    found = np.where(np.isfinite(found), found, 0.0)
    found /= found.sum()
    found = found if origin.rows is None else found[origin.rows]
    return found if f.run.given.is_ensemble else found[:, 0]


def log_sum(x: Any) -> float:
    top = float(np.max(x))
    return top + float(np.log(np.exp(x - top).sum()))
