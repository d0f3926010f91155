"""Long functions are made quickly first, and well once they have run for as long as that takes; the bits are the same."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from tinyphysics.context import QUICK
from tinyphysics.device import cache
from tinyphysics.device.host import llvm
from tinyphysics.device.host.llvm import Cpu

LONG = 4_000  # lines of a module: good code for it takes some tenths of a second to make
PER_LINE = 1e-4  # seconds in which good code for a line is made


class Tiers:
    """The functions of a module; `call(name, ...)` counts the time that quickly made code has run."""

    def __init__(self, text: str, cpu: Cpu, signatures: Mapping[str, Any]) -> None:
        self.text, self.cpu, self.signatures = text, cpu, signatures
        self.lines = text.count("\n")
        self.good = llvm.object_name(text, cpu)
        self.waits = bool(QUICK.value) and self.lines > LONG and cache.read(self.good) is None
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
                if self.waits and self.spent > PER_LINE * self.lines and QUICK.value < 2:
                    self.functions, self.waits = self.linked(llvm.OPTIMISATION), False
            return out

        return call
