"""How is a run stepped by a loop of the caller's?  Its loop state stays in memory, and only copies of it are shown.

Steps are those of evolve, bit for bit, however they are divided into calls. Another value of a state or a parameter ends a
stretch and begins a new one at that step, as an act does: by `final` and `init`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from tinyphysics.device.engines.lane_call import ShortSteps
from tinyphysics.runtime.stages.bind import Bound, bind
from tinyphysics.runtime.stages.diagnose import Diagnostic, examine
from tinyphysics.runtime.stages.encode import encode
from tinyphysics.runtime.stages.execute import choose_engine, matrices
from tinyphysics.runtime.stages.loop import advance_tiles, begin_tiles, commit
from tinyphysics.runtime.stages.outcome import not_the_default, sealed, shown
from tinyphysics.runtime.stages.own_time import times_of
from tinyphysics.runtime.stages.place import place
from tinyphysics.runtime.stages.resolve import Resolved
from tinyphysics.runtime.stages.running import Running
from tinyphysics.runtime.stages.schedule import Scheduled
from tinyphysics.runtime.state.ensemble import shaped
from tinyphysics.runtime.state.record import Record
from tinyphysics.runtime.state.run import Run
from tinyphysics.runtime.state.schedule import COUNTED, Schedule, time_at
from tinyphysics.runtime.state.tiles import Tile
from tinyphysics.runtime.state.workers import unbroken
from tinyphysics.trajectory import Frame, Stop

ONE = Schedule(1, None, None, None)  # of a run whose end is not known
ENDLESS = Schedule(COUNTED, None, None, None)


class Stepping:
    """The loop of a run between two calls."""

    def __init__(self, r: Resolved, threads: int | None, diagnostics: Sequence[Diagnostic]) -> None:
        self.resolved, self.threads, self.diagnostics = r, threads, diagnostics
        self.n = 0
        self.stops: tuple[Stop, ...] = ()
        self.begin(r)

    # --- beginning ----------------------------------------------------------------------------
    def begin(self, r: Resolved) -> None:
        """At the step where the run is, with the states and parameters that a call was given."""
        scheduled = Scheduled(ONE, {}, self.threads, None)
        encoded = encode(r)
        bound: Bound = bind(r, encoded, scheduled)
        run = place(r, scheduled, bound).run
        examine(r.setup, run, self.diagnostics)
        self.run: Run = replace(run, schedule=ENDLESS)
        record = Record(ENDLESS, {})
        engine, _ = choose_engine(self.run, record, {})
        self.loop = Running.of(run, engine, record, by_dt=partial(matrices, run))
        begin_tiles(self.loop)
        self.began, self.loop.n, self.stops = self.n, self.n, ()
        if self.n:
            for tile in self.loop.tiles:
                tile.put(self.loop.begun_again(tile, tile.states(), self.n))
        self.seen: dict[str, Any] | None = None
        self.short: ShortSteps | None = None
        if ShortSteps.can(engine) and len(self.loop.tiles) == 1:
            (tile,) = self.loop.tiles
            if not tile.begun:
                tile.put(tile.load(self.n))
            self.short = ShortSteps(engine, tile.alone)

    # --- stepping -----------------------------------------------------------------------------
    def step(self, n: int) -> None:
        """So many steps, or as many as there are before the last member stops."""
        if not n or self.stops and self.loop.frozen == self.run.given.members:
            return
        self.seen = None
        if self.short is not None and self.short.step(n):
            self.n = self.loop.n = self.n + n
        else:
            self.advance(n)

    def advance(self, n: int) -> None:
        """By blocks, as a run does; members that fail are found and stop."""
        loop, members = self.loop, self.run.given.members
        size, target = loop.engine.block(members), min(self.n + n, COUNTED)
        while loop.n < target and loop.frozen < members:
            begin, end = loop.n, min(loop.n + size, target)
            with unbroken(len(loop.tiles) > 1):
                commit(loop, end, advance_tiles(loop, begin, end))
        self.n = loop.n if members else target
        found = [stop for tile in loop.tiles for stop, _ in tile.frozen.values()]
        self.stops = tuple(sorted(found, key=lambda stop: (stop.step, stop.member or 0)))
        if self.short is not None:
            self.short = ShortSteps(self.short.engine, loop.tiles[0].alone)

    # --- looking ------------------------------------------------------------------------------
    def kept(self) -> dict[str, Any]:
        """The synchronised states of all members, word by word; of those that have stopped the last good ones."""
        if self.seen is None:
            self.seen = self.synchronised()
        return self.seen

    def synchronised(self) -> dict[str, Any]:
        loop, given = self.loop, self.run.given.states
        if self.n == self.began or not loop.tiles:
            out = {name: np.array(v) for name, v in given.items()}
        elif self.short is not None:
            out = self.short.states()
        else:
            parts = [loop.states_of(loop_state(tile, loop.n), False) for tile in loop.tiles]
            many = len(parts) > 1
            out = {n: np.concatenate([part[n] for part in parts]) for n in given} if many else dict(parts[0])
        for tile in loop.tiles:
            for k, (_, last) in tile.frozen.items():
                for name, v in out.items():
                    v[tile.here.start + k] = last[name]
        for v in out.values():
            v.flags.writeable = False
        return out

    def state(self, name: str) -> Any:
        """One of them, as a user sees it."""
        r = self.run
        v = self.kept()[name] if r.encoding.plain else sealed(r.encoding.shown(name, self.kept()))
        return v if r.given.is_ensemble else v[0, ...]

    @property
    def frame(self) -> Frame:
        """The state now, with its time and its parameters."""
        r = self.run
        kept = shaped(r.given)(self.kept())
        states = {name: sealed(np.asarray(v)) for name, v in shown(r, kept).items()}
        return Frame(states, self.n, self.t, kept, not_the_default(r))

    @property
    def t(self) -> Any:
        if self.run.system.clock is None:
            return time_at(self.n, self.run.dt, self.run.t0)
        t = times_of(self.run, {name: v[None] for name, v in shaped(self.run.given)(self.kept()).items()})[0]
        return t if getattr(t, "ndim", 0) else float(t)

    def parameters(self) -> dict[str, Any]:
        """As a user gives them."""
        own = {p.name for p in self.run.system.seen.parameters}
        return {n: v if len(v) > 1 else v[0] for n, v in self.run.given.own.items() if n in own}

    def changed(self, new: Mapping[str, Any]) -> None:
        """Other values of some states or parameters, from this step on."""
        r, e = self.run, self.run.encoding
        kept = shaped(r.given)(self.kept())
        now: dict[str, Any] = {
            s.name: kept[s.name] if e.plain else e.words(s.name, kept) for s in r.system.states
        }
        self.begin(replace(self.resolved, given={**now, **self.parameters(), **new}))


def loop_state(tile: Tile, n: int) -> Any:
    """The loop state of a tile, to be looked at and not to be changed."""
    return tile.alone if tile.kept is None else tile.load(n)
