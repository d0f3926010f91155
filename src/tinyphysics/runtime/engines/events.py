"""When does something happen along a solution?  Signs of functions of the state, on the series of the steps themselves.

A function is looked at in some places of every step; where its sign has changed, the time is found by halving until there is
no float64 between. Nothing of this is fed back: the steps are those of a run that nobody searches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tinyphysics.device.host.arrays import Evaluator
from tinyphysics.errors import InputError
from tinyphysics.ir import Ops, UOp, substitute, toposort
from tinyphysics.rules.calculus.custom import inline
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.rules.functions.transcendental import lower
from tinyphysics.system import System

PLACES = 24  # in a step; two changes of sign between two of them are not seen
HALVINGS = 80
MOST = 1_000_000  # events of a run


@dataclass(frozen=True, eq=False)
class Events:
    """What was found of one function: an entry for each time that its sign changed, in the order of members and time."""

    t: Any
    states: Mapping[str, Any]  # (events, shape...)
    rising: Any  # did it become positive?
    member: Any

    def __len__(self) -> int:
        return len(self.t)

    def __getattr__(self, name: str) -> Any:
        states = self.__dict__.get("states", {})
        if name in states:
            return states[name]
        raise AttributeError(f"no state `{name}`; this system has {', '.join(states)}")


@dataclass(frozen=True, eq=False)
class EventHit:
    name: str
    member: int
    t: float
    state: Any  # all numbers, one after the other
    rising: bool


class EventSearch:
    """Functions of the state, the parameters and t, one number each."""

    def __init__(self, system: System, clock: UOp, values: Mapping[str, UOp]) -> None:
        self.system, self.clock = system, clock
        self.order: list[tuple[str, Evaluator, dict[UOp, UOp]]] = []
        for name, u in values.items():
            if u.shape != ():
                raise InputError(
                    f"the event `{name}` has shape {u.shape}",
                    fix="An event function must return one number; the event is where that number changes sign.",
                )
            (flat,) = unroll([u])
            roots = lower(inline(flat))
            leaves = [x for x in toposort(roots) if x.op is Ops.VAR and not x.shape or x.op is Ops.ELEMENT]
            names = {x: UOp.var(f"x{k}", (), x.dtype) for k, x in enumerate(leaves)}
            self.order.append((name, Evaluator(substitute(roots, names)), names))

    def values(self, k: int, states: Any, t: Any, params: Mapping[str, Any]) -> Any:
        """Of the k-th function at some points (points, numbers)."""
        _, evaluate, names = self.order[k]
        at, begins = 0, {}
        for s in self.system.states:
            begins[str(s.var.arg)] = at
            at += s.var.size
        env = {}
        for u, v in names.items():
            name, index = (str(u.src[0].arg), u.arg) if u.op is Ops.ELEMENT else (str(u.arg), 0)
            if name in begins:
                env[v] = states[:, begins[name] + index]
            elif u is self.clock:
                env[v] = t
            else:
                env[v] = np.full(1, np.ravel(params[name])[index])
        with np.errstate(all="ignore"):
            return np.broadcast_to(evaluate(env)[0], len(states))

    def step(
        self,
        rows: Any,
        low: Any,
        clock: Sequence[float],
        window: tuple[float, float],
        params: Mapping[str, Any],
        member: int,
        fresh: bool,
    ) -> list[EventHit]:
        """Of one step: its coefficients (order, numbers), the time that it begins at, and the part of it to be searched."""
        high, rest = clock[0], clock[1]

        def at(d: Any) -> Any:
            total = np.zeros((len(d), rows.shape[1]))
            for c in rows[:0:-1]:
                total = (total + c) * d[:, None]
            return rows[0] + (low + total)

        out = []
        d = np.linspace(window[0], window[1], PLACES + 1)
        states = at(d)
        for k, (name, _, _) in enumerate(self.order):

            def sign(x: Any) -> Any:
                return self.values(k, at(x), high + (rest + x), params) > 0.0  # noqa: B023

            values = self.values(k, states, high + (rest + d), params)
            positive = values > 0.0
            if fresh and values[0] == 0.0:  # where a run begins nothing has happened yet
                positive[0] = positive[1]
            for n in np.flatnonzero(positive[1:] != positive[:-1]):
                a, b, before = d[n], d[n + 1], positive[n]
                for _ in range(HALVINGS):
                    middle = 0.5 * (a + b)
                    if not a < middle < b:
                        break
                    a, b = (middle, b) if sign(np.array([middle]))[0] == before else (a, middle)
                out.append(
                    EventHit(name, member, float(high + (rest + b)), at(np.array([b]))[0], bool(~before))
                )
        return out


@dataclass
class Searching:
    """How far the members of a run were searched, and what was found."""

    search: EventSearch
    params: Mapping[str, Any]  # (members or 1, shape...)
    done: Any  # the time of each member
    since: float
    found: tuple[EventHit, ...] = field(default=(), repr=False)
    apart: float = 0.0  # the largest time between two looks

    def steps(self, rows: Any, low: Any, clocks: Any, until: float) -> None:
        """The steps that the members are at, as far as they reach, and no further than `until`."""
        for k in range(len(rows)):
            high, rest, h = (float(x) for x in clocks[:3, k])
            first, last = (self.done[k] - high) - rest, min((until - high) - rest, h)
            if not 0.0 <= last or not first < last:
                continue
            own = {name: v[k if len(v) > 1 else 0] for name, v in self.params.items()}
            fresh = self.done[k] == self.since
            self.found += tuple(
                self.search.step(rows[k], low[k], (high, rest), (max(first, 0.0), last), own, k, fresh)
            )
            self.apart = max(self.apart, float(last - max(first, 0.0)) / PLACES)
            self.done[k] = until if last < h else high + (rest + h)
            if len(self.found) > MOST:
                raise InputError(
                    f"more than {MOST:,} events",
                    fix="Run for a shorter time, or define an event that is rarer.",
                )


def gathered(system: System, names: Sequence[str], found: Sequence[EventHit]) -> dict[str, Events]:
    """By name, as arrays."""
    out = {}
    for name in names:
        mine = sorted((f for f in found if f.name == name), key=lambda f: (f.member, f.t))
        flat = np.array([f.state for f in mine]).reshape(len(mine), sum(s.var.size for s in system.states))
        states, at = {}, 0
        for s in system.states:
            states[s.name] = flat[:, at : at + s.var.size].reshape(len(mine), *s.var.shape)
            at += s.var.size
        out[name] = Events(
            np.array([f.t for f in mine]),
            states,
            np.array([f.rising for f in mine], bool),
            np.array([f.member for f in mine], int),
        )
    return out
