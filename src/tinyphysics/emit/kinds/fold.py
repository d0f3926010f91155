"""How do the slabs of a sum over neighbours become one?  What later slabs stored is added to the first, slab by slab."""

from __future__ import annotations

from typing import Any

from tinyphysics.emit.loops.nest_kind import OnArrays
from tinyphysics.emit.loops.ranges import LANE, least, most
from tinyphysics.emit.loops.sums import combined
from tinyphysics.emit.text.loopir import HI, LO, Body, For, Function, Statement, load, number, shifted
from tinyphysics.emit.text.loopir import Store as Put
from tinyphysics.ir.dtype import i64
from tinyphysics.ir.reduction import PAIR_LANES
from tinyphysics.ir.uop import UOp
from tinyphysics.tpir.kernels.nests import LoopKernel, Nest

SLAB, POINT = UOp.var("@slab", (), i64), UOp.var("@j", (), i64)


class Fold:
    name = "fold"

    def evaluate(self, run: OnArrays, env: dict[UOp, Any]) -> None:
        nest = run.nest
        spans = run.array(f"near{nest.near}.spans")
        for s in nest.pieces[0].stores:
            planes = run.planes(s.buffer)
            for k in range(1, nest.parts):
                here = slice(spans[2 * k], spans[2 * k + 1])
                other = planes[k * (len(planes) // nest.parts) + s.plane, here]
                planes[s.plane, here] = run.combine(s, planes[s.plane, here], other)

    def ranged(self, nest: Nest, kernel: LoopKernel) -> Function:
        return self.tiled(nest, kernel, 1)

    def tiled(self, nest: Nest, kernel: LoopKernel, lanes: int, every: bool = False) -> Function:
        """A span begins and ends with a block of neighbours, so that vectors no longer than that fit."""
        lanes = min(lanes, PAIR_LANES)
        spans = f"near{nest.near}.spans"
        begin, end = (load(spans, i64, shifted(SLAB * number(2), k)) for k in (0, 1))
        body: list[Statement] = []
        eight = number(PAIR_LANES)
        for s in nest.pieces[0].stores:
            b = kernel.buffers[s.buffer]
            at = POINT + LANE if lanes > 1 else POINT
            there = at + SLAB * number(b.planes // nest.parts * b.plane)
            one, other = (load(s.buffer, s.value.dtype, i, plane=s.plane) for i in (at, there))
            add: Body = (Put(s.buffer, s.plane, (at,), combined(s, one, other)),)
            if lanes > 1:
                add = (For(LANE, number(0), number(lanes), add, lanes, lanes=lanes),)
            body.append(
                For(POINT, most(begin, LO * eight), least(end, HI * eight), add, lanes, independent=True)
            )
        return Function((For(SLAB, number(1), number(nest.parts), tuple(body)),))

    def threaded(self, nest: Nest, kernel: LoopKernel) -> list[Function]:
        return []  # a thread that owns a point has added its slabs already


FOLD = Fold()
