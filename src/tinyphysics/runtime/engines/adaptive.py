"""A run whose steps have their own lengths: between two times that somebody looks at, each member takes as many as it needs.

A step of the run is one of the grid of times, t0 + n*dt. The engine below runs a program (synth/methods/taylor.py) whose
own steps change nothing once a member has reached the time that is asked for; the state there is a sum of the series of
the step that covers it, made for whoever looks and never fed back.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tinyphysics.device.cuda.dlpack import DeviceArray
from tinyphysics.runtime.engines.engine import States
from tinyphysics.runtime.engines.events import EventSearch, Searching
from tinyphysics.runtime.engines.on_demand import Look, LookedAt
from tinyphysics.runtime.state import device_arrays
from tinyphysics.runtime.state.schedule import time_at
from tinyphysics.synth.methods.embedded import KEPT, MOVE
from tinyphysics.synth.methods.taylor import CLOCK, JET, LOW, UNTIL

LOG = logging.getLogger("tinyphysics")
FEW = 8  # members whose clocks are sooner compared one by one
MANY = 1e6  # steps, after which it is worth a look what they do
OFTEN = 64  # times that are covered between two looks at that
ENDLESS = 1e8  # steps that are left: minutes at least
WORTH_A_LOOK = 1e4  # attempts, from which the pace of a run is estimated
HARDLY = 1e-3  # of the state: a step that moves it by less is not kept short by what the solution does
PATIENCE = 4e8  # operations between two looks at the keyboard: some tenths of a second


@dataclass(eq=False)
class Adapted:
    """Loop registers of some members, and the step of the grid that they are asked for."""

    inner: Any
    members: int
    dt: float
    t0: float
    steps: int = 0
    start: dict[str, Any] = field(
        default_factory=dict, repr=False
    )  # what a run began with: step 0 is its very bits
    reached: int = 0  # the step of the grid that all have come to
    seen: dict[str, Any] | None = field(
        default=None, repr=False
    )  # the state at this step, once it was asked for
    events: Searching | None = None  # of a run that looks for them
    there: bool = False  # on a GPU, where its states are left
    covered: int = 0  # times so far


class AdaptiveEngine(LookedAt[Adapted]):
    """An engine (runtime/engines/engine.py) on top of one that runs the steps themselves."""

    numbers, room, workers = 0, 0, 1

    def __init__(
        self,
        inner: Any,
        names: list[str],
        look: Look | None,
        search: EventSearch | None = None,
        words: list[str] | None = None,
        advice: str = "",
    ) -> None:
        """`words` are the names under which the states are kept, where each has more than one."""
        self.inner, self.names, self.look, self.search, self.advice = inner, names, look, search, advice
        self.words = words or names
        self.told_of_the_end = False
        self.looked: tuple[Any, Any] | None = None  # the times and attempts of all members, some time ago
        self.states = {s.name: s.type.shape for s in inner.states}
        self.clock = f"S{list(self.states).index(CLOCK)}"
        self.on_arrays = (
            names[0] + MOVE in self.states
        )  # then no coefficients are kept, but where a step ends
        self.in_loops = names[0] + JET not in self.states  # then the engine below keeps them as it likes
        self.made_by_looking = any(
            name.endswith(KEPT) for name in self.states
        )  # coefficients, by what is kept of a step

    launches = property(lambda self: self.inner.launches)
    compiling = property(lambda self: self.inner.compiling)
    made = property(lambda self: self.inner.made)
    found = property(lambda self: self.inner.found)

    def start(
        self, state: States, params: States, members: int, dt: float, t0: float, threads: int | None = None
    ) -> Adapted:
        blank = {
            name: np.broadcast_to(0.0, (members, *shape)) for name, shape in self.states.items()
        }  # takes no memory
        clock = np.zeros((members, *self.states[CLOCK]))
        clock[:, 0] = t0
        own = {name: state.get(name, v) for name, v in (blank | {CLOCK: clock}).items()}
        inner = self.inner.start(own, {**params, str(UNTIL.arg): np.array([t0])}, members, dt, t0, threads)
        return Adapted(
            inner,
            members,
            dt,
            t0,
            start=dict(state),
            events=self.searching(params, members, t0),
            there=isinstance(next(iter(state.values())), DeviceArray),
        )

    def searching(self, params: States, members: int, since: float) -> Searching | None:
        return None if self.search is None else Searching(self.search, params, np.full(members, since), since)

    def held(self, m: Adapted) -> Any:
        raise AssertionError("its steps are kept by the engine below")

    def resume(
        self, rows: Any, params: States, members: int, dt: float, t0: float, steps: int, threads: int | None
    ) -> Any:
        raise AssertionError("its steps are kept by the engine below")

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
        return Adapted(
            inner,
            members,
            dt,
            t0,
            steps,
            reached=steps,
            events=self.searching(params, members, time_at(steps, dt, t0)),
        )

    def snapshot(self, m: Adapted) -> Adapted:
        events = m.events if m.events is None else replace(m.events, done=m.events.done.copy())
        return replace(m, inner=self.inner.snapshot(m.inner), events=events)

    def some(self, m: Adapted, members: list[int]) -> Adapted:
        inner = self.inner.some(m.inner, members)
        start = {name: v[members] for name, v in m.start.items()}
        return Adapted(inner, len(members), m.dt, m.t0, m.steps, start, m.reached, there=m.there)

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
        self.inner.tell(m.inner, str(UNTIL.arg), until)
        count = self.inner.patience(m.inner, PATIENCE) if m.events is None else 1
        while True:
            if m.events is not None:
                m.events.steps(*self.coefficients(m), self.clocks(m), until)
            self.inner.advance(m.inner, count)
            if not self.unfinished(m, until):
                break
            self.tell_of_many(m, until)
            self.tell_of_the_end(m, until)
        m.covered += 1
        if m.covered % OFTEN == 0:  # many frames may each need few steps
            self.tell_of_many(m, until)
        if m.events is not None:
            m.events.steps(*self.coefficients(m), self.clocks(m), until)

    def between(self, m: Adapted, t: float) -> dict[str, Any]:
        """From the series of the step that covers this time; the members are further than their step then."""
        if not m.members:
            return self.state(m)
        self.cover(m, t)
        m.seen = None
        return self.named(m)

    def found_until(self, m: Adapted, later: Adapted) -> None:
        m.events = later.events

    def tell_of_many(self, m: Adapted, until: float) -> None:
        """Whoever waits for many steps in which hardly anything happens should know: measured, at the member with most."""
        if not self.advice:
            return
        clocks = self.clocks(m)
        if clocks[3].max(initial=0.0) < MANY:
            return
        k = int(np.argmax(clocks[3]))
        with np.errstate(all="ignore"):
            moved = self.moved(m, k, clocks[2, k])
        if 0.0 < moved < HARDLY:
            LOG.warning(
                "%s steps up to t = %g of %g, and the last one changed the state by only %.0e of its size: %s",
                f"{int(clocks[3, k]):,}",
                clocks[0, k],
                until,
                moved,
                self.advice,
            )
            self.advice = ""

    def moved(self, m: Adapted, k: int, h: float) -> float:
        """By how much of its size the last step of a member has changed its state."""
        if self.on_arrays:
            register = {name: self.inner.register(m.inner, f"S{i}")[k] for i, name in enumerate(self.states)}
            first, second = (np.concatenate([register[n + end] for n in self.names]) for end in ("", MOVE))
            return float(np.abs(second).max() / np.abs(first).max())
        first, second = self.coefficients(m)[0][k, :2]
        return float(h * np.abs(second).max() / np.abs(first).max())

    def tell_of_the_end(self, m: Adapted, until: float) -> None:
        """A run whose steps have become so short that it would take minutes or years says so, once.

        By what many attempts have gained, not by the length of one: at a corner a few are short.
        """
        clocks = self.clocks(m)[:, : m.members]
        high, tried = clocks[0], clocks[5 if len(clocks) > 5 else 3]
        if self.looked is None or len(self.looked[0]) != len(high):
            self.looked = high.copy(), tried.copy()
        gained, attempts = high - self.looked[0], tried - self.looked[1]
        k = int(np.argmax(attempts))
        if self.told_of_the_end or attempts[k] < WORTH_A_LOOK:
            return
        self.looked = None
        left = (until - high[k]) * attempts[k] / gained[k] if gained[k] > 0.0 else math.inf
        if left > ENDLESS:
            self.told_of_the_end = True
            LOG.warning(
                "%s steps up to t = %g, and the last %s led %.1e further: at this pace, t = %g takes %.0e more steps. "
                "The solution changes this fast there; it may run away. Ctrl-C ends the run: look at it up to t = %g.",
                f"{int(clocks[3, k]):,}",
                high[k],
                f"{int(attempts[k]):,}",
                gained[k],
                until,
                left,
                high[k],
            )

    def coefficients(self, m: Adapted) -> tuple[Any, Any]:
        """Of every member the coefficients of its step (members, order, numbers), and the error words of its state."""
        if self.in_loops:
            found: tuple[Any, Any] = self.inner.coefficients(m.inner)
            return found
        shown = self.inner.synchronised(m.inner) if self.made_by_looking else {}
        register = {name: self.inner.register(m.inner, f"S{k}") for k, name in enumerate(self.states)}
        count = len(register[CLOCK])
        first = np.concatenate([register[name].reshape(count, -1) for name in self.names], axis=1)
        low = np.concatenate([register[name + LOW].reshape(count, -1) for name in self.names], axis=1)
        later = [
            (shown or register)[name + JET][:count].reshape(count, self.states[name + JET][0], -1)
            for name in self.names
        ]
        return np.concatenate([first[:, None], np.concatenate(later, axis=2)], axis=1), low

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
        seen = {} if m.events is None else {"events": m.events.found, "apart": [m.events.apart]}
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
            m.seen = self.named(m)
        return m.seen

    def named(self, m: Adapted) -> dict[str, Any]:
        """The states at the time that was asked for."""
        by = self.inner.named_there if m.there else self.inner.named
        shown = by(m.inner, self.words)
        return {name: shown[name][: m.members] for name in self.words}
