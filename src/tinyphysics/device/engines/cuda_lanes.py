"""How does a kernel run an ensemble on a GPU?  As in device/engines/engine.py, with all that a loop carries there.

Rows of components, members as lanes, a thread for each chunk of them. Only what somebody looks at comes back: frames,
observables, a word that says whether any number is none.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tinyphysics.device.cuda import driver as cuda
from tinyphysics.device.cuda import nvptx
from tinyphysics.device.cuda.dlpack import DeviceArray
from tinyphysics.device.cuda.tuning import ThreadLayout, Tuner
from tinyphysics.device.engines.engine import LEAST_BLOCK, Arrays, LaneEngine, LaneState, observed, parameters
from tinyphysics.device.numbers import LOST, NUMPY_DTYPE
from tinyphysics.target import PORTABLE, Seed, VectorShape
from tinyphysics.tpir.kernels.extremes import ExtremesOf
from tinyphysics.util import prod

THREADS = 128  # of a block: many blocks are there for every processor, and the last ones wait for little
WAVES = 32  # blocks of a grid for each processor at most; then threads take further chunks
BLOCK_WORK = 1e11  # operations in a block of time: some tens of milliseconds
FASTER = 2500  # operations in the time that a core of a processor has for one
ALONE = 10_000  # members that take no longer than one: a thread has no more than its own speed
ROWS_BYTES = 2e8  # of observables that one call fills
SHARE = 8  # part of the free memory that the loop states of a tile may have: copies and frames need some, too
KINDS = {"float64": "f64", "float32": "f32", "int64": "i64", "uint64": "i64", "int32": "i32", "uint32": "i32"}


@dataclass
class DeviceRows:
    """Numbers on the device: rows of lanes."""

    buffer: cuda.Buffer
    rows: int
    lanes: int
    dtype: Any

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows, self.lanes

    @property
    def word(self) -> str:
        return f"i{8 * self.dtype.itemsize}"

    def numpy(self) -> Any:
        return cuda.read(self.buffer, np.empty(self.shape, self.dtype))

    def clear(self, first: int, count: int) -> None:
        """So many rows from the first on become zeros."""
        row = self.lanes * self.dtype.itemsize
        cuda.fill_at(self.buffer.pointer + first * row, 0, count * row)

    def like(self) -> DeviceRows:
        return replace(self, buffer=cuda.Buffer(self.buffer.size))


def empty(rows: int, lanes: int, dtype: Any) -> DeviceRows:
    kind = np.dtype(dtype)
    return DeviceRows(cuda.Buffer(rows * lanes * kind.itemsize), rows, lanes, kind)


def sent(a: Any) -> DeviceRows:
    """Rows of this machine."""
    rows, lanes = a.shape
    return DeviceRows(cuda.upload(a), rows, lanes, a.dtype)


def grid(chunks: int, threads: int | None = None) -> int:
    """Blocks for so many chunks."""
    one = threads or THREADS
    return max(1, min(-(-chunks // one), cuda.device().processors * WAVES * THREADS // one))


def is_blank(v: Any) -> bool:
    """Is it zeros that take no memory, and need not be sent?"""
    return isinstance(v, np.ndarray) and v.size > 1 and not any(v.strides) and not any(v[:1].tobytes())


def whole(*numbers: int) -> list[Any]:
    return [ctypes.c_int64(n) for n in numbers]


class Tools:
    """The small kernels that every run needs (emit/scalar/ptx_tools.py)."""

    def __init__(self, text: str, names: Sequence[str]) -> None:
        functions, _ = cuda.load(nvptx.ptx(text, cuda.device().capability)[0], names)
        self.function = dict(zip(names, functions))
        self.layouts: dict[tuple[tuple[int, ...], ...], cuda.Buffer] = {}  # shapes and strides that are there

    def launch(self, name: str, count: int, *args: Any) -> None:
        cuda.launch(self.function[name], grid(count), THREADS, args)

    def any(self, marks: cuda.Buffer, count: int) -> bool:
        word = cuda.zero(cuda.Buffer(4))
        self.launch("any", count, marks, word, *whole(count))
        return bool(cuda.read(word, np.zeros(1, np.int32))[0])

    def bad(self, rows: DeviceRows, members: int) -> list[int]:
        """The members with a number that is none."""
        if not members:
            return []
        marks, word = cuda.zero(cuda.Buffer(members)), cuda.zero(cuda.Buffer(4))
        kind = KINDS[rows.dtype.name]
        self.launch(
            f"bad_{kind}", members, rows.buffer, *whole(rows.rows, rows.lanes, members, LOST), marks, word
        )
        if not cuda.read(word, np.zeros(1, np.int32))[0]:
            return []
        return np.flatnonzero(cuda.read(marks, np.zeros(members, np.int8))).tolist()

    def gather(self, source: DeviceRows, which: Sequence[int]) -> DeviceRows:
        out = empty(source.rows, len(which), source.dtype)
        chosen = cuda.upload(np.array(which, np.int64))
        self.launch(
            f"gather_{source.word}",
            len(which),
            source.buffer,
            *whole(source.lanes),
            out.buffer,
            *whole(out.lanes),
            chosen,
            *whole(source.rows, len(which)),
        )
        return out

    def fill(self, rows: DeviceRows, which: Sequence[int], well: int) -> None:
        chosen = cuda.upload(np.array(which, np.int64))
        self.launch(
            f"fill_{rows.word}",
            len(which),
            rows.buffer,
            *whole(rows.lanes),
            chosen,
            *whole(well, rows.rows, len(which)),
        )

    def planes(self, array: DeviceArray, planes: cuda.Buffer, strides: Sequence[int], into: bool) -> None:
        """An array into a buffer of loop nests, or out of one; strides are those of the buffer (emit/scalar/ptx_moves.py)."""
        if not array.size:
            return
        word, own = f"i{8 * array.itemsize}", ctypes.c_uint64(array.pointer)
        known = array.shape, tuple(strides)
        if known not in self.layouts:
            self.layouts[known] = cuda.upload(np.array([known], np.int64)) if array.ndim else cuda.Buffer(8)
        layout = self.layouts[known]
        second = ctypes.c_uint64(layout.pointer + 8 * array.ndim)
        self.launch(
            f"{'into' if into else 'from'}_{word}",
            array.size,
            *((own, planes) if into else (planes, own)),
            layout,
            second,
            *whole(array.ndim, array.size),
        )

    def into_rows(self, source: Any, out: DeviceRows, first: int, numbers: int, members: int) -> None:
        """(members, numbers) into rows from the first on; the last member fills up their lanes."""
        at = ctypes.c_uint64(out.buffer.pointer + first * out.lanes * out.dtype.itemsize)
        self.launch(f"rows_{out.word}", out.lanes, source, at, *whole(members, numbers, out.lanes))

    def into_members(self, source: DeviceRows, first: int, numbers: int, members: int) -> cuda.Buffer:
        """Rows from the first on as (members, numbers)."""
        out = cuda.Buffer(members * numbers * source.dtype.itemsize)
        at = ctypes.c_uint64(source.buffer.pointer + first * source.lanes * source.dtype.itemsize)
        self.launch(f"members_{source.word}", members, at, out, *whole(members, numbers, source.lanes))
        return out


@dataclass
class OnDevice(LaneState):
    """A run between two blocks; `uniform` and `varying` are there, too."""

    shared: Any = None  # `uniform` of this machine
    form: ThreadLayout = ThreadLayout(1, THREADS)


class CudaEngine(LaneEngine):
    """An engine (runtime/engines/engine.py)."""

    def __init__(
        self,
        program: Any,
        loader: Any,
        tools: Tools,
        probe: Any = None,
        kernel: Any = None,
        seed: Seed = PORTABLE,
        extremes: ExtremesOf | None = None,
        record: bool = False,
    ) -> None:
        super().__init__(program, loader, probe, 1, kernel, seed, extremes, record)
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
        assert isinstance(m, OnDevice)
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
        m: OnDevice,
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
            grid(source.lanes // shape.lanes, m.form.threads),
            m.form.threads,
            [
                source.buffer,
                out.buffer,
                m.uniform,
                m.varying,
                marks,
                series,
                *whole(0, source.lanes, source.lanes, m.steps, rows, stride),
            ],
        )

    def function(
        self, name: str, careful: bool, m: LaneState, quick: VectorShape | None
    ) -> tuple[Any, VectorShape]:
        assert isinstance(m, OnDevice)
        known = (name, careful, m.mask, m.form.members)
        if known not in self._ready:
            self._ready[known] = self.loaded(name, careful, m, None)
        return self._ready[known]

    def shape_of(self, m: LaneState, loops: bool) -> VectorShape:
        assert isinstance(m, OnDevice)
        return VectorShape(1, m.form.members if loops else 1)

    # --- how members lie there (device/cuda/tuning.py) ------------------------------------------
    @property
    def loop(self) -> str:
        return "watch" if self.kernel.watched else "step"

    def estimate(self, members: int) -> ThreadLayout:
        return ThreadLayout(self.shape(members).lanes, THREADS)

    def expect(self, members: int, steps: int) -> None:
        """A run of so many steps is about to begin."""
        self.tuner.expect(members, steps)

    def told(self, members: int) -> dict[str, Any]:
        """How so many members lay there last, for out.metrics."""
        return self.tuner.told(members)

    def trial(self, m: OnDevice, steps: int) -> Callable[[ThreadLayout], float]:
        """A function of forms: the milliseconds that so many steps take in one, on a copy of the loop state."""
        there, timer, k = m.carried.like(), cuda.Timer(), self.kernel
        marks = cuda.zero(cuda.Buffer(m.carried.lanes))
        series = cuda.Buffer(8 * len(k.watched) * m.carried.lanes) if k.watched else None
        rows, stride = (1, steps) if k.watched else (steps, 1)

        def milliseconds(form: ThreadLayout) -> float:
            other = replace(m, form=form)
            self.function(self.loop, False, other, None)  # is made before the clock runs
            cuda.copy(m.carried.buffer, there.buffer)
            with timer:
                self.launched(self.loop, False, other, there, there, marks, series, rows, stride)
            return timer.milliseconds

        return milliseconds

    # --- what the runtime asks ----------------------------------------------------------------
    def block(self, members: int) -> int:
        return max(64, int(BLOCK_WORK / (self.kernel.section("step").operations * max(members, THREADS) + 1)))

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

    def begun(
        self, carried: DeviceRows, params: Arrays, members: int, dt: float, t0: float, steps: int
    ) -> OnDevice:
        uniform, varying, mask = parameters(self.kernel.params, params, dt, t0, members, carried.lanes)
        there = None if varying is None else cuda.upload(varying)
        return OnDevice(
            carried,
            steps,
            members,
            cuda.upload(uniform),
            there,
            mask,
            None,
            uniform,
            self.tuner.form(members, mask),
        )

    def start(
        self, state: Arrays, params: Arrays, members: int, dt: float, t0: float, threads: int | None = None
    ) -> OnDevice:
        k, lanes = self.kernel, self.lanes(members)
        dtype: Any = NUMPY_DTYPE[k.inputs[0].dtype.name] if k.inputs else np.float64
        m = self.begun(empty(len(k.carried), lanes, dtype), params, members, dt, t0, 0)
        if members:
            source, at = empty(len(k.inputs), lanes, dtype), 0
            for v in state.values():
                size = prod(np.shape(v)) // members
                if is_blank(v):
                    source.clear(at, size)
                else:
                    there = (
                        ctypes.c_uint64(v.pointer)
                        if isinstance(v, DeviceArray)
                        else cuda.upload(np.asarray(v, dtype))
                    )
                    self.tools.into_rows(there, source, at, size, members)
                at += size
            self.call("init", m, source, m.carried, 1)
            if k.has("enter"):
                self.call("enter", m, m.carried, m.carried, 1)
        return m

    def held(self, m: LaneState) -> Any:
        return m.carried.numpy()[:, : m.members]

    def resume(
        self,
        rows: Sequence[Any],
        params: Arrays,
        members: int,
        dt: float,
        t0: float,
        steps: int,
        threads: int | None,
    ) -> OnDevice:
        carried: Any = np.empty((len(rows), self.lanes(members)), rows[0].dtype)
        for k, row in enumerate(rows):
            carried[k, :members], carried[k, members:] = row, row[-1]
        return self.begun(sent(carried), params, members, dt, t0, steps)

    def registers(self, m: LaneState) -> dict[str, Any]:
        here = self.held(m)
        return {name: np.ascontiguousarray(here[rows].T) for name, rows in self.places.items()}

    def tell(self, m: LaneState, name: str, value: float) -> None:
        assert isinstance(m, OnDevice)
        m.shared = m.shared.copy()
        m.shared[next(k for k, p in enumerate(self.kernel.params) if str(p.arg) == f"${name}")] = value
        m.uniform = cuda.upload(m.shared)

    def register(self, m: LaneState, name: str) -> Any:
        rows, lanes = self.places[name], m.carried.lanes
        out = np.empty((rows.stop - rows.start, lanes), m.carried.dtype)
        return cuda.read(m.carried.buffer, out, rows.start * lanes * out.itemsize)[:, : m.members].T

    def rows_of(self, m: LaneState, name: str) -> tuple[DeviceRows, int]:
        """Where a register is: its first row of all."""
        return m.carried, self.places[name].start

    def snapshot(self, m: LaneState) -> LaneState:
        copy = m.carried.like()
        cuda.copy(m.carried.buffer, copy.buffer)
        return replace(m, carried=copy)

    def some(self, m: LaneState, members: Sequence[int]) -> LaneState:
        assert isinstance(m, OnDevice)
        who = [*members, *[members[-1]] * (-len(members) % m.form.members)]
        varying = m.varying
        if varying is not None:
            rows = len(self.kernel.params)
            whole_rows = DeviceRows(
                varying, rows, m.carried.lanes, np.dtype(f"f{varying.size // (rows * m.carried.lanes)}")
            )
            varying = self.tools.gather(whole_rows, who).buffer
        return replace(m, carried=self.tools.gather(m.carried, who), members=len(who), varying=varying)

    def overwrite(self, m: LaneState, members: Sequence[int], well: int) -> None:
        self.tools.fill(m.carried, members, well)

    def watch(self, m: LaneState, rows: int, stride: int) -> dict[str, Any]:
        k, lanes = self.kernel, m.carried.lanes
        if not k.has("look"):
            return observed(self.seen_in_loop(m, rows, stride), k.observed, m.members)
        width = sum(prod(shape) for _, shape in k.observed.values())
        series: Any = np.empty((rows, width, lanes))
        out = empty(width, lanes, np.float64)
        for row in series:
            self.advance(m, stride)
            self.call("look", m, self.left(m), out, 1)
            cuda.read(out.buffer, row)
        return observed(series, k.observed, m.members)

    def seen_in_loop(self, m: LaneState, rows: int, stride: int) -> Any:
        series: Any = np.empty((rows, len(self.kernel.watched), m.carried.lanes))
        there = cuda.Buffer(series.nbytes)
        self.call("watch", m, m.carried, m.carried, rows, stride, there)
        m.steps += rows * stride
        return cuda.read(there, series)

    def bad(self, m: LaneState) -> list[int]:
        return self.tools.bad(replace(m.carried, rows=self.moved), m.members)

    def first_bad(self, m: LaneState, k: int) -> tuple[str, int] | None:
        return self.bad_place(self.tools.gather(m.carried, [k]).numpy()[:, 0])

    def left(self, m: LaneState) -> Any:
        if not self.kernel.has("leave"):
            return m.carried
        out = m.carried.like()
        self.call("leave", m, m.carried, out, 1)
        return out

    def named(self, m: LaneState, names: Sequence[str]) -> dict[str, Any]:
        return {name: a.numpy() for name, a in self.synchronised_there(m).items() if name in names}

    def synchronised_there(self, m: LaneState) -> dict[str, DeviceArray]:
        """Each output on the device, (members, shape...)."""
        k = self.kernel
        dtype = NUMPY_DTYPE[next(iter(k.outputs.values()))[0].name]
        rows = empty(sum(prod(shape) for _, shape in k.outputs.values()), m.carried.lanes, dtype)
        self.call("final", m, self.left(m), rows, 1)
        out, at = {}, 0
        for name, (_, shape) in k.outputs.items():
            there = self.tools.into_members(rows, at, prod(shape), m.members)
            out[name] = DeviceArray(there.pointer, (m.members, *shape), dtype, there)
            at += prod(shape)
        return out
