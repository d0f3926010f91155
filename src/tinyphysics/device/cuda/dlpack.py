"""How do arrays of other libraries on a GPU come in and go out?  By DLPack, where they are: nothing is copied.

torch, CuPy and JAX speak it; of others `__cuda_array_interface__` is read. Work of theirs that is queued on the default
stream is waited for by ours.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from tinyphysics.device.cuda import driver as cuda
from tinyphysics.errors import InputError
from tinyphysics.trajectory import Words
from tinyphysics.util import prod

CUDA, MANAGED = 2, 13  # kinds of memory, numbers of dlpack.h
DEFAULT_STREAM = 1
ALIGNED = 256  # bytes: where dlpack.h lets arrays begin, and compiled code of others may rely on it
CODES = {"i": 0, "u": 1, "f": 2}
NAME = b"dltensor"


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    ]


DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Managed(ctypes.Structure):
    _fields_ = [("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", DELETER)]


def python(name: str, result: Any, *arguments: Any) -> Any:
    """A function of the interpreter."""
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


# a capsule is an address where it is being freed: a reference to it would free it again
new_capsule = python("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
pointer_in = python("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)
is_capsule = python("PyCapsule_IsValid", ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)
_lent: dict[int, Any] = {}  # what another library still looks at, by the address that it knows


def returned(address: int) -> None:
    _lent.pop(address, None)


def dropped(capsule: int) -> None:
    """A capsule that was not consumed."""
    if is_capsule(capsule, NAME):
        _lent.pop(pointer_in(capsule, NAME), None)


RETURNED = DELETER(returned)
DROPPED = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(dropped)


class DeviceArray:
    """Numbers on the GPU in one piece: `torch.from_dlpack(a)`, `cupy.from_dlpack(a)`; `a.numpy()` is a copy here."""

    def __init__(self, pointer: int, shape: tuple[int, ...], dtype: Any, owner: Any) -> None:
        self.pointer, self.shape, self.dtype = pointer, shape, np.dtype(dtype)
        self.owner = owner  # the memory lives as long as this
        self.number = cuda.device().number  # of the GPU that it is on

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.pointer, False),
            "version": 3,
            "stream": DEFAULT_STREAM,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        return CUDA, self.number

    def __dlpack__(
        self, *, dl_device: tuple[int, int] | None = None, copy: bool | None = None, **_: Any
    ) -> Any:
        """There is nothing that a reader's stream has to wait for."""
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError(f"{self!r} is no longer available: write .numpy() for a copy in main memory")
        if copy:
            return self.copy().__dlpack__()
        cuda.synchronise()
        numbers = (ctypes.c_int64 * max(len(self.shape), 1))(*self.shape)
        m = Managed(
            DLTensor(
                self.pointer,
                CUDA,
                self.number,
                len(self.shape),
                CODES[self.dtype.kind],
                8 * self.dtype.itemsize,
                1,
                numbers,
                None,
                0,
            ),
            None,
            RETURNED,
        )
        _lent[ctypes.addressof(m)] = (m, numbers, self)
        return new_capsule(ctypes.addressof(m), NAME, ctypes.cast(DROPPED, ctypes.c_void_p))

    def numpy(self) -> Any:
        out: Any = np.empty(self.shape, self.dtype)
        cuda.read_at(self.pointer, out)
        return out

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError(
            f"{self!r} is not converted to a NumPy array implicitly: write .numpy() for a copy in main memory"
        )

    # --- as the runtime has it: rows along the first axis, never anything computed -------------
    ndim = property(lambda self: len(self.shape))
    size = property(lambda self: prod(self.shape))
    itemsize = property(lambda self: self.dtype.itemsize)
    nbytes = property(lambda self: self.size * self.dtype.itemsize)

    def __len__(self) -> int:
        return self.shape[0]

    def __float__(self) -> float:
        return float(self.numpy())

    def seen(self, shape: tuple[int, ...], first: int = 0) -> DeviceArray:
        """The same memory, from a number on."""
        return DeviceArray(self.pointer + first * self.dtype.itemsize, shape, self.dtype, self.owner)

    def reshape(self, *shape: Any) -> DeviceArray:
        shape = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple) else shape
        known = prod(n for n in shape if n >= 0)
        return self.seen(tuple(self.size // known if n < 0 and known else max(n, 0) for n in shape))

    def __getitem__(self, key: Any) -> DeviceArray:
        """Rows, where they are; a list of them as a copy."""
        row = self.shape[1:]
        match key:
            case None:
                return self.seen((1, *self.shape))
            case slice() if key.step in (None, 1):
                begin, end, _ = key.indices(len(self))
                return self.seen((max(end - begin, 0), *row), begin * prod(row))
            case (slice(), 0 | None) if key[0] == slice(None):  # of one member, without an axis and with one
                assert key[1] is None or row[0] == 1
                return self.seen((len(self), *((1, *row) if key[1] is None else row[1:])))
            case list() | np.ndarray():
                out = empty((len(key), *row), self.dtype)
                for k, which in enumerate(key):
                    out[k] = self[int(which)]
                return out
        if isinstance(key, bool) or not isinstance(key, int | np.integer):
            raise TypeError(
                f"{self!r} is indexed by row number only: write .numpy() for a copy in main memory"
            )
        if not self.shape or not -len(self) <= key < len(self):  # which also ends a loop over rows
            raise IndexError(f"{self!r} has no row {key}")
        return self.seen(row, int(key) % len(self) * prod(row))

    def __setitem__(self, key: Any, value: Any) -> None:
        """A row or several, from here or there; a number is one that is none."""
        if isinstance(key, list | np.ndarray):
            for k in key:
                self[int(k)] = value
            return
        to = self if key is Ellipsis else self[key]
        if isinstance(value, DeviceArray):
            assert (value.dtype, value.size) == (to.dtype, to.size)
            cuda.between(to.pointer, value.pointer, to.nbytes)
        elif isinstance(value, float) and value != value:
            assert self.dtype.kind == "f"
            cuda.fill_at(to.pointer, 0xFF, to.nbytes)  # all ones are no number
        else:
            assert np.shape(value) == to.shape
            cuda.write_at(to.pointer, np.ascontiguousarray(value, self.dtype))

    def copy(self) -> DeviceArray:
        out = empty(self.shape, self.dtype)
        out[...] = self
        return out

    def __repr__(self) -> str:
        return f"<{self.dtype} of shape {self.shape} on {cuda.device().name}>"


def empty(shape: tuple[int, ...], dtype: Any) -> DeviceArray:
    kind = np.dtype(dtype)
    buffer = cuda.Buffer(prod(shape) * kind.itemsize)
    return DeviceArray(buffer.pointer, shape, kind, buffer)


def empty_like(a: Any) -> Any:
    """Memory for as many numbers, where these are."""
    return empty(a.shape, a.dtype) if isinstance(a, DeviceArray) else np.empty_like(a)


def sent(a: Any) -> DeviceArray:
    """An array of this machine as one of the device."""
    if isinstance(a, DeviceArray):
        return a
    buffer = cuda.upload(a)
    return DeviceArray(buffer.pointer, a.shape, a.dtype, buffer)


def here(a: Any) -> Any:
    """The numbers of an array, on this machine."""
    return a.numpy() if isinstance(a, DeviceArray) else a


def numbers(a: Any) -> Any:
    """An array of any library as one of this machine, where it is on a GPU."""
    return taken("a frame", a).numpy() if is_there(a) else a


def stacked(rows: list[Any]) -> Any:
    """Arrays of one shape as one array."""
    if not isinstance(rows[0], DeviceArray):
        return np.stack(rows)
    out = empty((len(rows), *rows[0].shape), rows[0].dtype)
    for k, row in enumerate(rows):
        out[k] = row
    return out


def longer(a: Any, rows: Any) -> Any:
    """An array with further rows, which are here."""
    if not isinstance(a, DeviceArray):
        return np.concatenate([a, rows])
    out = empty((len(a) + len(rows), *a.shape[1:]), a.dtype)
    out[: len(a)], out[len(a) :] = a, rows
    return out


def repeated(a: DeviceArray, count: int) -> DeviceArray:
    """An array of one row as one of so many."""
    out, done = empty((count, *a.shape[1:]), a.dtype), 1
    out[0:1] = a
    while done < count:
        more = min(done, count - done)
        out[done : done + more] = out[:more]
        done += more
    return out


def is_there(value: Any) -> bool:
    """Is it an array on a GPU, or words of a state that are?"""
    if isinstance(value, np.ndarray):
        return False
    if isinstance(value, Words):
        return any(map(is_there, value.arrays.values()))
    if not hasattr(value, "__dlpack_device__"):
        return hasattr(value, "__cuda_array_interface__")
    return int(value.__dlpack_device__()[0]) in (CUDA, MANAGED)


def taken(name: str, value: Any) -> DeviceArray:
    """The memory of an array of any library; it is kept alive, and only read."""
    if not hasattr(value, "__dlpack_device__"):
        return by_interface(name, value)
    check_number(name, int(value.__dlpack_device__()[1]))
    capsule = value.__dlpack__(stream=DEFAULT_STREAM)
    t = Managed.from_address(pointer_in(id(capsule), NAME)).tensor
    shape = tuple(t.shape[k] for k in range(t.ndim))
    kinds = {code: kind for kind, code in CODES.items()}
    if t.code not in kinds or t.lanes != 1:
        raise InputError(
            f"`{name}` has a data type that is not supported here", fix="Pass float64 or float32."
        )
    check_whole(name, shape, [t.strides[k] for k in range(t.ndim)] if t.strides else None)
    return DeviceArray((t.data or 0) + t.offset, shape, f"{kinds[t.code]}{t.bits // 8}", (capsule, value))


def by_interface(name: str, value: Any) -> DeviceArray:
    """The same of an array that says where it is, as Numba's do."""
    told = value.__cuda_array_interface__
    dtype, shape, pointer = np.dtype(told["typestr"]), tuple(told["shape"]), int(told["data"][0])
    if dtype.kind not in CODES or told.get("mask") is not None:
        raise InputError(
            f"`{name}` has a data type that is not supported here, or a mask",
            fix="Pass float64 or float32.",
        )
    if pointer:
        check_number(name, cuda.owner_of(pointer))
    strides = told.get("strides")
    check_whole(name, shape, None if strides is None else [k / dtype.itemsize for k in strides])
    if (stream := told.get("stream")) not in (None, DEFAULT_STREAM):
        cuda.wait_for(stream)
    return DeviceArray(pointer, shape, dtype, value)


def check_number(name: str, number: int) -> None:
    if number != cuda.device().number:
        raise InputError(
            f"`{name}` is on GPU {number}, and kernels run on GPU {cuda.device().number}",
            fix="Move it, or set TINYPHYSICS_CUDA_DEVICE to the number of that GPU.",
        )


def check_whole(name: str, shape: tuple[int, ...], strides: Sequence[float] | None) -> None:
    whole = [prod(shape[k + 1 :]) for k in range(len(shape))]
    if strides and any(n > 1 and strides[k] != whole[k] for k, n in enumerate(shape)):
        raise InputError(
            f"`{name}` is not contiguous in memory", fix=f"Pass {name}.contiguous(), or a copy of it."
        )


def given_back(a: DeviceArray, like: Any) -> Any:
    """The same memory as an array of the library that another one is of; what begins in the middle of it is copied."""
    a = a if a.pointer % ALIGNED == 0 else a.copy()
    library = type(like).__module__.partition(".")[0].removesuffix("lib")
    if library in ("torch", "cupy"):
        return sys.modules[library].from_dlpack(a)
    return sys.modules["jax"].dlpack.from_dlpack(a) if library == "jax" else a
