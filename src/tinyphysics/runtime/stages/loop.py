"""How does a run advance?  In blocks of time: whole ones count, a bad step is found by replaying its block.

A block is done tile by tile, all that concerns a tile at once: it is loaded, advanced, looked at, recorded.
Everything that is recorded comes from synchronised copies; the loop's own registers are never touched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from tinyphysics.device.cuda.dlpack import empty_like, here
from tinyphysics.errors import BackendError, StoreError
from tinyphysics.ir import UOp
from tinyphysics.runtime.engines.collisions import meeting, pair_sums
from tinyphysics.runtime.engines.engine import Distant, Engine, States
from tinyphysics.runtime.engines.find_failure import Failure, locate
from tinyphysics.runtime.engines.on_demand import LookedAt
from tinyphysics.runtime.state.digest import joined, leaves, state_hash
from tinyphysics.runtime.state.encoding import FLOAT64, Encoding, owner
from tinyphysics.runtime.state.ensemble import Inputs
from tinyphysics.runtime.state.record import Carried, Record
from tinyphysics.runtime.state.run import Checkpoint
from tinyphysics.runtime.state.schedule import Schedule, time_at
from tinyphysics.runtime.state.tiles import Tile, cut, store
from tinyphysics.runtime.state.windows import Windows
from tinyphysics.runtime.state.workers import all_finite, copy, spread, unbroken
from tinyphysics.runtime.storage.resume import Keeps
from tinyphysics.runtime.storage.resume import joined as joined_registers
from tinyphysics.system import System
from tinyphysics.trajectory import Stop

HASHED_THERE = 1 << 22  # bytes of a state on a GPU that are sooner hashed there than read
CARRIED = 16 << 20  # bytes of a state up to which a run keeps its loop state to go on from
MOST_SEARCHED = 16  # members of a tile for which it is found out who met, if many stop in one block
Sink = Callable[[Mapping[str, Any], slice], None]  # takes observables of some members instead of the record


def shaped(i: Inputs) -> Callable[[States], States]:
    """Arrays as the user sees them: without a member axis if none was given."""
    return lambda s: s if i.is_ensemble else {n: v[0] for n, v in s.items()}


@dataclass
class Done:
    """One tile at the end of a block."""

    m: Any = None  # the loop state, if it is not kept elsewhere
    stopped: dict[int, tuple[Stop, States]] = field(default_factory=dict)
    leaves: dict[str, bytes] = field(default_factory=dict)
    registers: Mapping[str, Any] = field(default_factory=dict)  # where a checkpoint is due


@dataclass
class Running:
    """One run: what it was asked, what it has, and who is still going."""

    engine: Engine
    given: Inputs
    schedule: Schedule
    dt: float
    t0: float
    record: Record
    sink: Sink | None = None
    fused: Mapping[str, str] = field(
        default_factory=dict
    )  # states that are observed in the loop: their frames
    system: System | None = None
    encoding: Encoding = FLOAT64
    begun: Checkpoint | None = None  # from where a run goes on
    keeper: Keeps | None = None
    windows: Windows | None = None  # of a run that is streamed
    tiles: list[Tile] = field(default_factory=list)
    n: int = 0
    there: bool = False  # are the states, and so the frames, on a GPU?
    kept: int | None = None  # the step of the last checkpoint
    by_dt: Callable[[float], Mapping[str, Any]] = lambda dt: {}  # parameters that follow from dt
    carried: Mapping[str, Any] | None = None  # the loop state of the last step
    parting: list[Mapping[str, Any]] = field(
        default_factory=list
    )  # the same by tiles, of a run that ends early
    bad_end: dict[int, Stop] = field(
        default_factory=dict
    )  # members for which the part of a step at the end failed

    def time(self, n: int) -> float:
        return time_at(n, self.dt, self.t0)

    @cached_property
    def pairs(self) -> list[UOp]:
        """The sums over pairs in which two particles may meet; derived only if something went wrong."""
        return [] if self.system is None else pair_sums(self.system)

    @property
    def frozen(self) -> int:
        return sum(len(tile.frozen) for tile in self.tiles)

    # --- the run ----------------------------------------------------------------------------------
    def begin(self) -> None:
        """The tiles; those of a run that goes on with their loop states, and its first frame."""
        r, i, s = self.record, self.given, self.schedule
        parts = cut(
            i.members, self.engine.numbers, min(v.itemsize for v in i.states.values()), self.engine.room
        )
        kept, self.there = None, i.there
        if self.there:  # what is there stays there
            parts = [slice(0, i.members)] if i.members else []
        if len(parts) > 1:
            own = {} if self.windows is not None else {name: v[-1] for name, v in r.frames.items()}
            slots = own or {n: np.empty_like(v) for n, v in i.states.items()}
            kept = store(slots, self.engine.numbers)
        self.tiles = [Tile(part, self.engine, i, self.dt, self.t0, kept) for part in parts]
        self.n = r.last = s.first
        if self.begun is not None:
            r.hashes += self.begun.hashes
            spread(self.restore, len(self.tiles), self.engine.workers)
            for v in i.states.values():
                v.flags.writeable = False

    def restore(self, k: int) -> None:
        tile, c = self.tiles[k], self.begun
        assert c is not None
        first, end = tile.here.start, tile.here.stop
        tile.frozen = {j - first: why for j, why in c.frozen.items() if first <= j < end}
        if c.step > 0:
            m = tile.restored(c.registers, c.step)
            state = self.synchronised(tile, m, {})
            tile.put(m)
        else:
            state = {name: v[tile.here] for name, v in c.start.items()}
        for name, v in state.items():
            self.given.states[name][tile.here] = v
        self.frame(tile, c.step, state)

    def go(self, tick: Callable[[int], None]) -> Record:
        r, i, s = self.record, self.given, self.schedule
        if s.steps == s.first or i.members == 0:
            with unbroken(len(self.tiles) > 1):
                spread(self.at_once, len(self.tiles), self.engine.workers)
            return self.nothing()
        many, files = len(self.tiles) > 1, self.keeper is not None or self.windows is not None
        size = self.engine.block(i.members)
        try:
            if self.windows is not None:
                self.windows.pass_on(self.n)
            while self.n < s.steps and self.frozen < i.members:
                n, target = self.n, self.end(self.n, size)
                assert target > n, "no room for a step"
                if many:
                    with unbroken():
                        done = spread(
                            lambda k: self.block(k, n, target),  # noqa: B023
                            len(self.tiles),
                            self.engine.workers,
                        )
                        self.commit(target, done)
                        self.safeguard(done)
                else:
                    done = [self.block(0, n, target)]
                    try:
                        self.commit(target, done)
                    except KeyboardInterrupt:
                        self.commit(target, done)
                        raise
                    with unbroken(files):
                        self.safeguard(done)
                tick(self.n)
        except KeyboardInterrupt as stop:
            r.stops.append(Stop("interrupted", self.n, self.time(self.n), error=stop))
        except StoreError as error:
            r.stops.append(Stop("store", self.n, self.time(self.n), error=error))
        except (
            BackendError
        ) as error:  # a device that has failed gives nothing back: the last frame that is here is the end
            if self.n == s.first:
                raise
            self.n = s.last_saved(self.n)
            r.stops.append(Stop("device", self.n, self.time(self.n), error=error))
        try:
            with unbroken(many or files):
                self.finish()
        except KeyboardInterrupt as stop:
            r.stops.append(Stop("interrupted", self.n, self.time(self.n), error=stop))
            if not files:
                self.finish()
        return r

    def nothing(self) -> Record:
        """No step, or nobody: every frame and observable that was asked for is there."""
        r, s = self.record, self.schedule
        self.n = s.steps
        for n in range(0, s.steps + 1, s.hash_every or s.steps + 1):
            if n > s.first:
                r.hash(n, state_hash(shaped(self.given)(self.given.states)))
        self.finish()
        return r

    def end(self, n: int, size: int) -> int:
        """Where the block that begins at step n ends."""
        room = self.schedule.steps if self.windows is None else self.windows.limit()
        if not self.fused:
            return min(self.schedule.next_look(n), n + size, room)
        every = self.stride
        return min(self.schedule.next_stop(n), n - n % every + max(size // every, 1) * every, room)

    @property
    def stride(self) -> int:
        """Steps from one look inside the loop to the next."""
        s = self.schedule
        strides = [
            every for every in (s.observe_every, s.save_every if self.fused else None) if every is not None
        ]
        return min(strides)

    def commit(self, target: int, done: list[Done]) -> None:
        """The block counts from here on. Done twice, it is as if it was done once."""
        for tile, d in zip(self.tiles, done):
            if tile.kept is None:
                tile.put(d.m)
            tile.frozen |= d.stopped
        self.n = target
        if self.frozen == self.given.members:
            self.n = max(stop.step for d in done for stop, _ in d.stopped.values()) - 1
        elif self.schedule.hashes(target):
            i = self.given
            parts = [
                (v.dtype, v.shape[0 if i.is_ensemble else 1 :], b"".join(d.leaves[name] for d in done))
                for name, v in i.states.items()
            ]
            self.record.hash(target, joined(parts))

    # --- checkpoints ------------------------------------------------------------------------------
    def keeps(self, n: int) -> bool:
        return self.keeper is not None and (n == self.schedule.steps or self.schedule.checkpoints(n))

    @property
    def carries(self) -> bool:
        """Is the loop state of the end kept in memory?  Of a large run it can be computed again."""
        whole = sum(v.nbytes for v in self.given.states.values())
        return bool(self.record.frames) and not self.there and whole <= CARRIED

    def safeguard(self, done: list[Done]) -> None:
        """What was done is handed on, and left in a checkpoint, where that is due."""
        if self.frozen == self.given.members:
            return
        if self.windows is not None:
            self.windows.pass_on(self.n)
        if self.n == self.schedule.steps and self.carries:
            self.carried = joined_registers([d.registers for d in done])
        if self.keeps(self.n):
            self.keep([d.registers for d in done])

    def keep(self, parts: list[Mapping[str, Any]]) -> None:
        assert self.keeper is not None
        if self.windows is not None:  # a checkpoint never knows of frames that are not on the disk
            self.windows.hand_on(self.n)
            self.windows.target.settle()
        frozen = {tile.here.start + k: v for tile in self.tiles for k, v in tile.frozen.items()}
        self.keeper.keep(self.n, joined_registers(parts), self.record, frozen)
        self.kept = self.n

    def keep_last(self) -> None:
        """Where a run ends early; not where everyone has failed, since from there nobody can go on."""
        done = self.kept == self.n or self.frozen == self.given.members
        if (
            self.keeper is None
            or done
            or any(stop.cause in ("store", "device") for stop in self.record.stops)
        ):
            return
        self.keep(self.parting)

    def part(self) -> None:
        """The loop state that the run ends with, before its last frame may take its place.

        None where all have failed: they have nothing to go on from.
        """
        failed = bool(self.given.members) and self.frozen == self.given.members
        if failed or any(stop.cause == "device" for stop in self.record.stops):
            return
        if self.keeper is not None and self.kept != self.n or self.carries and self.carried is None:
            self.parting = [{}]
            if self.n and self.tiles:
                self.parting = [self.engine.registers(tile.load(self.n)) for tile in self.tiles]
        if not self.carries:
            return
        if self.carried is None:
            self.carried = joined_registers(self.parting)
        frozen = {tile.here.start + k: v for tile in self.tiles for k, v in tile.frozen.items()}
        self.record.carried = Carried(self.n, self.carried, frozen)

    # --- one tile in one block --------------------------------------------------------------------
    def block(self, k: int, n: int, target: int) -> Done:
        """Tile k from step n to the target; what it meets on the way is recorded in its own columns."""
        tile, s = self.tiles[k], self.schedule
        done, m, at = Done(), tile.load(n), n
        if between := s.between(n):
            self.part_of_step(tile, m, n, between, {})
        for rows, stride in self.pieces(m, n, target):
            if len(tile.frozen) + len(done.stopped) == tile.members:
                self.blank(tile, at, target)
                break
            before = None if at == n else self.engine.snapshot(m)
            values: dict[str, Any] = {}
            if rows:
                values = self.engine.watch(m, rows, stride)
            else:
                self.engine.advance(m, stride)
            over = at + stride * max(rows, 1)
            if suspects := self.suspects(tile, m, values, done.stopped):
                before = tile.load(n) if before is None else before
                known = min(suspects.values()) * stride
                found = locate(self.engine, before, list(suspects), at, over, known, bool(self.pairs))
                done.stopped |= {
                    k: self.stop(tile, k, failure, rank < MOST_SEARCHED)
                    for rank, (k, failure) in enumerate(found.items())
                }
                self.silence(tile, m, done.stopped)
            if rows:
                self.show(tile, done.stopped, np.arange(at + stride, over + 1, stride), values)
            at = over
        saves = s.saves(target) and bool(self.record.frames) and not self.fused
        if saves or s.hashes(target):
            state = self.synchronised(tile, m, done.stopped, there=not saves and self.many_leaves)
            if saves:
                self.frame(tile, target, state)
            if s.hashes(target):
                done.leaves = {name: leaves(v) for name, v in state.items()}
        if self.keeps(target) or target == s.steps and self.carries:
            done.registers = self.engine.registers(m)
        if target == s.steps and (between := s.between(target)):
            self.part_of_step(tile, m, target, between, done.stopped)
        if tile.kept is None:
            done.m = m
        elif target < s.steps or not self.record.frames:  # at the end the last frame is in its place
            tile.put(m)
        return done

    # --- between two steps ------------------------------------------------------------------------
    def at_once(self, k: int) -> None:
        """The frames of a run that is over before its first step."""
        if between := self.schedule.between(self.n):
            tile = self.tiles[k]
            self.part_of_step(tile, tile.load(self.n), self.n, between, {})

    def part_of_step(
        self,
        tile: Tile,
        m: Any,
        n: int,
        between: list[tuple[int, float]],
        stopped: Mapping[int, tuple[Stop, States]],
    ) -> None:
        """Frames between step n, at which the members are, and the next one: for whoever looks, and not fed back."""
        if not self.record.frames:
            return
        engine, out, last = self.engine, {**tile.frozen, **stopped}, n == self.schedule.steps
        looked = engine if isinstance(engine, LookedAt) else None
        state = self.state_at(tile, m, n, out) if looked is None else {}
        own = (
            m if looked is None or not last else looked.snapshot(m)
        )  # what a run goes on from stays at its step
        for slot, t in between:
            new = self.shorter_step(tile, state, n, t) if looked is None else looked.between(own, t)
            if last and t == self.schedule.end:
                self.check_end(tile, n, t, new, out)
            for name, v in self.record.frame_of(slot).items():
                if out and new[name].dtype.kind == "f":
                    new[name][list(out)] = np.nan
                v[tile.here] = new[name]
        if last and looked is not None:
            looked.found_until(m, own)

    def state_at(self, tile: Tile, m: Any, n: int, out: Mapping[int, tuple[Stop, States]]) -> States:
        """The state of a tile at step n; of those that have stopped the last good one, so that a step can begin there."""
        if n == self.schedule.first:
            return tile.states()
        state = self.states_of(m, self.there)
        for k, (_, last) in out.items():
            for name, v in state.items():
                v[k] = last[name]
        return state

    def shorter_step(self, tile: Tile, state: States, n: int, t: float) -> States:
        """One step of the method from a synchronised state, as long as it takes to be at a time."""
        now = self.time(n)
        by_dt = {name: v[tile.here] if len(v) > 1 else v for name, v in self.by_dt(t - now).items()}
        own = tile.params() | by_dt
        one = self.engine.start(state, own, tile.members, t - now, now, None if tile.kept is None else 1)
        self.engine.advance(one, 1)
        return self.states_of(one, self.there)

    def check_end(
        self, tile: Tile, n: int, t: float, new: States, out: Mapping[int, tuple[Stop, States]]
    ) -> None:
        """A run that fails in the part of a step that it ends with has failed; its final state is that of step n."""
        for name, v in new.items():
            if v.dtype.kind != "f" or all_finite(v):
                continue
            finite = np.isfinite(here(v)).reshape(tile.members, -1)
            for k in np.flatnonzero(~finite.all(axis=1)).tolist():
                if k not in out:
                    member = tile.here.start + k
                    who = member if self.given.is_ensemble else None
                    where = (owner(name), int(finite[k].argmin()))
                    self.bad_end.setdefault(member, Stop(self.encoding.failure, n + 1, t, who, where))

    def pieces(self, m: Any, n: int, target: int) -> Iterator[tuple[int, int]]:
        """(rows, stride) of the calls from step n to the target; no rows: nothing is observed."""
        if self.schedule.observe_every is None and not self.fused:
            yield 0, target - n
            return
        every, most = self.stride, self.engine.rows(m)
        while n < target:
            stride = min(every - n % every, target - n)
            rows = min((target - n) // every, most) if stride == every else 1
            yield rows if self.fused or (n + stride) % every == 0 else 0, stride
            n += rows * stride

    def suspects(self, tile: Tile, m: Any, values: States, stopped: Mapping[int, Any]) -> dict[int, int]:
        """Members that are not finite now, or were in a frame: how many rows before that are known to be good."""
        good: dict[int, int] = {}
        for source in self.fused.values():
            v = values[source]
            if np.isfinite(v).all():
                continue
            finite = np.isfinite(v).reshape(*v.shape[:2], -1).all(axis=2)
            for k in np.flatnonzero(~finite.all(axis=0)).tolist():
                first = int(finite[:, k].argmin())
                good[k] = min(good.get(k, first), first)
        out = dict.fromkeys(self.engine.bad(m), 0) | good
        return {k: rows for k, rows in out.items() if k not in tile.frozen and k not in stopped}

    def stop(self, tile: Tile, k: int, failure: Failure, search: bool) -> tuple[Stop, States]:
        """Why a member of a tile stopped, and its last good state: at the first step the one it was given."""
        member, n = tile.here.start + k, failure.step
        before = failure.before if n > 1 else {name: here(v[member]) for name, v in self.given.states.items()}
        where: Any = (owner(failure.where[0]), failure.where[1])
        if search and self.pairs:  # they met where the step went, or were together when it began
            params = {name: v[member if len(v) > 1 else 0] for name, v in self.given.params.items()}
            met = (
                meeting(self.pairs, {"t": self.time(t), **params, **self.encoding.values(s)})
                for t, s in ((n, failure.after), (n - 1, before))
            )
            where = next((pair for pair in met if pair is not None), where)
        stop = Stop(self.encoding.failure, n, self.time(n), member if self.given.is_ensemble else None, where)
        return stop, before

    def silence(self, tile: Tile, m: Any, stopped: Mapping[int, Any]) -> None:
        """A stopped member goes on as a copy of one that is well, so that it costs nothing and warns nobody."""
        well = next((k for k in range(tile.members) if k not in tile.frozen and k not in stopped), None)
        if well is not None:
            self.engine.overwrite(m, list(stopped), well)

    def show(
        self, tile: Tile, stopped: Mapping[int, tuple[Stop, States]], steps: Any, values: States
    ) -> None:
        """The rows of a piece; what a stopped member shows from its bad step on is NaN."""
        for v in values.values():
            v[:, list(tile.frozen)] = np.nan
            for k, (stop, _) in stopped.items():
                v[steps >= stop.step, k] = np.nan
        if self.sink is not None:
            self.sink(values, tile.here)
        else:
            self.record.keep(steps, values, tile.here, self.fused)

    def blank(self, tile: Tile, n: int, target: int) -> None:
        """All members of this tile have stopped, others may go on."""
        self.record.blank(n, target, tile.here, self.fused)

    @cached_property
    def many_leaves(self) -> bool:
        """Is a state that nobody keeps sooner hashed where it is?  A thread of a GPU takes long over a leaf."""
        whole = sum(v.nbytes for v in self.given.states.values())
        return isinstance(self.engine, Distant) and whole >= HASHED_THERE

    def synchronised(
        self, tile: Tile, m: Any, stopped: Mapping[int, Any], there: bool = False
    ) -> dict[str, Any]:
        """The states of a tile; of those that have stopped NaN, or where there is none, their last good state.

        Of a run whose states are on a GPU they are there, and of others if that is asked for.
        """
        if len(tile.frozen) + len(stopped) == tile.members:
            out = {n: empty_like(v) for n, v in tile.states().items()}
        else:
            out = self.states_of(m, there or self.there)
        for name, v in out.items() if tile.frozen or stopped else ():
            if v.dtype.kind == "f":
                v[[*tile.frozen, *stopped]] = np.nan
            else:
                for k, (_, last) in {**tile.frozen, **stopped}.items():
                    v[k] = last[name]
        return out

    def states_of(self, m: Any, there: bool) -> dict[str, Any]:
        if not there:
            return self.engine.synchronised(m)
        assert isinstance(self.engine, Distant)
        return self.engine.synchronised_there(m)

    def frame(self, tile: Tile, n: int, state: States) -> None:
        for name, v in self.record.frame(n).items():
            v[tile.here] = state[name]

    # --- the end ----------------------------------------------------------------------------------
    def finish(self) -> None:
        """The last frame and checkpoint, and the final state: of stopped members the last good one."""
        r = self.record
        r.last = self.n
        failed = [stop for tile in self.tiles for stop, _ in tile.frozen.values()]
        r.stops[:] = sorted(failed, key=lambda stop: (stop.step, stop.member or 0)) + [
            stop for stop in r.stops if stop.cause != self.encoding.failure
        ]
        if not r.frames:
            return
        self.part()
        if not self.schedule.saves(self.n):
            spread(self.last_frame, len(self.tiles), self.engine.workers)
        r.final = dict(r.frame(self.n))
        ends = self.n == self.schedule.steps and self.schedule.end is not None
        if ends:
            whole, r.final = r.final, dict(r.frame_of(self.schedule.kept(self.n) - 1))
            self.judge_end(whole)
        self.leave()
        if not self.frozen:
            return
        for name, v in r.final.items():
            r.final[name] = empty_like(v)
            copy(v, r.final[name], self.engine.workers)
            for tile in self.tiles:
                for k, (_, last) in tile.frozen.items():
                    r.final[name][tile.here.start + k] = last[name]

    def judge_end(self, whole: States) -> None:
        """Members that failed in the part of a step at the end: their last good state is that of the last whole step."""
        r = self.record
        if not self.bad_end:
            return
        r.stops += [self.bad_end[k] for k in sorted(self.bad_end)]
        for name, v in r.final.items():
            r.final[name] = empty_like(v)
            copy(v, r.final[name], self.engine.workers)
            for k in self.bad_end:
                r.final[name][k] = whole[name][k]

    def leave(self) -> None:
        """What a run leaves on the disk when it ends, however it ends."""
        r = self.record
        try:
            if self.windows is not None:
                self.windows.hand_on(self.n, ends=True)
                self.windows.target.settle()
            self.keep_last()
        except StoreError as error:
            if not any(stop.cause == "store" for stop in r.stops):
                r.stops.append(Stop("store", self.n, self.time(self.n), error=error))

    def last_frame(self, k: int) -> None:
        tile = self.tiles[k]
        state = self.states_of(tile.load(self.n), self.there)
        for j, (stop, last) in tile.frozen.items():
            for name, v in state.items():
                v[j] = last[name] if stop.step > self.n or v.dtype.kind != "f" else np.nan
        self.frame(tile, self.n, state)
