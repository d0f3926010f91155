"""How does a run advance?  In blocks: whole ones count, a bad step is found by replaying its block.

Everything that is recorded comes from synchronised copies; the loop's own registers are never touched.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from tinyphysics.runtime.digest import chain, state_hash
from tinyphysics.runtime.ensemble import Inputs
from tinyphysics.runtime.schedule import Schedule, time_at
from tinyphysics.trajectory import Stop

States = Mapping[str, Any]
Sink = Callable[[list[int], Mapping[str, Any]], None]  # takes observables instead of the record
Look = Callable[[States, int], Mapping[str, Any]]  # observables of a synchronised state at a step


class Engine(Protocol):
    """What the runtime asks of whatever runs a program. `m` is the engine's own loop state."""

    launches: int
    compiling: float  # seconds spent so far
    made: int  # modules compiled so far
    found: int  # modules that were compiled before

    def block(self, members: int) -> int: ...
    def start(self, state: States, params: States, members: int, dt: float, t0: float) -> Any: ...
    def snapshot(self, m: Any) -> Any: ...
    def member(self, m: Any, k: int) -> Any: ...
    def put(self, m: Any, k: int, alone: Any) -> None: ...
    def advance(self, m: Any, steps: int) -> None: ...
    def watch(self, m: Any, rows: int, stride: int) -> dict[str, Any]: ...
    def bad(self, m: Any) -> list[int]: ...
    def first_bad(self, m: Any) -> tuple[str, int] | None: ...
    def synchronised(self, m: Any) -> dict[str, Any]: ...


@dataclass
class Record:
    """What a run has collected so far; always whole, so that an interrupted run loses nothing."""

    steps: list[int] = field(default_factory=list)
    frames: list[States] = field(default_factory=list)
    observed_at: list[int] = field(default_factory=list)
    observed: list[Mapping[str, Any]] = field(default_factory=list)  # rows: (rows, members, shape...)
    hashes: list[tuple[int, str]] = field(default_factory=list)
    stops: list[Stop] = field(default_factory=list)
    final: dict[str, Any] = field(default_factory=dict)
    last: int = 0

    def frame(self, n: int, state: States) -> None:
        if not self.steps or self.steps[-1] != n:
            self.steps.append(n)
            self.frames.append(state)

    def hash(self, n: int, state: States) -> None:
        before = self.hashes[-1][1] if self.hashes else ""
        self.hashes.append((n, chain(before, state_hash(state))))

    def series(self, name: str) -> Any:
        return np.concatenate([rows[name] for rows in self.observed])


def shaped(i: Inputs) -> Callable[[States], States]:
    """Arrays as the user sees them: without a member axis if none was given."""
    return lambda s: s if i.is_ensemble else {n: v[0] for n, v in s.items()}


