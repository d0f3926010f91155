"""How long would an ensemble take on so many workers?  As a scheduler would hand out its blocks, beside what was measured."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from tinyphysics.cluster.blocks import SCHEDULER, sizes
from tinyphysics.cluster.ensemble import Pool
from tinyphysics.cluster.parcel import Block
from tinyphysics.cluster.scheduler import MOST, simulate
from tinyphysics.runtime.api.simulation import Simulation

COUNTS = (1, 2, 4, 10, 100, 1000, 10_000)
MEASURED = (1, 2, 4)
TRIAL = 0.5  # seconds of work for each worker
BLOCKS = 8  # of a trial, for each worker
LEAST, MOST_MEMBERS = 64, 65_536  # members of a block of a trial

MakePool = Callable[[], Pool]
MakeSpread = Callable[[MakePool, int], Any]  # what evolve(on=) takes: machines, and how many blocks


def forecast(
    sim: Simulation, pool: MakePool, spread: MakeSpread, steps: int, members: int, seconds: float
) -> list[dict[str, Any]]:
    """A row for each number of workers; `seconds` is what the run takes on this machine alone.

    `measured` is the efficiency of a trial on the workers that there are, against one of them.
    """
    each = seconds / max(members, 1)
    found = measured(sim, pool, spread, steps, each)
    out = []
    for workers in COUNTS:
        size = sizes(members, workers, each)
        blocks = math.ceil(members / size.members)
        if blocks > MOST:
            continue
        took = max(size.members * each, 1e-9)
        told = simulate(workers=workers, blocks=blocks, seconds=took, scheduler=SCHEDULER)
        row: dict[str, Any] = {
            "workers": workers,
            "seconds": told.seconds,
            "efficiency": seconds / (told.seconds * workers),
        }
        out.append(row | {"blocks": blocks, "measured": found.get(workers)})
    return out


def measured(
    sim: Simulation, pool: MakePool, spread: MakeSpread, steps: int, each: float
) -> dict[int, float]:
    """The efficiency of so many workers, by counts that there are."""
    one = pool()
    there = len(one.workers())
    one.stop()
    per_block = int(min(MOST_MEMBERS, max(LEAST, TRIAL / BLOCKS / max(each, 1e-12))))
    n = max(1, min(steps, round(TRIAL / BLOCKS / (each / max(steps, 1)) / per_block)))
    rates: dict[int, float] = {}
    for workers in MEASURED:
        if workers > there:
            break
        members = per_block * BLOCKS * workers
        given = trial(sim, members)
        some = spread(partial(few, pool, workers), BLOCKS * workers)
        quiet = sim.__copy__()
        quiet.checks = "off"
        for _ in range(2):  # the first compiles
            began = time.perf_counter()
            quiet.evolve(**given, steps=n, options={"frames": 2, "on": some}, progress=False)
            took = time.perf_counter() - began
        rates[workers] = members * n / took
    return {w: rate / (w * rates[1]) for w, rate in rates.items()}


def trial(sim: Simulation, members: int) -> dict[str, Any]:
    given: dict[str, Any] = {s.name: np.ones((members, *s.var.shape)) for s in sim.system.seen.states}
    return given | {p.name: 1.0 for p in sim.system.parameters if p.default is None}


def few(pool: MakePool, count: int) -> Pool:
    return Some(pool(), count)


class Some:
    """The first few workers of a pool."""

    def __init__(self, pool: Pool, count: int) -> None:
        self.pool, self.name, self.few = pool, pool.name, list(pool.workers())[:count]
        self.send, self.answers, self.retire, self.stop = pool.send, pool.answers, pool.retire, pool.stop
        self.busy = pool.busy

    def workers(self) -> Sequence[str]:
        return self.few

    def slots(self) -> int:
        return len(self.few)

    def submit(self, number: int, block: Block, only: Sequence[str] = ()) -> None:
        self.pool.submit(number, block, list(only) or self.few)
