"""How do the slabs of a sum over neighbours become one?  What later slabs stored is added to the first, slab by slab."""

from __future__ import annotations

from typing import Any

from tinyphysics.ir.dtype import i64
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.reduction import PAIR_LANES
from tinyphysics.ir.uop import UOp
from tinyphysics.tpir.kernels.at_index import planes
from tinyphysics.tpir.kernels.loopir import HI, LO, Body, For, Function, Statement, load, number, shifted
from tinyphysics.tpir.kernels.loopir import Store as Put
from tinyphysics.tpir.kernels.nest_kind import Builder, PlainKind, Task
from tinyphysics.tpir.kernels.nests import LoopKernel, Nest, OnArrays, Piece, Store
from tinyphysics.tpir.kernels.ranges import LANE, least, most
from tinyphysics.tpir.kernels.sums import combined

SLAB, POINT = UOp.var("@slab", (), i64), UOp.var("@j", (), i64)


class Fold(PlainKind):
    """No node is one: it follows a sum over neighbours (kinds/pairs.py)."""

    name, rank = "fold", 100

    def extent(self, nest: Nest) -> int:
        return -(-nest.sizes[0] // PAIR_LANES)

    def of(self, b: Builder, tasks: list[Task]) -> Nest:
        """The sums over rows of each slab, added to those of the first: where the rows of the slab have neighbours."""
        variable, sizes = UOp.var("@i0", (), i64), tasks[0].sizes
        stores = []
        for t in tasks:
            for plane in range(planes(t.node.shape, b.components)):
                value = UOp(Ops.LOAD, t.node.dtype, (), (variable,), (t.home.buffer, plane))
                stores.append(Store(t.home.buffer, plane, (variable,), value, Ops.ADD))
        return Nest(self, (variable,), sizes, (Piece(0, sizes[0], tuple(stores)),), near=tasks[0].near)

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
