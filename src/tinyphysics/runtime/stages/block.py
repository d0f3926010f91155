"""What happens to a tile in one block of time?  It is loaded, advanced, looked at and recorded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tinyphysics.constrained import BRACKET as CONSTRAINED
from tinyphysics.device.cuda.dlpack import here
from tinyphysics.runtime.engines.collisions import colliding_pair
from tinyphysics.runtime.engines.engine import States
from tinyphysics.runtime.engines.find_failure import Failure, locate
from tinyphysics.runtime.stages.acting import lost
from tinyphysics.runtime.stages.between import frames_between
from tinyphysics.runtime.stages.running import Done, Running, Stopped
from tinyphysics.runtime.state.encoding import owner
from tinyphysics.runtime.state.run import next_act
from tinyphysics.runtime.state.tiles import Tile
from tinyphysics.trajectory import Stop

MOST_SEARCHED = 16  # members of a tile for which it is found out who met, if many stop in one block


def advance_block(run: Running, k: int, n: int, target: int) -> Done:
    """Tile k from step n to the target; what it meets on the way is recorded in its own columns."""
    tile, s = run.tiles[k], run.schedule
    done, at = Done(), n
    if between := s.between(n):
        frames_between(run, tile, tile.load(n), n, between, {})
    m, state = run.load(tile, n), None
    for rows, stride in pieces(run, m, n, target):
        if len(tile.frozen) + len(done.stopped) == tile.members:
            blank(run, tile, at, target)
            break
        if at > n and run.acts is not None and run.acts.due_inside(at):
            m = run.acts.inside(run.engine, tile, m, at)
        before = run.engine.snapshot(m) if at > n and rows else None
        values: dict[str, Any] = {}
        if rows:
            values = run.engine.watch(m, rows, stride)
        else:
            run.engine.advance(m, stride)
        over = at + stride * max(rows, 1)
        suspicious = suspects(run, tile, m, values, done.stopped)
        # the loop keeps the least so far, until those that stopped go on as copies of others
        if run.poles is not None and not run.poles.replays and (over == target or suspicious):
            look_for_poles(run, tile, m, done)
        if suspicious:
            before = step_again(run, tile, n, at) if before is None else before
            known = min(suspicious.values()) * stride
            found = locate(run.engine, before, list(suspicious), at, over, known, bool(run.pairs))
            done.stopped |= {
                k: at_event(run, tile, m, k, failure) or stop_of(run, tile, k, failure, rank < MOST_SEARCHED)
                for rank, (k, failure) in enumerate(found.items())
            }
            silence(run, tile, m, done.stopped)
        if over == target and run.acts_at(target):
            state = act(run, tile, m, target, done.stopped)
            if rows:
                show_after(run, tile, state, target, values)
        if rows:
            show(run, tile, done.stopped, np.arange(at + stride, over + 1, stride), values)
        at = over
    saves = s.saves(target) and bool(run.record.frames) and not run.fused
    if saves and state is None and shown_at_once(run, tile, m, target, done):
        saves = False
    if saves or s.hashes(target):
        if len(tile.frozen) + len(done.stopped) == tile.members:
            state = None
        elif state is None:
            state = run.state_at(tile, m, target, not saves and run.many_leaves)
        state = run.synchronised(tile, state, done.stopped)
        if saves:
            run.frame(tile, target, state)
        if s.hashes(target):
            done.leaves = {name: run.record.digest(v) for name, v in state.items()}
    if run.keeps(target) or target == s.steps and run.carries:
        done.registers = run.engine.registers(m)
    if target == s.steps and (between := s.between(target)):
        frames_between(run, tile, m, target, between, done.stopped)
    if tile.kept is None:
        done.m = m
    elif target < s.steps or not run.record.frames:  # at the end the last frame is in its place
        tile.put(m)
    return done


def shown_at_once(run: Running, tile: Tile, m: Any, n: int, done: Done) -> bool:
    """A frame that an engine writes where it belongs, if nothing else is done with the states of this step."""
    if tile.frozen or done.stopped or run.there or run.schedule.hashes(n) or run.acts_at(n):
        return False
    return run.engine.synchronised_into(m, {name: v[tile.here] for name, v in run.record.frame(n).items()})


def step_again(run: Running, tile: Tile, n: int, at: int) -> Any:
    """The loop state from which a tile left step `at`, from what is known of step n."""
    m = run.load(tile, n)
    for _, stride in pieces(run, m, n, at):
        run.engine.advance(m, stride)
        n += stride
        if run.acts is not None and run.acts.due_inside(n):
            m = run.acts.inside(run.engine, tile, m, n)
    return m


def look_for_poles(run: Running, tile: Tile, m: Any, done: Done) -> None:
    """How near did the members of a tile come to poles?  One answer for all of them, where none came near."""
    poles, all_of_them = run.poles, run.engine.nearest_of_all(m)
    assert poles is not None
    first = run.given.states if run.begun is None else run.begun.start
    calm = all_of_them is not None and poles.calm(first, run.given.own, all_of_them)
    done.calm = calm and done.nearest is None  # members that have stopped may have been near before
    if calm:
        return
    near = run.engine.nearest(m)
    if near is not None:
        done.nearest = near.copy() if done.nearest is None else np.fmin(done.nearest, near)


def act(run: Running, tile: Tile, m: Any, n: int, stopped: Stopped) -> States:
    """The states of a tile after the acts of step n; a member for which there is none stops at the state before them."""
    before = run.states_of(m, run.there)
    assert run.acts is not None
    after = run.acts.after(tile, before, n)
    for k, where in lost(after, run.encoding.whole).items():
        if k in tile.frozen or k in stopped:
            continue
        member = tile.here.start + k
        who = member if run.given.is_ensemble else None
        stop = Stop(run.encoding.failure, n, run.time(n), who, where)
        stopped[k] = stop, {name: here(v[k]) for name, v in before.items()}
    if stopped:
        silence(run, tile, m, stopped)
    return after


def show_after(run: Running, tile: Tile, state: States, n: int, values: dict[str, Any]) -> None:
    """What was observed in the loop at step n, of the state after its acts."""
    assert run.acts is not None
    for name, source in run.fused.items():
        values[source][-1] = here(state[name])
    for name, v in {} if run.acts.look is None else run.acts.look(tile, state, n).items():
        values[name][-1] = v


def pieces(run: Running, m: Any, n: int, target: int) -> Iterator[tuple[int, int]]:
    """(rows, stride) of the calls from step n to the target; no rows: nothing is observed."""
    if run.schedule.observe_every is None and not run.fused:
        while (
            n < target
        ):  # what is done to registers inside is done tile by tile, while a tile is in the cache
            end = target if run.acts is None else next_act(run.acts.run.acts, n, target)
            yield 0, end - n
            n = end
        return
    every, most = run.stride, run.engine.rows(m)
    while n < target:
        stride = min(every - n % every, target - n)
        rows = min((target - n) // every, most) if stride == every else 1
        yield rows if run.fused or (n + stride) % every == 0 else 0, stride
        n += rows * stride


def suspects(run: Running, tile: Tile, m: Any, values: States, stopped: Mapping[int, Any]) -> dict[int, int]:
    """Members that are not finite now, or were in a frame: how many rows before that are known to be good."""
    good: dict[int, int] = {}
    for source in run.fused.values():
        v = values[source]
        if np.isfinite(v).all():
            continue
        finite = np.isfinite(v).reshape(*v.shape[:2], -1).all(axis=2)
        for k in np.flatnonzero(~finite.all(axis=0)).tolist():
            first = int(finite[:, k].argmin())
            good[k] = min(good.get(k, first), first)
    out = dict.fromkeys(run.engine.bad(m), 0) | good
    return {k: rows for k, rows in out.items() if k not in tile.frozen and k not in stopped}


def at_event(run: Running, tile: Tile, m: Any, k: int, failure: Failure) -> tuple[Stop, States] | None:
    """A member that an event has stopped, and its states there."""
    if (ended := run.engine.ended(m, k)) is None:
        return None
    name, t, states = ended
    who = tile.here.start + k if run.given.is_ensemble else None
    return Stop("event", failure.step, t, who, name), states


def stop_of(run: Running, tile: Tile, k: int, failure: Failure, search: bool) -> tuple[Stop, States]:
    """Why a member of a tile stopped, and its last good state: at the first step the one it was given."""
    member, n = tile.here.start + k, failure.step
    before = failure.before if n > 1 else {name: here(v[member]) for name, v in run.given.states.items()}
    where: Any = (owner(failure.where[0]), failure.where[1])
    if search and run.pairs:  # they met where the step went, or were together when it began
        params = {name: v[member if len(v) > 1 else 0] for name, v in run.given.params.items()}
        met = (
            colliding_pair(run.pairs, {"t": run.time(t), **params, **run.encoding.values(s)})
            for t, s in ((n, failure.after), (n - 1, before))
        )
        where = next((pair for pair in met if pair is not None), where)
    error = None
    if search and run.encoding.solves:
        from tinyphysics.runtime.engines.rounds_again import not_solved

        own = {name: v[[member if len(v) > 1 else 0]] for name, v in run.given.params.items()}
        error = no_solution(run, member, before) or not_solved(
            getattr(run.engine, "program", None), before, own, run.dt, run.t0, n - 1
        )
    who = member if run.given.is_ensemble else None
    return Stop(run.encoding.failure, n, run.time(n), who, where, error), before


def no_solution(run: Running, member: int, before: States) -> Exception | None:
    """What the system says of equations that have no solution from its last good state."""
    if run.system is None or run.system.bracket != CONSTRAINED:
        return None
    from tinyphysics.runtime.stages.turned_rows import turned_too_far  # most systems have no constraints

    return turned_too_far(run.system, run.given, member, run.encoding.values(before), run.dt)


def silence(run: Running, tile: Tile, m: Any, stopped: Mapping[int, Any]) -> None:
    """A stopped member goes on as a copy of one that is well, so that it costs nothing and causes no warning."""
    well = next((k for k in range(tile.members) if k not in tile.frozen and k not in stopped), None)
    if well is not None:
        run.engine.overwrite(m, list(stopped), well)


def show(run: Running, tile: Tile, stopped: Stopped, steps: Any, values: States) -> None:
    """The rows of a piece; what a stopped member shows from its bad step on is NaN."""
    for v in values.values():
        v[:, list(tile.frozen)] = np.nan
        for k, (stop, _) in stopped.items():
            v[steps >= stop.step, k] = np.nan
    if run.sink is not None:
        run.sink(values, tile.here)
    else:
        run.record.keep(steps, values, tile.here, run.fused)


def blank(run: Running, tile: Tile, n: int, target: int) -> None:
    """All members of this tile have stopped, others may go on."""
    run.record.blank(n, target, tile.here, run.fused)
