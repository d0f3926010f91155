"""How does a lane engine take an ensemble through its first steps with no Python between?

From the arrays that were given to those that are shown, tile by tile: each thread calls one function, once. Where every tile
goes through Python, each of sixteen threads waits for the others' Python for a third of its time.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinyphysics.device.engines.engine import LaneEngine, LaneState, by_name, parameters, pointer
from tinyphysics.device.host.rows import HOST
from tinyphysics.device.host.threads import Plan, Threads
from tinyphysics.device.numbers import NUMPY_DTYPE
from tinyphysics.tpir.kernels import passage
from tinyphysics.tpir.kernels.kernel import BESIDE
from tinyphysics.tpir.kernels.nearest import BEFORE
from tinyphysics.tpir.kernels.passage import CHECK, FETCH, LEAST, MOST, NONE, STORE, Passage
from tinyphysics.tpir.kernels.shares import WORDS
from tinyphysics.util import prod

Arrays = Mapping[str, Any]
ROOM_BYTES = 1 << 16  # of the rows of members that go together: they stay in the cache of a core


@dataclass(frozen=True)
class Taken:
    """What is known of each tile afterwards."""

    unwell: Any  # has it a number that is not finite, or did a guard fire?  Then nothing is known
    extremes: Any  # (tiles, rows) of what the loop keeps beside the state: the least or the largest number


@dataclass(frozen=True)
class Way:
    """Members on their way: from where, so many steps, to where."""

    tiles: Sequence[slice]
    states: Arrays
    params: Arrays
    dt: float
    t0: float
    steps: int
    frame: Arrays  # where `final` goes, if anywhere
    slots: Arrays  # where loop states are kept, if they are: (members, shape...), row by row of each tile,
    extra: Any  # and the rows for which there is no room: (rows, members)
    registers: Arrays  # where a checkpoint has what the loop carries, if it has: (members, numbers)


def direct(engine: Any, states: Arrays, params: Arrays) -> bool:
    """Can members go from these arrays through a kernel as they are, all numbers of one type?"""
    if type(engine) is not LaneEngine or engine.memory is not HOST or engine.loader.passage is None:
        return False
    k = engine.kernel
    if k.kinds or engine.counts or k.has("enter") or k.has("leave") or not k.inputs or not states:
        return False
    one = NUMPY_DTYPE[k.carried[0].dtype.name]
    numbers = [v.dtype for v in (*k.inputs, *k.carried)]
    if one not in (np.float64, np.float32) or len(set(numbers)) > 1 or engine.output_type != one:
        return False
    if list(k.outputs) != list(states) or engine.shown != len(k.inputs):
        return False
    varying = [v for v in params.values() if len(v) > 1]
    own = {NUMPY_DTYPE[p.dtype.name] for p in k.params} if varying else set()
    return all(v.dtype == one and v.flags.c_contiguous for v in (*states.values(), *varying)) and own <= {one}


def registers(engine: LaneEngine, members: int) -> dict[str, Any]:
    """Room for all that the loop carries, by the names of the program."""
    one = NUMPY_DTYPE[engine.kernel.carried[0].dtype.name]
    own = {name: at.stop - at.start for name, at in engine.places.items() if name not in (BEFORE, *BESIDE)}
    return {name: np.empty((members, count), one) for name, count in own.items()}


def take(engine: LaneEngine, way: Way) -> Taken:
    """Every tile from its first state through so many steps, by all threads."""
    k, members = engine.kernel, way.tiles[-1].stop
    few = {name: v[:2] for name, v in way.params.items()}  # which of them vary, and what the others are
    uniform, _, mask = parameters(k.params, few, way.dt, way.t0, 2, 2)
    like = LaneState(None, 0, members, uniform, None, mask)
    functions, lanes = {}, 1
    for name, times in (("init", 1), ("step", way.steps), ("final", 1)):
        if name == "final" and not way.frame:
            continue
        quick = engine.quick_for(name, k.section(name).operations * members * times)
        f, shape = engine.function(name, False, like, quick)
        functions[name], lanes = ctypes.cast(f.at, ctypes.c_void_p).value or 0, max(lanes, shape.lanes)
        assert lanes % shape.lanes == 0, "sections that are as wide as each other, or as one vector"
    size = np.dtype(NUMPY_DTYPE[k.carried[0].dtype.name]).itemsize
    beside = engine.beside
    numbers = len(k.inputs) + len(k.carried) + engine.shown + sum(mask)
    order = Passage(size, max(lanes, ROOM_BYTES // (numbers * size + 1) // lanes * lanes))

    source, carried = order.rows(len(k.inputs)), order.rows(len(k.carried))
    at = source
    for v in way.states.values():
        count = prod(v.shape[1:])
        order.array(FETCH, at, pointer(v), count)
        at += count * order.columns * size
    own = order.rows(len(mask)) if any(mask) else NONE
    for name, slots, places in by_name(tuple(k.params)) if any(mask) else []:
        if mask[slots[0]]:
            table = way.params[name]
            for slot, j in zip(slots, places):
                order.row(FETCH, own, slot, pointer(table) + j * size, prod(table.shape[1:]))
    order.call(functions["init"], source, carried, own, 0, 1)
    order.call(functions["step"], carried, carried, own, 0, way.steps)
    for j in range(engine.moved):
        order.row(CHECK, carried, j)
    extremes = np.zeros((len(way.tiles), 0), np.float64)
    if beside is not None:
        large = engine.lengths
        extremes = np.where(large, -np.inf, np.inf) + np.zeros((len(way.tiles), 1))
        extremes = extremes.astype(NUMPY_DTYPE[k.carried[0].dtype.name])
        for j, most in enumerate(large):
            at = extremes.ctypes.data + j * size
            order.row(MOST if most else LEAST, carried, beside.start + j, at, extremes.shape[1])
    if way.frame:
        shown = at = order.rows(engine.shown)
        order.call(functions["final"], carried, shown, own, way.steps, 1)
        for name in k.outputs:
            count = prod(way.frame[name].shape[1:])
            order.array(STORE, at, pointer(way.frame[name]), count)
            at += count * order.columns * size
    for name, v in way.registers.items():
        order.array(STORE, carried + engine.places[name].start * order.columns * size, pointer(v), v.shape[1])
    at = carried
    for v in way.slots.values():
        count = prod(v.shape[1:])
        order.keep(at, pointer(v), count)
        at += count * order.columns * size
    for row in way.extra if way.slots else ():
        order.keep(at, pointer(row), 1)
        at += order.columns * size

    unwell = run(engine, order, way.tiles, uniform, lanes)
    engine.launches += len(functions) * len(way.tiles)
    return Taken(unwell, extremes)


def run(engine: LaneEngine, order: Passage, tiles: Sequence[slice], uniform: Any, lanes: int) -> Any:
    """All tiles, each by one thread: which of them are not well?"""
    words = np.array(order.words, np.int64)
    apart = -(-order.used // 4096) * 4096
    rooms: Any = np.empty(apart * len(tiles) + 64, np.uint8)
    begin = rooms.ctypes.data + -rooms.ctypes.data % 64
    places = [(t.start, t.stop, begin + apart * k) for k, t in enumerate(tiles)]
    where, unwell = np.array(places, np.int64), np.zeros(len(tiles), np.int8)
    table: Any = np.zeros(passage.TABLE, np.int64)
    table[passage.ORDERS], table[passage.COUNT] = words.ctypes.data, len(words)
    table[passage.TILES], table[passage.COLUMNS] = where.ctypes.data, order.columns
    table[passage.LANES] = lanes
    team, f = engine.loader.passage
    pieces: Any = np.zeros((len(tiles), WORDS), np.int64)
    pieces[:, 0] = ctypes.cast(f, ctypes.c_void_p).value
    pieces[:, 1] = np.arange(len(tiles))
    pieces[:, 4] = -1
    Threads(min(engine.workers, len(tiles)), team, table, uniform, unwell).run(Plan(pieces, 0), 0, 1)
    return unwell.astype(bool)
