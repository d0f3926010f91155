"""How near does a run come to its poles?  Its loop keeps that, so that every drift is looked at, in every run.

A run in pieces then stops where the whole does. A member that came near is done again, and a replay says whether a step
passed the pole: whether, at the nearest point of its way, dt*omega reaches the limit of the method. It came near if dt*omega,
at the least distance in any of some directions, is within a factor of two of that limit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from tinyphysics.ir import UOp
from tinyphysics.runtime.measure.autopsy import shown as as_written
from tinyphysics.runtime.measure.part_again import begun_at, every_step, fresh, nothing, part_of
from tinyphysics.runtime.measure.passed_pole import CALM, Passed
from tinyphysics.runtime.measure.pole_forms import Forms, forms_of
from tinyphysics.runtime.measure.pole_stops import error_of, limit_of, looks_for_poles, told_member
from tinyphysics.runtime.stages.energies import Look, computed
from tinyphysics.runtime.stages.execute import execute
from tinyphysics.runtime.stages.setup import Setup
from tinyphysics.runtime.state.record import Record
from tinyphysics.runtime.state.run import Found, NearPoles, Run
from tinyphysics.runtime.state.schedule import Schedule, time_at
from tinyphysics.tpir.kernels.kernel import SAMPLED
from tinyphysics.trajectory import Stop

FEW = 4  # members that are looked at one by one
MANY = 256  # members, beyond which one distance is found for all, and they are compared with it
DISTANCES = np.geomspace(1e-12, 1e12, 4801)
COARSE = 75  # of these at once, since a vibration is the slower the further away
NEAR = 0.5  # of the limit of dt*omega
ROOM = 1 << 24  # numbers of states that are recorded together
SOON, WIDER = 4_096, 8  # steps that are done again first, and how many times as many next
MUCH = 1_000_000  # steps of members, beyond which code that keeps distances is made first
FURTHEST = 1e12  # from a pole
SAFE = 1.0 + 1e-9  # for roundings
ROOMY = 1.25  # of squares: so much nearer, and by so much longer steps, members may come before all is computed again


@dataclass(frozen=True, eq=False)
class Nearness:
    """How near the members of a run came to its poles, and whether that is too near."""

    setup: Setup
    run: Run
    forms: tuple[Forms, ...]
    look: Look
    limit: float
    known: list[tuple[Any, Any]] = field(
        default_factory=list
    )  # a first state, and what is far from its poles
    safe: list[Any] = field(default_factory=list)  # what was seen of all members where none was near

    @cached_property
    def places(self) -> list[int]:
        """Where the positions are among the numbers of a state."""
        system, at, out = self.run.system.seen, 0, {}
        for s in system.states:
            out[str(s.var.arg)] = list(range(at, at + s.var.size))
            at += s.var.size
        return [k for x in system.q for k in out[str(x.arg)]]

    # --- which members came near --------------------------------------------------------------------
    def suspects(self, states: Mapping[str, Any], own: Mapping[str, Any], near: Any) -> Any:
        values, count = self.run.encoding.values(states), near.shape[1]
        flat = [np.asarray(values[name], np.float64).reshape(count, -1) for name in self.look.states]
        for v in (own[name] for name in self.look.params):
            flat.append(np.broadcast_to(v.reshape(len(v), -1), (count, v[0].size)))
        rows = np.concatenate(flat, axis=1)
        near = self.least(rows, near)
        alike = all(len(own[name]) == 1 for name in self.look.params)
        if count > MANY and alike and all(f.by_distance for f in self.forms):
            return ~(near > self.far_enough(rows[0])[:, None]).all(axis=0)
        if count > FEW:
            return self.are_near(rows, near)
        return np.array([self.is_near(rows[k].tolist(), near[:, k].tolist()) for k in range(count)], bool)

    def calm(self, states: Mapping[str, Any], own: Mapping[str, Any], near: Any) -> bool:
        """Is no member near a pole, by the least distance of all?  None is asked where that differs between them."""
        if not self.simple or not all(len(own[name]) == 1 for name in self.look.params):
            return False
        if self.safe and bool((near >= self.safe[0]).all()):  # further away, and by no longer steps
            return True
        if not self.known:
            values = self.run.encoding.values({name: v[:1] for name, v in states.items()})
            flat = [np.asarray(values[name], np.float64).ravel() for name in self.look.states]
            first = np.concatenate([*flat, *(own[name].ravel() for name in self.look.params)])
            self.known.append((first, self.far_enough(first)[:, None]))
        first, far = self.known[0]
        wider = np.where(near > 0.0, near / ROOMY, near * ROOMY)
        for seen in (wider, near):
            if (self.least(first[None], seen) > far).all():
                self.safe[:] = [seen]
                return True
        return False

    @cached_property
    def simple(self) -> bool:
        return all(f.by_distance for f in self.forms)

    def least(self, rows: Any, near: Any) -> Any:
        """(poles, members) no more than the least squares of distances, by what a loop keeps of members (rows, numbers).

        No step is longer than one that was seen, and what the pull beside the pole adds in SAMPLED steps: it is largest at
        the least distance, or far away.
        """
        if not self.by_length or len(near) == len(
            self.forms
        ):  # some loops keep distances where lengths would do
            return near
        (f,), (square, longest) = self.forms, near
        with np.errstate(all="ignore"):
            there = np.sqrt(square)
            pull = np.fmax(f.pulls(rows, there), f.pulls(rows, np.full_like(there, FURTHEST)))
            way = np.sqrt(-longest) + SAMPLED * self.run.dt**2 * pull
            return (square - 0.25 * SAFE * way * way)[None]

    @cached_property
    def by_length(self) -> bool:
        """May the loop keep ends of ways and the longest one?  Where the pull of one pole is all that moves."""
        kicks = self.setup.compiled.known.method == "leapfrog_kdk" and not self.run.system.friction
        return kicks and not self.run.acts and len(self.forms) == 1 and self.simple and self.forms[0].alone

    @cached_property
    def fastest(self) -> float:
        """The square of omega from which on a member is near."""
        return float((NEAR * self.limit / self.run.dt) ** 2)

    def far_enough(self, numbers: Any) -> Any:
        """(poles,) squares of distances beyond which no member is near: all have the same parameters, and how fast a
        vibration is depends on the distance alone."""
        out = []
        for f in self.forms:
            way = np.eye(len(f.values))[:1]
            slow = f.at(numbers, way, DISTANCES[::COARSE])[0] < self.fastest
            end = COARSE * int(np.argmax(slow))
            between = DISTANCES[max(0, end - COARSE) : end + 1]
            fine = f.at(numbers, way, between)[0] < self.fastest
            out.append(between[np.argmax(fine)] ** 2 if slow.any() else np.inf)
        return np.array(out)

    def are_near(self, rows: Any, near: Any) -> Any:
        """Of many members, by the numbers of their first states and their parameters."""
        out = np.zeros(len(rows), bool)
        with np.errstate(all="ignore"):
            for f, least in zip(self.forms, near):
                x = np.stack([np.broadcast_to(y, least.shape) for y in f.numbers[1](*rows.T)])
                far = np.sqrt((x * x).sum(axis=0))
                out |= ~(least > 0.0) | ~(far > 0.0)
                for way, factor in product((*f.directions[:, :, None], x / far), f.factors):
                    there = rows.T.copy()
                    there[self.places] += f.back @ (factor * np.sqrt(np.maximum(least, 0.0)) * way - x)
                    out |= ~(f.square[1](*there)[0] < self.fastest)
        return out

    def is_near(self, numbers: list[float], near: Sequence[float]) -> bool:
        """The same of one member, in plain numbers."""
        for f, least in zip(self.forms, near):
            x = computed(f.numbers, numbers)
            far = math.sqrt(sum(y * y for y in x))
            if not least > 0.0 or not far > 0.0:
                return True
            size, back = math.sqrt(least), f.back.tolist()
            for way, factor in product((*f.directions.tolist(), [y / far for y in x]), f.factors):
                there, moved = list(numbers), [factor * size * a - b for a, b in zip(way, x)]
                for place, row in zip(self.places, back):
                    there[place] += sum(a * y for a, y in zip(row, moved))
                if not computed(f.square, there)[0] < self.fastest:  # a NaN too
                    return True
        return False

    # --- what they did --------------------------------------------------------------------------------
    def find(self, members: Sequence[int], good: int, n: int) -> Found:
        out: dict[int, tuple[Stop, Mapping[str, Any]]] = {}
        if self.by_length and len(members) * (n - good) > MUCH and self.run.target.backend != "cuda":
            members = self.closer(members, good, n)
        left, end = list(members), good
        while left and end < n:  # most of those that pass a pole do so soon
            begin, end = end, min(n, good + max(SOON, WIDER * (end - good)))
            size = sum(s.var.size for s in self.run.system.states) * (end - begin + 1)
            few = max(1, ROOM // max(size, 1))
            for first in range(0, len(left), few):
                some = left[first : first + few]
                out |= self.replayed(some, begun_at(part_of(self.run, some), begin), begin, end)
            left = [k for k in left if k not in out]
        return out

    def closer(self, members: Sequence[int], good: int, n: int) -> list[int]:
        """Those that came near by the distances of every drift: a loop that keeps them does these members again."""
        r, some = self.run, list(members)
        part, seen, nearest = (
            begun_at(part_of(r, some), good),
            list[Any](),
            np.full((len(self.forms), len(some)), np.inf),
        )

        def all_of_them(states: Mapping[str, Any], own: Mapping[str, Any], near: Any) -> Any:
            seen[:] = [near]
            return np.ones(near.shape[1], bool)

        def keep(who: Sequence[int], good: int, n: int) -> Found:
            nearest[:, who] = np.fmin(nearest[:, who], seen[0])
            return {}

        names = self.names
        kept = NearPoles(values_of(self.forms, names), names, all_of_them, keep, self.simple)
        first = 0 if part.begun is None else part.begun.step
        record = Record(Schedule(n, None, None, None, first), {})
        execute(fresh(part), record, {}, nothing, poles=kept)[0].raise_error()
        if not record.kept_nearest:
            return some
        states = r.given.states if r.begun is None else r.begun.start
        own = {name: v[some] if len(v) > 1 else v for name, v in r.given.own.items()}
        near = self.suspects({name: v[some] for name, v in states.items()}, own, nearest)
        return [k for k, is_near in zip(some, near) if is_near]

    @property
    def names(self) -> tuple[tuple[str, ...], ...]:
        return tuple(tuple(f"pole {k}.{j}" for j in range(len(f.values))) for k, f in enumerate(self.forms))

    def replayed(self, members: Sequence[int], part: Run, good: int, n: int) -> Found:
        """The stops of those members that pass a pole, with their last states before it; a part of the run is theirs."""
        system, r = self.run.system.seen, self.run
        seen = every_step(part, n, {s.name: s.var for s in r.system.states})
        start = part.given.states if part.begun is None else part.begun.start
        out = {}
        for k, member in enumerate(members):
            own = [
                x
                for name in self.look.params
                for x in part.given.own[name][k % len(part.given.own[name])].ravel()
            ]
            first = [x for name in self.look.states for x in start[name][k].ravel().tolist()]
            q = np.concatenate([seen[str(x.arg)][:, k].reshape(n - good + 1, -1) for x in system.q], axis=1)
            p = Ways(self, np.array([*first, *own], float), q).first_pass()
            if p is None:
                continue
            at, distance, pace, f = p
            step = good + at + 1
            who = member if r.given.is_ensemble else None
            found = Passed(
                step, time_at(step, r.dt, r.t0), as_written(f.term, system.sites), distance, pace, f.pair
            )
            where = f.pair if f.pair is not None else (str(system.q[0].arg), 0)
            error = error_of(found, self.limit, told_member(r, member))
            stop = Stop("singularity", step, found.t, who, where, error)
            out[member] = stop, {name: v[at, k] for name, v in seen.items()}
        return out


@dataclass(frozen=True, eq=False)
class Ways:
    """The ways of all steps of a member beside its poles."""

    near: Nearness
    numbers: Any  # of its first state and of its parameters
    q: Any  # (steps, positions)

    def first_pass(self) -> tuple[int, float, float, Forms] | None:
        """(the step, how near, dt*omega there, which pole) of the first that passes one.

        A run whose step is too long where it begins passes none: that is said of its step.
        """
        finite = np.isfinite(self.q).all(axis=1)
        q = self.q if finite.all() else self.q[: int(finite.argmin())]
        if len(q) < 2:
            return None
        begin = self.numbers[self.near.places][None]
        if any(self.paces(f, begin)[0] > CALM * self.near.limit for f in self.near.forms):
            return None
        found = []
        for which, f in enumerate(self.near.forms):
            a, b = self.apart(f, q[:-1]), self.apart(f, q[1:])
            with np.errstate(all="ignore"):
                along = b - a
                part = -(a * along).sum(axis=1) / (along * along).sum(axis=1)
            part = np.clip(np.nan_to_num(part, nan=0.0), 0.0, 1.0)[:, None]
            some = np.arange(len(part))
            if f.by_distance and len(part) > MANY:  # how fast it is there is asked of the nearest alone
                square = (((1.0 - part) * a + part * b) ** 2).sum(axis=1)
                some = np.flatnonzero(~(square > self.near.far_enough(self.numbers)[which]))
            pace = self.paces(f, (1.0 - part[some]) * q[:-1][some] + part[some] * q[1:][some])
            over = np.flatnonzero(pace >= self.near.limit)
            if len(over):
                at = int(some[over[0]])
                least = float(np.sqrt((((1.0 - part[at]) * a[at] + part[at] * b[at]) ** 2).sum()))
                found.append((at, which, least, float(pace[over[0]])))
        if not found:
            return None
        at, which, least, fast = min(found)
        return at, least, fast, self.near.forms[which]

    def states(self, q: Any) -> Any:
        """(numbers, points) of a state and its parameters where the positions are these."""
        out = np.repeat(self.numbers[:, None], len(q), axis=1)
        out[self.near.places] = q.T
        return out

    def apart(self, f: Forms, q: Any) -> Any:
        """(points, numbers) of what is zero at a pole."""
        found = f.numbers[1](*self.states(q))
        return np.stack([np.broadcast_to(x, len(q)) for x in found], axis=1)

    def paces(self, f: Forms, q: Any) -> Any:
        """dt*omega where the positions are these, in the direction in which the distance from the pole changes."""
        with np.errstate(all="ignore"):
            square = np.broadcast_to(f.square[1](*self.states(q))[0], len(q))
            there = (self.apart(f, q) == 0.0).all(axis=1)
            return np.where(there, np.inf, np.nan_to_num(abs(self.near.run.dt) * np.sqrt(square), nan=0.0))


def values_of(forms: Sequence[Forms], names: Sequence[Sequence[str]]) -> dict[str, UOp]:
    return {name: u for own, f in zip(names, forms) for name, u in zip(own, f.values)}


def near_poles(setup: Setup, r: Run) -> NearPoles | None:
    """The poles beside which the loop of a run keeps how near it comes; None where it has none, or cannot."""
    lanes = not r.loops and not r.given.there and r.given.members and setup.goal.math == "exact"
    if setup.checks == "off" or not lanes or r.encoding.precision.name != "float64":
        return None
    limit, look = limit_of(setup), setup.compiled.look if looks_for_poles(setup, r) else None
    if look is None or not limit or not (forms := forms_of(r.system.seen)):
        return None
    one = Nearness(setup, r, forms, look, limit)
    replays = r.target.backend == "python"
    return NearPoles(
        values_of(forms, one.names),
        one.names,
        one.suspects,
        one.find,
        one.simple,
        not replays and one.by_length,
        one.calm,
        replays,
    )
