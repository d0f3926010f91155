"""How do all members change together between two steps?  On synchronised copies, after which a new loop begins.

Unlike after an act, the loop state of the step is the one after the change: it is done once, and its memory goes on.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tinyphysics.device.cuda.dlpack import here
from tinyphysics.device.engines.loops import NestEngine
from tinyphysics.runtime.engines.engine import Distant
from tinyphysics.runtime.stages.running import Done, Running
from tinyphysics.runtime.state.digest import leaves
from tinyphysics.trajectory import Stop


def change(run: Running, n: int, done: Done, look: Any) -> None:
    """The members of the only tile after step n, with frames, hashes and observables of that step."""
    assert run.worker is not None
    tile, m = run.tiles[0], done.m
    # what only looks at states leaves them on the device
    before = run.states_of(m, run.worker.only_looks and isinstance(run.engine, Distant))
    gone = frozenset((*tile.frozen, *done.stopped))
    after, lost = run.worker.done(n, before, gone)
    run.given.params.update(run.worker.params)
    for k, cause in lost.items():
        who = k if run.given.is_ensemble else None
        done.stopped[k] = Stop(cause, n, run.time(n), who), {name: here(v[k]) for name, v in before.items()}
    done.m = new = begun(run, m, after, n)
    s = run.schedule
    saves, looks = (
        s.saves(n) and bool(run.record.frames),
        s.observe_every is not None and n % s.observe_every == 0,
    )
    if saves or looks or s.hashes(n):
        after = {name: here(v) for name, v in after.items()}
        seen = run.synchronised(tile, after, done.stopped)
    if saves:
        run.frame(tile, n, seen)
    if s.hashes(n):
        done.leaves = {name: leaves(v) for name, v in seen.items()}
    if looks and look is not None:
        values = {name: np.array(v)[None] for name, v in look(tile, after, n).items()}
        for v in values.values():
            v[:, [*tile.frozen, *done.stopped]] = np.nan
        if run.sink is not None:
            run.sink(values, tile.here)
        else:
            run.record.keep(np.arange(n, n + 1), values, tile.here, {})
    if run.keeps(n) or n == s.steps and run.carries:
        done.registers = run.engine.registers(new)


def begun(run: Running, before: Any, state: Any, n: int) -> Any:
    """A loop that begins at step n; its clock is all that the number of the step decides, unless `init` reads it."""
    tile = run.tiles[0]
    if run.init_reads_clock and not (isinstance(run.engine, NestEngine) and run.init_makes_lists_alone):
        new = run.begun_again(tile, state, n)
        run.engine.hand_on(before, new)
        return new
    m = run.engine.begin_again(before, state, tile.params(), tile.members, run.dt, run.t0)
    m.steps = n
    return m
