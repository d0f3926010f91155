"""Beside which poles does the loop itself keep how near it comes?  Those where linear functions of the positions are zero.

Then every drift is looked at, in every run, and a run in pieces stops where the whole does. A member that came near is done
again, and a replay says whether a step passed the pole (passed_pole.py). It came near if the fastest vibration, at the least
distance in the direction of its first position, is within a factor of two of the limit of the method.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from tinyphysics.ir import Ops, UOp, elements, substitute
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.rules.identities.real import simplify
from tinyphysics.runtime.measure.autopsy import shown as as_written
from tinyphysics.runtime.measure.part_again import begun_at, every_step, part_of
from tinyphysics.runtime.measure.passed_pole import CALM, Passed
from tinyphysics.runtime.measure.pole_stops import error_of, limit_of, looks_for_poles
from tinyphysics.runtime.stages.energies import Function, Look, computed, fastest, written
from tinyphysics.runtime.stages.setup import Setup
from tinyphysics.runtime.stages.terms import poles_of
from tinyphysics.runtime.state.run import Found, NearPoles, Run
from tinyphysics.runtime.state.schedule import time_at
from tinyphysics.system import System
from tinyphysics.trajectory import Stop

FEW = 4  # members that are looked at one by one
MOST = 4  # poles: each is a register of the loop
NEAR = 0.5  # of the limit of dt*omega
ROOM = 1 << 24  # numbers of states that are recorded together


@dataclass(frozen=True, eq=False)
class Forms:
    """What is zero at a pole: numbers x = A q + b, with A the same everywhere."""

    values: tuple[UOp, ...]
    slopes: Sequence[Sequence[float]]  # A: (numbers, positions)
    # (positions, numbers) by which positions move, on the shortest way, where x moves by so much: the inverse of A
    back: Sequence[Sequence[float]]


def linear(u: UOp, q: Sequence[UOp]) -> bool:
    return all(s.op is Ops.CONST for s in simplify(gradient(u, list(q)))) and bool(u.leaves & leaves(q))


def leaves(q: Sequence[UOp]) -> frozenset[UOp]:
    return frozenset(x for e in q for x in e.leaves)


def zeros(u: UOp, q: Sequence[UOp]) -> tuple[UOp, ...] | None:
    """Linear functions that are all zero where u is, and whose sum of squares is a function of u; None if there are none."""
    moving = leaves(q)
    match u.op, u.src:
        case ((Ops.SQRT | Ops.CBRT | Ops.ABS | Ops.NEG | Ops.CAST), (a,)):
            return zeros(a, q)
        case Ops.POW, (a, e) if e.op is Ops.CONST and e.arg > 0:
            return zeros(a, q)
        case Ops.MUL, (a, b) if a is b or not b.leaves & moving:
            return zeros(a, q)
        case Ops.MUL, (a, b) if not a.leaves & moving:
            return zeros(b, q)
        case Ops.MUL, (a, b):
            both = zeros(a, q), zeros(b, q)
            return both[0] if both[0] is not None and both[0] == both[1] else None
        case Ops.HYPOT, (a, b) if linear(a, q) and linear(b, q):
            return a, b
    return (u,) if linear(u, q) else squares(u, q)


def squares(u: UOp, q: Sequence[UOp]) -> tuple[UOp, ...] | None:
    match u.op, u.src:
        case Ops.ADD, (a, b):
            left, right = squares(a, q), squares(b, q)
            return None if left is None or right is None else (*left, *right)
        case Ops.MUL, (a, b) if a is b and linear(a, q):
            return (a,)
        case Ops.POW, (a, e) if e.op is Ops.CONST and e.arg == 2 and linear(a, q):
            return (a,)
    return None


@lru_cache(maxsize=256)
def forms_of(system: System) -> tuple[Forms, ...]:
    """Of all poles of an energy; none if there is one that is no such place, or too many."""
    q = [e for x in system.q for e in elements(x)]
    found: list[Forms] = []
    single = [UOp.var(f"position {k}") for k in range(len(q))]
    for _, zero in poles_of(system):
        if zero.shape or len(found) == MOST:
            return ()
        ((whole,),) = (tuple(group) for group in unroll([zero]))
        (scalar,) = simplify(substitute([whole], dict(zip(q, single))))
        values = zeros(scalar, single)
        if values is None:
            return ()
        slopes = [[float(s.arg) for s in simplify(gradient(v, single))] for v in values]
        own = tuple(substitute(list(values), dict(zip(single, q))))
        found.append(Forms(own, slopes, np.linalg.pinv(slopes).tolist()))
    return tuple(found)


@dataclass(frozen=True, eq=False)
class Nearness:
    """How near the members of a run came to its poles, and whether that is too near."""

    setup: Setup
    run: Run
    forms: tuple[Forms, ...]
    look: Look
    limit: float

    @cached_property
    def distances(self) -> tuple[Function, Function]:
        """The numbers that are zero at the poles, as functions of those of states and parameters."""
        system = self.run.system.seen
        named = *(s.var for s in system.states), *(p.var for p in system.parameters)
        variables = [e for x in named for e in elements(x)]
        single = [UOp.var(f"x{k}") for k in range(len(variables))]
        every = substitute([v for f in self.forms for v in f.values], dict(zip(variables, single)))
        both = written(every, single)
        assert both is not None, "the energy of these has been written"
        return both

    @cached_property
    def rows(self) -> dict[Forms, slice]:
        """Where the numbers of a pole are among those."""
        ends = np.cumsum([0, *(len(f.values) for f in self.forms)]).tolist()
        return {f: slice(a, b) for f, a, b in zip(self.forms, ends, ends[1:])}

    def suspects(self, states: Mapping[str, Any], own: Mapping[str, Any], near: Any) -> Any:
        values, count = self.run.encoding.values(states), near.shape[1]
        flat = [np.asarray(values[name], np.float64).reshape(count, -1) for name in self.look.states]
        for v in (own[name] for name in self.look.params):
            flat.append(np.broadcast_to(v.reshape(len(v), -1), (count, v[0].size)))
        rows = np.concatenate(flat, axis=1)
        asked = np.flatnonzero(self.may_be_near(rows, near)) if count > FEW else range(count)
        out = np.zeros(count, bool)
        for k in asked:
            out[k] = self.is_near(rows[k].tolist(), near[:, k].tolist())
        return out

    def may_be_near(self, rows: Any, near: Any) -> Any:
        """By a bound on the fastest vibration of all members at once, instead of eigenvalues."""
        look, out = self.look, np.zeros(len(rows), bool)
        assert look.bends is not None
        with np.errstate(all="ignore"):
            every = self.distances[1](*rows.T)
            for f, least in zip(self.forms, near):
                x = np.stack([np.broadcast_to(y, least.shape) for y in every[self.rows[f]]])
                part = np.sqrt(np.maximum(least, 0.0) / (x * x).sum(axis=0)) - 1.0
                there = rows.T.copy()
                there[self.places] += np.array(f.back) @ (part * x)
                second = [np.broadcast_to(y, least.shape) for y in look.bends[1](*there)]
                half = len(second) // 2
                sizes = [sum(y * y for y in side) for side in (second[:half], second[half:])]
                largest = 2.0 * np.sqrt(sizes[0] * sizes[1])
                out |= ~(largest < (NEAR * self.limit / self.run.dt) ** 2) | ~(least > 0.0)
        return out

    def is_near(self, numbers: list[float], near: Sequence[float]) -> bool:
        """Of one member, by the numbers of its first state and its parameters."""
        x, dt = computed(self.distances, numbers), abs(self.run.dt)
        assert self.look.bends is not None
        for f, least in zip(self.forms, near):
            own = x[self.rows[f]]
            far = math.sqrt(sum(y * y for y in own))
            if not least > 0.0 or not far > 0.0:
                return True
            part = math.sqrt(least) / far - 1.0
            there = list(numbers)
            for place, row in zip(self.places, f.back):
                there[place] += part * sum(a * y for a, y in zip(row, own))
            second = computed(self.look.bends, there)
            pace = dt * fastest(second, self.look.count, NEAR * self.limit / dt)
            if not pace < NEAR * self.limit:  # a NaN too
                return True
        return False

    @cached_property
    def places(self) -> list[int]:
        """Where the positions are among the numbers of a state."""
        system, at, out = self.run.system.seen, 0, {}
        for s in system.states:
            out[str(s.var.arg)] = list(range(at, at + s.var.size))
            at += s.var.size
        return [k for x in system.q for k in out[str(x.arg)]]

    def find(self, members: Sequence[int], good: int, n: int) -> Found:
        out: dict[int, tuple[Stop, Mapping[str, Any]]] = {}
        size = sum(s.var.size for s in self.run.system.states) * (n - good + 1)
        few = max(1, ROOM // max(size, 1))
        for first in range(0, len(members), few):
            some = list(members[first : first + few])
            out |= self.replayed(some, begun_at(part_of(self.run, some), good), good, n)
        return out

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
            at, distance, pace, pole = p
            step = good + at + 1
            who = member if r.given.is_ensemble else None
            term = as_written(poles_of(system)[pole][0], system.sites)
            found = Passed(step, time_at(step, r.dt, r.t0), term, distance, pace)
            stop = Stop(
                "singularity", step, found.t, who, (str(system.q[0].arg), 0), error_of(found, self.limit, who)
            )
            out[member] = stop, {name: v[at, k] for name, v in seen.items()}
        return out


@dataclass(frozen=True, eq=False)
class Ways:
    """The ways of all steps of a member beside its poles."""

    near: Nearness
    numbers: Any  # of its first state and of its parameters
    q: Any  # (steps, positions)

    def first_pass(self) -> tuple[int, float, float, int] | None:
        """(the step, how near, dt*omega there, which pole) of the first that passes one.

        A run whose step is too long where it begins passes none: that is said of its step.
        """
        finite = np.isfinite(self.q).all(axis=1)
        q = self.q if finite.all() else self.q[: int(finite.argmin())]
        if len(q) < 2:
            return None
        begin = self.numbers[self.near.places]
        found = []
        for which, f in enumerate(self.near.forms):
            if self.pace(f, begin) > CALM * self.near.limit:
                return None
            a, b = self.apart(f, q[:-1]), self.apart(f, q[1:])
            with np.errstate(all="ignore"):
                along = b - a
                part = -(a * along).sum(axis=1) / (along * along).sum(axis=1)
            part = np.clip(np.nan_to_num(part, nan=0.0), 0.0, 1.0)[:, None]
            least = np.sqrt((((1.0 - part) * a + part * b) ** 2).sum(axis=1))
            nearest = (1.0 - part) * q[:-1] + part * q[1:]
            order = np.argsort(least, kind="stable")
            low, high = 0, len(order)  # of those in order, all before `low` are beyond the limit
            while low < high:
                middle = (low + high) // 2
                over = self.pace(f, nearest[order[middle]]) >= self.near.limit
                low, high = (middle + 1, high) if over else (low, middle)
            if low:
                at = int(order[:low].min())
                found.append((at, float(least[at]), self.pace(f, nearest[at]), which))
        return min(found, default=None)

    def apart(self, f: Forms, q: Any) -> Any:
        """(points, numbers) of what is zero at a pole."""
        return self.offset(f) + q @ np.array(f.slopes).T

    def offset(self, f: Forms) -> Any:
        """What is zero at the pole, where all positions are zero."""
        there = self.numbers.copy()
        there[self.near.places] = 0.0
        return np.array(computed(self.near.distances, there.tolist())[self.near.rows[f]])

    def pace(self, f: Forms, q: Any) -> float:
        """dt*omega where the positions are these, in the direction in which the distance from the pole changes."""
        there, bends = self.numbers.copy(), self.near.look.bends
        there[self.near.places] = q
        assert bends is not None
        x = self.apart(f, q[None])[0]
        along = x @ np.array(f.slopes)
        size = np.abs(along).max()
        if not size > 0.0:
            return math.inf
        along = along / size
        n, second = len(along), np.array(computed(bends, there.tolist()))
        half, lower = n * (n + 1) // 2, np.tril_indices(n)
        twice = np.where(lower[0] == lower[1], 1.0, 2.0) * along[lower[0]] * along[lower[1]]
        with np.errstate(all="ignore"):
            square = abs((second[:half] @ twice) * (second[half:] @ twice)) / (along @ along) ** 2
        return 0.0 if math.isnan(square) else abs(self.near.run.dt) * math.sqrt(square)


def near_poles(setup: Setup, r: Run) -> NearPoles | None:
    """The poles beside which the loop of a run keeps how near it comes; None where it has none, or cannot."""
    lanes = r.target.backend != "python" and not r.loops and not r.given.there and r.given.members
    if setup.checks == "off" or not lanes or r.encoding.precision.name != "float64":
        return None
    limit, look = limit_of(setup), setup.compiled.look if looks_for_poles(setup, r) else None
    if look is None or look.bends is None or limit is None or not (forms := forms_of(r.system.seen)):
        return None
    names = [tuple(f"pole {k}.{j}" for j in range(len(f.values))) for k, f in enumerate(forms)]
    values = {name: u for own, f in zip(names, forms) for name, u in zip(own, f.values)}
    one = Nearness(setup, r, forms, look, limit)
    return NearPoles(values, tuple(names), one.suspects, one.find)
