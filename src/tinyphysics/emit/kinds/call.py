"""How is a library's routine called?  By the address in a buffer: it finds its arrays and leaves its result by itself."""

from __future__ import annotations

from typing import Any

from tinyphysics.emit.loops.nest_kind import OnArrays
from tinyphysics.emit.text.loopir import Call, Function
from tinyphysics.ir.uop import UOp
from tinyphysics.tpir.kernels.nests import LoopKernel, Nest


class LibraryCall:
    name = "call"

    def evaluate(self, run: OnArrays, env: dict[UOp, Any]) -> None:
        run.call(run.nest.called)

    def ranged(self, nest: Nest, kernel: LoopKernel) -> Function:
        return Function((Call(nest.called),))

    def tiled(self, nest: Nest, kernel: LoopKernel, lanes: int, every: bool = False) -> Function:
        return self.ranged(nest, kernel)

    def threaded(self, nest: Nest, kernel: LoopKernel) -> list[Function]:
        raise AssertionError("a thread of a GPU has no library to call: tpir/kernels/library.py")


CALL = LibraryCall()
