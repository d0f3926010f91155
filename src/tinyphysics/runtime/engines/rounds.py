"""How does a run go from event to event?  An engine over the one that runs rounds: a step of the run is some of them.

Members do as many rounds as they need (synth/methods/event_rounds.py); those that have come to the step wait.
What happened is read off the rounds, once, in the block in which it happened: replays find nothing new.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tinyphysics.device.protocols import PlainEngine
from tinyphysics.runtime.engines.engine import States
from tinyphysics.runtime.engines.events import MOST_MET, Found, Hits
from tinyphysics.runtime.engines.on_demand import Look
from tinyphysics.runtime.state.schedule import times_at
from tinyphysics.synth.methods.event_rounds import (
    COUNTED,
    DONE,
    FIRED,
    GONE,
    GRAZES,
    LAST,
    RESTED,
    RESTS,
    ROSE,
    SEARCH,
    TAIL,
    TIES,
    TOTAL,
)
from tinyphysics.system import Crossing
from tinyphysics.util import prod

ROWS_BYTES = 1e6  # of rounds that are looked at together
FEWEST = 16  # rounds of a call
BLOCK = 1 << 16  # steps of a block
TRIED = 100  # clear steps that are tried at once, if nothing is said; more, as long as they are clear
MOST_TRIED = 1 << 14
WORTH = 2_000  # of all members, from which on it is sooner done than rounds are
MOST_AGAIN = 1 << 10  # times as many rounds are tried at once as there are steps to go


@dataclass(eq=False)
class Met:
    """A loop of rounds, and how far it has come."""

    inner: Any
    members: int
    params: States
    dt: float
    t0: float
    steps: int
    total: Any = field(repr=False)  # (members,) crossings so far, as they are counted
    alive: Any = field(
        default=None, repr=False
    )  # (members,) whose events are kept; None: of no member, because this is a replay
    other: Any = None  # the same numbers, as a loop of clear steps
    held: Any = 0  # (members,) how often a member was stopped in them
    found: Found = Found()
    # by member: which event stopped it, when, and its states there
    ended: dict[int, tuple[str, float, dict[str, Any]]] = field(default_factory=dict, repr=False)


class RoundEngine(PlainEngine):
    """An engine (runtime/engines/engine.py) on top of the one that does the rounds."""

    numbers = room = 0

    def __init__(
        self,
        inner: Any,
        crossings: Sequence[Crossing],
        look: Look | None,
        words: Mapping[str, str],
        clear: Any = None,
        speculate: int | None = None,
    ) -> None:
        """`words` are the names under which the states of every row are given, if they are.

        `clear` is an engine for steps in which nothing is met, so many of which are tried at once.
        """
        self.clear: Any = clear if clear is not None and same_layout(inner, clear) else None
        self.tried, self.always = speculate or TRIED, speculate is not None
        self.inner, self.look, self.frames = inner, look, dict(words)
        self.crossings = crossings
        self.states = {s.name: s.type for s in inner.states}
        self.registers_of = {name: f"S{k}" for k, name in enumerate(self.states)}
        self.own = [name for name in self.states if owner(name) not in (SEARCH, FIRED, RESTS)]
        self.width = 8 * sum(prod(t.shape) for t in self.states.values())  # bytes of a member
        self.workers = 1

    launches = property(lambda self: self.inner.launches)
    compiling = property(lambda self: self.inner.compiling)
    made = property(lambda self: self.inner.made)
    found = property(lambda self: self.inner.found)

    # --- what the runtime asks of any engine -----------------------------------------------------
    def start(
        self, state: States, params: States, members: int, dt: float, t0: float, threads: int | None = None
    ) -> Met:
        blank = {name: np.zeros((members, *t.shape)) for name, t in self.states.items() if name not in state}
        own = {name: state[name] if name in state else blank[name] for name in self.states}
        inner = self.inner.start(own, self.told_last(params), members, dt, t0, threads)
        return Met(inner, members, params, dt, t0, 0, np.zeros(members), np.ones(members, bool))

    def restored(
        self,
        registers: States,
        params: States,
        members: int,
        dt: float,
        t0: float,
        steps: int,
        threads: int | None = None,
    ) -> Met:
        place = self.registers_of[SEARCH]
        search = np.array(registers[place])
        begun = (search[:, DONE] == 0.0) & (search[:, GONE] == 0.0)  # anew, at this step
        search[begun, DONE] = float(steps % COUNTED)
        registers = {**registers, place: search}
        inner = self.inner.restored(registers, self.told_last(params), members, dt, t0, 0, threads)
        m = Met(inner, members, params, dt, t0, steps, None, np.ones(members, bool))
        m.total = self.search(m)[:, TOTAL].copy()
        return m

    def told_last(self, params: States) -> dict[str, Any]:
        return {**params, str(LAST.arg): np.array([0.0])}

    def search(self, m: Met) -> Any:
        """What the members remember of their searches, (members, numbers)."""
        return np.asarray(self.inner.register(m.inner, self.registers_of[SEARCH]))[: m.members]

    def hand_on(self, m: Met, to: Met) -> None:
        to.found, to.alive = m.found, m.alive

    def quiet(self, m: Met) -> Met:
        return replace(m, alive=None)

    def snapshot(self, m: Met) -> Met:
        return replace(m, inner=self.inner.snapshot(m.inner))

    def some(self, m: Met, members: list[int]) -> Met:
        """For a replay, which finds nothing that is not known."""
        own = {name: v[members] if len(v) > 1 else v for name, v in m.params.items()}
        total = m.total[members]
        return Met(self.inner.some(m.inner, members), len(members), own, m.dt, m.t0, m.steps, total)

    def overwrite(self, m: Met, members: list[int], well: int) -> None:
        self.inner.overwrite(m.inner, members, well)
        m.total = m.total.copy()
        m.total[members] = m.total[well]
        if m.alive is not None:
            m.alive = m.alive.copy()
            m.alive[members] = False

    def findings(self, m: Met) -> dict[str, Any]:
        seen = self.search(m) if m.members else np.zeros((0, TOTAL + 1))
        return {
            "found": [m.found],
            "met": [(seen[:, TIES].copy(), seen[:, GRAZES].copy(), m.held + np.zeros(m.members))],
        }

    def block(self, members: int) -> int:
        return int(min(BLOCK, max(1, self.inner.block(members))))

    def rows(self, m: Met) -> int:
        return max(1, int(ROWS_BYTES // (self.width * max(m.members, 1))))

    def registers(self, m: Met) -> dict[str, Any]:
        found: dict[str, Any] = self.inner.registers(m.inner)
        return found

    def ended(self, m: Met, k: int) -> tuple[str, float, dict[str, Any]] | None:
        """Which event stopped a member, when, and its states there."""
        return m.ended.get(k)

    def bad(self, m: Met) -> list[int]:
        found: list[int] = self.inner.bad(m.inner)
        return found

    def first_bad(self, m: Met, k: int) -> tuple[str, int] | None:
        found: tuple[str, int] | None = self.inner.first_bad(m.inner, k)
        return found

    def synchronised(self, m: Met) -> dict[str, Any]:
        shown = self.inner.synchronised(m.inner)
        return {name: shown[name] for name in self.own}

    # --- steps ---------------------------------------------------------------------------------
    def advance(self, m: Met, steps: int) -> None:
        left = steps
        while left:
            count = min(left, COUNTED // 2)
            self.go(m, count)
            left -= count

    def watch(self, m: Met, rows: int, stride: int) -> dict[str, Any]:
        steps, seen = [], []
        for _ in range(rows):
            self.advance(m, stride)
            steps.append(m.steps)
            seen.append(self.synchronised(m))
        frames = {name: np.stack([s[name] for s in seen]) for name in self.own}
        out = {} if self.look is None else self.look(frames, steps)
        return out | {name: frames[word] for word, name in self.frames.items()}

    def go(self, m: Met, steps: int) -> None:
        """So many steps of every member, by as many rounds as that takes."""
        if not m.members:
            m.steps += steps
            return
        first, m.steps = m.steps, m.steps + steps
        self.inner.tell(m.inner, str(LAST.arg), float(m.steps % COUNTED))
        again = 1  # times as many rounds as steps
        clears = self.clear is not None and (self.always or steps * m.members >= WORTH)
        while True:
            if clears:
                there, gained = self.past_clear(m, first, steps)
                if there:
                    return
                clears = self.always or gained >= WORTH
            done = (self.search(m)[:, DONE] - first) % COUNTED  # steps since the beginning
            left = steps - int(np.where(np.isnan(done), steps, done).min())
            if left <= 0 and self.waits(m):
                return
            rounds = max(FEWEST, left + left // 4) * again
            again = min(2 * again, MOST_AGAIN)
            if clears:
                rounds = min(rounds, FEWEST * again)
            if m.alive is None:
                self.inner.advance(m.inner, rounds)
                continue
            rows = min(rounds, max(FEWEST, int(ROWS_BYTES // (self.width * max(m.members, 1)))))
            self.keep(m, self.inner.record(m.inner, rows), first)

    def past_clear(self, m: Met, first: int, steps: int) -> tuple[bool, float]:
        """Goes on by clear steps as long as most members do: (are all of them there?, how many steps that were).

        A member stops before the first step that is not clear, which rounds do then: nothing is ever taken back, and the bits
        are those of rounds alone. That it stopped is counted.
        """
        assert self.clear is not None
        if m.other is None:
            m.other = self.clear.restored(
                self.inner.registers(m.inner),
                self.told_last(m.params),
                m.members,
                m.dt,
                m.t0,
                0,
                m.inner.threads,
            )
        m.other.carried = m.inner.carried
        self.clear.tell(m.other, str(LAST.arg), float(m.steps % COUNTED))
        size, gained = self.tried, 0.0
        before = (self.search(m)[:, DONE] - first) % COUNTED
        while True:
            left = steps - int(np.nan_to_num(before, nan=steps).min())
            if left <= 0:
                return self.waits(m), gained
            count = min(size, left)
            self.clear.advance(m.other, count)
            done = (self.search(m)[:, DONE] - first) % COUNTED
            went = done - before
            gained += float(np.nansum(went))
            held = (went < count) & (done < steps)
            m.held = m.held + held
            if np.nanmean(went) < 0.25 * count or held.all():
                return False, gained
            before, size = done, min(2 * size, max(self.tried, MOST_TRIED))

    def waits(self, m: Met) -> bool:
        """Has every member come to the step that was asked for?"""
        return bool((self.search(m)[:, DONE] == float(m.steps % COUNTED)).all())

    def keep(self, m: Met, rows: Any, first: int) -> None:
        """What happened in some rounds; `first` is a step before them."""
        table = rows[self.registers_of[SEARCH]][:, :, : m.members]  # (numbers, rounds, members)
        total = np.concatenate([m.total[None], table[TOTAL]])
        m.total = total[-1].copy()
        happened = (total[1:] != total[:-1]) & m.alive
        at, who = np.nonzero(happened)
        if not len(at):
            return
        of = (slice(None), 0) if m.members == 1 and len(at) == len(happened) else (at, who)
        done, gone, tail = (table[k][of] for k in (DONE, GONE, TAIL))
        fired = rows[self.registers_of[FIRED]][:, *of]  # (guards, crossings)
        # a step that ends at an event counts it already
        n = first + (done - first) % COUNTED
        if m.t0 == 0.0:
            t = times_at(n, m.dt, m.t0) + gone
        else:
            which, where = np.unique(n.astype(np.int64), return_inverse=True)
            t = times_at(which, m.dt, m.t0)[where] + gone
        words = {name: rows[self.registers_of[name]][:, *of].T for name in self.own}
        hits, row = [], 0
        for c in self.crossings:
            mine: Any = (fired[row : row + c.rows] > 0.0).any(axis=0)
            mine = slice(None) if mine.all() else np.flatnonzero(mine)
            own = fired[row : row + c.rows, mine]
            row += c.rows
            rests = (own == RESTED).any(axis=0)
            when = t[mine] + np.where(rests, tail[mine], 0.0)
            shaped = {name: v[mine].reshape(len(when), *self.states[name].shape) for name, v in words.items()}
            rising = (own == ROSE).any(axis=0)
            hits.append(Hits(c.name, who[mine], when, rising, shaped, rests))
            for j, k in enumerate(who[mine].tolist()) if c.stops else ():
                m.ended.setdefault(k, (c.name, float(when[j]), {name: v[j] for name, v in shaped.items()}))
        m.found = m.found.with_hits(hits, abs(m.dt), [c.name for c in self.crossings], MOST_MET)


def same_layout(one: Any, other: Any) -> bool:
    """Do two engines keep the same numbers in the same rows?"""
    found = []
    for e in (one, other):
        places = getattr(e, "places", None)
        if places is None:
            return False
        own = {name: at for name, at in places.items() if name.startswith("S")}
        found.append((own, len(e.kernel.carried)))
    return found[0] == found[1]


def owner(name: str) -> str:
    """The state that a word belongs to."""
    return next((s for s in (SEARCH, FIRED, RESTS) if name.startswith(s)), name)
