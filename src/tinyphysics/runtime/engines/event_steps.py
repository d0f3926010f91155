"""Where do functions of the state change sign along steps of one length?

Signs are compared from step to step, in the loop of the run. Where one has changed, the place is the end of a shorter step
of the method itself, from the whole step before it. No such step is fed back: the run has the bits of one without events.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tinyphysics.device.cuda.dlpack import here
from tinyphysics.device.protocols import PlainEngine
from tinyphysics.runtime.engines.engine import Distant, States
from tinyphysics.runtime.engines.events import Found, Hits
from tinyphysics.runtime.engines.on_demand import Look, OnDemandEngine
from tinyphysics.runtime.engines.roots import Values, first_places
from tinyphysics.runtime.state.schedule import times_at

ROWS_BYTES = 4e5  # of what is seen of steps in one call: what a cache holds
ROWS, MOST_BYTES = 64, 3e7  # steps of ensembles for which that is more, as far as there is room
TIME = "time of a step"  # where that is a state; no name of a user's has a space
Shown = dict[str, Any]  # words of the states, (hits, shape...)
# of (loop state, states, members, steps, parts of a step): values of the functions (functions, hits), and the states
Fraction = Callable[["Followed", Shown, Any, Any, Any], tuple[Any, Shown]]


@dataclass(eq=False)
class Followed:
    """A loop, and what is known of the functions at the step that it has come to."""

    inner: Any
    members: int
    params: States
    dt: float
    t0: float
    steps: int
    start: dict[str, Any] = field(repr=False)  # what a run began with
    last: Shown = field(repr=False)  # the states at this step; empty: to be asked for
    values: Any = field(default=None, repr=False)  # (functions, members) there; None: not known yet
    # (members,) which are searched; None: no member, because this is a replay
    alive: Any = field(default=None, repr=False)
    fresh: bool = False  # is it where a run begins?  There a zero is no event
    found: Found = Found()


@dataclass(frozen=True, eq=False)
class Changes:
    """Changes of sign within steps: where each step begins, of whom, and the values at its ends."""

    begin: Shown
    who: Any
    step: Any
    function: Any
    before: Any  # was it positive?
    at_a: Any
    at_b: Any

    def of(self, which: Any) -> Changes:
        begin = {word: v[which] for word, v in self.begin.items()}
        return Changes(begin, *(getattr(self, name)[which] for name in CHANGE))

    def joined(self, others: Sequence[Changes]) -> Changes:
        every = (self, *others)
        begin = {word: np.concatenate([c.begin[word] for c in every]) for word in self.begin}
        return Changes(begin, *(np.concatenate([getattr(c, name) for c in every]) for name in CHANGE))


CHANGE = ("who", "step", "function", "before", "at_a", "at_b")


class EventEngine(PlainEngine):
    """An engine (runtime/engines/engine.py) on top of the one that runs the steps, whose loop observes the functions."""

    numbers = room = 0

    def __init__(
        self,
        inner: Any,
        names: Sequence[str],
        words: Mapping[str, str],
        fraction: Fraction,
        values: Look,
        look: Look | None,
        frames: Mapping[str, str],
        in_loop: bool,
        time: Callable[[Shown], Any] | None = None,
    ) -> None:
        """`words` are the names under which the loop shows the states, if it does so (`in_loop`).

        `values` are the functions of states that are given, `look` is what a user observes of them; `time` is read off the
        states, where it is one of them.
        """
        self.time = time
        self.inner, self.names, self.words, self.fraction = inner, names, dict(words), fraction
        self.look_at, self.look, self.frames, self.in_loop = values, look, dict(frames), in_loop
        self.workers = inner.workers
        if isinstance(inner, Distant):
            self.synchronised_there = lambda m: inner.synchronised_there(m.inner)

    launches = property(lambda self: self.inner.launches)
    compiling = property(lambda self: self.inner.compiling)
    made = property(lambda self: self.inner.made)
    found = property(lambda self: self.inner.found)
    free_steps = property(lambda self: self.inner.free_steps)

    # --- what the runtime asks of any engine -----------------------------------------------------
    def nearest(self, m: Followed) -> Any:
        return self.inner.nearest(m.inner)

    def nearest_of_all(self, m: Followed) -> Any:
        return self.inner.nearest_of_all(m.inner)

    def start(
        self, state: States, params: States, members: int, dt: float, t0: float, threads: int | None = None
    ) -> Followed:
        own = {name: here(v) for name, v in state.items()}
        inner = self.inner.start(state, params, members, dt, t0, threads)
        return Followed(inner, members, params, dt, t0, 0, own, own, None, np.ones(members, bool), True)

    def restored(
        self,
        registers: States,
        params: States,
        members: int,
        dt: float,
        t0: float,
        steps: int,
        threads: int | None = None,
    ) -> Followed:
        inner = self.inner.restored(registers, params, members, dt, t0, steps, threads)
        return Followed(inner, members, params, dt, t0, steps, {}, {}, None, np.ones(members, bool))

    def hand_on(self, m: Followed, to: Followed) -> None:
        to.found, to.alive = m.found, m.alive

    def quiet(self, m: Followed) -> Followed:
        return replace(m, alive=None)

    def snapshot(self, m: Followed) -> Followed:
        return replace(m, inner=self.inner.snapshot(m.inner))

    def some(self, m: Followed, members: list[int]) -> Followed:
        """For a replay, which finds nothing that is not known."""
        inner = self.inner.some(m.inner, members)
        return Followed(inner, len(members), m.params, m.dt, m.t0, m.steps, {}, {})

    def overwrite(self, m: Followed, members: list[int], well: int) -> None:
        self.inner.overwrite(m.inner, members, well)
        if m.alive is not None:
            m.alive = m.alive.copy()
            m.alive[members] = False

    def expect(self, members: int, steps: int) -> None:
        self.inner.expect(members, steps)

    def told(self, members: int) -> dict[str, Any]:
        found: dict[str, Any] = self.inner.told(members)
        return found

    def findings(self, m: Followed) -> dict[str, Any]:
        return {**self.inner.findings(m.inner), "found": [m.found]}

    def block(self, members: int) -> int:
        size: int = self.inner.block(members)
        return size

    def rows(self, m: Followed) -> int:
        width = 8 * max(1, sum(int(v.nbytes // 8) for v in self.states_now(m).values()))
        return max(1, int(ROWS_BYTES // width), min(ROWS, int(MOST_BYTES // width)))

    def registers(self, m: Followed) -> dict[str, Any]:
        found: dict[str, Any] = self.inner.registers(m.inner)
        return found

    def bad(self, m: Followed) -> list[int]:
        found: list[int] = self.inner.bad(m.inner)
        return found

    def first_bad(self, m: Followed, k: int) -> tuple[str, int] | None:
        found: tuple[str, int] | None = self.inner.first_bad(m.inner, k)
        return found

    def synchronised(self, m: Followed) -> dict[str, Any]:
        found: dict[str, Any] = self.inner.synchronised(m.inner)
        return found

    # --- steps ---------------------------------------------------------------------------------
    def advance(self, m: Followed, steps: int) -> None:
        if m.alive is None or not m.members:
            self.inner.advance(m.inner, steps)
            m.steps += steps
            return
        changes = []
        while steps:
            count = min(steps, self.rows(m))
            changes.append(self.piece(m, count)[1])
            steps -= count
        self.locate(m, changes)

    def watch(self, m: Followed, rows: int, stride: int) -> dict[str, Any]:
        steps = [m.steps + stride * (j + 1) for j in range(rows)]
        shown: dict[str, list[Any]] = {word: [] for word in self.words}
        if self.in_loop and m.alive is not None:
            left, at, changes = rows * stride, 0, []
            while left:
                count = min(left, self.rows(m))
                seen, change = self.piece(m, count)
                changes.append(change)
                first = (-at - 1) % stride  # of the steps of this piece, the first whose row is asked for
                for word in self.words:
                    shown[word].append(seen[word][first::stride])
                left, at = left - count, at + count
            self.locate(m, changes)
            frames = {word: np.concatenate(v) for word, v in shown.items()}
        else:
            for _ in steps:
                self.advance(m, stride)
                for word, v in self.synchronised(m).items():
                    shown[word].append(v)
            frames = {word: np.stack(v) for word, v in shown.items()}
        out = {} if self.look is None else self.look(frames, steps)
        return out | {name: frames[word] for word, name in self.frames.items()}

    def piece(self, m: Followed, count: int) -> tuple[Shown, Changes | None]:
        """So many steps: the states after each of them, where the loop shows them, and where signs have changed."""
        now, first = self.states_now(m), self.values_now(m)
        before = None if self.in_loop else self.inner.snapshot(m.inner)
        seen = self.inner.watch(m.inner, count, 1)
        values = self.joined(first, seen)
        shown = {word: seen[name] for word, name in self.words.items()} if self.in_loop else {}
        apart = self.apart(m, now, seen)
        changes = self.compared(
            m, values, lambda steps: self.states_after(m, now, shown, before, steps), apart
        )
        m.steps, m.values, m.fresh = m.steps + count, values[:, -1], False
        m.last = {word: v[-1] for word, v in shown.items()}
        return shown, changes

    def apart(self, m: Followed, now: Shown, seen: Mapping[str, Any]) -> float:
        """The longest time between the ends of two of the steps."""
        if self.time is None:
            return abs(m.dt)
        t = np.concatenate([np.asarray(self.time(now), np.float64)[None], seen[TIME]])
        return float(np.abs(np.diff(t, axis=0)).max(initial=0.0, where=np.isfinite(np.diff(t, axis=0))))

    def joined(self, first: Any, seen: Mapping[str, Any]) -> Any:
        """The functions at a step and after further ones: (functions, steps, members)."""
        values = np.empty((len(first), len(seen["event 0"]) + 1, first.shape[1]))
        values[:, 0] = first
        for k, v in enumerate(values):
            v[1:] = seen[f"event {k}"]
        return values

    def states_now(self, m: Followed) -> Shown:
        if not m.last:
            m.last = self.synchronised(m)
        return m.last

    def values_now(self, m: Followed) -> Any:
        if m.values is None:
            frames = {word: v[None] for word, v in self.states_now(m).items()}
            seen = self.look_at(frames, [m.steps])
            m.values = np.stack([seen[f"event {k}"][0] for k in range(len(self.names))])
        return m.values

    def states_after(self, m: Followed, now: Shown, shown: Shown, before: Any, steps: Any) -> list[Shown]:
        """The states of all members after some of the steps of a piece, rising; 0 is its beginning."""
        if shown:
            return [now if n == 0 else {word: v[n - 1] for word, v in shown.items()} for n in steps.tolist()]
        out, at = [], 0
        for n in steps.tolist():
            if n:
                self.inner.advance(before, n - at)
                at = n
            out.append(self.inner.synchronised(before) if n else now)
        return out

    # --- the search ----------------------------------------------------------------------------
    def compared(
        self, m: Followed, values: Any, states: Callable[[Any], list[Shown]], apart: float
    ) -> Changes | None:
        """The changes of sign between steps: (functions, steps, members)."""
        positive = values > 0.0
        if m.fresh:  # where a run begins nothing has happened yet
            positive[:, 0] = np.where(values[:, 0] == 0.0, positive[:, 1], positive[:, 0])
        changed = (positive[:, 1:] != positive[:, :-1]) & m.alive
        known = [k for k, v in enumerate(values) if v[-1, 0] == v[-1, 0] or not np.isnan(v).all()]
        m.found = m.found.with_hits([], apart, [self.names[k] for k in known])
        function, step, who = np.unravel_index(np.flatnonzero(changed), changed.shape)
        ends = [values[function, step + j, who] for j in (0, 1)]
        number = ~np.logical_or(*map(np.isnan, ends))
        if not number.any():
            return None
        function, step, who, at_a, at_b = (x[number] for x in (function, step, who, *ends))
        which, where = np.unique(step, return_inverse=True)
        every = states(which)
        begin = {word: np.stack([s[word] for s in every])[where, who] for word in every[0]}
        return Changes(begin, who, m.steps + step, function, positive[function, step, who], at_a, at_b)

    def locate(self, m: Followed, changes: Sequence[Changes | None], until: float | None = None) -> None:
        """The times of changes of sign, all together; up to a time in their steps."""
        some = [c for c in changes if c is not None]
        if not some:
            return
        c = some[0].joined(some[1:])

        def among(some: Any) -> Values:
            own = c.of(some)
            places = np.arange(len(some))
            return lambda u: self.fraction(m, own.begin, own.who, own.step, u)[0][own.function, places]

        u = first_places(among, c.at_a, c.at_b, c.before)
        seen = self.fraction(m, c.begin, c.who, c.step, u)[1]
        begins, ends = (times_at(c.step + j, m.dt, m.t0) for j in (0, 1))
        if self.time is None:
            t = np.where(u < 1.0, begins + u * m.dt, ends)
            inside = True if until is None else u <= (until - begins) / m.dt
        else:
            t = np.asarray(self.time(seen), np.float64)
            inside = True if until is None else np.sign(m.dt) * t <= np.sign(m.dt) * until
        hits = []
        for k, name in enumerate(self.names):
            mine = np.flatnonzero((c.function == k) & inside)
            words = {word: v[mine] for word, v in seen.items()}
            hits.append(Hits(name, c.who[mine], t[mine], ~c.before[mine], words))
        m.found = m.found.with_hits(hits, 0.0, ())

    def search_until(self, m: Followed, t: float) -> None:
        """In the part of the next step that ends at a time: as in the whole step, whoever takes it."""
        if m.alive is None or not m.members:
            return
        now, first = self.states_now(m), self.values_now(m)
        seen = self.inner.watch(self.inner.snapshot(m.inner), 1, 1)
        apart = self.apart(m, now, seen)
        self.locate(m, [self.compared(m, self.joined(first, seen), lambda steps: [now], apart)], t)


class JumpEvents(EventEngine, OnDemandEngine[Followed]):
    """The same of a run without a loop: its states between steps are jumps of their own."""

    def state(self, m: Followed) -> dict[str, Any]:
        found: dict[str, Any] = self.inner.state(m.inner)
        return found

    def between(self, m: Followed, t: float) -> dict[str, Any]:
        found: dict[str, Any] = self.inner.between(m.inner, t)
        return found
