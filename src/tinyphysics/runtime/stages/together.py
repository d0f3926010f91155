"""Which ensembles go through their first block of time with no Python between?  Those of which only the end is asked.

A tile that is not well, or comes near a pole, is done again by itself, where everything is looked at (block.py).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from tinyphysics.device.engines import passages
from tinyphysics.device.host.threads import spread
from tinyphysics.runtime.stages.block import advance_block
from tinyphysics.runtime.stages.running import Done, Running


def nothing_between(run: Running, n: int, target: int) -> bool:
    """Is nothing asked of a block but the states at its end?"""
    s = run.schedule
    if n != s.first or run.begun is not None or run.there or any(tile.begun for tile in run.tiles):
        return False
    if run.keeper is not None or run.windows is not None or run.acts is not None or run.across is not None:
        return False
    if run.fused or s.observe_every is not None or run.watches:
        return False
    if s.between(n) or s.between(target) or s.hashes(target) or any(t.kept is None for t in run.tiles):
        return False
    p = run.poles
    return p is None or not p.replays and p.by_distance and all(len(v) == 1 for v in run.given.own.values())


def advance_together(run: Running, n: int, target: int) -> list[Done] | None:
    """All tiles; None where it has to be done one by one."""
    e: Any = run.engine
    given, s = run.given, run.schedule
    if not nothing_between(run, n, target) or not passages.direct(e, given.states, given.params):
        return None
    kept = run.tiles[0].kept
    assert kept is not None
    saves = s.saves(target) and bool(run.record.frames)
    goes_on = target < s.steps or not run.record.frames
    frame = run.record.frame(target) if saves else {}
    slots = kept.slots if goes_on else {}
    if not all(v.flags.c_contiguous for v in (*frame.values(), *slots.values())):
        return None
    tiles = [tile.here for tile in run.tiles]
    carries = run.carries and target == s.steps
    registers = passages.registers(e, given.members) if carries else {}
    start = given.states, given.params, run.dt, run.t0
    way = passages.Way(tiles, *start, target - n, frame, slots, kept.extra, registers)
    taken = passages.take(e, way)
    done = [Done(registers={name: v[here] for name, v in registers.items()}) for here in tiles]
    again = set(np.flatnonzero(taken.unwell).tolist())
    if run.poles is not None:
        near = [e.signed(row[:, None]) for row in taken.extremes]
        for k, row in enumerate(near):
            done[k].calm = k not in again and run.poles.calm(given.states, given.own, row)
            if not done[k].calm:
                again.add(k)
    for k, tile in enumerate(run.tiles):
        tile.begun = k not in again
    alone = sorted(again)
    for k, d in zip(alone, spread(partial(one_by_one, run, alone, n, target), len(alone), e.workers)):
        done[k] = d
    return done


def one_by_one(run: Running, tiles: list[int], n: int, target: int, k: int) -> Done:
    return advance_block(run, tiles[k], n, target)
