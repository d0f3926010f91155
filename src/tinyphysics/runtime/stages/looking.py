"""Is a run still well, now that it has come so far?  Watches look at it on their strides, and before anything is handed on.

They see synchronised copies, so they change no bit. A member that stops does so at the step that a replay finds: what was
recorded of it since then is taken back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tinyphysics.device.cuda.dlpack import here
from tinyphysics.device.engines.engine import LaneEngine
from tinyphysics.runtime.engines.engine import Distant
from tinyphysics.runtime.stages.running import Done, Running
from tinyphysics.runtime.state.record import Record
from tinyphysics.runtime.state.run import Found, NearPoles, Watch
from tinyphysics.runtime.state.tiles import Tile, store
from tinyphysics.trajectory import Stop

MANY = 1000  # steps that are done again together
PART = 1 << 12  # members whose values stay in the cache while a watch goes over them
LONGER = 3  # times what was done: for fewer steps no other code is made


def look_inside(run: Running) -> None:
    """The watches that are due: all of them at the last step, and before frames or a checkpoint leave the run."""
    if not run.watches or run.frozen == run.given.members:
        return
    n = run.n
    all_due = hands_on(run)
    due = [w for w in run.watches if all_due or n % w.every == 0]
    if not due:
        return
    wrong: dict[str, list[int]] = {w.name: [] for w in due}
    for k, tile in enumerate(run.tiles):
        if len(tile.frozen) == tile.members:
            continue
        begin_to_look(run, k, tile)
        state = state_now(run, tile)
        now = run.look(tile, state, n)
        for w in due:
            fresh = [j for j in looks_bad(w, tile, now, n) if j not in tile.frozen]
            if w.find is not None:
                wrong[w.name] += [tile.here.start + j for j in fresh]
                continue
            for j in fresh:
                who = tile.here.start + j if run.given.is_ensemble else None
                seen = float(np.max(now[next(iter(w.values))][j]))
                stop = Stop(w.cause, n + 1, run.time(n), who, (w.name, seen))
                tile.frozen[j] = stop, {name: here(v[j]).copy() for name, v in state.items()}
    stopped: list[Stop] = []
    for w in due:
        stopped += stop_members(run, w, wrong[w.name])
        run.looked[w.name] = n
    if run.frozen == run.given.members:
        all_stopped(run)
    elif stopped and run.schedule.hashes(n):
        hash_again(run)


def hands_on(run: Running) -> bool:
    """Is this the last step, or do frames or a checkpoint leave the run here?"""
    n = run.n
    return bool(n == run.schedule.steps or run.keeps(n) or run.windows is not None and run.windows.ready(n))


def state_now(run: Running, tile: Tile) -> dict[str, Any]:
    """The states of a tile; at the end its last frame has taken the place of the loop state."""
    if tile.kept is not None and run.n == run.schedule.steps and run.record.frames:
        return {name: v[tile.here].copy() for name, v in run.record.frame(run.n).items()}
    return run.state_at(tile, tile.load(run.n), run.n)


def begin_to_look(run: Running, k: int, tile: Tile) -> None:
    """All watches see the first states of a tile, once; each keeps what it needs of them."""
    if k in run.begun_to_look:
        return
    run.begun_to_look.add(k)
    start = run.given.states if run.begun is None else run.begun.start
    first = run.look(tile, {name: v[tile.here] for name, v in start.items()}, 0)
    for w in run.watches:
        for part, own in parts(tile):
            w.begin(part, {name: v[own] for name, v in first.items()})


def looks_bad(w: Watch, tile: Tile, now: Mapping[str, Any], n: int) -> list[int]:
    """The members of a tile that look wrong."""
    bad = [w.bad(part, {name: v[own] for name, v in now.items()}, n) for part, own in parts(tile)]
    return list(np.flatnonzero(np.concatenate(bad)).tolist())


def parts(tile: Tile) -> Iterator[tuple[slice, slice]]:
    """Some members after the other: where they are among all, and in their tile."""
    for a in range(0, tile.members, PART):
        b = min(a + PART, tile.members)
        yield slice(tile.here.start + a, tile.here.start + b), slice(a, b)


def stop_members(run: Running, w: Watch, members: Sequence[int]) -> list[Stop]:
    """Members stop of which a replay says so."""
    if not members or w.find is None:
        return []
    going = [k for k in members if all(k - t.here.start not in t.frozen for t in run.tiles if inside(t, k))]
    found = w.find(going, run.looked.get(w.name, run.schedule.first), run.n) if going else {}
    found = {**found, **passed_before(run, found)}
    run.record.alarms += len(going)
    take_back(run.record, run.n, found)
    for tile in run.tiles:
        tile.frozen |= {k - tile.here.start: why for k, why in found.items() if inside(tile, k)}
    return [stop for stop, _ in found.values()]


def passed_before(run: Running, found: Found) -> Found:
    """Members that passed a pole before a watch stops them, where steps have not been looked at for poles yet."""
    if run.poles is None or not run.poles.replays or not found:
        return {}
    good = run.schedule.first if run.passed_none is None else run.passed_none
    last = max(stop.step for stop, _ in found.values())
    passed = run.poles.find(list(found), good, last) if last > good else {}
    return {k: why for k, why in passed.items() if why[0].step < found[k][0].step}


def stop_at_poles(run: Running, done: Sequence[Done]) -> None:
    """Members stop of which a step of this block passed a pole: those that came near are done again to see."""
    if run.poles is None or not run.poles.replays and any(d.nearest is None and not d.calm for d in done):
        return
    run.record.kept_nearest = True
    if all(d.calm for d in done) and not run.poles.replays:
        run.passed_none = run.n
        return
    good = run.schedule.first if run.passed_none is None else run.passed_none
    # a replay takes as long as the steps, and has to begin: not after every block
    if run.poles.replays and run.n - good < MANY and not hands_on(run) and not run.schedule.hashes(run.n):
        if not any(d.stopped for d in done):
            return
    before = {tile.here.start + k for tile, d in zip(run.tiles, done) for k in tile.frozen.keys() - d.stopped}
    asked = range(run.given.members) if run.poles.replays else came_near(run, run.poles, done)
    going = [k for k in asked if k not in before]
    end = run.n if run.frozen < run.given.members else max(last_step(run), good)
    found = run.poles.find(going, good, end) if going and end > good else {}
    run.record.came_near |= not run.poles.replays and len(found) < len(going)
    for tile in run.tiles:  # a member that stopped in this block may have passed one before that
        for k, why in found.items():
            if inside(tile, k):
                old = tile.frozen.get(k - tile.here.start)
                if old is None or why[0].step < old[0].step:
                    tile.frozen[k - tile.here.start] = why
    take_back(run.record, end, found)
    run.passed_none = run.n
    if found and run.frozen == run.given.members:
        all_stopped(run)
    elif found and run.schedule.hashes(run.n):
        hash_again(run)
    if run.frozen == run.given.members:
        return
    if going and run.poles.by_length and run.schedule.steps - run.n > LONGER * (run.n - run.schedule.first):
        keep_distances(run)


def keep_distances(run: Running) -> None:
    """From here on the loop keeps distances themselves: of some members, lengths of steps said too little."""
    assert run.poles is not None and run.engine_beside is not None
    if run.there or not isinstance(run.engine, LaneEngine) or isinstance(run.engine, Distant):
        return
    n, poles = run.n, run.poles.by_distances
    engine = run.engine_beside(poles)
    loops = [run.engine.registers(tile.load(n)) for tile in run.tiles]
    kept = run.tiles[0].kept
    kept = None if kept is None else store(kept.slots, engine.numbers - engine.forgets)
    for tile, registers in zip(run.tiles, loops):
        tile.engine, tile.kept, threads = engine, kept, None if kept is None else 1
        tile.put(engine.restored(registers, tile.params(), tile.members, tile.dt, tile.t0, n, threads))
    run.engine, run.poles, run.known_far = engine, poles, None


def came_near(run: Running, poles: NearPoles, done: Sequence[Done]) -> list[int]:
    """Members that were in this block nearer to a pole than ever before, and so near that they may have passed it."""
    rows = next(len(d.nearest) for d in done if d.nearest is not None)
    found = (
        np.full((rows, tile.members), np.inf) if d.nearest is None else d.nearest
        for tile, d in zip(run.tiles, done)
    )
    near = np.concatenate(list(found), axis=1)
    if run.known_far is None:
        run.known_far = np.full(near.shape, np.inf)
    nearer = np.flatnonzero((near < run.known_far).any(axis=0))
    wide = poles.wider(near[:, nearer])
    far = ~suspected(run, poles, nearer, wide) if len(nearer) else np.empty(0, bool)
    calm = nearer[far]
    asked = np.setdiff1d(nearer, calm, assume_unique=True)
    asked = asked[suspected(run, poles, asked, near[:, asked])] if len(asked) else asked
    if poles.by_length:  # a bound by two numbers: those of two blocks together may be near where neither was
        run.known_far[:, nearer] = near[:, nearer]
    else:
        run.known_far = np.fmin(run.known_far, near)
    run.known_far[:, calm] = wide[:, far]
    if (
        poles.by_length or not poles.by_distance
    ):  # that none passed says nothing of others with the same bound
        run.known_far[:, asked] = np.inf
    return [int(k) for k in asked]


def suspected(run: Running, poles: NearPoles, members: Any, near: Any) -> Any:
    first = run.given.states if run.begun is None else run.begun.start
    own = {name: v[members] if len(v) > 1 else v for name, v in run.given.own.items()}
    return poles.suspects({name: v[members] for name, v in first.items()}, own, near)


def last_step(run: Running) -> int:
    return max(stop.step for tile in run.tiles for stop, _ in tile.frozen.values()) - 1


def all_stopped(run: Running) -> None:
    run.n = last_step(run)
    run.record.forget_hashes(run.n)


def inside(tile: Tile, member: int) -> bool:
    return bool(tile.here.start <= member < tile.here.stop)


def take_back(r: Record, n: int, found: Found) -> None:
    """What was recorded up to step n of members from their bad steps on; whole numbers stay what they were before."""
    s = r.schedule
    steps = s.steps_of(r.slot0, s.complete(n)) if r.frames else np.empty(0, int)
    seen = np.array(s.observed(n)[r.row0 :]) if s.observe_every is not None else np.empty(0, int)
    for k, (stop, last) in found.items():
        for name, v in r.frames.items():
            for row in np.flatnonzero(steps >= stop.step).tolist():
                v[row][k] = np.nan if v.dtype.kind == "f" else last[name]
        for v in r.observed.values():
            v[: len(seen)][seen >= stop.step, k] = np.nan


def hash_again(run: Running) -> None:
    """The digest of this step, without the members that have stopped."""
    n, i, parts = run.n, run.given, list[dict[str, bytes]]()
    for tile in run.tiles:
        state = None
        if len(tile.frozen) < tile.members:
            state = state_now(run, tile)
        parts.append({name: run.record.digest(v) for name, v in run.synchronised(tile, state, {}).items()})
    lead = 0 if i.is_ensemble else 1
    whole = [
        (v.dtype, v.shape[lead:], b"".join(part[name] for part in parts))
        for name in run.hashed
        for v in [i.states[name]]
    ]
    run.record.forget_hashes(n - 1)
    run.record.hash_parts(n, whole)
