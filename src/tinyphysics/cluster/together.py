"""How do members that change together run on other machines?  Steps there, from change to change; changes here.

The loop of all members is this process's, with its frames, its looks and its decisions. Only what `advance` and `watch` do is
sent away, member by member: registers go, and registers come back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from tinyphysics.cluster.blocks import equal
from tinyphysics.cluster.ensemble import Job, Pool, Told
from tinyphysics.cluster.parcel import Block, Parcel, Stretch, block, parcel
from tinyphysics.device.engines.loops import NestEngine
from tinyphysics.errors import BackendError, PlanError
from tinyphysics.ir import UOp
from tinyphysics.runtime.stages.bind import Bound
from tinyphysics.runtime.stages.elsewhere import Left
from tinyphysics.runtime.stages.execute import choose_engine, execute
from tinyphysics.runtime.stages.resolve import Resolved
from tinyphysics.runtime.state.record import Record
from tinyphysics.runtime.state.run import Run
from tinyphysics.runtime.storage.resume import joined

MAKE = (
    "start",
    "restored",
    "resume",
    "snapshot",
    "some",
    "quiet",
    "lent",
    "begin_again",
)  # calls that return loops
Registers = Mapping[str, Any]


@dataclass(eq=False)
class Loop:
    """A loop of this process, with what it was begun with."""

    m: Any
    params: Mapping[str, Any]
    dt: float
    t0: float
    members: int

    @property
    def steps(self) -> int:
        return int(self.m.steps)

    @steps.setter
    def steps(self, n: int) -> None:
        self.m.steps = n


class FarEngine:
    """An engine whose steps of all members are done elsewhere; all else that it is asked it does here."""

    def __init__(
        self, inner: Any, members: int, send: Callable[[Loop, Stretch], tuple[Registers, Registers]]
    ) -> None:
        self.inner, self.all, self.send = inner, members, send

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)
        if not callable(found):
            return found
        return partial(self.looped, name, found) if name in MAKE else partial(bare, found)

    def looped(self, name: str, f: Any, *given: Any, **more: Any) -> Loop:
        if name in ("start", "restored", "resume"):
            _, params, members, dt, t0 = given[:5]
            return Loop(f(*given, **more), params, dt, t0, members)
        loop: Loop = given[0]
        if name == "begin_again":
            _, params, members, dt, t0 = given[1:6]
            return Loop(f(loop.m, *given[1:], **more), params, dt, t0, members)
        params, members = loop.params, loop.members
        if name == "some":
            chosen = list(given[1])
            members = len(chosen)
            params = {n: v[chosen] if len(v) > 1 else v for n, v in params.items()}
        return replace(loop, m=f(loop.m, *given[1:], **more), params=params, members=members)

    def overwrite(self, m: Loop, members: Sequence[int], well: int) -> None:
        self.inner.overwrite(m.m, members, well)
        own = {n: v.copy() if len(v) > 1 else v for n, v in m.params.items()}
        for v in own.values():
            if len(v) > 1:
                v[list(members)] = v[well]
        m.params = own

    def block(self, members: int) -> int:
        """As many steps as there are: what is between two changes is one call."""
        return 1 << 40

    def advance(self, m: Loop, steps: int) -> None:
        if m.members < self.all or not steps:
            self.inner.advance(m.m, steps)
        else:
            self.far(m, 0, steps)

    def watch(self, m: Loop, rows: int, stride: int) -> Any:
        return self.inner.watch(m.m, rows, stride) if m.members < self.all else self.far(m, rows, stride)

    def far(self, m: Loop, rows: int, stride: int) -> Registers:
        n = m.steps
        registers, seen = self.send(m, Stretch(self.inner.registers(m.m), n, rows, stride))
        after = n + max(rows, 1) * stride
        m.m = self.inner.restored(registers, m.params, m.members, m.dt, m.t0, after)
        return seen


def bare(f: Any, *given: Any, **more: Any) -> Any:
    """A call with loops as the engine has them."""
    return f(*(x.m if isinstance(x, Loop) else x for x in given), **more)


@dataclass(eq=False)
class Sender:
    """The workers that do the steps of a run."""

    pool: Pool
    parcel: Parcel
    one: Run
    share: float
    parts: Sequence[slice]
    told: Told

    def send(self, m: Loop, s: Stretch) -> tuple[Registers, Registers]:
        """The registers of all members after some steps, and what was observed on the way."""

        def make(one: Run, here: slice) -> Block:
            given = replace(one.given, params=dict(m.params))
            own = {name: v[here] for name, v in s.registers.items()}
            return replace(
                block(replace(one, given=given, begun=None), here), stretch=replace(s, registers=own)
            )

        key = f"{self.parcel.key} {s.step}"
        job = Job(
            self.pool, self.one, self.share, slots=len(self.parts), told=self.told, key=key,
            parcel=self.parcel, make=make,
        )  # fmt: skip
        job.add(self.parts)
        for a in self.pool.answers():
            job.take(a)
        self.told.blocks += len(job.where)
        found = [job.found[k] for k in range(len(job.where))]
        if lost := next((a.died for a in found if a.done is None), ""):
            raise BackendError(lost, fix="Run it again; with checkpoint= it goes on from the last one.")
        records = [a.done.record for a in found if a.done is not None]
        self.told.backends = sorted(
            {*self.told.backends, *(a.done.backend for a in found if a.done is not None)}
        )
        seen = {
            name: np.concatenate([r.observed[name] for r in records], axis=1) for name in records[0].observed
        }
        return joined([r.final for r in records]), seen


def run_together(
    make: Callable[[], Pool],
    r: Resolved,
    b: Bound,
    one: Run,
    tick: Callable[[int], None],
    count: int | None,
    share: float,
    left: Left,
) -> tuple[Told, tuple[Record, int, float, str]]:
    """A run whose members change together, with its steps on a pool."""
    alone = replace(one, across=None)
    pool = make()
    try:
        told = Told(workers=list(pool.workers()))
        if not told.workers:
            raise BackendError(f"{pool.name} has no workers", fix="Start one, or leave on= out.")
        members = one.given.members
        parts = equal(members, min(members, count or pool.slots()))
        sender = Sender(pool, parcel(r, b, alone), alone, share, parts, told)
        pool.send(sender.parcel)

        def engine(run: Run, values: Mapping[str, UOp]) -> FarEngine:
            inner, _ = choose_engine(replace(run, engine_by=None), Record(run.schedule, {}), values)
            if isinstance(inner, NestEngine) and (inner.kernel.lists or inner.kernel.tree is not None):
                raise PlanError(
                    "on=: members that change together, and sums by lists of neighbours or trees, which remember where "
                    "points were",
                    fix="Leave on= out.",
                )
            return FarEngine(inner, members, sender.send)

        took = execute(
            replace(one, engine_by=engine), b.record, b.values, tick, keeper=left.keeper, poles=one.poles
        )
    finally:
        pool.stop()
    return told, took
