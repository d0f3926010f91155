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

BLOCK = 256  # steps between two looks at the clock, the keyboard and the numbers

States = Mapping[str, Any]
Look = Callable[[States, int], Mapping[str, Any]]  # observables of a synchronised state at a step


class Engine(Protocol):
    """What the runtime asks of whatever runs a program."""

    def start(self, state: States, params: States, members: int, dt: float, t0: float) -> Any: ...
    def snapshot(self, m: Any) -> Any: ...
    def advance(self, m: Any, steps: int, alive: list[bool]) -> None: ...
    def first_bad(self, m: Any, k: int) -> tuple[str, int] | None: ...
    def restore(self, m: Any, k: int, source: Any) -> None: ...
    def synchronised(self, m: Any) -> dict[str, Any]: ...


@dataclass
class Record:
    """What a run has collected so far; always whole, so that an interrupted run loses nothing."""

    schedule: Schedule
    look: Look | None
    steps: list[int] = field(default_factory=list)
    frames: list[States] = field(default_factory=list)
    observed_at: list[int] = field(default_factory=list)
    observed: list[Mapping[str, Any]] = field(default_factory=list)
    hashes: list[tuple[int, str]] = field(default_factory=list)
    stops: list[Stop] = field(default_factory=list)
    final: dict[str, Any] = field(default_factory=dict)
    last: int = 0

    def take(self, n: int, state: States, shaped: Callable[[States], States], end: bool = False) -> None:
        if (self.schedule.saves(n) or end) and (not self.steps or self.steps[-1] != n):
            self.steps.append(n)
            self.frames.append(state)
        if self.look is not None and self.schedule.observes(n):
            self.observed_at.append(n)
            self.observed.append(self.look(state, n))
        if self.schedule.hashes(n):
            before = self.hashes[-1][1] if self.hashes else ""
            self.hashes.append((n, chain(before, state_hash(shaped(state)))))


def shaped(i: Inputs) -> Callable[[States], States]:
    """Arrays as the user sees them: without a member axis if none was given."""
    return lambda s: s if i.is_ensemble else {n: v[0] for n, v in s.items()}


def run(
    engine: Engine, i: Inputs, schedule: Schedule, dt: float, t0: float, look: Look | None,
    tick: Callable[[int], None],
) -> Record:  # fmt: skip
    record = Record(schedule, look)
    view = shaped(i)
    record.take(0, i.states, view)
    record.final = dict(i.states)
    if schedule.steps == 0 or i.members == 0:
        if schedule.steps and i.members == 0:
            record.take(schedule.steps, i.states, view)
        return record
    m = engine.start(i.states, i.params, i.members, dt, t0)
    alive = [True] * i.members
    n = 0
    while n < schedule.steps:
        target = min(schedule.next_look(n), n + BLOCK)
        before = engine.snapshot(m)
        try:
            engine.advance(m, target - n, alive)
        except KeyboardInterrupt as stop:
            m = before
            record.stops.append(Stop("interrupted", n, time_at(n, dt, t0), error=stop))
            break
        for k in range(i.members):
            if alive[k] and engine.first_bad(m, k) is not None:
                alive[k] = False
                good = locate(engine, m, before, k, n, i, dt, t0, record)
                if not i.is_ensemble:
                    target = good
        n = target
        tick(n)
        if not any(alive):
            break
        if n == schedule.next_look(n - 1) or n == schedule.steps:
            record.take(n, only(engine.synchronised(m), alive), view)
    record.last = n
    record.final = engine.synchronised(m) if n else dict(i.states)
    if not all(alive) and not i.is_ensemble or any(s.cause == "interrupted" for s in record.stops):
        record.take(n, only(record.final, alive) if i.is_ensemble else record.final, view, end=True)
    return record


def locate(
    engine: Engine, m: Any, before: Any, k: int, n: int, i: Inputs, dt: float, t0: float, record: Record
) -> int:  # fmt: skip
    """Replays member k of a block until its first bad step; leaves it at the last good one."""
    only_k = [j == k for j in range(i.members)]
    engine.restore(m, k, before)
    step = n
    while True:
        good = engine.snapshot(m)
        engine.advance(m, 1, only_k)
        step += 1
        bad = engine.first_bad(m, k)
        if bad is not None:
            engine.restore(m, k, good)
            member = k if i.is_ensemble else None
            record.stops.append(Stop("not finite", step, time_at(step, dt, t0), member, bad))
            return step - 1


def only(state: States, alive: list[bool]) -> dict[str, Any]:
    """The frame with stopped members as NaN."""
    if all(alive):
        return dict(state)
    dead = ~np.array(alive)
    out = {n: np.array(v) for n, v in state.items()}
    for v in out.values():
        v[dead] = np.nan
    return out
