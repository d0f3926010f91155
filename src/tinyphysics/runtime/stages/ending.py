"""What does a run leave behind?  Checkpoints on the way, and at the end its last frame, final state and loop state."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from tinyphysics.device.cuda.dlpack import empty_like
from tinyphysics.device.host.threads import spread
from tinyphysics.errors import StoreError
from tinyphysics.runtime.engines.engine import States
from tinyphysics.runtime.stages.running import Done, Running
from tinyphysics.runtime.state.record import Carried
from tinyphysics.runtime.state.workers import copy
from tinyphysics.runtime.storage.resume import joined as joined_registers
from tinyphysics.trajectory import Stop


def safeguard(run: Running, done: list[Done]) -> None:
    """What was done is handed on, and left in a checkpoint, where that is due."""
    if run.frozen == run.given.members:
        return
    if run.windows is not None and all(run.looked.get(w.name) == run.n for w in run.watches):
        run.windows.pass_on(run.n)  # only what was looked at
    if run.n == run.schedule.steps and run.carries:
        run.carried = joined_registers([d.registers for d in done], run.threads)
    if run.keeps(run.n):
        keep(run, [d.registers for d in done])


def keep(run: Running, parts: list[Mapping[str, Any]]) -> None:
    assert run.keeper is not None
    if run.windows is not None:  # a checkpoint never knows of frames that are not on the disk
        run.windows.hand_on(run.n)
        run.windows.target.settle()
    run.keeper.keep(carried(run, joined_registers(parts, run.threads)), run.record)
    run.kept = run.n


def carried(run: Running, registers: Mapping[str, Any]) -> Carried:
    frozen = {tile.here.start + k: v for tile in run.tiles for k, v in tile.frozen.items()}
    return Carried(run.n, registers, frozen, {} if run.worker is None else run.worker.memory())


def keep_last(run: Running) -> None:
    """Where a run ends early; not where every member has failed, since such a run cannot be resumed."""
    done = run.kept == run.n or run.frozen == run.given.members
    if run.keeper is None or done or any(stop.cause in ("store", "device") for stop in run.record.stops):
        return
    keep(run, run.parting)


def carry_on(run: Running) -> None:
    """The loop state that the run ends with, before its last frame may take its place.

    None where all have failed: they have nothing to go on from.
    """
    failed = bool(run.given.members) and run.frozen == run.given.members
    if failed or any(stop.cause == "device" for stop in run.record.stops):
        return
    if run.keeper is not None and run.kept != run.n or run.carries and run.carried is None:
        run.parting = [{}]
        if run.n and run.tiles:
            run.parting = [run.engine.registers(tile.load(run.n)) for tile in run.tiles]
    if not run.carries:
        return
    if run.carried is None:
        run.carried = joined_registers(run.parting, run.threads)
    run.record.carried = carried(run, run.carried)


def finish(run: Running) -> None:
    """The last frame and checkpoint, and the final state: of stopped members the last good one."""
    r = run.record
    r.last = run.n
    failed = [stop for tile in run.tiles for stop, _ in tile.frozen.values()]
    r.stops[:] = sorted(failed, key=lambda stop: (stop.step, stop.member or 0)) + [
        stop for stop in r.stops if stop.cause != run.encoding.failure and stop not in failed
    ]
    if not r.frames:
        return
    carry_on(run)
    if not run.schedule.saves(run.n):
        spread(partial(last_frame, run), len(run.tiles), run.engine.workers)
    r.final = dict(r.frame(run.n))
    ends = run.n == run.schedule.steps and run.schedule.end is not None
    if ends:
        whole, r.final = r.final, dict(r.frame_of(run.schedule.kept(run.n) - 1))
        judge_end(run, whole)
    leave(run)
    if not run.frozen:
        return
    good = {tile.here.start + k: last for tile in run.tiles for k, (_, last) in tile.frozen.items()}
    put_final(run, good)


def put_final(run: Running, good: Mapping[int, States]) -> None:
    """Other final states of some members, in a copy: the arrays are those of a frame."""
    final = run.record.final
    for name, v in final.items():
        final[name] = empty_like(v)
        copy(v, final[name], run.engine.workers)
        for k, state in good.items():
            final[name][k] = state[name]


def judge_end(run: Running, whole: States) -> None:
    """Members that failed in the part of a step at the end: their last good state is that of the last whole step."""
    r = run.record
    if not run.bad_end:
        return
    r.stops += [run.bad_end[k] for k in sorted(run.bad_end)]
    put_final(run, {k: {name: v[k] for name, v in whole.items()} for k in run.bad_end})


def leave(run: Running) -> None:
    """What a run leaves on the disk when it ends, however it ends."""
    r = run.record
    try:
        if run.windows is not None:
            run.windows.hand_on(run.n, ends=True)
            run.windows.target.settle()
        keep_last(run)
    except StoreError as error:
        if not any(stop.cause == "store" for stop in r.stops):
            r.stops.append(Stop("store", run.n, run.time(run.n), error=error))


def last_frame(run: Running, k: int) -> None:
    tile = run.tiles[k]
    state = run.state_at(tile, tile.load(run.n), run.n)
    for j, (stop, last) in tile.frozen.items():
        for name, v in state.items():
            v[j] = last[name] if stop.step > run.n or v.dtype.kind != "f" else np.nan
    run.frame(tile, run.n, state)
