"""What is done with arrays that lie on a GPU?  Words of a precision, their values, hashes, and whether they are finite."""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any

import numpy as np

from tinyphysics.device.cuda import dlpack as exchange
from tinyphysics.device.cuda import driver as cuda
from tinyphysics.device.cuda.dlpack import DeviceArray
from tinyphysics.device.cuda.rows import KINDS, DeviceRows, Tools, whole
from tinyphysics.device.numbers import LOST, NUMPY_DTYPE
from tinyphysics.emit.scalar import ptx_leaves, ptx_moves, ptx_tools
from tinyphysics.errors import InputError
from tinyphysics.ir.dtype import f32, f64
from tinyphysics.tpir.precision.lattice import RANGE
from tinyphysics.tpir.precision.precision import PRECISIONS, Precision

# threads of a block that hashes: a thread has long to do, and blocks are on processors of their own
WARP = 32


@lru_cache(maxsize=16)
def tools(device: cuda.Device) -> Tools:
    return Tools(ptx_tools.module(), ptx_tools.NAMES)


@lru_cache(maxsize=16)
def moves(device: cuda.Device) -> Tools:
    return Tools(ptx_moves.module(), ptx_moves.NAMES)


@lru_cache(maxsize=64)
def hashing(device: cuda.Device, kind: str) -> Tools:
    return Tools(ptx_leaves.module(kind), [ptx_leaves.name(kind)])


def stored(p: Precision, name: str, a: DeviceArray) -> dict[str, Any]:
    """The words of a state, as the run keeps them."""
    one = p.low is None and p.state.is_float
    takes = np.dtype(NUMPY_DTYPE[p.state.name] if one else np.float64)
    if a.dtype != takes:
        other = f', or choose precision="{a.dtype}"' if one and a.dtype.name in PRECISIONS else ""
        raise InputError(
            f"`{name}` is {a.dtype}, and a run in {p.name} takes {takes}", fix=f"Convert it{other}."
        )
    if one:
        return {name: a}
    if p.low is None:
        out = exchange.empty(a.shape, np.int64)
        if a.size:
            numbers = bits(1.0 / p.unit(name)), bits(RANGE), LOST, a.size
            moves(cuda.device()).launch("whole", a.size, place(a), place(out), *whole(*numbers))
        return {name: out}
    if (p.state, p.low) == (f64, f64):
        low = exchange.empty(a.shape, np.float64)
        cuda.fill_at(low.pointer, 0, low.nbytes)
        return dict(zip(p.names(name), (a, low)))
    assert (p.state, p.low) == (f32, f32)
    words = [exchange.empty(a.shape, np.float32) for _ in range(2)]
    if a.size:
        moves(cuda.device()).launch("split", a.size, *map(place, (a, *words)), *whole(a.size))
    return dict(zip(p.names(name), words))


def valued(n: DeviceArray, unit: float) -> DeviceArray:
    """What whole numbers of a unit are; of what is lost NaN."""
    out = exchange.empty(n.shape, np.float64)
    if out.size:
        moves(cuda.device()).launch(
            "value", out.size, place(n), place(out), *whole(bits(unit), LOST, out.size)
        )
    return out


def bits(x: float) -> int:
    return int(np.float64(x).view(np.int64))


def total(high: DeviceArray, low: DeviceArray) -> DeviceArray:
    """The value of two words."""
    out = exchange.empty(high.shape, np.float64)
    if out.size:
        kind = KINDS[high.dtype.name]
        moves(cuda.device()).launch(
            f"total_{kind}", out.size, *map(place, (high, low, out)), *whole(out.size)
        )
    return out


def all_finite(a: DeviceArray) -> bool:
    """One word is read."""
    if not a.size:
        return True
    t, word, marks = tools(cuda.device()), cuda.zero(cuda.Buffer(4)), cuda.Buffer(a.size)
    t.launch(f"bad_{KINDS[a.dtype.name]}", a.size, place(a), *whole(1, 0, a.size, LOST), marks, word)
    return not cuda.read(word, np.zeros(1, np.int32))[0]


def behind(rows: DeviceRows, first: int, until: float, members: int) -> bool:
    """Does the step of any member end before a time?  By clocks that begin with this row; one word is read."""
    assert rows.dtype == np.float64
    at, word = ctypes.c_uint64(rows.buffer.pointer + 8 * first * rows.lanes), cuda.zero(cuda.Buffer(4))
    moves(cuda.device()).launch("behind", members, at, *whole(rows.lanes, bits(until), members), word)
    return bool(cuda.read(word, np.zeros(1, np.int32))[0])


def leaves(a: DeviceArray, leaf: int) -> bytes:
    """The digests of pieces of so many bytes (runtime/state/digest.py), of which each is 16 bytes that are read."""
    if not a.size:
        return b""
    kind, count = KINDS[a.dtype.name], -(-a.nbytes // leaf)
    out, (f,) = cuda.Buffer(16 * count), hashing(cuda.device(), kind).function.values()
    cuda.launch(
        f, -(-count // WARP), WARP, [place(a), *whole(a.size, leaf // a.itemsize), out, *whole(count)]
    )
    return bytes(cuda.read(out, np.empty(16 * count, np.uint8)).tobytes())


def place(a: DeviceArray) -> Any:
    return ctypes.c_uint64(a.pointer)
