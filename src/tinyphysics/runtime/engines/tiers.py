"""Long functions are made quickly first, and well once they have run for as long as that takes; the bits are the same."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from tinyphysics.context import QUICK
from tinyphysics.device import cache
from tinyphysics.device.engines.engine import pointer
from tinyphysics.device.host import llvm
from tinyphysics.device.host.llvm import Cpu

LONG = 4_000  # lines of a module: good code for it takes some tenths of a second to make
PER_LINE = 1e-4  # seconds in which good code for a line is made
LONG_NESTS, PER_LINE_OF_NESTS = 12_000, 3e-5  # of loops, whose functions are short

MOST_QUICK = 1e9  # operations of a call, at most, that are not worth good code


class Tiers:
    """The functions of a module; `call(name, ...)` counts the time that quickly made code has run."""

    def __init__(
        self,
        text: str,
        cpu: Cpu,
        signatures: Mapping[str, Any],
        long: int = LONG,
        per_line: float = PER_LINE,
    ) -> None:
        self.text, self.cpu, self.signatures = text, cpu, signatures
        self.lines = text.count("\n")
        self.enough = per_line * self.lines  # seconds of quickly made code
        self.good = llvm.object_name(text, cpu)
        self.waits = bool(QUICK.value) and self.lines > long and cache.read(self.good) is None
        self.spent = 0.0
        self.lock = threading.Lock()  # members run in several threads
        self.made = self.found = 0
        self.functions = self.linked(llvm.QUICK if self.waits else llvm.OPTIMISATION)

    def linked(self, level: int) -> dict[str, Any]:
        name = llvm.object_name(self.text, self.cpu, level)
        code, found = llvm.stored(name, self.text, self.cpu, level)
        self.found += found
        self.made += not found
        return llvm.link(code, self.signatures)

    def function(self, name: str) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            if not self.waits:
                return self.functions[name](*args)
            began = time.perf_counter()
            out = self.functions[name](*args)
            with self.lock:
                self.spent += time.perf_counter() - began
                enough = self.spent > self.enough and QUICK.value < 2
            if enough:
                self.improve()
            return out

        return call

    def improve(self) -> None:
        """From now on the well made code is called."""
        with self.lock:
            if self.waits:
                self.functions, self.waits = self.linked(llvm.OPTIMISATION), False


class OnArrays:
    """A function of a module of loops that takes arrays. Its address, which threads call, is that of well made code."""

    def __init__(self, tiers: Tiers, name: str) -> None:
        self.tiers, self.name, self.call = tiers, name, tiers.function(name)

    def __call__(self, table: Any, uniform: Any, flags: Any, *numbers: int) -> None:
        self.call(pointer(table), pointer(uniform), pointer(flags), *numbers)

    def quick(self, work: float) -> bool:
        """Is so much work still done by quickly made code?"""
        if work > MOST_QUICK and QUICK.value < 2:
            self.tiers.improve()
        return self.tiers.waits

    @property
    def at(self) -> int | None:
        self.tiers.improve()
        return ctypes.cast(self.tiers.functions[self.name], ctypes.c_void_p).value
