"""Did a run pass a pole of its energy?  Each drift is looked at as a segment: a step may begin and end far from a pole.

This is asked of a member whose energy has moved: it is done again, bit for bit, with its positions recorded. A step passes a
pole where, at the nearest point of its way, dt**2 T'' V'' reaches the limit of the method in the direction in which the
distance to the pole changes: 4 for leapfrog, so that r = (mu dt**2/2)**(1/3) at -mu/r.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from tinyphysics.errors import TinyPhysicsError
from tinyphysics.ir import Ops, UOp
from tinyphysics.rules.calculus.jvp import jvp
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.rules.equality.ranges import ranges_of
from tinyphysics.runtime.measure.autopsy import shown as as_written
from tinyphysics.runtime.measure.part_again import every_step
from tinyphysics.runtime.stages.execute import observe_states
from tinyphysics.runtime.stages.terms import poles_of
from tinyphysics.runtime.state.run import Run
from tinyphysics.runtime.state.schedule import time_at
from tinyphysics.system import State

ROOM = 1 << 24  # numbers of positions that are recorded
PIECE = 1 << 22  # numbers of distances that are computed together
MOST = 1 << 31  # distances that are computed at all
PARTS = 17  # places of a segment, and again between two of those
CALM = 0.25  # of the limit, at the first state of a run that passes a pole later
WHICH, SIZE = "which distance", "curvature"


@dataclass(frozen=True)
class Passed:
    """The first step that passes a pole."""

    step: int
    t: float
    term: str  # with its line
    distance: float  # what is zero at the pole, at the nearest point of the segment
    pace: float  # dt*omega there
    where: tuple[int, int] | None = None  # two particles


def passed_pole(r: Run, last: int, limit: float) -> Passed | None:
    """The first step that passes a pole, of a run of one member, from where it begins; None if none does.

    Also where it cannot be said. `limit` is that of dt*omega for the method.
    """
    system = r.system.seen
    size, first = sum(x.size for x in system.q), 0 if r.begun is None else r.begun.step
    poles = poles_of_run(r)
    if not poles or (last - first + 1) * size > ROOM or last <= first:
        return None
    names = {f"position {n}": x for n, x in enumerate(system.q)}
    seen = every_step(r, last, names)
    q = {str(x.arg): seen[n][:, 0].reshape(-1, *x.shape) for n, x in names.items()}
    finite = np.all([np.isfinite(v.reshape(len(v), -1)).all(axis=1) for v in q.values()], axis=0)
    good = len(finite) if finite.all() else int(finite.argmin())
    q = {name: v[:good] for name, v in q.items()}
    start = r.given.states if r.begun is None else r.begun.start
    begin = {n: np.repeat(v, 2, axis=0) for n, v in r.encoding.values(start).items() if n in q}
    try:
        if any(Segments(r, 0, x, zero, begin, limit).pace(0) > CALM * limit for x, zero in poles):
            return None  # the step is too long where the run begins: that is no pole
        found = [Segments(r, first, x, zero, q, limit).first_pass() for x, zero in poles]
    except (NotImplementedError, TinyPhysicsError):  # an operation that has no form here
        return None
    return min((p for p in found if p is not None), key=lambda p: p.step, default=None)


def poles_of_run(r: Run) -> list[tuple[UOp, UOp]]:
    """The poles that an energy has with the parameters of a run: q @ q + eps**2 is zero only where eps is."""
    system, known = r.system.seen, {}
    for x in system.parameters:
        v = r.given.own.get(x.name)
        if v is not None and np.size(v) and np.isfinite(v).all():
            known[x.var] = float(np.min(v)), float(np.max(v))
    poles = poles_of(system)
    ranges = ranges_of([zero for _, zero in poles], known)
    return [(x, zero) for x, zero in poles if ranges[zero][0] <= 0.0 <= ranges[zero][1]]


@dataclass(frozen=True, eq=False)
class Segments:
    """The ways of all drifts of a member, beside one pole."""

    run: Run
    first: int  # the step of the first position
    term: UOp
    zero: UOp
    q: Mapping[str, Any]  # (steps, ...)
    limit: float

    @cached_property
    def rest(self) -> dict[str, Any]:
        """All that is no position, of the first state: curvatures of T + V do not depend on it, or little."""
        return {name: v[:1] for name, v in self.run.given.states.items()}

    def observed(self, values: Mapping[str, UOp], more: Mapping[str, Any], rows: int, run: Run) -> Any:
        """Values at so many states (rows, ...) that are given in part."""
        given = {**{n: np.broadcast_to(v, (rows, *v.shape[1:])) for n, v in self.rest.items()}}
        given |= {n: np.asarray(v, run.given.states[n].dtype) for n, v in more.items() if n in given}
        given |= {n: v for n, v in more.items() if n not in given}
        lower = {word: v for n, v in more.items() for word in run.encoding.precision.names(n) if word != n}
        given |= {word: np.zeros(np.shape(v)) for word, v in lower.items()}  # where numbers have two words
        frames = {n: np.ascontiguousarray(v)[:, None] for n, v in given.items()}
        return observe_states(run, values, frames, [self.first] * rows)

    def at(self, rows: Any, part: Any) -> dict[str, Any]:
        """Positions on the way from some steps to the next ones."""
        out = {}
        for name, v in self.q.items():
            s = np.asarray(part).reshape(-1, *[1] * (v.ndim - 1))
            out[name] = (1.0 - s) * v[rows] + s * v[np.asarray(rows) + 1]
        return out

    def distances(self, rows: Any, part: Any) -> Any:
        seen = self.observed({"zero": self.zero}, self.at(rows, part), len(rows), self.run)["zero"]
        return np.abs(seen[:, 0].reshape(len(rows), -1))

    @cached_property
    def nearest(self) -> tuple[Any, Any, Any]:
        """(the distance, which one it is, at which part of the way) of every step."""
        count = len(next(iter(self.q.values()))) - 1
        size = max(1, PIECE // max(self.zero.size, 1))
        if count * self.zero.size * 2 * PARTS > MOST:
            raise NotImplementedError("too many distances")
        always = self.distances([0], [0.0])[0] == 0.0  # a particle and itself
        least, which, part = np.full(count, np.inf), np.zeros(count, int), np.zeros(count)
        for begin in range(0, count, size):
            rows = np.arange(begin, min(begin + size, count))
            for width in (1.0, 1.0 / (PARTS - 1)):
                middle = part[rows] if width < 1.0 else 0.5
                for s in np.linspace(-0.5, 0.5, PARTS) * (2 * width if width < 1.0 else 1.0):
                    here = np.clip(middle + s, 0.0, 1.0) * np.ones(len(rows))
                    value = np.where(always, np.inf, self.distances(rows, here))
                    at = value.argmin(axis=1)
                    small = value[np.arange(len(rows)), at]
                    new = rows[small < least[rows]]
                    least[new] = small[new - begin]
                    which[new], part[new] = at[new - begin], here[new - begin]
        return least, which, part

    def with_states(self, more: Mapping[str, UOp]) -> Run:
        """The run as if it had more states, to be observed with them."""
        r, dtype = self.run, next(iter(self.run.given.states.values())).dtype
        states = (*r.system.states, *(State(name, u, "auxiliary") for name, u in more.items()))
        zeros = {name: np.zeros((1, *u.shape), dtype) for name, u in more.items()}
        given = replace(r.given, states={**r.given.states, **zeros})
        return replace(r, system=replace(r.system, states=states), given=given, begun=None)

    @cached_property
    def direction(self) -> tuple[Run, dict[str, UOp]]:
        """In which one of the distances changes, as a function of the positions and of which one it is."""
        inner, which = self.zero, UOp.var(WHICH, self.zero.shape)
        while inner.op in (Ops.SQRT, Ops.POW) and inner.src[0].shape == self.zero.shape:
            inner = inner.src[0]  # a root has no slope where a particle meets itself
        q = list(self.run.system.seen.q)
        slopes = gradient((inner * which).sum() if self.zero.shape else inner * which, q)
        return self.with_states({WHICH: which}), {f"along {x.arg}": u for x, u in zip(q, slopes)}

    @cached_property
    def bend(self) -> tuple[Run, UOp]:
        """(x V'' x)(x T'' x)/|x|**4 for a direction x."""
        system = self.run.system.seen
        H, q, p = system.energy, list(system.q), list(system.p)
        assert H is not None
        x = {f"along {y.arg}": UOp.var(f"along {y.arg}", y.shape) for y in q}
        ways = list(x.values())
        size = UOp.sum_of((u * u).sum() for u in ways)
        curved = [jvp(jvp([H], z, ways), z, ways)[0] / size for z in (q, p)]
        return self.with_states(x), abs(curved[0] * curved[1])

    def pace(self, k: int) -> float:
        """dt*omega at the nearest point of a step's way."""
        least, which, part = self.nearest
        one = np.zeros((1, max(self.zero.size, 1)))
        one[0, which[k]] = 1.0
        here = self.at([k], [part[k]])
        run, ways = self.direction
        with np.errstate(all="ignore"):
            x = self.observed(ways, {**here, WHICH: one.reshape(1, *self.zero.shape)}, 1, run)
            along = {name: v[:, 0] for name, v in x.items()}
            largest = max(float(np.abs(v).max()) for v in along.values())
            scaled = {name: v / largest for name, v in along.items()}
            run, square = self.bend
            found = float(self.observed({SIZE: square}, {**here, **scaled}, 1, run)[SIZE][0, 0])
        if math.isnan(found):
            return math.inf if least[k] == 0.0 else 0.0
        return abs(self.run.dt) * math.sqrt(found)

    def first_pass(self) -> Passed | None:
        least, which, part = self.nearest
        order = np.argsort(least, kind="stable")
        low, high = 0, len(order)  # of those in order, all before `low` are beyond the limit
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if self.pace(int(order[middle])) >= self.limit else (low, middle)
        if not low:
            return None
        k = int(order[:low].min())
        shape, step = self.zero.shape, self.first + k + 1
        pair = None
        if len(shape) == 2 and shape[0] == shape[1]:
            i, j = (int(x) for x in np.unravel_index(which[k], shape))
            pair = min(i, j), max(i, j)
        return Passed(
            step,
            time_at(step, self.run.dt, self.run.t0),
            as_written(self.term, self.run.system.seen.sites),
            float(least[k]),
            self.pace(k),
            pair,
        )


def told(p: Passed) -> Mapping[str, Any]:
    """The entry of out.metrics."""
    return {"step": p.step, "t": p.t, "term": p.term, "distance": p.distance, "where": p.where}
