"""When does something happen along a run?  What was found of the functions whose signs were watched.

Two engines search: runtime/engines/dense_search.py on the curves of steps that choose their lengths, and
runtime/engines/event_steps.py by fractions of steps that do not. Nothing of a search is fed back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tinyphysics.errors import InputError
from tinyphysics.ir import UOp, f64
from tinyphysics.ir.dtype import bool_
from tinyphysics.rules.equality.ranges import has_one_sign
from tinyphysics.runtime.state.encoding import Encoding
from tinyphysics.system import System
from tinyphysics.trajectory import StatesByName, Stop

PLACES = 24  # in a step with a curve; two changes of sign between two of them are not seen
MOST = 1_000_000  # events of a run
MOST_MET = 20_000_000  # of walls and events of the system


@dataclass(frozen=True, eq=False)
class Events(StatesByName):
    """What was found of one function: an entry for each time that its sign changed, in the order of members and time."""

    t: Any
    states: Mapping[str, Any]  # (events, shape...)
    rising: Any  # did it become positive?
    member: Any
    rested: Any = ()  # of a wall: did the body come to rest on it?

    def __len__(self) -> int:
        return len(self.t)

    def __getitem__(self, which: Any) -> Events:
        """Some of them: `found[found.rising]`, `found[found.member == 3]`, `found[:10]`."""
        if isinstance(which, (int, np.integer)):
            which = [which]
        states = {name: v[which] for name, v in self.states.items()}
        return Events(self.t[which], states, self.rising[which], self.member[which], self.rested[which])


@dataclass(frozen=True, eq=False)
class Hits:
    """Some changes of sign of one function, as a search finds them."""

    name: str
    member: Any  # (hits,)
    t: Any
    rising: Any
    words: Mapping[str, Any]  # (hits, shape...) of what is kept of the states
    rested: Any = None  # of a wall: did the body come to rest on it?

    def __len__(self) -> int:
        return len(self.t)

    def of(self, which: Any) -> Hits:
        words = {name: v[which] for name, v in self.words.items()}
        rested = None if self.rested is None else self.rested[which]
        return Hits(self.name, self.member[which], self.t[which], self.rising[which], words, rested)


@dataclass(frozen=True, eq=False)
class Found:
    """What a search has found so far; blocks of a run add to it, and those that are done again do not."""

    hits: tuple[Hits, ...] = ()
    count: int = 0
    apart: float = 0.0  # the largest time between two looks
    numbers: frozenset[str] = frozenset()  # functions that were a number somewhere

    def with_hits(
        self, hits: Sequence[Hits], apart: float, numbers: Sequence[str], most: int = MOST
    ) -> Found:
        new = tuple(h for h in hits if len(h))
        count = self.count + sum(map(len, new))
        if count > most:
            raise InputError(
                f"more than {most:,} events", fix="Run for a shorter time, or define an event that is rarer."
            )
        return Found(self.hits + new, count, max(self.apart, apart), self.numbers.union(numbers))

    def shifted(self, first: int) -> Found:
        """The same of members that are counted from another one."""
        return replace(self, hits=tuple(replace(h, member=h.member + first) for h in self.hits))


def check_events(system: System, time: UOp, events: Mapping[str, UOp]) -> None:
    """An event is where one number changes its sign."""
    moving = {x.var for x in system.states} | {time}
    for name, u in events.items():
        if u.shape != ():
            raise InputError(
                f"the event `{name}` has shape {u.shape}",
                fix="An event function must return one number; the event is where that number changes sign.",
            )
        if not u.leaves & moving:
            raise InputError(
                f"the event `{name}` is {u} throughout a run: it depends neither on a state nor on t",
                fix="An event is where a number changes sign: return a function of the states, such as q[0].",
            )
        if (why := has_one_sign(u)) is not None:
            raise InputError(
                f"the event `{name}` never changes sign: {u} is {why} whatever the state is",
                fix="Watch what is inside, or its distance from a level: lambda q: q[0] - 0.5.",
            )


def as_number(u: UOp) -> UOp:
    """A condition is positive where it holds."""
    return u if u.dtype.is_float else u.where(1.0, 0.0) if u.dtype is bool_ else u.cast(f64)


def never_a_number(name: str) -> InputError:
    return InputError(
        f"the event `{name}` was not a number anywhere in this run",
        fix="A root or a logarithm of a negative number, or a division of zero by zero, is not: change the function.",
    )


def gathered(
    system: System,
    encoding: Encoding,
    names: Sequence[str],
    found: Sequence[Hits],
    ends: Mapping[int, float],
    forward: bool,
) -> dict[str, Events]:
    """By name, as arrays; of members that have stopped, what came before their last good state (`ends`)."""
    shown = [s for s in system.seen.states]
    out = {}
    for name in names:
        mine = [h for h in found if h.name == name]
        member = joined([h.member for h in mine], int)
        t = joined([h.t for h in mine], float)
        rising = joined([h.rising for h in mine], bool)
        rested = joined([np.zeros(len(h), bool) if h.rested is None else h.rested for h in mine], bool)
        states = {}
        for s in shown:
            values = [np.asarray(encoding.shown(s.name, h.words), np.float64) for h in mine]
            states[s.name] = joined([v.reshape(len(v), *s.var.shape) for v in values], float, s.var.shape)
        way = 1.0 if forward else -1.0
        every: Events = Events(t, states, rising, member, rested)
        kept: Any = slice(None)
        if not in_order(member, way * t):
            kept = np.lexsort((way * t, member))
        if ends and len(t):
            last = np.array([ends.get(int(k), way * np.inf) for k in member])
            kept = np.arange(len(t))[kept]
            kept = kept[(way * t <= way * last)[kept]]
        out[name] = every if isinstance(kept, slice) else every[kept]
    return out


def in_order(member: Any, t: Any) -> bool:
    """Are events sorted by members, and then by times?"""
    same = member[1:] == member[:-1]
    return bool((np.where(same, t[1:] >= t[:-1], member[1:] > member[:-1])).all())


def joined(parts: Sequence[Any], dtype: Any, shape: tuple[int, ...] = ()) -> Any:
    return np.concatenate([np.zeros((0, *shape), dtype), *(np.asarray(p, dtype) for p in parts)])


def last_times(stops: Sequence[Stop], dated: bool, time: Any) -> dict[int, float]:
    """The time of the last good step of each member that has stopped; `dated` stops know it."""
    real = [s for s in stops if s.cause not in ("interrupted", "store")]
    return {s.member or 0: s.t if dated or s.cause == "event" else time(s.step - 1) for s in real}
