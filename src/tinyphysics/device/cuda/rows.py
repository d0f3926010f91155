"""How do numbers of members lie in rows on a GPU?  As here (device/host/rows.py), in memory of the device of a thread.

Only what is looked at comes back: frames, observables, a word that says whether any number is none.
"""

from __future__ import annotations

import ctypes
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tinyphysics.device.cuda import driver as cuda
from tinyphysics.device.cuda import nvptx
from tinyphysics.device.cuda.dlpack import DeviceArray
from tinyphysics.device.cuda.dlpack import sent as sent_array
from tinyphysics.device.host.rows import Arrays, Outputs, as_rows, unpacked
from tinyphysics.device.numbers import LOST, NUMPY_DTYPE
from tinyphysics.util import prod

THREADS = 128  # of a block: many blocks are there for every processor, and the last ones wait for little
WAVES = 32  # blocks of a grid for each processor at most; then threads take further chunks
PARTIAL = 4096  # threads that look for the smallest and the largest number of a row
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

    def __getitem__(self, rows: slice) -> DeviceRows:
        """The first rows, in the same place."""
        return replace(self, rows=rows.stop)

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


def grid(chunks: int, threads: int | None = None, waves: int | None = None) -> int:
    """Blocks for so many chunks."""
    one = threads or THREADS
    return max(1, min(-(-chunks // one), cuda.device().processors * (waves or WAVES) * THREADS // one))


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

    def extremes(self, rows: DeviceRows, first: int, end: int, members: int) -> Any:
        """(2, rows) the smallest and the largest number of each, none of which is negative."""
        threads = min(members, PARTIAL)
        found = cuda.Buffer(2 * (end - first) * threads * 8)
        for k in range(end - first):
            row, least, most = (
                ctypes.c_uint64(x)
                for x in (
                    rows.buffer.pointer + (first + k) * rows.lanes * 8,
                    found.pointer + 2 * k * threads * 8,
                    found.pointer + (2 * k + 1) * threads * 8,
                )
            )
            blocks = -(-threads // THREADS)
            cuda.launch(self.function["extremes"], blocks, THREADS, [row, least, most, *whole(members)])
        here = cuda.read(found, np.empty((end - first, 2, threads), np.int64))
        return np.stack([here[:, 0].min(axis=1), here[:, 1].max(axis=1)]).view(np.float64)

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


class CudaMemory:
    """Rows of the device of a thread (device/protocols.py: Memory)."""

    there = True

    def __init__(self, tools: Tools) -> None:
        self.tools = tools

    def empty(self, shape: Sequence[int], dtype: Any) -> DeviceRows:
        return empty(prod(shape[:-1]), shape[-1], dtype)

    def put(self, a: Any) -> DeviceRows:
        return sent(a if a.ndim > 1 else a[None])

    def get(self, rows: DeviceRows, first: int = 0, end: int | None = None) -> Any:
        count = (rows.rows if end is None else end) - first
        here = np.empty((count, rows.lanes), rows.dtype)
        return cuda.read(rows.buffer, here, first * rows.lanes * here.itemsize) if here.size else here

    def copy(self, rows: DeviceRows) -> DeviceRows:
        new = rows.like()
        cuda.copy(rows.buffer, new.buffer)
        return new

    def take(self, rows: DeviceRows, members: Sequence[int]) -> DeviceRows:
        return self.tools.gather(rows, members)

    def fill(self, rows: DeviceRows, members: Sequence[int], well: int) -> None:
        self.tools.fill(rows, members, well)

    def bad(self, rows: DeviceRows, members: int) -> list[int]:
        return self.tools.bad(rows, members)

    def extremes(self, rows: DeviceRows, first: int, end: int, members: int, largest: Any) -> Any:
        least, most = self.tools.extremes(rows, first, end, members)
        return np.where(largest, most, least)

    def encode(self, arrays: Arrays, numbers: int, members: int, lanes: int, dtype: Any) -> DeviceRows:
        rows, at = empty(numbers, lanes, dtype), 0
        for v in arrays.values():
            size = prod(np.shape(v)) // members
            if is_blank(v):
                rows.clear(at, size)
            else:
                self.tools.into_rows(on_device(v, dtype), rows, at, size, members)
            at += size
        return rows

    def decode(
        self, rows: DeviceRows, outputs: Outputs, members: int, names: Collection[str], mixed: bool
    ) -> dict[str, Any]:
        found = self.arrays(rows, outputs, members, mixed)
        return {name: a.numpy() for name, a in found.items() if name in names}

    def arrays(
        self, rows: DeviceRows, outputs: Outputs, members: int, mixed: bool = False
    ) -> dict[str, DeviceArray]:
        """The same on the device."""
        if mixed and any(kind.bits != 8 * rows.dtype.itemsize for kind, _ in outputs.values()):
            found = unpacked(rows.numpy(), outputs, members, list(outputs))
            return {name: sent_array(a) for name, a in found.items()}
        out, at = {}, 0
        for name, (kind, shape) in outputs.items():
            there = self.tools.into_members(rows, at, prod(shape), members)
            dtype = NUMPY_DTYPE[kind.name] if mixed else rows.dtype
            out[name] = DeviceArray(there.pointer, (members, *shape), dtype, there)
            at += prod(shape)
        return out


def on_device(v: Any, dtype: Any) -> Any:
    """Where an array is there; one of this machine is sent."""
    if isinstance(v, DeviceArray):
        return ctypes.c_uint64(v.pointer)
    return cuda.upload(np.asarray(as_rows(np.asarray(v), dtype), dtype))
