"""How does a program become WebAssembly?  Text from emit/, a module and its memory from device/."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tinyphysics.device.protocols import Parts
from tinyphysics.device.wasm.driver import Instance
from tinyphysics.device.wasm.module import binary
from tinyphysics.emit.scalar import wasm as emit
from tinyphysics.ir.uop import UOp
from tinyphysics.target import VectorShape
from tinyphysics.tpir.kernels.kernel import Section


class WasmLoader:
    """Member after member, in a memory of its own."""

    threads = by_address = False
    passage: Any = None
    quick = None

    def __init__(self) -> None:
        self.made = self.found = 0

    def shape(self, section: Section, members: int) -> VectorShape:
        return emit.ONE

    def load(
        self, parts: Parts, params: Sequence[UOp], varying: tuple[bool, ...], quick: bool = False
    ) -> list[Any]:
        names = [f.name for f, _ in parts]
        code, found = binary(emit.module([f for f, _ in parts], params, varying), names)
        self.found += found
        self.made += not found
        instance = Instance(code)
        return [instance.function(name) for name in names]
