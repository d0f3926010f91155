"""Where do functions of the state change sign along steps that have a curve?

Signs are noted in the same places of every step, whatever a run is asked to show: so what is found does not depend on
frames, blocks, checkpoints or who else runs. Where two neighbours differ the place is found to rounding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from tinyphysics.device.protocols import StepRows
from tinyphysics.runtime.engines.events import PLACES, Found, Hits
from tinyphysics.runtime.engines.roots import Values, first_places

MANY = 4096  # changes of sign that are located together
LAST = PLACES  # the bit of the end of a step
FAR = 64.0  # times as long as what is left of a run: a solution without a scale of its own, such as a straight line


class Curves(Protocol):
    """runtime/engines/dense.py, and for series in loops runtime/engines/series_curves.py."""

    count: int
    pad: int  # steps that are looked at together, at least: vectors of one width serve few and many

    def scan(self, rows: StepRows, params: Mapping[str, Any], reach: Any) -> tuple[Any, Any, Any]: ...
    def look(self, rows: StepRows, params: Mapping[str, Any], place: Any) -> dict[str, Any]: ...
    def values(self, rows: StepRows, params: Mapping[str, Any], place: Any) -> dict[str, Any]: ...


@dataclass(frozen=True, eq=False)
class Crossings:
    """Changes of sign between two places of steps, and the part of each step that is searched."""

    rows: StepRows  # the registers of each step
    who: Any
    function: Any
    a: Any  # the two places, in parts of the step
    b: Any
    before: Any  # was it positive?
    begin: Any  # the time in the step that is searched
    end: Any

    def of(self, which: Any) -> Crossings:
        own = (getattr(self, name) for name in CROSSING)
        return Crossings(self.rows.some(which), *(v[which] for v in own))

    def place(self, part: Any) -> Any:
        """In the step, of a part of what lies between two looks."""
        return np.where(part < 1.0, self.a + part * (self.b - self.a), self.b)

    def joined(self, others: Sequence[Crossings]) -> Crossings:
        every = (self, *others)
        rows = replace(self.rows, table=np.concatenate([c.rows.table for c in every], axis=1))
        return Crossings(rows, *(np.concatenate([getattr(c, name) for c in every]) for name in CROSSING))


CROSSING = ("who", "function", "a", "b", "before", "begin", "end")


@dataclass(eq=False)
class Searching:
    """How far the steps of some members were searched, and what was found."""

    names: Sequence[str]
    curves: Curves
    clock: str  # the register of time, in two words, and the length of a step
    params: Mapping[str, Any]  # (members or 1, shape...)
    members: int
    done: float  # the time up to which all were searched
    # (members,) is its first step still to come, where a zero is no event?  Or of all
    fresh: Any = field(repr=False)
    found: Found = Found()
    # (2, functions, members): sign at the end of the last step, known?
    ends: Any = field(default=None, repr=False)
    count: Any = field(default=None, repr=False)  # (members,) attempts before
    noted: list[Crossings] = field(default_factory=list, repr=False)  # in a walk, to be located
    who: Any = field(default=None, repr=False)  # the members whose steps are looked at

    def __post_init__(self) -> None:
        self.fresh = np.broadcast_to(self.fresh, self.members).copy()

    def copy(self) -> Searching:
        return replace(self, noted=list(self.noted))

    def begin(self) -> None:
        """A walk begins at the step that the members are at, whose beginning was searched before."""
        self.ends = np.zeros((2, len(self.names), self.members), bool)
        self.count = np.full(self.members, -1.0)

    def steps(self, rows: StepRows, until: float, who: Any) -> None:
        """Registers after some steps of some members, searched up to a time."""
        self.who = who
        high, low, h = rows[self.clock][:3]
        # before its first step a run has none, nor after an attempt that failed; who has arrived repeats the last
        lanes = np.flatnonzero((h > 0.0) & self.is_new(rows[self.clock]))
        if not len(lanes):
            return
        left = ((until - high) - low).ravel()[lanes]
        reach = parts_within(h.ravel()[lanes], left)
        positive, number, zero = self.curves.scan(rows.some(lanes), self.own(self.member(lanes)), reach)
        good = np.zeros(h.shape, bool)
        good.ravel()[lanes] = True
        first = self.first_steps(good, lanes)
        begins_at_zero = first[None] & (zero & 1 != 0)
        positive = np.where(begins_at_zero, positive & ~1 | positive >> 1 & 1, positive)
        hits = self.jumps(rows, good, lanes, positive, np.where(reach < 1.0, number & ~(1 << LAST), number))
        self.note_crossings(rows, lanes, reach, positive, number, until)
        seen = [name for name, v in zip(self.names, number) if v.any()]
        apart = float((reach * h.ravel()[lanes]).max()) / PLACES
        self.found = self.found.with_hits(hits, apart, seen)
        if sum(len(c.who) for c in self.noted) >= MANY:
            self.locate()

    def finish(self, until: float) -> None:
        """A walk ends: all steps that reach into the time up to here were looked at."""
        self.locate()
        self.done = until

    def is_new(self, clock: Any) -> Any:
        """Is a row another attempt than the one before it?"""
        tried = clock[5 if len(clock) > 5 else 3]
        new: Any = np.vstack([self.count[self.who], tried[:-1]]) != tried
        self.count[self.who] = tried[-1]
        return new

    def member(self, lanes: Any) -> Any:
        """Whose steps these are."""
        return self.who[lanes % len(self.who)]

    def own(self, who: Any) -> dict[str, Any]:
        return {name: v[who] if len(v) > 1 else v for name, v in self.params.items()}

    def first_steps(self, good: Any, lanes: Any) -> Any:
        """Which of the lanes are the first steps of runs that begin here?"""
        rows, lane, count = good.argmax(axis=0), lanes % len(self.who), len(self.who)
        first = (self.fresh[self.who] & good.any(axis=0))[lane]
        out = first & (lanes // count == rows[lane])
        self.fresh = self.fresh.copy()
        self.fresh[self.who] &= ~good.any(axis=0)
        return out

    def jumps(self, rows: StepRows, good: Any, lanes: Any, positive: Any, number: Any) -> list[Hits]:
        """Changes of sign from the end of a step to the beginning of the next, by rounding."""
        steps, count, width = good.shape[0], len(self.names), len(self.who)
        ends, begins = (
            np.zeros((2, count, steps * width), bool) for _ in range(2)
        )  # (sign, known) of every step
        ends[0][:, lanes], ends[1][:, lanes] = positive >> LAST & 1, number >> LAST & 1
        begins[0][:, lanes], begins[1][:, lanes] = positive & 1, number & 1
        ends, begins = (x.reshape(2, count, steps, width) for x in (ends, begins))
        last = np.maximum.accumulate(np.where(good, np.arange(steps)[:, None], -1), axis=0)
        before = np.vstack([np.full((1, width), -1), last[:-1]])  # the last step before each
        known = self.ends[:, :, self.who]
        own = np.take_along_axis(ends, np.maximum(before, 0)[None, None], axis=2)
        own = np.where(before >= 0, own, known[:, :, None])
        changed = good & own[1] & begins[1] & (own[0] != begins[0])
        now = np.take_along_axis(ends, np.maximum(last[-1], 0)[None, None, None], axis=2)[:, :, 0]
        self.ends[:, :, self.who] = np.where(last[-1] >= 0, now, known)
        out = []
        for k, name in enumerate(self.names):
            where = np.flatnonzero(changed[k])
            if len(where):
                seen = self.at(rows, where, np.zeros(len(where)))
                out.append(hits_of(name, self.member(where), seen, begins[0, k].ravel()[where]))
        return out

    def note_crossings(
        self, rows: StepRows, lanes: Any, reach: Any, positive: Any, number: Any, until: float
    ) -> None:
        """Changes of sign between two places of a step, to be located."""
        changed = (positive ^ positive >> 1) & number & number >> 1 & (1 << PLACES) - 1
        function, index = np.nonzero(changed)
        if not len(function):
            return
        bits = changed[function, index][:, None] >> np.arange(PLACES) & 1
        which, place = np.nonzero(bits)
        function, index = function[which], index[which]
        where = lanes[index]
        high, low, h = (x.ravel()[where] for x in rows[self.clock][:3])
        begin, end = ((t - high) - low for t in (self.done, until))
        a, b = (np.where(p < PLACES, p * (1.0 / PLACES), 1.0) * reach[index] for p in (place, place + 1))
        near = (begin < b * h) & (a * h <= end)
        before = positive[function, index] >> place & 1 != 0
        some = (self.member(where), function, a, b, before, begin, end)
        if near.any():
            self.noted.append(Crossings(rows.some(where[near]), *(x[near] for x in some)))

    def locate(self) -> None:
        """The first points after changes of sign, all together; those outside the time that is searched are left out."""
        if not self.noted:
            return
        c, self.noted = self.noted[0].joined(self.noted[1:]), []
        none, whole = np.zeros(len(c.who)), np.ones(len(c.who))
        ends = self.values(c, np.arange(len(c.who)))
        part = first_places(lambda some: self.values(c, some), ends(none), ends(whole), c.before)
        u = c.place(part)
        full = self.filled(np.arange(len(c.who)))
        seen = self.curves.look(c.rows.some(full), self.own(c.who[full]), u[full])
        h = c.rows[self.clock][2]
        gone = np.where(u < 1.0, u * h, h)
        inside = (c.begin < gone) & (gone <= c.end)
        hits = []
        for k, name in enumerate(self.names):
            mine = np.flatnonzero(inside & (c.function == k))
            hits.append(hits_of(name, c.who[mine], {n: v[mine] for n, v in seen.items()}, ~c.before[mine]))
        self.found = self.found.with_hits(hits, 0.0, ())

    def filled(self, some: Any) -> Any:
        """Numbers of crossings, repeated to whole vectors."""
        return np.resize(some, -(-len(some) // self.curves.pad) * self.curves.pad)

    def values(self, c: Crossings, some: Any) -> Values:
        """The functions of some crossings, each its own, at a part of what lies between two looks."""
        full, count = self.filled(some), len(some)
        own = c.of(full)
        params = self.own(own.who)

        def at(part: Any) -> Any:
            seen = self.curves.values(own.rows, params, own.place(np.resize(part, len(full))))
            every = np.stack([seen[f"event {k}"] for k in range(self.curves.count)])
            return every[own.function[:count], np.arange(count)]

        return at

    def at(self, rows: StepRows, where: Any, place: Any) -> dict[str, Any]:
        return self.curves.look(rows.some(where), self.own(self.member(where)), place)


def parts_within(h: Any, left: Any) -> Any:
    """The parts of steps that are looked at: all of it, but of steps that lead very far beyond the end of a run.

    So where a run ends does not decide what is found in it. The parts are powers of two.
    """
    with np.errstate(all="ignore"):
        far = (0.0 < left) & (FAR * left < h)
        _, e = np.frexp(np.where(far, h / left, 1.0))
    return np.where(far, 2.0 ** (1.0 - e), 1.0)


def hits_of(name: str, member: Any, seen: Mapping[str, Any], rising: Any) -> Hits:
    words = {n.removeprefix("word "): v for n, v in seen.items() if n.startswith("word ")}
    return Hits(name, member, seen["time"], np.asarray(rising, bool), words)
