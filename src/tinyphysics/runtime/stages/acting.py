"""How does a run change its states between two steps?  By maps, on synchronised copies of the states.

The loop state that a run keeps, in memory and in checkpoints, is the one before the acts of its step. Frames, observables and
hashes of that step show the state after them, and the next step begins from that state as a run does: by `init`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from tinyphysics.device.cuda.dlpack import here, sent
from tinyphysics.device.engines.engine import LaneEngine
from tinyphysics.device.host.rows import fill
from tinyphysics.device.numbers import LOST
from tinyphysics.runtime.engines.backend import engine_for
from tinyphysics.runtime.engines.engine import States
from tinyphysics.runtime.stages.walls import stop_behind
from tinyphysics.runtime.state.encoding import owner
from tinyphysics.runtime.state.run import BoundAct, Run
from tinyphysics.runtime.state.tiles import Tile
from tinyphysics.runtime.state.workers import all_finite
from tinyphysics.util import one_of


@dataclass(frozen=True, eq=False)
class Acts:
    """What is done between the steps of a run."""

    run: Run
    look: Callable[[Tile, States, int], dict[str, Any]] | None = None  # what is observed of a state
    # loops of acts on a device, by act and tile
    loops: dict[tuple[int, int], tuple[Tile, Any]] = field(default_factory=dict)

    def due(self, n: int) -> bool:
        return any(a.due(n) and not a.inside for a in self.run.acts)

    def due_inside(self, n: int) -> bool:
        return any(a.due(n) and a.inside for a in self.run.acts)

    def inside(self, engine: Any, tile: Tile, m: Any, n: int) -> Any:
        """The loop state after what is done to its registers at step n; states that an act does not name stay as they are."""
        r, threads = self.run, None if tile.kept is None else 1
        own = tile.params(), tile.members, r.dt, r.t0, n, threads
        for a in (a for a in r.acts if a.due(n) and a.inside):
            by = engine_for(r.target, a.program, None, r.threads, a.loops and r.target.backend != "python")
            if isinstance(engine, LaneEngine) and isinstance(by, LaneEngine):
                which = [k for w in a.words for k in rows_of(engine, self.registers[w])]
                if self.there(engine, by, a, tile, m, n, which):
                    continue
                rows = engine.held(m)
                one = by.resume([rows[k] for k in which], {}, tile.members, r.dt, r.t0, n, threads)
                by.advance(one, 1)
                for k, row in zip(which, by.held(one)):
                    rows[k] = row
                if isinstance(m.carried, np.ndarray):  # they are rows of it
                    fill(m.carried, m.members)
                    continue
                new = engine.resume(rows, *own)
            else:
                registers = engine.registers(m)
                shapes = {w: r.given.states[w].shape[1:] for w in a.words}
                state = {w: registers[self.registers[w]].reshape(-1, *shape) for w, shape in shapes.items()}
                for w, v in self.done(a, tile, state, n).items():
                    registers[self.registers[w]] = v.reshape(tile.members, -1)
                new = engine.restored(registers, *own)
            engine.hand_on(m, new)
            m = new
        return m

    def there(self, engine: Any, by: Any, a: BoundAct, tile: Tile, m: Any, n: int, which: list[int]) -> bool:
        """The same without a way off the device, if both loops have their rows there and as many lanes."""
        if not (engine.memory.there and by.memory.there) or by.lanes(tile.members) != m.carried.lanes:
            return False
        if len(which) != len(by.kernel.carried) or by.row_type != m.carried.dtype:
            return False
        known = self.loops.get((id(a), id(tile)))
        if known is None or known[0] is not tile:
            rows = by.memory.empty((len(which), m.carried.lanes), m.carried.dtype)
            one = by.begun(rows, {}, tile.members, self.run.dt, self.run.t0, n, None)
            known = self.loops[id(a), id(tile)] = tile, one
        known[1].steps = n
        engine.on_rows(m, which, by, known[1])
        return True

    @cached_property
    def registers(self) -> dict[str, str]:
        """The register of each word of the states."""
        return {s.name: f"S{i}" for i, s in enumerate(self.run.program.states)}

    def after(self, tile: Tile, state: States, n: int) -> dict[str, Any]:
        """The states of a tile after the acts of step n."""
        there = self.run.given.there
        out = {name: here(v) for name, v in state.items()} if there else dict(state)
        for a in self.run.acts:
            if a.due(n):
                out |= self.done(a, tile, out, n)
        if self.run.system.crossings:
            names = one_of([a.name for a in self.run.acts if a.due(n)], "and")
            own = replace(self.run.given, states=out, params=tile.params(), members=tile.members)
            out = stop_behind(self.run.system, own, names, n)
        return {name: sent(v) for name, v in out.items()} if there else out

    def done(self, a: BoundAct, tile: Tile, state: States, n: int) -> dict[str, Any]:
        r, given = self.run, tile.params()
        params = {name: v[tile.here] if len(v) > 1 else v for name, v in a.own.items()}
        params |= {name: given[name] for name in a.shared} | {name: state[name] for name in a.reads}
        loops = a.loops and r.target.backend != "python"
        engine = engine_for(r.target, a.program, None, r.threads, loops)
        threads = None if tile.kept is None else 1
        m = engine.start({w: state[w] for w in a.words}, params, tile.members, r.dt, r.t0, threads)
        m.steps = n  # a map has no `init`: the clock is all that its start decides
        engine.advance(m, 1)
        new: dict[str, Any] = engine.synchronised(m)
        return new


def rows_of(engine: LaneEngine, register: str) -> range:
    place = engine.places[register]
    return range(place.start, place.stop)


def lost(state: States, whole: Collection[str]) -> dict[int, tuple[str, int]]:
    """Members with a number that is none: where the first of them is; `whole` are states of whole numbers."""
    out: dict[int, tuple[str, int]] = {}
    for name, v in state.items():
        if name in whole or all_finite(v):
            continue
        flat = np.asarray(here(v)).reshape(len(v), -1)
        bad = ~np.isfinite(flat) if flat.dtype.kind == "f" else flat == LOST
        for k in np.flatnonzero(bad.any(axis=1)).tolist():
            out.setdefault(k, (owner(name), int(bad[k].argmax())))
    return out
