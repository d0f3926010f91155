"""How is a sum taken at every index, one item after the other?  Neighbouring indices are the lanes of a vector."""

from __future__ import annotations

from typing import Any

from tinyphysics.ir.reduction import one_by_one
from tinyphysics.ir.uop import UOp
from tinyphysics.tpir.kernels.at_index import AtIndex
from tinyphysics.tpir.kernels.index import Index, Place
from tinyphysics.tpir.kernels.layout import long_axes
from tinyphysics.tpir.kernels.loopir import (
    Body,
    Carry,
    For,
    Function,
    Statement,
    Threads,
    number,
    replaced,
    shifted,
)
from tinyphysics.tpir.kernels.loopir import Store as Put
from tinyphysics.tpir.kernels.nest_kind import Builder, PlainKind, Task, Wanted
from tinyphysics.tpir.kernels.nests import LoopKernel, Nest, OnArrays, Piece, Store
from tinyphysics.tpir.kernels.ranges import LANE, columns, in_pieces, notes, outer, sums_of, whole
from tinyphysics.tpir.kernels.sums import identity, is_sum, joined, summed

TOGETHER = (
    4  # items that a thread of a GPU has under way at a time: their loads and roots wait beside each other
)
MANY, LITTLE = 16, 12  # the same, where an item is so few operations that it is a load above all


class Sequence(PlainKind):
    name, rank = "sequence", 30

    def task(self, w: Wanted) -> Task | None:
        """A short sum that is a loop, or a long one with another long axis behind it."""
        u = w.node
        if not w.in_turn and not (is_sum(w) and one_by_one(u.src[0].shape, u.arg[1][0])):
            return None
        return Task(u, w.home, self, long_axes(u.shape, w.components), u.src[0].shape[u.arg[1][0]])

    def stores(self, b: Builder, t: Task, pull: AtIndex, at: list[Place], turn: UOp | None) -> list[Store]:
        return summed(b, t, pull, at, Index(0, t.along - 1, turn))

    def evaluate(self, run: OnArrays, env: dict[UOp, Any]) -> None:
        nest = run.nest
        assert nest.along is not None
        t, count = nest.along
        for p in nest.pieces:
            here = env | run.grid(p)
            shape = [*nest.sizes[:-1], p.hi - p.lo]
            sums = [run.nothing(s, shape) for s in p.stores]
            for k in range(count):
                now = here | {t: run.numbers(k, k + 1)}
                sums = [run.join(s, a, now) for s, a in zip(p.stores, sums)]
                run.guards(p, now)
            for s, a in zip(p.stores, sums):
                run.write(s.buffer, run.place(s.buffer, s.plane, run.evaluate(s.index, here)), a, shape)

    def ranged(self, nest: Nest, kernel: LoopKernel) -> Function:
        body: list[Statement] = []
        for p in nest.pieces:
            body += outer(nest, p, in_turn(nest, p, {}), False)
        return Function(tuple(body))

    def tiled(self, nest: Nest, kernel: LoopKernel, lanes: int, every: bool = False) -> Function:
        x = nest.variables[-1]
        body: list[Statement] = []
        for p in nest.pieces:
            begin, end = columns(nest, p)
            middle = whole(begin, end, lanes)
            vector = For(LANE, number(0), number(lanes), in_turn(nest, p, {x: x + LANE}), lanes, lanes=lanes)
            loops = [For(x, begin, middle, (vector,), lanes)] if lanes > 1 and p.hi - p.lo >= lanes else []
            rest = For(x, middle if loops else begin, end, in_turn(nest, p, {}))
            body += outer(nest, p, (*loops, rest), True)
        return Function(tuple(body))

    def threaded(self, nest: Nest, kernel: LoopKernel) -> list[Function]:
        together = MANY if nest.operations <= LITTLE else TOGETHER
        body = in_pieces(nest, lambda p: in_turn(nest, p, {}, together))
        return [Function(body, Threads(nest.variables, nest.sizes))]


def in_turn(nest: Nest, p: Piece, here: dict[UOp, UOp], together: int = 1) -> Body:
    """One item after the other, some under way at a time; then what they sum up to is stored."""
    assert nest.along is not None
    t, count = nest.along
    sums = [sums_of(1, s)[0] for s in p.stores]
    out: list[Statement] = []
    begin = 0
    for size in dict.fromkeys((together, 1)):
        end = count // size * size
        if begin == end:
            continue
        marks: list[Statement] = []
        totals = list(sums)
        for k in range(size):
            now = here | ({t: shifted(t, k)} if k else {})
            terms = replaced([s.value for s in p.stores], now)
            totals = [joined(s, a, u) for s, a, u in zip(p.stores, totals, terms)]
            marks += notes(p, now)
        carried = [Carry(a, a if begin else identity(s), u) for s, a, u in zip(p.stores, sums, totals)]
        out.append(For(t, number(begin), number(end), tuple(marks), size, tuple(carried)))
        begin = end
    return (
        *out,
        *(Put(s.buffer, s.plane, tuple(replaced(s.index, here)), a) for s, a in zip(p.stores, sums)),
    )


SEQUENCE = Sequence()
