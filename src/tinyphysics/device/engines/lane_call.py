"""How is a short loop called with as little as possible around it?  In one block of memory, by addresses known before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ctypes import c_void_p, cast
from typing import Any

import numpy as np

from tinyphysics.context import QUICK
from tinyphysics.device.engines.engine import (
    QUICK_WORK,
    THREAD_WORK,
    LaneEngine,
    LaneState,
    parameters,
    pointer,
)
from tinyphysics.device.host.rows import fill, unpacked
from tinyphysics.device.numbers import finite
from tinyphysics.tpir.kernels.passage import CHECK, NONE, TABLE, Passage
from tinyphysics.util import prod

WORD = 8  # bytes of a number
AHEAD = 64  # journeys whose work is noted together
FLAGS = {
    "init": "began",
    "step": "moved",
    "watch": "moved",
    "final": "moved",
}  # where guards of a section are noted


def callable_by_address(engine: Any) -> bool:
    """Is it a loop of plain sections in float64, on this processor?"""
    if type(engine) is not LaneEngine or not engine.by_address:
        return False
    k = engine.kernel
    numbers = {v.dtype.name for v in (*k.inputs, *k.carried, *k.params)} | {
        t.name for t, _ in k.outputs.values()
    }
    return bool(k.inputs) and numbers == {"f64"} and not any(map(k.has, ("enter", "leave", "look")))


class Entry:
    """The code of a section by its address; once it is the best there is, nothing is looked up any more."""

    def __init__(self, engine: LaneEngine, name: str, m: LaneState, lanes: int) -> None:
        self.engine, self.name, self.m = engine, name, m
        self.work = engine.kernel.section(name).operations * lanes  # of one round
        self.ahead = (
            QUICK_WORK // 64
        )  # work that is noted before it is done, so that few calls have to note theirs
        self.best: Any = None
        self.quick: Any = None
        self.spare = 0.0  # noted, and not done yet

    def code(self, rounds: int) -> Any:
        """A function that takes addresses, to be called once for so many rounds."""
        self.engine.launches += 1
        mode = QUICK.value
        if self.best is not None and mode < 2:
            return self.best
        work = self.work * rounds
        if self.quick is not None and self.spare >= work and mode == 1:
            self.spare -= work
            return self.quick
        quick = self.engine.quick_for(self.name, work + self.ahead)
        f = self.engine.function(self.name, False, self.m, quick)[0].at
        if quick is None:
            self.best = f
        elif mode == 1:
            self.quick, self.spare = f, self.ahead
        return f


class Journey:
    """`init`, so many steps and `final` of a block, in one call (emit/modules/passage.py). Blocks are used again."""

    def __init__(self, call: LaneCall, steps: int) -> None:
        self.call, self.rounds = call, {"init": 1, "step": steps, "final": 1}
        self.free: list[Traveller] = []
        self.left = 0  # calls whose work is noted
        self.functions: tuple[Any, ...] = ()  # the code of the sections

    def traveller(self) -> Traveller:
        """A block, for one call; `free` takes it back."""
        if not self.left or QUICK.value != 1:
            self.note()
        self.left -= 1
        self.call.engine.launches += len(self.rounds)
        try:
            return self.free.pop()
        except IndexError:
            return Traveller(self)

    def note(self) -> None:
        """The work of the next calls, before it is done; code may be another afterwards."""
        entries, mode = self.call.entries, QUICK.value
        self.left = AHEAD if mode == 1 else 1
        functions = tuple(entries[name].code(self.left * n) for name, n in self.rounds.items())
        self.call.engine.launches -= len(functions)
        if functions != self.functions:
            self.free, self.functions = [], functions


class Traveller:
    """A block on a journey; `go` takes its states there, and tells whether all went well."""

    def __init__(self, j: Journey) -> None:
        call, k = j.call, j.call.engine.kernel
        self.block, self.at = call.block()
        room = call.offset["began"]
        source, carried, shown, own = (
            call.offset[n] - room for n in ("source", "carried", "shown", "varying")
        )
        order, varying = Passage(WORD, call.lanes), own if call.varies else NONE
        init, step, final = (cast(f, c_void_p).value or 0 for f in j.functions)
        order.call(init, source, carried, varying, 0, 1)
        order.call(step, carried, carried, varying, 0, j.rounds["step"])
        for place, rows in ((source, len(k.inputs)), (carried, len(k.carried))):
            for row in range(rows):
                order.row(CHECK, place, row)
        order.call(final, carried, shown, varying, j.rounds["step"], 1)
        self.words, self.unwell = np.array(order.words, np.int64), np.zeros(1, np.int8)
        self.where = np.array([0, call.members, self.at + room], np.int64)
        listed = self.words.ctypes.data, len(self.words), self.where.ctypes.data, call.lanes, call.lanes
        self.table = np.array([*listed, *[0] * (TABLE - len(listed))], np.int64)
        self.f: Any = call.engine.loader.passage[1]
        self.given = self.table.ctypes.data, self.at, self.unwell.ctypes.data, 0, 0, 0

    def go(self) -> bool:
        self.f(*self.given)
        return not self.unwell[0]  # of one that is not well, the block is not used again


class LaneCall:
    """Loops of so many members of an engine. Each has a block of its own, so that several may run at the same time.

    A block holds, one after the other: parameters, flags of `init` and of later calls, what `init` reads, what the loop
    carries, what `final` shows, and the parameters that differ from member to member.
    """

    def __init__(
        self,
        engine: LaneEngine,
        sizes: Sequence[int],
        params: Mapping[str, Any],
        members: int,
        dt: float,
        t0: float,
    ) -> None:
        """`sizes` are the numbers of each state."""
        assert callable_by_address(engine)
        k, width = engine.kernel, engine.shape(members).lanes
        self.engine, self.members = engine, members
        self.lanes = lanes = -(-members // width) * width
        uniform, varying, mask = parameters(k.params, params, dt, t0, members, lanes)
        rows = {"uniform": len(uniform), "began": -(-lanes // WORD), "moved": -(-lanes // WORD)}
        rows |= {
            "source": lanes * len(k.inputs),
            "carried": lanes * len(k.carried),
            "shown": lanes * engine.shown,
        }
        rows["varying"] = 0 if varying is None else varying.size
        ends = np.cumsum([0, *rows.values()]).tolist()
        self.places = {name: slice(a, b) for name, a, b in zip(rows, ends, ends[1:])}
        self.offset = {name: WORD * part.start for name, part in self.places.items()}
        self.flags, self.moved = slice(ends[1], ends[3]), slice(ends[3], ends[5])
        self.pattern = np.zeros(ends[-1])
        self.pattern[self.places["uniform"]] = uniform
        if varying is not None:
            self.pattern[self.places["varying"]] = varying.ravel()
        self.mask, self.varies = mask, varying is not None
        key = LaneState(None, 0, members, None, None, mask, 1)  # what a function is chosen by
        named = [name for name in FLAGS if k.has(name)]
        self.entries = {name: Entry(engine, name, key, lanes) for name in named}
        starts = np.cumsum([ends[3], *(lanes * n for n in sizes)]).tolist()
        self.inputs = [slice(a, b) for a, b in zip(starts, starts[1:])]
        self.journeys: dict[int, Journey | None] = {}

    def journey(self, steps: int) -> Journey | None:
        """So many steps in one call, if there is a function for that."""
        if steps not in self.journeys:
            can = self.engine.loader.passage is not None and "step" in self.entries
            self.journeys[steps] = Journey(self, steps) if can else None
        return self.journeys[steps]

    def block(self) -> tuple[Any, int]:
        """(memory for one loop, its address)."""
        new = self.pattern.copy()
        return new, pointer(new)

    def put(self, block: Any, states: Sequence[Any]) -> None:
        """The states, as arrays of all their members."""
        if self.lanes == 1:
            for part, a in zip(self.inputs, states):
                block[part] = a.ravel()
            return
        for part, a in zip(self.inputs, states):
            rows = block[part].reshape(-1, self.lanes)
            rows[:, : self.members] = a.reshape(self.members, -1).T
            fill(rows, self.members)

    def rows(self, block: Any, name: str) -> Any:
        """A row for each number, a column for each lane."""
        return block[self.places[name]].reshape(-1, self.lanes)

    def loop_state(self, block: Any, steps: int) -> LaneState:
        """The loop as the engine has it; it shares the memory of the block."""
        varying = self.rows(block, "varying") if self.varies else None
        uniform = block[self.places["uniform"]]
        return LaneState(self.rows(block, "carried"), steps, self.members, uniform, varying, self.mask)

    def call(
        self, name: str, at: int, source: str, out: str, steps: int = 0, rows: int = 1, stride: int = 1,
        series: int | None = None,
    ) -> None:  # fmt: skip
        """One section on every member of the block at this address."""
        offset, lanes = self.offset, self.lanes
        f = self.entries[name].code(rows * stride)
        own, flags = at + offset["varying"] if self.varies else None, at + offset[FLAGS[name]]
        f(at + offset[source], at + offset[out], at, own, flags, series, 0, lanes, lanes, steps, rows, stride)

    def went_well(self, block: Any) -> bool:
        """Has no guard fired since `init` and since the last step?  Else the engine has to do it again, carefully."""
        return not np.count_nonzero(block[self.flags])


class ShortSteps:
    """Steps of a loop state in two places: a call reads the one and writes the other.

    What goes wrong leaves the first as it was, for the engine to do it in its own way.
    """

    def __init__(self, engine: LaneEngine, m: LaneState) -> None:
        self.m, self.moved, self.other = m, engine.moved, np.empty_like(m.carried)
        self.lanes = m.carried.shape[1]
        self.flags = np.zeros(self.lanes, np.int8)
        self.engine, self.entry = engine, Entry(engine, "step", m, self.lanes)
        self.end = None if engine.kernel.has("leave") else Entry(engine, "final", m, self.lanes)
        self.alone = self.lanes == m.members == 1 and {t.name for t, _ in engine.kernel.outputs.values()} == {
            "f64"
        }
        self.most = int(2 * THREAD_WORK / max(self.entry.work, 1))  # steps that are not worth a second thread
        self.here, self.there = pointer(m.carried), pointer(self.other)
        self.rest = (
            pointer(m.uniform),
            pointer(m.varying),
            pointer(self.flags),
            None,
            0,
            self.lanes,
            self.lanes,
        )

    @staticmethod
    def can(engine: Any) -> bool:
        return type(engine) is LaneEngine and engine.by_address

    def step(self, n: int) -> bool:
        """So many steps; False if the engine has to do them."""
        m, new = self.m, self.other
        if n > self.most:
            return False
        self.entry.code(n)(self.here, self.there, *self.rest, m.steps, n, 1)
        good = finite(new[: self.moved])
        if np.count_nonzero(self.flags) or np.count_nonzero(good) != good.size:
            self.flags[:] = 0
            return False
        m.carried, self.other, self.here, self.there = new, m.carried, self.there, self.here
        m.steps += n
        return True

    def states(self) -> dict[str, Any]:
        """The synchronised states, (members, shape...)."""
        m, k = self.m, self.engine.kernel
        if self.end is None:
            return self.engine.synchronised(m)
        out = np.empty((self.engine.shown, self.lanes), m.carried.dtype)
        self.end.code(1)(self.here, pointer(out), *self.rest, m.steps, 1, 1)
        if np.count_nonzero(self.flags):
            self.flags[:] = 0
            return self.engine.synchronised(m)
        if not self.alone:
            return unpacked(out, k.outputs, m.members, k.outputs.keys())
        shown, at = {}, 0
        for name, (_, shape) in k.outputs.items():  # side by side, as they lie there
            end = at + prod(shape)
            shown[name] = out[at:end].reshape(1, *shape)
            at = end
        return shown
