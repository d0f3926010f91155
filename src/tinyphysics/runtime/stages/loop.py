"""How does a run advance?  In blocks of time: whole ones count, a bad step is found by replaying its block.

A block is done tile by tile, all that concerns a tile at once: it is loaded, advanced, looked at, recorded.
Everything that is recorded comes from synchronised copies; the loop's own registers are never touched.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from tinyphysics.device.host.threads import spread
from tinyphysics.errors import BackendError, StoreError
from tinyphysics.options import INSIDE
from tinyphysics.runtime.stages.across import change
from tinyphysics.runtime.stages.between import frames_at_once
from tinyphysics.runtime.stages.block import advance_block
from tinyphysics.runtime.stages.ending import finish, safeguard
from tinyphysics.runtime.stages.looking import look_inside, stop_at_poles
from tinyphysics.runtime.stages.running import Done, Running
from tinyphysics.runtime.stages.together import advance_together
from tinyphysics.runtime.state.digest import state_hash
from tinyphysics.runtime.state.ensemble import shaped
from tinyphysics.runtime.state.record import Record
from tinyphysics.runtime.state.run import next_act
from tinyphysics.runtime.state.tiles import Tile, cut, store
from tinyphysics.runtime.state.workers import unbroken
from tinyphysics.trajectory import Stop


def begin_tiles(run: Running) -> None:
    """The tiles; those of a run that goes on with their loop states, and its first frame."""
    r, i, s = run.record, run.given, run.schedule
    e, size = run.engine, min(v.itemsize for v in i.states.values())
    # how near members come to poles is read once a block, and makes no tile smaller
    beside = getattr(e, "beside", None)
    numbers = e.numbers if beside is None else e.numbers - (beside.stop - beside.start)
    parts = cut(i.members, numbers, size, e.room, e.workers)
    kept, run.there = None, i.there
    if run.there or run.across is not None:  # what is there stays there; members that meet stay together
        parts = [slice(0, i.members)] if i.members else []
    if len(parts) > 1:
        own = {} if run.windows is not None else {name: v[-1] for name, v in r.frames.items()}
        slots = own or {n: np.empty_like(v) for n, v in i.states.items()}
        kept = store(slots, e.numbers - e.forgets)
    run.tiles = [Tile(part, e, i, run.dt, run.t0, kept) for part in parts]
    run.n = r.last = s.first
    if run.begun is not None:
        r.hashes += run.begun.hashes
        spread(partial(restore, run), len(run.tiles), run.engine.workers)
        for v in i.states.values():
            v.flags.writeable = False


def restore(run: Running, k: int) -> None:
    tile, c = run.tiles[k], run.begun
    assert c is not None
    first, end = tile.here.start, tile.here.stop
    tile.frozen = {j - first: why for j, why in c.frozen.items() if first <= j < end}
    if c.step > 0:
        m = tile.restored(c.registers, c.step)
        over = len(tile.frozen) == tile.members
        state = run.synchronised(tile, None if over else run.state_at(tile, m, c.step), {})
        tile.put(m)
    else:
        state = {name: v[tile.here] for name, v in c.start.items()}
    for name, v in state.items():
        run.given.states[name][tile.here] = v
    run.frame(tile, c.step, state)


def go(run: Running, tick: Callable[[int], None]) -> Record:
    r, i, s = run.record, run.given, run.schedule
    if s.steps == s.first or i.members == 0:
        with unbroken(len(run.tiles) > 1):
            spread(partial(frames_at_once, run), len(run.tiles), run.engine.workers)
        return nothing(run)
    many, files = len(run.tiles) > 1, run.keeper is not None or run.windows is not None
    try:
        if run.windows is not None:
            run.windows.pass_on(run.n)
        while run.n < s.steps and run.frozen < i.members:
            n, target = run.n, block_end(run, run.n, run.engine.block(i.members))
            assert target > n, "no room for a step"
            if many:
                with unbroken():
                    done = advance_tiles(run, n, target)
                    commit(run, target, done)
                    stop_at_poles(run, done)
                    look_inside(run)
                    safeguard(run, done)
            else:
                done = [advance_block(run, 0, n, target)]
                if run.across is not None and run.across.due(target) and not over(run, done):
                    with unbroken():
                        change(run, target, done[0], run.look_at_values)
                        commit(run, target, done)
                try:
                    commit(run, target, done)
                except KeyboardInterrupt:
                    commit(run, target, done)
                    raise
                stop_at_poles(run, done)
                look_inside(run)
                with unbroken(files):
                    safeguard(run, done)
            tick(run.n)
    except KeyboardInterrupt as stop:
        if (
            INSIDE.get() and not files
        ):  # a measurement would take the beginning for a run that failed, and go on
            raise
        r.stops.append(Stop("interrupted", run.n, run.time(run.n), error=stop))
    except StoreError as error:
        r.stops.append(Stop("store", run.n, run.time(run.n), error=error))
    # a device that has failed gives nothing back: the last frame that is here is the end
    except BackendError as error:
        if run.n == s.first:
            raise
        run.n = s.last_saved(run.n)
        r.stops.append(Stop("device", run.n, run.time(run.n), error=error))
    try:
        with unbroken(many or files):
            finish(run)
    except KeyboardInterrupt as stop:
        r.stops.append(Stop("interrupted", run.n, run.time(run.n), error=stop))
        if not files:
            finish(run)
    return r


def over(run: Running, done: list[Done]) -> bool:
    """Has every member stopped?"""
    return run.frozen + sum(len(d.stopped) for d in done) >= run.given.members


def advance_tiles(run: Running, n: int, target: int) -> list[Done]:
    if (done := advance_together(run, n, target)) is not None:
        return done
    return spread(lambda k: advance_block(run, k, n, target), len(run.tiles), run.engine.workers)


def nothing(run: Running) -> Record:
    """No step, or no member: every frame and observable that was asked for is there."""
    r, s = run.record, run.schedule
    run.n = s.steps
    for n in range(0, s.steps + 1, s.hash_every or s.steps + 1):
        if n > s.first:
            r.hash(n, state_hash(shaped(run.given)({name: run.given.states[name] for name in run.hashed})))
    finish(run)
    return r


def block_end(run: Running, n: int, size: int) -> int:
    """Where the block that begins at step n ends."""
    room = run.schedule.steps if run.windows is None else run.windows.limit()
    if run.acts is not None:
        acts = run.acts.run.acts
        inside = not run.fused and run.schedule.observe_every is None and not run.watches
        room = next_act([a for a in acts if not (inside and a.inside)], n, room)
    room = next_act(run.watches, n, room)
    if run.across is not None:
        room = min(room, run.across.next(n))
    if not run.fused:
        return min(run.schedule.next_look(n), n + size, room)
    every = run.stride
    return min(run.schedule.next_stop(n), n - n % every + max(size // every, 1) * every, room)


def commit(run: Running, target: int, done: list[Done]) -> None:
    """The block counts from here on. Done twice, it is as if it was done once."""
    for tile, d in zip(run.tiles, done):
        if tile.kept is None:
            tile.put(d.m)
        tile.frozen |= d.stopped
    run.n = target
    if run.frozen == run.given.members:
        run.n = max(stop.step for d in done for stop, _ in d.stopped.values()) - 1
    elif run.schedule.hashes(target):
        i = run.given
        parts = [
            (v.dtype, v.shape[0 if i.is_ensemble else 1 :], b"".join(d.leaves[name] for d in done))
            for name in run.hashed
            for v in [i.states[name]]
        ]
        run.record.hash_parts(target, parts)