@dataclass
class Running:
    """One run: what it was asked, what it has, and who is still going."""

    engine: Engine
    given: Inputs
    schedule: Schedule
    dt: float
    t0: float
    look: Look | None
    sink: Sink | None = None
    record: Record = field(default_factory=Record)
    frozen: dict[int, dict[str, Any]] = field(default_factory=dict)  # last good states of stopped members

    def time(self, n: int) -> float:
        return time_at(n, self.dt, self.t0)

    def go(self, tick: Callable[[int], None]) -> Record:
        r, i, s = self.record, self.given, self.schedule
        r.frame(0, i.states)
        r.final = dict(i.states)
        if self.look is not None:
            self.observed([0], {name: v[None] for name, v in self.look(i.states, 0).items()})
        if s.steps == 0:
            return r
        if i.members == 0:
            return self.nobody()
        m = self.engine.start(i.states, i.params, i.members, self.dt, self.t0)
        size = self.engine.block(i.members)
        n = 0
        while n < s.steps and len(self.frozen) < i.members:
            target = min(s.next_look(n), n + size)
            before = self.engine.snapshot(m)
            try:
                rows = self.advance(m, n, target)
                bad = [k for k in self.engine.bad(m) if k not in self.frozen]
                ends = {k: self.locate(before, k, n) for k in bad}
                self.keep(rows, ends)
                self.silence(m, ends)
                if len(self.frozen) == i.members:
                    n = max(ends.values()) - 1
                    break
                if s.saves(target) or s.hashes(target):
                    self.save(target, self.synchronised(m))
                n = target
                tick(n)
            except KeyboardInterrupt as stop:
                self.forget(n)
                m = before
                r.stops.append(Stop("interrupted", n, self.time(n), error=stop))
                break
        r.last = n
        try:
            self.finish(m, n)
        except KeyboardInterrupt as stop:
            r.stops.append(Stop("interrupted", n, self.time(n), error=stop))
            self.finish(m, n)
        return r

    def nobody(self) -> Record:
        """An empty ensemble: every frame and observable that was asked for, of nobody."""
        r, s = self.record, self.schedule
        while r.last < s.steps:
            r.last = s.next_look(r.last)
            self.save(r.last, dict(self.given.states))
        steps = range(s.observe_every, s.steps + 1, s.observe_every) if s.observe_every else range(0)
        if steps and r.observed:
            self.observed([*steps], {name: np.repeat(v, len(steps), 0) for name, v in r.observed[0].items()})
        return r

    def forget(self, n: int) -> None:
        """An interrupted block counts as not begun: what it has recorded goes."""
        r = self.record
        while r.steps and r.steps[-1] > n:
            r.steps.pop()
            r.frames.pop()
        r.hashes = [h for h in r.hashes if h[0] <= n]
        keep = sum(k <= n for k in r.observed_at)
        while r.observed and len(r.observed_at) > keep:
            r.observed_at = r.observed_at[: len(r.observed_at) - len(next(iter(r.observed.pop().values())))]
        r.stops = [s for s in r.stops if s.step <= n]
        self.frozen = {k: v for k, v in self.frozen.items() if any(s.member == k for s in r.stops)}

    def advance(self, m: Any, n: int, target: int) -> list[tuple[list[int], dict[str, Any]]]:
        """From step n to the target; the observables met on the way, as (steps, rows)."""
        every = self.schedule.observe_every
        if every is None:
            self.engine.advance(m, target - n)
            return []
        out = []
        while n < target:
            stride = min(every - n % every, target - n)
            rows = (target - n) // every if stride == every else 1
            if (n + stride) % every:
                self.engine.advance(m, stride)
            else:
                steps = [n + stride * (k + 1) for k in range(rows)]
                out.append((steps, self.engine.watch(m, rows, stride)))
            n += rows * stride
        return out

    def locate(self, before: Any, k: int, n: int) -> int:
        """Replays member k of a block up to its first bad step, and keeps the state before it."""
        alone = self.engine.member(before, k)
        step = n
        while True:
            good = self.engine.snapshot(alone)
            self.engine.advance(alone, 1)
            step += 1
            where = self.engine.first_bad(alone)
            if where is not None:
                last = self.engine.synchronised(good) if step > 1 else {
                    name: v[k : k + 1] for name, v in self.given.states.items()
                }  # fmt: skip
                self.frozen[k] = last
                member = k if self.given.is_ensemble else None
                self.record.stops.append(Stop("not finite", step, self.time(step), member, where))
                return step

    def keep(self, rows: list[tuple[list[int], dict[str, Any]]], ends: dict[int, int]) -> None:
        """The observables of a block; what a stopped member shows from its bad step on is NaN."""
        for steps, values in rows:
            if not self.given.is_ensemble and ends:
                count = sum(n < ends[0] for n in steps)
                steps, values = steps[:count], {name: v[:count] for name, v in values.items()}
            for v in values.values():
                for k in self.frozen:
                    bad = np.array([n >= ends.get(k, 0) for n in steps], bool)
                    v[bad, k] = np.nan
            self.observed(steps, values)

    def observed(self, steps: list[int], values: Mapping[str, Any]) -> None:
        if self.sink is not None:
            self.sink(steps, values)
        else:
            self.record.observed_at += steps
            self.record.observed.append(values)

    def silence(self, m: Any, ends: dict[int, int]) -> None:
        """A stopped member goes on as a copy of one that is well, so that it costs nothing and warns nobody."""
        well = next((k for k in range(self.given.members) if k not in self.frozen), None)
        if well is not None:
            for k in ends:
                self.engine.put(m, k, self.engine.member(m, well))

    def synchronised(self, m: Any, last_good: bool = False) -> dict[str, Any]:
        """The states of all; of stopped members NaN, or their last good one."""
        out = self.engine.synchronised(m)
        for k, state in self.frozen.items():
            for name, v in out.items():
                v[k] = state[name][0] if last_good else np.nan
        return out

    def save(self, n: int, state: dict[str, Any]) -> None:
        if self.schedule.saves(n):
            self.record.frame(n, state)
        if self.schedule.hashes(n):
            self.record.hash(n, shaped(self.given)(state))

    def finish(self, m: Any, n: int) -> None:
        r = self.record
        if r.steps[-1] == n and not self.frozen:  # the last frame is the final state already
            r.final = {name: v.copy() for name, v in r.frames[-1].items()}
            return
        r.final = self.synchronised(m, last_good=True) if n else dict(self.given.states)
        if not self.given.is_ensemble:
            r.frame(n, r.final)
        elif r.steps[-1] != n:
            over = {s.member for s in r.stops if s.step <= n}
            last = {name: v.copy() for name, v in r.final.items()}
            for v in last.values():
                v[[k in over for k in range(self.given.members)]] = np.nan
            r.frame(n, last)

