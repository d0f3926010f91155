"""How does a run show a time between two steps?  By a shorter step, which is for the reader alone and not fed back."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinyphysics.device.cuda.dlpack import here
from tinyphysics.runtime.engines.engine import Continuous, States
from tinyphysics.runtime.stages.running import Running, Stopped
from tinyphysics.runtime.state.encoding import owner
from tinyphysics.runtime.state.tiles import Tile
from tinyphysics.runtime.state.workers import all_finite
from tinyphysics.trajectory import Stop

TOGETHER = 1 << 26  # bytes of frames that are made together


def frames_at_once(run: Running, k: int) -> None:
    """The frames of a run that is over before its first step."""
    if between := run.schedule.between(run.n):
        tile = run.tiles[k]
        m = tile.load(run.n)
        frames_between(run, tile, m, run.n, between, {})
        if tile.kept is None:
            tile.put(m)


def frames_between(
    run: Running, tile: Tile, m: Any, n: int, between: list[tuple[int, float]], stopped: Stopped
) -> None:
    """Frames between step n, at which the members are, and the next one: for whoever looks, and not fed back."""
    if not run.record.frames:
        return
    engine, out, last = run.engine, {**tile.frozen, **stopped}, n == run.schedule.steps
    looked = engine if isinstance(engine, Continuous) else None
    state = state_at(run, tile, m, n, out) if looked is None else {}
    own = m if looked is None or not last else looked.snapshot(m)  # what a run goes on from stays at its step
    if looked is None:
        for slot, t in between:
            show_between(run, tile, n, slot, t, shorter_step(run, tile, state, n, t), out)
        if last and run.schedule.end is not None:
            engine.search_until(m, run.schedule.end)
        return
    most = max(1, TOGETHER // max(1, sum(int(v.nbytes) for v in tile.states().values())))
    for begin in range(0, len(between), most):
        some = between[begin : begin + most]
        states = looked.between_many(own, [t for _, t in some])
        for k, (slot, t) in enumerate(some):
            show_between(run, tile, n, slot, t, {name: v[k] for name, v in states.items()}, out)
    if last:
        looked.found_until(m, own)
        if run.schedule.end is not None:
            looked.search_until(m, run.schedule.end)


def show_between(run: Running, tile: Tile, n: int, slot: int, t: float, new: States, out: Stopped) -> None:
    """A frame after step n; of those that have stopped it is NaN."""
    if n == run.schedule.steps and t == run.schedule.end:
        check_end(run, tile, n, t, new, out)
    for name, v in run.record.frame_of(slot).items():
        if out and new[name].dtype.kind == "f":
            new[name][list(out)] = np.nan
        v[tile.here] = new[name]


def state_at(run: Running, tile: Tile, m: Any, n: int, out: Stopped) -> States:
    """The state of a tile at step n; of those that have stopped the last good one, so that a step can begin there."""
    if n == run.schedule.first:
        return tile.states()
    state = run.state_at(tile, m, n)
    for k, (_, last) in out.items():
        for name, v in state.items():
            v[k] = last[name]
    return state


def shorter_step(run: Running, tile: Tile, state: States, n: int, t: float) -> States:
    """One step of the method from a synchronised state, as long as it takes to be at a time."""
    now = run.time(n)
    by_dt = {name: v[tile.here] if len(v) > 1 else v for name, v in run.by_dt(t - now).items()}
    own = tile.params() | by_dt
    threads = None if tile.kept is None else 1
    one = run.engine.quiet(run.engine.start(state, own, tile.members, t - now, now, threads))
    run.engine.advance(one, 1)
    return run.states_of(one, run.there)


def check_end(run: Running, tile: Tile, n: int, t: float, new: States, out: Stopped) -> None:
    """A run that fails in the part of a step that it ends with has failed; its final state is that of step n."""
    for name, v in new.items():
        if v.dtype.kind != "f" or all_finite(v):
            continue
        finite = np.isfinite(here(v)).reshape(tile.members, -1)
        for k in np.flatnonzero(~finite.all(axis=1)).tolist():
            if k not in out:
                member = tile.here.start + k
                who = member if run.given.is_ensemble else None
                where = (owner(name), int(finite[k].argmin()))
                run.bad_end.setdefault(member, Stop(run.encoding.failure, n + 1, t, who, where))
