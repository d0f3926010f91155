"""How does a run go back?  On a lattice by taking back what its steps have added; elsewhere by running again.

A step on a lattice is inverted to the last bit, so that going back costs what going forward cost. A step in floating
point is not: its inverse would follow another orbit before long. There the run is done again up to where it should be,
from its beginning or from a checkpoint, which gives the same bits and says so in `out.metrics["rewind"]`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from tinyphysics.errors import InputError
from tinyphysics.given import path
from tinyphysics.plan import Goal
from tinyphysics.runtime.stages.origin import Origin
from tinyphysics.runtime.stages.setup import Setup
from tinyphysics.runtime.state.across import Exchange
from tinyphysics.runtime.state.acts import Act
from tinyphysics.runtime.state.ensemble import sizes_from
from tinyphysics.runtime.state.run import Run
from tinyphysics.runtime.state.schedule import times_at, whole
from tinyphysics.runtime.storage.checkpoint import read
from tinyphysics.system import SizedFamily, System
from tinyphysics.trajectory import Frame, Trajectory


def rewind(sim: Setup, out: Any, steps: Any, checkpoint: Any = None) -> Trajectory:
    """The run as it was so many steps before the end of `out`."""
    origin = getattr(out, "origin", None)
    if not isinstance(origin, Origin) or origin.asked is None:
        raise InputError(
            "rewind needs a trajectory that evolve returned",
            fix="out = sim.evolve(...); sim.rewind(out, 100)",
        )
    if isinstance(sim.source, SizedFamily):  # the run knows the sizes
        sim.bind(sim.source, sizes_from(sim.source, {**origin.run.given.states, **origin.run.given.params}))
    if sim._asked is not None:  # runs since then may have decided otherwise
        sim = sim.settled(origin.asked.goal)
    if origin.asked.program != sim.compiled.known.program:
        raise InputError(
            "this trajectory was computed with another program than that of this simulation",
            fix="Rewind it with the simulation that ran it.",
        )
    count, last = whole("steps", steps, 0), int(out.final.step)
    if count > last:
        raise InputError(
            f"steps={count} is more than the {last} steps of this run", fix=f"Pass at most {last}."
        )
    if inverts(sim, out) and checkpoint is None:
        return taken_back(sim, out, origin, count)
    return again(sim, origin, last - count, checkpoint)


def inverts(sim: Setup, out: Trajectory) -> bool:
    """Is there an inverse of its step?  Not of one that asks for the time, or of a part of one; nor where members stopped."""
    if sim.goal.precision != "lattice" or out.origin.run.acts or sim.compiled.known.timed:
        return False
    return "end" not in out.metrics and not any(stop.member is not None for stop in out.stops)


@lru_cache(maxsize=16)  # a run may go back in many pieces
def backwards(kind: Callable[..., Setup], system: System, goal: Goal, requested: str, checks: str) -> Setup:
    """The simulation whose steps are the inverse of those of another."""
    return kind(system, replace(goal, backwards=True), requested, checks)


def taken_back(sim: Setup, out: Trajectory, origin: Origin, count: int) -> Trajectory:
    r, last = origin.run, int(out.final.step)
    kind: Callable[..., Setup] = type(sim)
    back = backwards(kind, sim.system, sim.goal, sim.requested, sim.checks)
    state: dict[str, Any] = {s.name: out.final.words(s.name) for s in sim.system.states}
    ran = back.evolve(steps=count, dt=r.dt, frames=2, progress=False, threads=r.threads, **state, **given(r))
    steps = [last, last - count] if count else [last]
    t = times_at(steps, r.dt, r.t0) if sim.system.clock is None else ran.t
    kept = dict(ran.kept)
    frames = kept if r.given.is_ensemble else {name: v[:, None] for name, v in kept.items()}
    end = Frame(ran.final.states, steps[-1], t[-1], ran.final.kept, ran.final.given)
    return Trajectory(
        t=t,
        steps=np.array(steps),
        frames=ran.frames,
        final=end,
        hash_of=ran.hash_of,
        stops=ran.stops,
        kept=kept,
        metrics=ran.metrics | {"rewind": f"{count} steps taken back"},
        origin=Origin(r, frames, steps, steps[-1], {}, origin.asked),
        _losses=ran._losses,
    )


def again(sim: Setup, origin: Origin, target: int, checkpoint: Any) -> Trajectory:
    """The run once more, up to the target."""
    r = origin.run
    assert origin.asked is not None
    seed = int(origin.asked.seed)
    if checkpoint is not None:
        c = read(path("checkpoint", checkpoint, "run.checkpoint"))
        begun, frames = c.step, 2 if c.save_every is None else None
        if begun > target:
            raise InputError(
                f"the checkpoint is at step {begun}, which is after step {target}",
                fix="Pass an earlier one, or none.",
            )
        out = sim.evolve(
            steps=target - begun, resume=checkpoint, frames=frames, progress=False, threads=r.threads
        )
    else:
        begun = 0
        kept = {name: v if r.given.is_ensemble else v[0] for name, v in r.given.states.items()}
        state: dict[str, Any] = {s.name: r.encoding.words(s.name, kept) for s in sim.system.states}
        out = sim.evolve(
            steps=target,
            t0=r.t0,
            seed=seed,
            frames=2,
            progress=False,
            threads=r.threads,
            **({} if sim.system.kind == "map" else {"dt": r.dt}),
            **state,
            **given(r),
            **({"options": options} if (options := between(r)) else {}),
        )
    out.metrics["rewind"] = f"replayed from step {begun}"
    return out


def between(r: Run) -> dict[str, Any]:
    """What a run does between its steps, as a call says it; hills are in the system."""
    out: dict[str, Any] = {"acts": {a.name: Act(a.every, a.system) for a in r.acts}} if r.acts else {}
    if r.across is not None and r.across.name == "exchange":
        out["exchange"] = Exchange(*r.across.data[1:])
    return out


def given(r: Run) -> dict[str, Any]:
    """The parameters of a run as a user would give them."""
    return {name: v if len(v) > 1 else v[0] for name, v in r.given.own.items()}
