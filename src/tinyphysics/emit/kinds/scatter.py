"""How are items added at places that they choose?  Buffers are cleared; then one item after the other, in loop order.

The order is part of the meaning, so one thread does it all.
"""

from __future__ import annotations

from typing import Any

from tinyphysics.emit.loops.nest_kind import OnArrays
from tinyphysics.emit.loops.ranges import notes
from tinyphysics.emit.loops.sums import joined
from tinyphysics.emit.text.loopir import Body, For, Function, Statement, Threads, When, load, number
from tinyphysics.emit.text.loopir import Store as Put
from tinyphysics.ir.dtype import i64
from tinyphysics.ir.uop import UOp
from tinyphysics.tpir.kernels.nests import LoopKernel, Nest, Store

ITEM = UOp.var("@k", (), i64)


class Scatter:
    name = "scatter"

    def evaluate(self, run: OnArrays, env: dict[UOp, Any]) -> None:
        nest = run.nest
        for name in written(nest):
            run.memory[name][:] = 0
        for p in nest.pieces:
            here = env | run.grid(p)
            shape = list(nest.sizes) or [1]
            for name in dict.fromkeys(s.buffer for s in p.stores):
                own = [s for s in p.stores if s.buffer == name]
                run.add_in_order(own, here, shape)
            run.guards(p, here)

    def ranged(self, nest: Nest, kernel: LoopKernel) -> Function:
        clear = [
            For(ITEM, number(0), number(kernel.buffers[b].size), (zero(kernel, b),)) for b in written(nest)
        ]
        return Function((*clear, *self.items(nest, kernel)))

    def tiled(self, nest: Nest, kernel: LoopKernel, lanes: int, every: bool = False) -> Function:
        return self.ranged(nest, kernel)

    def threaded(self, nest: Nest, kernel: LoopKernel) -> list[Function]:
        largest = max(kernel.buffers[b].size for b in written(nest))
        clear = tuple(When(ITEM < number(kernel.buffers[b].size), (zero(kernel, b),)) for b in written(nest))
        one = Function(self.items(nest, kernel), Threads((), ()))
        return [Function(clear, Threads((ITEM,), (largest,)), "_clear"), one]

    def items(self, nest: Nest, kernel: LoopKernel) -> Body:
        out: list[Statement] = []
        for p in nest.pieces:
            body: Body = (*(added(kernel, s) for s in p.stores), *notes(p, {}))
            for v, n in reversed(list(zip(nest.variables, nest.sizes))):
                body = (For(v, number(0), number(n), body),)
            out += body
        return tuple(out)


def written(nest: Nest) -> list[str]:
    return list(dict.fromkeys(s.buffer for p in nest.pieces for s in p.stores))


def zero(kernel: LoopKernel, buffer: str) -> Put:
    """The next number of a buffer, whatever it belongs to, cleared."""
    b = kernel.buffers[buffer]
    before = (number(0),) * max(len(b.axes) - 1, 0)
    return Put(buffer, 0, (*before, ITEM), UOp.const(0, b.dtype))


def added(kernel: LoopKernel, s: Store) -> Put:
    """An item where it belongs: so many planes further, which is a distance along the last axis."""
    assert s.shift is not None
    step = s.shift * number(kernel.buffers[s.buffer].plane)
    at = (*s.index[:-1], s.index[-1] + step) if s.index else (step,)
    return Put(s.buffer, s.plane, at, joined(s, load(s.buffer, s.value.dtype, *at, plane=s.plane), s.value))


SCATTER = Scatter()
