"""How are points handed to a list of neighbours or to a tree?  They are stored, and a function of the host looks at them.

A list is asked only when points have gone too far, a tree at every evaluation.
"""

from __future__ import annotations

from typing import Any

from tinyphysics.emit.kinds.map import MAP, at
from tinyphysics.emit.loops.nest_kind import OnArrays
from tinyphysics.emit.text.loopir import Body, Call, For, Function, When, number
from tinyphysics.ir.uop import UOp
from tinyphysics.tpir.kernels.nests import LoopKernel, Nest
from tinyphysics.tpir.kernels.tree import call_of


class HandOver:
    def __init__(self, name: str) -> None:
        self.name = name

    def called(self, nest: Nest) -> str:
        return f"near{nest.near}.call" if self.name == "list" else call_of(nest.evaluation)

    def evaluate(self, run: OnArrays, env: dict[UOp, Any]) -> None:
        when = run.nest.when
        if when is None or run.evaluate([when], env)[0].any():
            MAP.evaluate(run, env)
            run.call(self.called(run.nest))

    def ranged(self, nest: Nest, kernel: LoopKernel) -> Function:
        (x,), (piece,) = nest.variables, nest.pieces
        stored = For(x, number(0), number(nest.sizes[0]), at(piece, {}), independent=True)
        body: Body = (stored, Call(self.called(nest)))
        return Function(body if nest.when is None else (When(nest.when, body),))

    def tiled(self, nest: Nest, kernel: LoopKernel, lanes: int, every: bool = False) -> Function:
        return self.ranged(nest, kernel)

    def threaded(self, nest: Nest, kernel: LoopKernel) -> list[Function]:
        """The points alone: what follows is launched by the host."""
        return MAP.threaded(nest, kernel)


LIST, TREE = HandOver("list"), HandOver("tree")
