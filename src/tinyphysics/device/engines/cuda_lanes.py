"""How does a kernel run an ensemble on a GPU?  As in device/engines/engine.py, with all that a loop carries there.

A thread for each chunk of members. Here is how sections are launched, and how members lie on threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tinyphysics.device.cuda import driver as cuda
from tinyphysics.device.cuda import rows as there
from tinyphysics.device.cuda.dlpack import DeviceArray
from tinyphysics.device.cuda.rows import SHARE, CudaMemory, DeviceRows, Tools, empty, grid, on_device, whole
from tinyphysics.device.cuda.tuning import ThreadLayout, Tuner
from tinyphysics.device.engines.engine import LEAST_BLOCK, Arrays, LaneEngine, LaneState
from tinyphysics.device.numbers import NUMPY_DTYPE
from tinyphysics.target import VectorShape
from tinyphysics.tpir.kernels.kernel import BESIDE
from tinyphysics.tpir.kernels.nearest import BEFORE

BLOCK_WORK = 8e11  # operations in a block of time: some tens of milliseconds, in which little is looked at
FASTER = 2500  # operations in the time that a core of a processor has for one
ALONE = 10_000  # members that take no longer than one: a thread has no more than its own speed
STEPS = 4  # of a pass of a loop, where they are short: what counts passes takes the place of operations
LONG = 16  # steps of a launch that take longer than what a thread does before them
MANY = (
    1 << 14
)  # blocks of its grid: no thread has a second chunk while the last blocks leave processors without work
ROWS_BYTES = 2e8  # of observables that one call fills


class CudaEngine(LaneEngine):
    """What is special there: how sections are launched, how members lie on threads, how much fits."""

    def __init__(self, program: Any, kernel: Any, loader: Any, tools: Tools) -> None:
        super().__init__(program, kernel, loader, 1, CudaMemory(tools))
        self.tools = tools
        self.tuner = Tuner(self)

    @property
    def room(self) -> int:  # type: ignore[override]
        """Numbers in the loop states that fit at once."""
        return cuda.available() // (8 * SHARE)

    # --- calls --------------------------------------------------------------------------------
    def call(
        self, name: str, m: LaneState, source: Any, out: Any, rows: int, stride: int = 1, series: Any = None
    ) -> None:
        """One section on every member; those whose guard fires again, carefully."""
        if not m.members:
            return
        if name == self.loop:
            m.form = self.tuner.tuned(m, rows * stride)
        guarded: bool = self.guarded(name, m)
        marks = cuda.Buffer(source.lanes)
        if guarded:
            cuda.zero(marks)
        for careful in (False, True):
            self.launched(name, careful, m, source, out, marks, series, rows, stride)
            if careful or not guarded or not self.tools.any(marks, source.lanes):
                return

    def guarded(self, name: str, m: LaneState) -> bool:
        self.function(name, False, m, None)
        return bool(self.loader.guarded[name])  # type: ignore[attr-defined]

    def launched(
        self,
        name: str,
        careful: bool,
        m: LaneState,
        source: DeviceRows,
        out: DeviceRows,
        marks: Any,
        series: Any,
        rows: int,
        stride: int,
    ) -> None:
        f, shape = self.function(name, careful, m, None)
        self.launches += 1
        cuda.launch(
            f,
            grid(source.lanes // shape.lanes, m.form.threads, MANY if rows * stride >= LONG else None),
            m.form.threads,
            [
                source.buffer,
                out.buffer,
                *(None if a is None else a.buffer for a in (m.shared, m.varying)),
                marks,
                None if series is None else series.buffer,
                *whole(0, source.lanes, source.lanes, m.steps, rows, stride),
            ],
        )

    def function(
        self, name: str, careful: bool, m: LaneState, quick: VectorShape | None
    ) -> tuple[Any, VectorShape]:
        known = (name, careful, m.mask, m.form.members)
        if known not in self._ready:
            self._ready[known] = self.loaded(name, careful, m, None)
        return self._ready[known]

    def shape_of(self, m: LaneState, loops: bool) -> VectorShape:
        return VectorShape(1, m.form.members if loops else 1, words=loops, steps=STEPS if loops else 1)

    # --- how members lie there (device/cuda/tuning.py) ------------------------------------------
    @property
    def loop(self) -> str:
        return "watch" if self.kernel.watched else "step"

    def estimate(self, members: int) -> ThreadLayout:
        return ThreadLayout(self.shape(members).lanes, there.THREADS)

    def expect(self, members: int, steps: int) -> None:
        """A run of so many steps is about to begin."""
        self.tuner.expect(members, steps)

    def told(self, members: int) -> dict[str, Any]:
        """How so many members lay there last, for out.metrics."""
        return self.tuner.told(members)

    def trial(self, m: LaneState, steps: int) -> Callable[[ThreadLayout], float]:
        """A function of forms: the milliseconds that so many steps take in one, on a copy of the loop state."""
        other_rows, timer, k = m.carried.like(), cuda.Timer(), self.kernel
        marks = cuda.zero(cuda.Buffer(m.carried.lanes))
        series = empty(len(k.watched), m.carried.lanes, np.float64) if k.watched else None
        rows, stride = (1, steps) if k.watched else (steps, 1)

        def milliseconds(form: ThreadLayout) -> float:
            other = replace(m, form=form)
            self.function(self.loop, False, other, None)  # is made before the clock runs
            cuda.copy(m.carried.buffer, other_rows.buffer)
            with timer:
                self.launched(self.loop, False, other, other_rows, other_rows, marks, series, rows, stride)
            return timer.milliseconds

        return milliseconds

    # --- what the runtime asks ----------------------------------------------------------------
    def block(self, members: int) -> int:
        return max(64, int(BLOCK_WORK / (self.kernel.section("step").operations * max(members, ALONE) + 1)))

    def patience(self, m: LaneState, work: float) -> int:
        """Steps of so many operations, in the time that a processor needs for them."""
        return max(
            LEAST_BLOCK,
            int(FASTER * work / (self.kernel.section("step").operations * max(m.members, ALONE) + 1)),
        )

    def rows(self, m: LaneState) -> int:
        return max(1, int(ROWS_BYTES // (8 * max(len(self.kernel.watched), 1) * m.carried.lanes)))

    def lanes(self, members: int) -> int:
        one = math.lcm(*self.tuner.possible(members))  # every form that the run may have divides the lanes
        return -(-members // one) * one

    def at_once(self, m: LaneState) -> int:
        return int(m.form.members)

    def layout(self, members: int, mask: tuple[bool, ...]) -> ThreadLayout:
        return self.tuner.form(members, mask)

    def rows_of(self, m: LaneState, name: str) -> tuple[DeviceRows, int]:
        """Where a register is: its first row of all."""
        return m.carried, self.places[name].start

    def on_rows(self, m: LaneState, which: Sequence[int], by: CudaEngine, one: LaneState) -> None:
        """A step of another loop, of as many lanes, on some rows of this one: nothing leaves the device."""
        row = m.carried.lanes * m.carried.dtype.itemsize
        spans = spans_of(which)
        for back in (False, True):
            for at, k, count in spans:
                own, other = m.carried.buffer.pointer + k * row, one.carried.buffer.pointer + at * row
                cuda.between(*((own, other) if back else (other, own)), count * row)
            if not back:
                by.advance(one, 1)

    # --- registers that stay there (runtime/measure/loop_numbers.py) ------------------------------
    @property
    def keeps_there(self) -> bool:
        """Can all registers be arrays of the device?  Not where a row has more bits than its numbers."""
        bits = self.kernel.carried[0].dtype.bits if self.kernel.carried else 0
        return bool(bits) and all(kind.bits == bits for kind in self.kernel.kinds)

    def own_places(self) -> dict[str, slice]:
        return {name: rows for name, rows in self.places.items() if name not in (BEFORE, *BESIDE)}

    def registers_there(self, m: LaneState) -> dict[str, DeviceArray]:
        """A copy of all that the loop carries, by the names of the program: (members, numbers)."""
        kinds, out = self.kernel.kinds, {}
        for name, rows in self.own_places().items():
            count = rows.stop - rows.start
            there = self.tools.into_members(m.carried, rows.start, count, m.members)
            dtype = NUMPY_DTYPE[kinds[rows.start].name] if kinds else m.carried.dtype
            out[name] = DeviceArray(there.pointer, (m.members, count), dtype, there)
        return out

    def restored(
        self, registers: Arrays, params: Arrays, members: int, dt: float, t0: float, steps: int,
        threads: int | None = None,
    ) -> LaneState:  # fmt: skip
        if not all(isinstance(registers.get(name), DeviceArray) for name in self.places):
            given = {name: v.numpy() if isinstance(v, DeviceArray) else v for name, v in registers.items()}
            return super().restored(given, params, members, dt, t0, steps, threads)
        carried = self.memory.empty((self.numbers, self.lanes(members)), self.row_type)
        m = self.begun(carried, params, members, dt, t0, steps, threads)
        self.refill(m, registers, steps)
        return m

    @property
    def row_type(self) -> Any:
        return NUMPY_DTYPE[self.kernel.carried[0].dtype.name]

    def refill(self, m: LaneState, registers: Arrays, steps: int) -> bool:
        """Other registers in a loop that is there."""
        if len(self.own_places()) < len(self.places):
            return False
        for name, rows in self.places.items():
            source = on_device(registers[name], self.row_type)
            self.tools.into_rows(source, m.carried, rows.start, rows.stop - rows.start, m.members)
        m.steps = steps
        return True

    def synchronised_there(self, m: LaneState) -> dict[str, DeviceArray]:
        """Each output on the device, (members, shape...)."""
        k, memory = self.kernel, self.memory
        assert isinstance(memory, CudaMemory)
        return memory.arrays(self.final(m), k.outputs, m.members, bool(k.kinds))


def spans_of(which: Sequence[int]) -> list[tuple[int, int, int]]:
    """Rows that lie one after the other: (where among them, the first, how many)."""
    cuts = [k for k in range(1, len(which)) if which[k] != which[k - 1] + 1]
    return [(a, which[a], b - a) for a, b in zip([0, *cuts], [*cuts, len(which)])]
