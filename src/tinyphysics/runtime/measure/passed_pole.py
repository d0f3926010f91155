"""Did a run pass a pole of its energy?  Each drift is looked at as a segment: a step may begin and end far from a pole.

This is asked only of a run whose energy has moved: it is done again, bit for bit, with its positions recorded. A step
passes a pole where the fastest vibration on its way is too fast for the method: dt*omega is above its stability limit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tinyphysics.errors import TinyPhysicsError
from tinyphysics.ir import Ops, UOp, toposort
from tinyphysics.runtime.measure.autopsy import MOST, Examined
from tinyphysics.runtime.measure.autopsy import shown as as_written
from tinyphysics.runtime.measure.checked import on_columns
from tinyphysics.runtime.stages.execute import execute
from tinyphysics.runtime.stages.terms import addends
from tinyphysics.runtime.state.record import Record
from tinyphysics.runtime.state.run import Run
from tinyphysics.runtime.state.schedule import Schedule, time_at
from tinyphysics.trajectory import Stop

ROOM = 1 << 24  # numbers of positions that are recorded
PARTS = 17  # places of a segment


@dataclass(frozen=True)
class Passed:
    """The first step that passes a pole."""

    step: int
    t: float
    term: str  # with its line
    distance: float  # what is zero at the pole, at the nearest point of the segment
    pace: float  # dt*omega there
    where: tuple[int, int] | None = None  # two particles


def vanishing(H: UOp, q: frozenset[UOp]) -> list[tuple[UOp, UOp]]:
    """(addend, what is zero at its pole): denominators, bases of negative powers, arguments of logarithms that move."""
    found: dict[UOp, UOp] = {}
    for x in addends(H):
        for u in toposort([x]):
            zero = None
            if u.op is Ops.DIV:
                zero = u.src[1]
            elif u.op in (Ops.RSQRT, Ops.LOG):
                zero = u.src[0]
            elif u.op is Ops.POW and u.src[1].op is Ops.CONST and float(u.src[1].arg) < 0:
                zero = u.src[0]
            if zero is not None and zero.leaves & q:
                found.setdefault(zero, x)
    return [(x, zero) for zero, x in found.items()]


def passed_pole(r: Run, member: int, last: int) -> Passed | None:
    """The first step of a member that passes a pole; None if none does, or if it cannot be said."""
    system = r.system.seen
    H, q = system.energy, frozenset(system.q)
    size = sum(x.size for x in system.q)
    fixed = r.jump is None and not r.adaptive and r.series is None and not r.acts and r.begun is None
    if H is None or not fixed or system.time is not None or 2 * size > MOST or (last + 1) * size > ROOM:
        return None
    poles = vanishing(H, q)
    if not poles:
        return None
    try:
        found = [Segments(r, member, last, x, zero).first() for x, zero in poles]
    except (NotImplementedError, TinyPhysicsError):  # an operation that has no form for many states at once
        return None
    return min((p for p in found if p is not None), key=lambda p: p.step, default=None)


@dataclass(frozen=True, eq=False)
class Segments:
    """The ways of all drifts of a member, beside one pole."""

    run: Run
    member: int
    last: int
    term: UOp
    zero: UOp

    def positions(self) -> dict[str, Any]:
        """(steps, numbers) of each position, by doing the run again."""
        r, k = self.run, self.member
        states = {n: v[k : k + 1] for n, v in r.given.states.items()}
        params = {n: v[k : k + 1] if len(v) > 1 else v for n, v in r.given.params.items()}
        one = replace(r, given=replace(r.given, states=states, params=params, members=1), watches=())
        names = {f"position {n}": x for n, x in enumerate(r.system.seen.q)}
        record, *_ = execute(one, Record(Schedule(self.last, None, 1, None), {}), names, lambda n: None)
        return {str(x.arg): np.asarray(record.series(n))[:, 0].reshape(-1, x.size) for n, x in names.items()}

    def first(self) -> Passed | None:
        q = self.positions()
        count = min(len(v) for v in q.values()) - 1
        if count < 1:
            return None
        nearest, where, part = np.full(count, np.inf), np.zeros(count, int), np.zeros(count)
        params = {
            n: np.ravel(v[self.member if len(v) > 1 else 0])[:, None] for n, v in self.run.given.own.items()
        }
        always = None
        for s in np.linspace(0.0, 1.0, PARTS):
            here = {n: ((1.0 - s) * v[:count] + s * v[1 : count + 1]).T for n, v in q.items()}
            value = np.abs(
                np.broadcast_to(on_columns([self.zero], {**params, **here})[0], (self.zero.size, count))
            )
            if always is None:
                always = value[:, 0] == 0.0  # a particle and itself
            value = np.where(always[:, None], np.inf, value)
            least = value.argmin(axis=0)
            small = value[least, np.arange(count)]
            better = small < nearest
            nearest, where, part = (
                np.where(better, new, old) for new, old in ((small, nearest), (least, where), (s, part))
            )
        order = np.argsort(nearest, kind="stable")
        looked = Examined(self.run, Stop("", 0, 0.0, self.member))

        def pace(k: int) -> float:
            state = {n: ((1.0 - part[k]) * v[k] + part[k] * v[k + 1]) for n, v in q.items()}
            shaped = {str(x.arg): state[str(x.arg)].reshape(x.shape) for x in self.run.system.seen.q}
            rest = {n: v[self.member] for n, v in self.run.encoding.values(self.run.given.states).items()}
            found = abs(self.run.dt) * looked.omega({**rest, **shaped}, int(k))
            return found if not math.isnan(found) else math.inf if nearest[k] == 0.0 else 0.0

        low, high = 0, count  # of those in order, all before `low` are beyond the limit
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if pace(int(order[middle])) >= looked.limit else (low, middle)
        if not low:
            return None
        k = int(order[:low].min())
        n = (
            self.zero.shape[-1]
            if len(self.zero.shape) == 2 and self.zero.shape[0] == self.zero.shape[1]
            else 0
        )
        pair = (int(where[k]) // n, int(where[k]) % n) if n else None
        return Passed(
            k + 1,
            time_at(k + 1, self.run.dt, self.run.t0),
            as_written(self.term, self.run.system.seen.sites),
            float(nearest[k]),
            pace(k),
            None if pair is None else (min(pair), max(pair)),
        )


def told(p: Passed) -> Mapping[str, Any]:
    """The entry of out.metrics."""
    return {"step": p.step, "t": p.t, "term": p.term, "distance": p.distance, "where": p.where}
