"""A run whose steps have their own lengths: between two times that somebody looks at, each member takes as many as it needs.

A step of the run is one of the grid of times, t0 + n*dt. The engine below runs a program (synth/methods/taylor.py) whose
own steps change nothing once a member has reached the time that is asked for; the state there is a sum of the series of
the step that covers it, made for whoever looks and never fed back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tinyphysics.device.cuda.dlpack import DeviceArray, stacked
from tinyphysics.device.engines.engine import LaneEngine
from tinyphysics.device.protocols import StepRows
from tinyphysics.runtime.engines.adapted import Adapted
from tinyphysics.runtime.engines.engine import States
from tinyphysics.runtime.engines.on_demand import Look, OnDemandEngine
from tinyphysics.runtime.engines.step_pace import FramesAhead, StepPace
from tinyphysics.runtime.engines.step_rows import covered, steps_ahead, whole_vectors
from tinyphysics.runtime.state import device_arrays
from tinyphysics.runtime.state.schedule import time_at, times_at
from tinyphysics.synth.methods.embedded import KEPT, MOVE
from tinyphysics.synth.methods.taylor import CLOCK, JET, UNTIL

if TYPE_CHECKING:  # what searches is imported where there is something to look for
    from tinyphysics.runtime.engines.dense_search import Searching

FEW = 8  # members whose clocks are sooner compared one by one
OFTEN = 64  # times that are covered between two looks at that
PATIENCE = 4e8  # operations between two looks at the keyboard: some tenths of a second
LANES = 1024  # times that are looked at together

Search = Callable[[States, int, float, bool], "Searching"]  # of (parameters, members, since, is it fresh?)


class AdaptiveEngine(OnDemandEngine[Adapted]):
    """An engine (runtime/engines/engine.py) on top of one that runs the steps themselves."""

    numbers, room, workers = 0, 0, 1

    def __init__(
        self,
        inner: Any,
        names: list[str],
        look: Look | None,
        search: Search | None = None,
        words: list[str] | None = None,
        advice: str = "",
        frames: Mapping[str, str] | None = None,
        at_once: bool = False,
    ) -> None:
        """`words` are the names under which the states are kept, where each has more than one.

        `frames` are the names under which they are among what is watched; `at_once`: times are looked at
        together, in the steps that the engine below writes down.
        """
        self.frames, self.at_once = dict(frames or {}), at_once
        self.frames_ahead = FramesAhead()
        self.inner, self.names, self.look, self.search = inner, names, look, search
        self.words = words or names
        self.pace = StepPace(advice)
        self.states = {s.name: s.type.shape for s in inner.states}
        self.clock = f"S{list(self.states).index(CLOCK)}"
        # then no coefficients are kept, but where a step ends
        self.on_arrays = names[0] + MOVE in self.states
        # then the engine below keeps them as it likes
        self.in_loops = not self.on_arrays and names[0] + JET not in self.states
        # coefficients, by what is kept of a step
        self.made_by_looking = any(name.endswith(KEPT) for name in self.states)

    launches = property(lambda self: self.inner.launches)
    compiling = property(lambda self: self.inner.compiling)
    made = property(lambda self: self.inner.made)
    found = property(lambda self: self.inner.found)

    def start(
        self, state: States, params: States, members: int, dt: float, t0: float, threads: int | None = None
    ) -> Adapted:
        # takes no memory
        blank = {name: np.broadcast_to(0.0, (members, *shape)) for name, shape in self.states.items()}
        clock = np.zeros((members, *self.states[CLOCK]))
        clock[:, 0] = t0
        own = {name: state.get(name, v) for name, v in (blank | {CLOCK: clock}).items()}
        inner = self.inner.start(own, {**params, str(UNTIL.arg): np.array([t0])}, members, dt, t0, threads)
        events = self.searching(params, members, t0, True)
        there = isinstance(next(iter(state.values())), DeviceArray)
        return Adapted(inner, members, dt, t0, 0, params, dict(state), events=events, there=there)

    def searching(self, params: States, members: int, since: float, fresh: bool) -> Searching | None:
        return None if self.search is None else self.search(params, members, since, fresh)

    def registers(self, m: Adapted) -> dict[str, Any]:
        """What a checkpoint holds: where the last step that was needed began, and its series."""
        self.reach(m)
        found: dict[str, Any] = self.inner.registers(m.inner)
        return found

    def restored(
        self,
        registers: States,
        params: States,
        members: int,
        dt: float,
        t0: float,
        steps: int,
        threads: int | None = None,
    ) -> Adapted:
        given = {**params, str(UNTIL.arg): np.array([time_at(steps, dt, t0)])}
        inner = self.inner.restored(registers, given, members, dt, t0, 0, threads)
        self.inner.tell(inner, str(UNTIL.arg), time_at(steps, dt, t0))
        events = self.searching(params, members, time_at(steps, dt, t0), False)
        return Adapted(inner, members, dt, t0, steps, params, reached=steps, events=events)

    def snapshot(self, m: Adapted) -> Adapted:
        events = None if m.events is None else m.events.copy()
        return replace(m, inner=self.inner.snapshot(m.inner), events=events)

    def some(self, m: Adapted, members: list[int]) -> Adapted:
        inner = self.inner.some(m.inner, members)
        start = {name: v[members] for name, v in m.start.items()}
        own = {name: v[members] if len(v) > 1 else v for name, v in m.params.items()}
        return Adapted(inner, len(members), m.dt, m.t0, m.steps, own, start, m.reached, there=m.there)

    def overwrite(self, m: Adapted, members: list[int], well: int) -> None:
        self.inner.overwrite(m.inner, members, well)
        m.start, m.seen = {name: v.copy() for name, v in m.start.items()}, None
        for v in m.start.values():
            v[members] = v[well]

    def advance(self, m: Adapted, steps: int) -> None:
        m.steps, m.seen = m.steps + steps, None

    def reach(self, m: Adapted) -> None:
        """Goes on until every member has a step that covers the time of this one, or can go no further."""
        if m.reached == m.steps or not m.members:
            return
        self.cover(m, time_at(m.steps, m.dt, m.t0))
        m.reached = m.steps

    def cover(self, m: Adapted, until: float) -> None:
        """Goes on until every member has a step that covers this time."""
        if m.events is not None:
            for _ in self.walk(m, until):
                pass
            return
        self.inner.tell(m.inner, str(UNTIL.arg), until)
        count = self.inner.patience(m.inner, PATIENCE)
        while True:
            self.inner.advance(m.inner, count)
            if not self.unfinished(m, until):
                break
            self.tell(m, until)
        self.count_times(m, 1, until)

    def count_times(self, m: Adapted, times: int, until: float) -> None:
        before, m.covered = m.covered // OFTEN, m.covered + times
        if m.covered // OFTEN > before:  # many frames may each need few steps
            self.tell_of_many(m, until)

    def tell(self, m: Adapted, until: float) -> None:
        """Of a run that gets nowhere."""
        self.tell_of_many(m, until)
        self.pace.tell_of_the_end(self.clocks(m)[:, : m.members], until)

    def tell_of_many(self, m: Adapted, until: float) -> None:
        if self.pace.advice:
            self.pace.tell_of_many(self.clocks(m), until, lambda k, h: self.moved(m, k, h))

    # --- many times at once -------------------------------------------------------------------
    def walk(self, m: Adapted, until: float) -> Iterator[tuple[StepRows, Any]]:
        """Goes on until every member has a step that covers this time; the registers of steps on the way, and whose they are.

        The step that the members are at comes first. Events are searched in them. When half of those under way have
        arrived the others go on alone.
        """
        self.inner.tell(m.inner, str(UNTIL.arg), until)
        rows, who, few = (
            self.with_clock(StepRows.of(self.inner.registers(m.inner))),
            np.arange(m.members),
            m.inner,
        )
        if m.events is not None:
            m.events.begin()
        while True:
            if m.events is not None:
                m.events.steps(rows, until, who)
            yield rows, who
            if not self.unfinished(m, until):
                break
            if isinstance(self.inner, LaneEngine) and 2 * len(left := self.behind(m, until, who)) <= len(who):
                few, who = self.inner.apart(m.inner, left.tolist()), left
            rows = self.with_clock(self.inner.record(few, self.steps_ahead(m, until, len(who))))
            if few is not m.inner:
                rows = replace(rows, table=rows.table[:, :, : len(who)])
                self.inner.put(m.inner, who, few)
            self.tell(m, until)
        if m.events is not None:
            m.events.finish(until)

    def behind(self, m: Adapted, until: float, who: Any) -> Any:
        """Those of some members whose step does not cover this time."""
        high, low, h = self.clocks(m)[:3, who]
        return who[(until - high) - low > h]

    def with_clock(self, rows: StepRows) -> StepRows:
        """Series in loops have one register for all; its last numbers are the clock."""
        return replace(rows, places={**rows.places, self.clock: slice(-4, None)}) if self.in_loops else rows

    def steps_ahead(self, m: Adapted, until: float, members: int) -> int:
        return steps_ahead(self.clocks(m), self.bytes_of_a_step * max(members, 1), m.t0, until)

    @property
    def bytes_of_a_step(self) -> int:
        """Of one member."""
        return 8 * sum(int(np.prod(shape, dtype=int)) for shape in self.states.values())

    def states_at(self, m: Adapted, times: Any) -> dict[str, Any]:
        """The states at some times, in their order: (times, members, shape...); the members go on to the last."""
        if not self.at_once or not m.members:
            seen = []
            for t in times.tolist():
                self.cover(m, t)
                seen.append(self.shown(m))
            return {name: stacked([v[name] for v in seen]) for name in self.words}
        out: dict[str, Any] = {}
        done = np.zeros(m.members, np.int64)  # times that were covered before
        for rows, under_way in self.walk(m, float(times[-1])):
            which, lane, row = covered(rows[self.clock], times, done, under_way)
            who = under_way[lane]
            for begin in range(0, len(which), LANES):
                some = slice(begin, begin + LANES)
                at = row[some] * len(under_way) + lane[some]
                for name, v in self.seen_in(m, rows, times[which[some]], who[some], at).items():
                    if name not in out:
                        out[name] = np.empty((len(times), m.members, *v.shape[1:]))
                    if m.members == 1:
                        out[name][which[begin] : which[begin] + len(v), 0] = v
                    else:
                        out[name][which[some], who[some]] = v
        self.count_times(m, len(times), float(times[-1]))
        return out

    def seen_in(self, m: Adapted, rows: StepRows, times: Any, who: Any, at: Any) -> dict[str, Any]:
        """The states of some members at some times, from the registers of the steps that cover them."""
        count, full = len(times), whole_vectors(len(times))
        times, who, at = times[full], who[full], at[full]
        given = {name: v[who] if len(v) > 1 else v for name, v in m.params.items()}
        given = {**given, str(UNTIL.arg): times}
        found = self.inner.named_at(rows.some(at), given, m.dt, m.t0, self.words)
        return {name: found[name][:count] for name in self.words}

    def watch(self, m: Adapted, rows: int, stride: int) -> dict[str, Any]:
        steps = np.arange(m.steps + stride, m.steps + stride * rows + 1, stride)
        frames = self.states_at(m, times_at(steps, m.dt, m.t0))
        m.steps = m.reached = int(steps[-1])
        m.seen = {name: v[-1] for name, v in frames.items()}
        out = {} if self.look is None else self.look(frames, steps.tolist())
        return out | {name: frames[word] for word, name in self.frames.items()}

    def block(self, members: int) -> int:
        """Times that are looked at in some hundredths of a second, as far as that is known by now."""
        return self.frames_ahead.count() if self.frames else super().block(members)

    def between(self, m: Adapted, t: float) -> dict[str, Any]:
        """From the series of the step that covers this time; the members are further than their step then."""
        if not m.members:
            return self.state(m)
        self.cover(m, t)
        m.seen = None
        return self.shown(m)

    def between_many(self, m: Adapted, times: Any) -> dict[str, Any]:
        m.seen = None
        own = np.asarray(times, np.float64)
        return self.states_at(m, own) if m.members else super().between_many(m, times)

    def found_until(self, m: Adapted, later: Adapted) -> None:
        m.events = later.events

    def moved(self, m: Adapted, k: int, h: float) -> float:
        """By how much of its size the last step of a member has changed its state."""
        if self.in_loops:
            first, second = self.inner.coefficients(m.inner)[0][k, :2]
            return float(h * np.abs(second).max() / np.abs(first).max())
        shown = self.inner.synchronised(m.inner) if self.made_by_looking and not self.on_arrays else {}
        register = {name: self.inner.register(m.inner, f"S{i}")[k] for i, name in enumerate(self.states)}
        first = np.concatenate([register[n] for n in self.names])
        if self.on_arrays:
            h, moves = 1.0, [register[n + MOVE] for n in self.names]
        else:
            jets = {n: shown[n][k].ravel() for n in shown} or register
            moves = [jets[n + JET][: len(register[n])] for n in self.names]
        return float(h * np.abs(np.concatenate(moves)).max() / np.abs(first).max())

    def clocks(self, m: Adapted) -> Any:
        """Of every member the time in two words, the length of the step from there, and steps done."""
        return self.inner.register(m.inner, self.clock).T

    def unfinished(self, m: Adapted, until: float) -> bool:
        """Is there a member whose step does not cover this time?"""
        if (found := self.inner.rows_of(m.inner, self.clock)) is not None:
            rows, first = found
            return device_arrays.behind(rows, first, until, m.members)
        if m.members < FEW:
            return any(
                (until - high) - low > h
                for high, low, h, *_ in self.inner.register(m.inner, self.clock).tolist()
            )
        high, low, h = self.clocks(m)[:3]
        return bool(((until - high) - low > h).any())

    def findings(self, m: Adapted) -> dict[str, Any]:
        seen = {} if m.events is None else {"found": [m.events.found]}
        return {**seen, "substeps": [self.taken(m)], "rejected": [self.rejected(m)]}

    def taken(self, m: Adapted) -> Any:
        """How many steps of their own the members have taken."""
        return self.clocks(m)[3].astype(np.int64)[: m.members]

    def rejected(self, m: Adapted) -> Any:
        """How many attempts of the members were no steps; empty for those who choose a length beforehand."""
        if self.states[CLOCK] <= (4,):
            return np.zeros(0, np.int64)
        clocks = self.clocks(m)
        return (clocks[5] - clocks[3]).astype(np.int64)[: m.members]

    def state(self, m: Adapted) -> dict[str, Any]:
        if m.seen is None and m.steps == 0 and m.start:
            m.seen = m.start
        if m.seen is None:
            self.reach(m)
            m.seen = self.shown(m)
        return m.seen

    def shown(self, m: Adapted) -> dict[str, Any]:
        """The states at the time that was asked for."""
        by = self.inner.named_there if m.there else self.inner.named
        shown = by(m.inner, self.words)
        return {name: shown[name][: m.members] for name in self.words}
