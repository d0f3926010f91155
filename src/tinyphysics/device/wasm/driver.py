"""WebAssembly modules on this machine, run by wasmtime: the only file that imports it.

>>> room([80, 0, 24])
([1048576, 1048656, 1048656], 17)
"""

from __future__ import annotations

import atexit
import ctypes
import threading
import weakref
from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib import import_module
from importlib.metadata import version
from typing import Any

import numpy as np

from tinyphysics.device.wasm.module import MEMORY, STACK, imports
from tinyphysics.errors import BackendError

PAGE = 1 << 16
BASE = 1 << 20  # what functions keep on their stack lies below, arrays above
SPARE = 16  # pages for what a call is given besides
MOST = 1 << 32  # bytes that 32-bit addresses reach


@lru_cache(maxsize=1)
def wasmtime() -> Any:
    try:
        return import_module("wasmtime")
    except ImportError:
        raise BackendError(
            "the backend `wasm` needs wasmtime", fix='pip install "tinyphysics[wasm]"'
        ) from None


def described() -> str:
    """For people: the runtime that is here, or what is missing."""
    try:
        wasmtime()
    except BackendError as error:
        return f"none: {error.what}"
    return f"wasmtime {version('wasmtime')}"


@lru_cache(maxsize=1)
def engine() -> Any:
    made = wasmtime().Engine()
    atexit.register(close, made)
    return made


_stores: weakref.WeakSet[Any] = weakref.WeakSet()


def close(made: Any) -> None:
    """Before Python takes its modules apart: wasmtime's own end would come after it."""
    for store in [*_stores]:
        store.close()
    made.close()


def room(sizes: Sequence[int], base: int = 1 << 20) -> tuple[list[int], int]:
    """(the address of each array of so many bytes, the pages of memory that they need)."""
    places, at = [], base
    for size in sizes:
        places.append(at)
        at += -(-size // 16) * 16
    return places, -(-at // PAGE)


class Instance:
    """A module with a memory of its own; one call at a time."""

    def __init__(self, code: bytes) -> None:
        w = wasmtime()
        self.store, self.lock = w.Store(engine()), threading.Lock()
        _stores.add(self.store)
        self.memory = w.Memory(self.store, w.MemoryType(w.Limits(BASE // PAGE, None)))
        self.base = BASE  # where arrays of a call begin
        self.here: dict[int, int] = {}  # arrays that lie in the memory: where, by their addresses outside
        stack = w.Global(self.store, w.GlobalType(w.ValType.i32(), True), w.Val.i32(BASE))
        given = {MEMORY: self.memory, STACK: stack}
        module = w.Module(engine(), code)
        self.exports = w.Instance(self.store, module, [given[n] for n in imports(code)]).exports(self.store)

    def function(self, name: str) -> Callable[..., None]:
        """A section as a function of arrays (device/engines/engine.py: `calling`)."""
        f = self.exports[name]

        def call(
            source: Any, out: Any, uniform: Any, varying: Any, flags: Any, series: Any, *numbers: int
        ) -> None:
            arrays: list[Any] = [source, None if out is source else out, uniform, varying, flags, series]
            with self.lock:
                places = self.sent(arrays)
                if out is source:
                    places[1] = places[0]
                f(self.store, *places, *numbers)
                self.fetched(source if out is source else out, places[1])
                self.fetched(flags, places[4])
                self.fetched(series, places[5])

        return call

    def arrays(self, wanted: Sequence[tuple[tuple[int, ...], Any]]) -> list[Any]:
        """Arrays of zeros of some shapes and types in the memory itself: calls with them copy nothing."""
        sizes = [int(np.prod(shape)) * kind.itemsize for shape, kind in wanted]
        with self.lock:
            places, pages = room(sizes, self.base)
            self.reserve(pages + SPARE)
            self.base = pages * PAGE
            start, out = address(self.memory, self.store), []
            for at, size, (shape, kind) in zip(places, sizes, wanted):
                block: Any = (ctypes.c_char * size).from_address(start + at)
                block.owner = self  # the memory lives as long as an array in it
                a = np.frombuffer(block, kind).reshape(shape)
                self.here[a.ctypes.data] = at
                out.append(a)
        return out

    def reserve(self, pages: int) -> None:
        """At least so much memory; arrays in it must not move."""
        missing = pages - self.memory.size(self.store)
        if missing <= 0:
            return
        if pages * PAGE > MOST:
            raise BackendError(
                "the backend `wasm` has 4 GiB of memory, and this run needs more",
                fix="Run fewer members at once, or leave backend= out.",
            )
        before = address(self.memory, self.store)
        self.memory.grow(self.store, missing)
        assert not self.here or address(self.memory, self.store) == before, "arrays in the memory moved"

    def sent(self, arrays: Sequence[Any]) -> list[int]:
        """Arrays in the memory, by their addresses; None is 0, and what lies there already stays."""
        away = [None if a is None or self.at(a) else a for a in arrays]
        places, pages = room([0 if a is None else a.nbytes for a in away], self.base)
        self.reserve(pages)
        for a, at in zip(away, places):
            if a is not None and a.nbytes:
                self.memory.write(self.store, np.ascontiguousarray(a).tobytes(), at)
        return [0 if a is None else self.at(a) or at for a, at in zip(arrays, places)]

    def at(self, a: Any) -> int:
        """Where an array is in the memory; 0 for one that is elsewhere."""
        return self.here.get(a.ctypes.data, 0) if self.here else 0

    def fetched(self, a: Any, at: int) -> None:
        if a is not None and a.nbytes and not self.at(a):
            a[...] = np.frombuffer(self.memory.read(self.store, at, at + a.nbytes), a.dtype).reshape(a.shape)


def address(memory: Any, store: Any) -> int:
    return ctypes.addressof(memory.data_ptr(store).contents)
