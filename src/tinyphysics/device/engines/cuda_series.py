"""How does a Taylor step in loops run on a GPU?  A thread for each member, each with as many steps as its own clock wants.

What is kept of a member (device/engines/series.py) is there a column of rows. What a thread needs while it goes along the
orders is memory of the device, too, for as many threads as run at once: rows of a warp, one warp after another.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tinyphysics.device.cuda import driver as cuda
from tinyphysics.device.cuda.dlpack import DeviceArray
from tinyphysics.device.cuda.rows import SHARE, CudaMemory, DeviceRows, Tools, whole
from tinyphysics.device.engines.series import SeriesEngine, SeriesState
from tinyphysics.device.protocols import CLOCK, Code
from tinyphysics.rules.calculus.series import SeriesPlan
from tinyphysics.tpir.program.isa import StateDecl

WARP = 32
THREADS = 64  # of a block: a warp waits for the slowest of its members, and other blocks for neither
RESIDENT = 256  # threads of a processor at once: what they keep is larger than any cache, and more would not be faster


class CudaSeriesEngine(SeriesEngine):
    """What is special there: how threads are launched, and how much fits."""

    faster, alone = 250, 4096  # a thread has no more than its own speed
    memory: CudaMemory

    def __init__(
        self,
        plan: SeriesPlan,
        states: Sequence[StateDecl],
        clock: str,
        load: Callable[[], Code],
        tools: Tools,
    ) -> None:
        super().__init__(plan, states, clock, load, 1, CudaMemory(tools))

    @property
    def room(self) -> int:
        """Numbers in the loop states that fit at once."""
        return cuda.available() // (8 * SHARE)

    def sent(self, numbers: Any) -> DeviceRows:
        return self.memory.put(numbers)

    def lanes(self, members: int) -> int:
        return -(-members // WARP) * WARP

    def blocks(self, members: int) -> int:
        """Blocks of a grid: of threads that run at once, as far as there is memory for what they need."""
        fit = cuda.available() // SHARE // (8 * self.code.scratch * THREADS)
        most = int(min(cuda.device().processors * RESIDENT // THREADS, fit))
        return max(1, min(-(-members // THREADS), most))

    def workspace(self, blocks: int) -> cuda.Buffer:
        """It is not kept: the next call finds it among what was freed, and so does a run that needs the memory more."""
        return cuda.Buffer(8 * blocks * THREADS * self.code.scratch)

    def call(self, f: cuda.Function, m: SeriesState, out: cuda.Buffer, blocks: int, count: int) -> None:
        self.launches += 1
        row, own = (1, 0) if m.alike else (m.state.lanes, 1)
        given = [m.state.buffer, m.constants.buffer, self.tables.buffer, out, ctypes.c_double(m.until)]
        cuda.launch(f, blocks, THREADS, [*given, *whole(count, m.members, m.state.lanes, row, own)])

    def advance(self, m: SeriesState, count: int) -> None:
        if m.members:
            blocks = self.blocks(m.members)
            self.call(self.code.advance, m, self.workspace(blocks), blocks, count)

    def looked(self, m: SeriesState) -> DeviceRows:
        out = self.memory.empty((self.padded, m.state.lanes), np.float64)
        if m.members:
            self.call(self.code.look, m, out.buffer, -(-m.members // THREADS), 0)
        return out

    def rows_of(self, m: SeriesState, name: str) -> tuple[DeviceRows, int]:
        """Where the clock is: its first row of all."""
        return m.state, self.numbers - CLOCK

    def synchronised_there(self, m: SeriesState) -> dict[str, DeviceArray]:
        return self.memory.arrays(self.looked(m), self.outputs, m.members)
