"""How do arrays of other libraries on a GPU come in and go out?  By DLPack, where they are: nothing is copied.

torch, CuPy and JAX speak it. Work of theirs that is queued on the default stream is waited for by ours.
"""
from __future__ import annotations

import ctypes
import sys
from typing import Any

import numpy as np

from tinyphysics.device import cuda
from tinyphysics.errors import InputError
from tinyphysics.util import prod

CUDA, MANAGED = 2, 13  # kinds of memory, numbers of dlpack.h
DEFAULT_STREAM = 1
CODES = {"i": 0, "u": 1, "f": 2}
NAME = b"dltensor"


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device", ctypes.c_int32), ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    ]  # fmt: skip


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
    """A capsule that nobody took from."""
    if is_capsule(capsule, NAME):
        _lent.pop(pointer_in(capsule, NAME), None)


RETURNED = DELETER(returned)
DROPPED = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(dropped)


class DeviceArray:
    """Numbers on the GPU in one piece: `torch.from_dlpack(a)`, `cupy.from_dlpack(a)`; `a.numpy()` is a copy here."""

    def __init__(self, pointer: int, shape: tuple[int, ...], dtype: Any, owner: Any) -> None:
        self.pointer, self.shape, self.dtype = pointer, shape, np.dtype(dtype)
        self.owner = owner  # the memory lives as long as this

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"shape": self.shape, "typestr": self.dtype.str, "data": (self.pointer, False), "version": 3,
                "stream": DEFAULT_STREAM}  # fmt: skip

    def __dlpack_device__(self) -> tuple[int, int]:
        return CUDA, cuda.device().number

    def __dlpack__(self, **_: Any) -> Any:
        """What a reader's stream has to wait for is done: runs end by waiting."""
        numbers = (ctypes.c_int64 * max(len(self.shape), 1))(*self.shape)
        m = Managed(DLTensor(self.pointer, CUDA, cuda.device().number, len(self.shape), CODES[self.dtype.kind],
                             8 * self.dtype.itemsize, 1, numbers, None, 0), None, RETURNED)  # fmt: skip
        _lent[ctypes.addressof(m)] = (m, numbers, self)
        return new_capsule(ctypes.addressof(m), NAME, ctypes.cast(DROPPED, ctypes.c_void_p))

    def numpy(self) -> Any:
        out: Any = np.empty(self.shape, self.dtype)
        cuda.read_at(self.pointer, out)
        return out

    def __repr__(self) -> str:
        return f"<{self.dtype} of shape {self.shape} on {cuda.device().name}>"


def is_there(value: Any) -> bool:
    """Is it an array on a GPU?"""
    if isinstance(value, np.ndarray) or not hasattr(value, "__dlpack_device__"):
        return False
    return int(value.__dlpack_device__()[0]) in (CUDA, MANAGED)


def taken(name: str, value: Any) -> DeviceArray:
    """The memory of an array of any library; it is kept alive, and only read."""
    number = int(value.__dlpack_device__()[1])
    if number != cuda.device().number:
        raise InputError(f"`{name}` is on GPU {number}, and kernels run on GPU {cuda.device().number}",
                         fix=f"Move it, or set TINYPHYSICS_CUDA_DEVICE={number}.")  # fmt: skip
    capsule = value.__dlpack__(stream=DEFAULT_STREAM)
    t = Managed.from_address(pointer_in(id(capsule), NAME)).tensor
    shape = tuple(t.shape[k] for k in range(t.ndim))
    kinds = {code: kind for kind, code in CODES.items()}
    if t.code not in kinds or t.lanes != 1:
        raise InputError(f"`{name}` has a type of numbers that is not known here", fix="Pass float64 or float32.")
    whole = [prod(shape[k + 1 :]) for k in range(t.ndim)]
    if t.strides and any(n > 1 and t.strides[k] != whole[k] for k, n in enumerate(shape)):
        raise InputError(f"`{name}` does not lie in one piece", fix=f"Pass {name}.contiguous(), or a copy of it.")
    return DeviceArray((t.data or 0) + t.offset, shape, f"{kinds[t.code]}{t.bits // 8}", (capsule, value))


def given_back(a: DeviceArray, like: Any) -> Any:
    """The same memory as an array of the library that another one is of."""
    library = type(like).__module__.partition(".")[0].removesuffix("lib")
    if library in ("torch", "cupy"):
        return sys.modules[library].from_dlpack(a)
    return sys.modules["jax"].dlpack.from_dlpack(a) if library == "jax" else a
