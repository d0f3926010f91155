"""How does a Taylor step in loops run on a GPU?  A thread for each member, each with as many steps as its own clock wants.

What is kept of a member (device/engines/series.py) is there a column of rows. What a thread needs while it goes along the
orders is memory of the device, too, for as many threads as run at once: rows of a warp, one warp after another.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tinyphysics.device.cuda import driver as cuda
from tinyphysics.device.cuda.dlpack import DeviceArray
from tinyphysics.device.engines.cuda_lanes import SHARE, DeviceRows, Tools, empty, sent, whole
from tinyphysics.device.engines.series import Constants
from tinyphysics.device.protocols import CLOCK, PlainEngine
from tinyphysics.rules.calculus.series import QUAD, SeriesPlan, tables
from tinyphysics.tpir.program.isa import StateDecl, Type
from tinyphysics.util import prod

WARP = 32
THREADS = 64  # of a block: a warp waits for the slowest of its members, and other blocks for neither
RESIDENT = 256  # threads of a processor at once: what they keep is larger than any cache, and more would not be faster
FASTER = 250  # products in the time that a core of a processor has for one
ALONE = 4096  # members that take no longer than one: a thread has no more than its own speed
LEAST = 64  # steps of a call


@dataclass(frozen=True)
class DeviceCode:
    """Kernels of a plan."""

    advance: cuda.Function
    look: cuda.Function
    scratch: int  # numbers that a thread needs
    made: int = 0
    found: int = 0


@dataclass
class Columns:
    """The numbers of every member."""

    state: DeviceRows  # (numbers, lanes)
    constants: cuda.Buffer  # (numbers, lanes), or the numbers of all
    alike: bool  # have all members the same constants?
    until: float
    members: int
    steps: int = 0


class CudaSeriesEngine(PlainEngine):
    """What runtime/engines/adaptive.py asks of an engine below it."""

    workers, program, kernel = 1, None, None

    def __init__(
        self,
        plan: SeriesPlan,
        states: Sequence[StateDecl],
        clock: str,
        load: Callable[[], DeviceCode],
        tools: Tools,
    ) -> None:
        self.plan, self.own, self.tools, self.launches = plan, states, tools, 0
        self.states = (*states, StateDecl(clock, "auxiliary", Type(shape=(CLOCK,))))
        self.padded = -(-len(plan.states) // QUAD) * QUAD
        self.numbers = (plan.order + 2) * self.padded + CLOCK
        self.constants = Constants(plan)
        began = time.perf_counter()
        self.code = load()
        self.compiling = time.perf_counter() - began
        self.made, self.found = self.code.made, self.code.found
        self.tables = cuda.upload(np.array(tables(plan)))

    @property
    def room(self) -> int:
        """Numbers in the loop states that fit at once."""
        return cuda.available() // (8 * SHARE)

    # --- calls --------------------------------------------------------------------------------
    def blocks(self, members: int) -> int:
        """Blocks of a grid: of threads that run at once, as far as there is memory for what they need."""
        fit = cuda.available() // SHARE // (8 * self.code.scratch * THREADS)
        most = min(cuda.device().processors * RESIDENT // THREADS, fit)
        return max(1, min(-(-members // THREADS), most))

    def workspace(self, blocks: int) -> cuda.Buffer:
        """Nobody keeps it: the next call finds it among what was freed, and so does who needs the memory more."""
        return cuda.Buffer(8 * blocks * THREADS * self.code.scratch)

    def call(self, f: cuda.Function, m: Columns, out: cuda.Buffer, blocks: int, count: int) -> None:
        self.launches += 1
        row, own = (1, 0) if m.alike else (m.state.lanes, 1)
        cuda.launch(
            f,
            blocks,
            THREADS,
            [
                m.state.buffer,
                m.constants,
                self.tables,
                out,
                ctypes.c_double(m.until),
                *whole(count, m.members, m.state.lanes, row, own),
            ],
        )

    # --- what the runtime asks ----------------------------------------------------------------
    def begun(self, state: DeviceRows, params: Mapping[str, Any], members: int, until: float) -> Columns:
        fixed = self.constants(params)
        alike = len(fixed) == 1
        if not alike:
            spread: Any = np.zeros((fixed.shape[1], state.lanes))
            spread[:, :members] = fixed.T
            fixed = spread
        return Columns(state, cuda.upload(fixed), alike, until, members)

    def start(
        self,
        state: Mapping[str, Any],
        params: Mapping[str, Any],
        members: int,
        dt: float,
        t0: float,
        threads: int | None = None,
    ) -> Columns:
        rows = empty(self.numbers, -(-members // WARP) * WARP, np.float64)
        if members:
            cuda.zero(rows.buffer)
        places, at = [], 0
        for s in self.own:
            places.append((s.name, at))
            at += prod(s.type.shape)
        for name, first in (*places, (self.states[-1].name, self.numbers - CLOCK)) if members else ():
            given = state[name]
            if isinstance(given, DeviceArray):
                source: Any = ctypes.c_uint64(given.pointer)
            else:
                source = cuda.upload(np.asarray(given, np.float64))
            self.tools.into_rows(source, rows, first, given.size // members, members)
        return self.begun(rows, params, members, t0)

    def restored(
        self,
        registers: Mapping[str, Any],
        params: Mapping[str, Any],
        members: int,
        dt: float,
        t0: float,
        steps: int,
        threads: int | None = None,
    ) -> Columns:
        rows: Any = np.zeros((self.numbers, -(-members // WARP) * WARP))
        rows[:, :members] = np.asarray(registers["S0"], np.float64).reshape(members, self.numbers).T
        return self.begun(sent(rows), params, members, t0)

    def all_numbers(self, m: Columns) -> Any:
        return np.ascontiguousarray(m.state.numpy()[:, : m.members].T)

    def registers(self, m: Columns) -> dict[str, Any]:
        return {"S0": self.all_numbers(m)}

    def register(self, m: Columns, name: str) -> Any:
        lanes = m.state.lanes
        out: Any = np.empty((CLOCK, lanes))
        return cuda.read(m.state.buffer, out, (self.numbers - CLOCK) * lanes * 8)[:, : m.members].T

    def coefficients(self, m: Columns) -> tuple[Any, Any]:
        """(members, order, numbers), and the error words."""
        rows = self.all_numbers(m)[:, :-CLOCK].reshape(m.members, self.plan.order + 2, self.padded)
        return rows[:, :-1, : len(self.plan.states)], rows[:, -1, : len(self.plan.states)]

    def tell(self, m: Columns, name: str, value: float) -> None:
        m.until = value

    def patience(self, m: Columns, work: float) -> int:
        operations = (
            self.plan.order**2 * sum(len(s.out) for level in self.plan.sums for s in level) * QUAD + 1
        )
        return max(LEAST, int(FASTER * work / (operations * max(m.members, ALONE))))

    def snapshot(self, m: Columns) -> Columns:
        state = m.state.like()
        cuda.copy(m.state.buffer, state.buffer)
        return replace(m, state=state)

    def some(self, m: Columns, members: Sequence[int]) -> Columns:
        constants = m.constants
        if not m.alike:
            own = DeviceRows(
                constants, constants.size // (8 * m.state.lanes), m.state.lanes, np.dtype(np.float64)
            )
            constants = self.tools.gather(own, members).buffer
        return replace(
            m, state=self.tools.gather(m.state, members), constants=constants, members=len(members)
        )

    def overwrite(self, m: Columns, members: Sequence[int], well: int) -> None:
        self.tools.fill(m.state, members, well)

    def advance(self, m: Columns, count: int) -> None:
        if m.members:
            blocks = self.blocks(m.members)
            self.call(self.code.advance, m, self.workspace(blocks), blocks, count)

    def named(self, m: Columns, names: Sequence[str]) -> dict[str, Any]:
        return self.synchronised(m)  # which are all

    def synchronised(self, m: Columns) -> dict[str, Any]:
        return {name: v.numpy() for name, v in self.synchronised_there(m).items()}

    def rows_of(self, m: Columns, name: str) -> tuple[DeviceRows, int]:
        """Where the clock is: its first row of all."""
        return m.state, self.numbers - CLOCK

    def synchronised_there(self, m: Columns) -> dict[str, DeviceArray]:
        out = empty(self.padded, m.state.lanes, np.float64)
        if m.members:
            self.call(self.code.look, m, out.buffer, -(-m.members // THREADS), 0)
        found, at = {}, 0
        for s in self.own:
            size = prod(s.type.shape)
            there = self.tools.into_members(out, at, size, m.members)
            found[s.name] = DeviceArray(there.pointer, (m.members, *s.type.shape), np.float64, there)
            at += size
        return found
