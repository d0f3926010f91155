"""How does a Taylor step in loops run on a GPU?  A thread for each member, each with as many steps as its own clock wants.

What is kept of a member (device/engines/series.py) is there a column of rows. What a thread needs while it goes along the
orders is memory of the device, too, for as many threads as run at once: rows of a warp, one warp after another.
"""

from __future__ import annotations

import ctypes
from typing import Any

from tinyphysics.device.cuda import driver as cuda
from tinyphysics.device.cuda.rows import SHARE, whole
from tinyphysics.device.engines.series import SeriesState

WARP = 32
THREADS = 64  # of a block: a warp waits for the slowest of its members, and other blocks for neither
RESIDENT = 256  # threads of a processor at once: what they keep is larger than any cache, and more would not be faster


class SeriesStream:
    """A launcher of series on a GPU: how threads are launched, and how much fits."""

    faster, alone = 250, 4096  # a thread has no more than its own speed

    @property
    def room(self) -> int:
        return cuda.available() // (8 * SHARE)

    def lanes(self, members: int) -> int:
        return -(-members // WARP) * WARP

    def blocks(self, members: int, scratch: int) -> int:
        """Blocks of a grid: of threads that run at once, as far as there is memory for what they need."""
        fit = cuda.available() // SHARE // (8 * scratch * THREADS)
        most = int(min(cuda.device().processors * RESIDENT // THREADS, fit))
        return max(1, min(-(-members // THREADS), most))

    def workspace(self, blocks: int, scratch: int) -> cuda.Buffer:
        """It is not kept: the next call finds it among what was freed, and so does a run that needs the memory more."""
        return cuda.Buffer(8 * blocks * THREADS * scratch)

    def run(self, f: cuda.Function, scratch: int, m: SeriesState, tables: Any, count: int, out: Any) -> None:
        """Steps need room for every thread; to look at the states, what comes out."""
        blocks = self.blocks(m.members, scratch) if out is None else -(-m.members // THREADS)
        into = self.workspace(blocks, scratch) if out is None else out.buffer
        row, own = (1, 0) if m.alike else (m.state.lanes, 1)
        given = [m.state.buffer, m.constants.buffer, tables.buffer, into, ctypes.c_double(m.until)]
        cuda.launch(f, blocks, THREADS, [*given, *whole(count, m.members, m.state.lanes, row, own)])
