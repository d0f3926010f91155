"""How far did the energies of a run go?  Maxima over every step: kept in the loop itself where it can carry them.

A loop that carries them costs little more than the run. Members whose energies are not finite, and members that stopped,
are looked at step by step, since of those the step has to be known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tinyphysics.ir import UOp
from tinyphysics.runtime.engines.backend import engine_for
from tinyphysics.runtime.stages.execute import observer_program
from tinyphysics.runtime.stages.loop import begin_tiles, go
from tinyphysics.runtime.stages.running import Running
from tinyphysics.runtime.state.record import Record
from tinyphysics.runtime.state.run import Run
from tinyphysics.runtime.state.schedule import Schedule
from tinyphysics.tpir.kernels.extremes import WORST, ExtremesOf
from tinyphysics.tpir.precision.probe import REST

MOST_APART = 0.25  # of the members: with more of them all are looked at step by step


class Extremes:
    """What is kept of the energies of every step: how far they went, their terms, and the first that is no number."""

    def __init__(self, members: int, wide: bool) -> None:
        self.wide, self.begun = wide, False
        self.first, self.rest, self.worst, self.scale = (np.zeros(members) for _ in range(4))
        self.bad, self.rows = np.full(members, np.iinfo(np.int64).max), np.zeros(members, np.int64)

    def add(self, values: Mapping[str, Any], here: slice) -> None:
        """In the threads that advance the members, each for its own; the first call is about step 0 and everyone."""
        energy, terms = values["value"], values["scale"]
        if not self.begun:
            self.first[here], self.begun = energy[0], True
            if self.wide:
                self.rest[here] = values[f"{REST}value"][0]
        good = np.isfinite(energy) & np.isfinite(terms)
        if not good.all():
            first = np.where(good.all(axis=0), np.iinfo(np.int64).max, self.rows[here] + good.argmin(axis=0))
            np.minimum(self.bad[here], first, out=self.bad[here])
        self.rows[here] += len(energy)
        with np.errstate(invalid="ignore"):
            off = energy - self.first[here]
            off = np.abs(off + (values[f"{REST}value"] - self.rest[here]) if self.wide else off)
            np.fmax(self.worst[here], np.fmax.reduce(off, axis=0), out=self.worst[here])
            np.fmax(self.scale[here], np.fmax.reduce(terms, axis=0), out=self.scale[here])

    def put(self, members: Any, others: Extremes) -> None:
        """Those of some members, as found apart from the rest."""
        for name in ("first", "rest", "worst", "scale", "bad", "rows"):
            getattr(self, name)[members] = getattr(others, name)


def kept_in_the_loop(run: Run, last: int, values: Mapping[str, UOp]) -> tuple[Extremes, Any] | None:
    """The extremes, and the members that have to be looked at apart; None where all have to be."""
    if run.acts or run.across or run.jump is not None or run.adaptive or run.loops or run.system.guards:
        return None
    if run.target.backend == "python" or last == 0:
        return None
    into = Extremes(run.given.members, run.encoding.precision.wide)
    names = ExtremesOf("value", "scale", f"{REST}value" if into.wide else None)
    engine = engine_for(run.target, run.program, observer_program(run, values), run.threads, False, names)
    if not any(v.arg == WORST for v in engine.kernel.carried):
        return None
    schedule = Schedule(last, None, None, None)
    running = Running.of(run, engine, Record(schedule, {}))
    begin_tiles(running)
    for tile in running.tiles:
        engine.expect(tile.members, last)
    out = go(running, lambda n: None)
    out.raise_error()
    for tile in running.tiles:
        rows = engine.held(tile.alone) if tile.kept is None else tile.kept.rows(tile.here)
        into.worst[tile.here], into.scale[tile.here] = rows[-2:]
    stopped = [stop.member or 0 for stop in out.stops]
    flawed = ~(np.isfinite(into.worst) & np.isfinite(into.scale))
    apart = np.union1d(np.flatnonzero(flawed), np.array(stopped, np.int64))
    if len(apart) and (run.given.there or len(apart) > MOST_APART * run.given.members):
        return None
    return into, apart


def only(run: Run, members: Any) -> Run:
    """The run of some of its members."""
    given = run.given
    states = {name: v[members] for name, v in given.states.items()}
    params = {name: v[members] if len(v) > 1 else v for name, v in given.params.items()}
    return replace(run, given=replace(given, states=states, params=params, members=len(members)))
