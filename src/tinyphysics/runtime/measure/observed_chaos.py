"""How does a run observe indicators of chaos?  With directions beside its states, which its trajectory does not show."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial, reduce
from operator import or_
from typing import Any

import numpy as np

from tinyphysics.device.host.cores import available
from tinyphysics.errors import InputError
from tinyphysics.pipeline import BESIDE
from tinyphysics.runtime.measure.indicators import wanted_of
from tinyphysics.runtime.measure.lyapunov import EPSILON, stride_of, tell, truncation
from tinyphysics.runtime.measure.tangents import ACT, GROWTH, Run, run_with_directions, simulation
from tinyphysics.runtime.stages.resolve import Request
from tinyphysics.runtime.stages.setup import Setup
from tinyphysics.runtime.state.digest import as_marked, state_hash
from tinyphysics.runtime.state.encoding import owner
from tinyphysics.tpir.program.lower import DIRECTION
from tinyphysics.trajectory import Trajectory

ROWS, FEWEST, ROOM = 2048, 256, 1 << 26  # strides of a run: at most, at least, and times the members


def evolve_beside(setup: Setup, request: Request) -> Trajectory:
    """The run that was asked for: its states, hashes and other observables are those of a run without directions."""
    observe = {**setup.monitors, **(request.observe or {})}
    found = {name: w for name, f in observe.items() if (w := wanted_of(f)) is not None}
    w = reduce(or_, found.values())
    refuse(request, next(iter(found)))
    asked = {
        name: v
        for name, v in vars(request).items()
        if name not in ("given", "t0", "acts", "observe", "monitors")
    }
    asked["observe"] = observe
    if request.resume is not None:
        sim = simulation(setup, w)
        out = sim.evolve(**request.given, **asked)
        return shown(setup, sim, out, None)
    r = run_with_directions(setup, w, request.given, request.t0, request.seed, "an indicator of chaos")
    steps = length(r, request)
    rows = max(FEWEST, min(ROWS, ROOM // max(1, r.members * w.count)))
    more = {"threads": request.threads, "seed": request.seed, "progress": False}
    stride = stride_of(r, steps, min(rows, max(1, steps)), more) if steps else 1
    asked.pop("threads"), asked.pop("seed"), asked.pop("progress")
    out = r.evolve(stride, **asked, threads=request.threads, seed=request.seed, progress=request.progress)
    return shown(setup, r.setup, out, r)


def refuse(request: Request, name: str) -> None:
    for option in ("acts", "save", "on"):
        if getattr(request, option) is not None:
            raise InputError(
                f"observe: `{name}` needs directions beside the states, which cannot be combined with {option}= yet",
                fix=f"Leave {option}= out, or observe `{name}` in a run of its own.",
            )


def length(r: Run, request: Request) -> int:
    """How many steps a run has, about; what is wrong with its end is said when it is scheduled."""
    end = request.until
    if request.steps is None and end is None and request.save_at is not None:
        end = float(np.ravel(request.save_at)[-1])
    if request.steps is None and isinstance(end, (int, float)):
        return max(0, math.floor((end - r.t0) / r.dt)) if math.isfinite(end) else 0
    return request.steps if isinstance(request.steps, int) else 0


def shown(setup: Setup, sim: Setup, out: Trajectory, r: Run | None) -> Trajectory:
    """The trajectory without its directions; with a warning where its numbers have lost their meaning."""
    beside = {s.name for s in sim.system.states if s.role == BESIDE}
    grown = growth_at_end(setup, out)

    def own(arrays: Any) -> dict[str, Any]:
        return {name: v for name, v in arrays.items() if owner(name) not in beside}

    out.frames, out.kept = own(out.frames), own(out.kept)
    out.final = replace(out.final, states=own(out.final.states), kept=own(out.final.kept))
    out.hash_of = as_marked(out.hash_of, partial(state_hash, out.final.kept, available()))
    out._acts = {name: a for name, a in out._acts.items() if name != ACT}
    eps, steps = EPSILON.get(setup.goal.precision, 2.0**-52), int(out.final.step)
    if setup.checks != "off" and steps and grown > math.log(1.0 / eps):
        dt = 1.0 if r is None or setup.system.kind == "map" else abs(r.dt)
        value = grown / (steps * dt)
        delta = eps if r is None else max(eps, truncation(r, value, steps))
        lost, horizon = math.ceil(math.log(1.0 / eps) / value / dt), math.log(1.0 / min(delta, 0.5)) / value
        tell(value, lost, horizon, delta > eps, steps)
    return out


def growth_at_end(setup: Setup, out: Trajectory) -> float:
    """The logarithm of what the first direction has grown by, of the member where that is most."""
    z = out.final.states
    first = [np.asarray(z[DIRECTION.format(0, s.name)], float) for s in setup.system.states]
    sums = np.asarray(z[GROWTH], float)[..., 0, :].sum(axis=-1)
    members = max(1, sums.size)
    square = sum((v.reshape(members, -1) ** 2).sum(axis=1) for v in first)
    with np.errstate(all="ignore"):
        found = np.ravel(sums) + 0.5 * np.log(square)
    return float(np.max(found[np.isfinite(found)], initial=0.0))
