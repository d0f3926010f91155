"""How is a long sum taken?  In 32 accumulators, item k in accumulator k modulo 32, which are then folded in halves.

Light items keep the accumulators in registers, a block of 32 items at a time. Heavy ones are written once for a vector, and
their accumulators lie on the stack. Around the edges of pieces, where a block is not whole, items are added one by one.
"""

from __future__ import annotations

from typing import Any

from tinyphysics.ir.dtype import i64
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.reduction import LANES
from tinyphysics.ir.uop import UOp
from tinyphysics.tpir.kernels.at_index import AtIndex
from tinyphysics.tpir.kernels.index import Place
from tinyphysics.tpir.kernels.layout import long_axes
from tinyphysics.tpir.kernels.loopir import (
    WORKSPACE,
    Body,
    Carry,
    For,
    Function,
    Local,
    Statement,
    Threads,
    load,
    number,
    replaced,
    shifted,
)
from tinyphysics.tpir.kernels.loopir import Store as Put
from tinyphysics.tpir.kernels.nest_kind import Builder, PlainKind, Task, Wanted
from tinyphysics.tpir.kernels.nests import LoopKernel, Nest, OnArrays, Piece, Store
from tinyphysics.tpir.kernels.ranges import LANE, bounds, notes, sums_of
from tinyphysics.tpir.kernels.sums import combined, identity, in_halves, is_sum, joined, summed
from tinyphysics.util import prod

HEAVY = 12  # operations of an item from which it is written once for a vector
RESIDENT = 512  # threads for which a processor of a GPU must have registers
TOGETHER = 4  # items that a thread of a GPU has under way at a time
MANY, LITTLE = 16, 12  # the same, where an item is so few operations that it is a load above all
BLOCK, PLACE = UOp.var("@block", (), i64), UOp.var("@place", (), i64)


def local(k: int) -> str:
    return f"sum{k}"


def and_(x: UOp, mask: int) -> UOp:
    return UOp(Ops.AND, i64, (), (x, number(mask)))


class Lanes(PlainKind):
    name, rank = "lanes", 40

    def task(self, w: Wanted) -> Task | None:
        """Every long sum that no kind before it takes; the axis that is summed over is the innermost loop."""
        u = w.node
        if not is_sum(w):
            return None
        length = u.src[0].shape[u.arg[1][0]]
        return Task(u, w.home, self, (*long_axes(u.shape, w.components), length))

    def stores(self, b: Builder, t: Task, pull: AtIndex, at: list[Place], turn: UOp | None) -> list[Store]:
        return summed(b, t, pull, at[:-1], at[-1])

    def extent(self, nest: Nest) -> int:
        return nest.sizes[0] if len(nest.sizes) > 1 else 1

    def evaluate(self, run: OnArrays, env: dict[UOp, Any]) -> None:
        nest = run.nest
        shape, first = list(nest.sizes[:-1]), nest.pieces[0]
        sums = [run.nothing(s, [*shape, LANES]) for s in first.stores]
        for p in nest.pieces:
            here = env | run.grid(p)
            for k, s in enumerate(p.stores):
                run.join_lanes(s, sums[k], here, p)
            run.guards(p, here)
        where = {v: a[..., 0] for v, a in run.grid(first).items()}
        for s, acc in zip(first.stores, sums):
            at = run.place(s.buffer, s.plane, run.evaluate(s.index, env | where))
            run.write(s.buffer, at, run.fold(s, acc), shape or [1])

    def ranged(self, nest: Nest, kernel: LoopKernel) -> Function:
        return Function(
            rows(nest, [self.one_by_one(nest, p, number(p.lo), number(p.hi)) for p in nest.pieces], 1)
        )

    def tiled(self, nest: Nest, kernel: LoopKernel, lanes: int, every: bool = False) -> Function:
        lanes = min(lanes, LANES)  # a vector of bytes may have more
        return Function(rows(nest, [self.in_vectors(nest, p, lanes) for p in nest.pieces], lanes))

    def in_vectors(self, nest: Nest, p: Piece, lanes: int) -> Body:
        """Whole blocks of 32 in the middle, whole vectors around them, and single items at the ends."""
        begin, end = -(-p.lo // lanes) * lanes, p.hi // lanes * lanes
        if lanes == 1 or begin >= end:
            return self.one_by_one(nest, p, number(p.lo), number(p.hi))
        first, last = -(-begin // LANES) * LANES, end // LANES * LANES
        if nest.operations > HEAVY or first >= last:
            middle = self.on_stack(nest, p, begin, end, lanes)
        else:
            middle = (
                *(self.on_stack(nest, p, begin, first, lanes) if begin < first else ()),
                *self.in_registers(nest, p, first, last, lanes),
                *(self.on_stack(nest, p, last, end, lanes) if last < end else ()),
            )
        before = self.one_by_one(nest, p, number(p.lo), number(begin)) if p.lo < begin else ()
        after = self.one_by_one(nest, p, number(end), number(p.hi)) if end < p.hi else ()
        return (*before, *middle, *after)

    def one_by_one(self, nest: Nest, p: Piece, begin: UOp, end: UOp) -> Body:
        x = nest.variables[-1]
        at = and_(x, LANES - 1)
        body = [
            Put(local(k), 0, (at,), joined(s, load(local(k), s.value.dtype, at), s.value))
            for k, s in enumerate(p.stores)
        ]
        return (For(x, begin, end, (*body, *notes(p, {}))),)

    def on_stack(self, nest: Nest, p: Piece, begin: int, end: int, lanes: int) -> Body:
        """A vector at a time, with sums that lie in memory."""
        at, here = and_(BLOCK, LANES - 1) + LANE, {nest.variables[-1]: BLOCK + LANE}
        values = replaced([s.value for s in p.stores], here)
        body: Body = tuple(
            Put(local(k), 0, (at,), joined(s, load(local(k), s.value.dtype, at), u))
            for k, (s, u) in enumerate(zip(p.stores, values))
        )
        vector = For(LANE, number(0), number(lanes), (*body, *notes(p, here)), lanes, lanes=lanes)
        return (For(BLOCK, number(begin), number(end), (vector,), lanes),)

    def in_registers(self, nest: Nest, p: Piece, first: int, last: int, lanes: int) -> Body:
        """A block of 32 items at a time, whose sums go round the loop."""
        x, vectors = nest.variables[-1], LANES // lanes
        carried: list[Carry] = []
        behind: list[Statement] = []
        marks: list[Statement] = []
        for c in range(vectors):
            at = shifted(LANE, c * lanes) if lanes > 1 else number(c)
            here = {x: BLOCK + at}
            marks += notes(p, here)
            for k, s in enumerate(p.stores):
                name = sums_of(vectors, s)[c]
                value = replaced([s.value], here)[0]
                carried.append(Carry(name, load(local(k), s.value.dtype, at), joined(s, name, value)))
                behind.append(Put(local(k), 0, (at,), name))
        loop = For(BLOCK, number(first), number(last), tuple(marks), LANES, tuple(carried))
        body: Body = (loop, *behind)
        return (For(LANE, number(0), number(lanes), body, lanes, lanes=lanes),) if lanes > 1 else body

    # --- threads ----------------------------------------------------------------------------------
    def threaded(self, nest: Nest, kernel: LoopKernel) -> list[Function]:
        outer, sizes = nest.variables[:-1], nest.sizes[:-1]
        count, stores = prod(sizes), nest.pieces[0].stores
        row = number(0)
        for v, n in zip(outer, sizes):
            row = row * number(n) + v

        def waiting(k: int, lane: UOp) -> UOp:
            """Where a sum is kept between both launches: those of neighbouring rows beside each other."""
            return shifted(lane, k * LANES) * number(count) + row

        sums = [sums_of(1, s)[0] for s in stores]
        fill: list[Statement] = []
        begun = False
        for p in nest.pieces:
            fill += self.every_32nd(nest, p, sums, begun)
            begun = True
        fill += [Put(WORKSPACE, 0, (waiting(k, LANE),), a) for k, a in enumerate(sums)]
        fold = []
        for k, s in enumerate(stores):
            parts = [load(WORKSPACE, s.value.dtype, waiting(k, number(lane))) for lane in range(LANES)]
            fold.append(Put(s.buffer, s.plane, s.index, in_halves(s, parts)))
        room = LANES * count * len(stores)
        every = Threads((*outer, LANE), (*sizes, LANES), resident=RESIDENT // 128)
        return [
            Function(tuple(fill), every, "", room),
            Function(tuple(fold), Threads(outer, sizes), "_fold", room),
        ]

    def every_32nd(self, nest: Nest, p: Piece, sums: list[UOp], begun: bool) -> Body:
        """The items of one accumulator, some under way at a time."""
        x = nest.variables[-1]
        together = MANY if nest.operations <= LITTLE else TOGETHER
        first = and_(LANE - number(p.lo), LANES - 1) + number(p.lo) if p.lo else LANE
        stride = together * LANES
        # items from the first one on, in whole groups: its lane decides how many there are
        length = number(p.hi + LANES - 1) - first
        groups = UOp(Ops.SHR, i64, (), (length, number(stride.bit_length() - 1)))
        middle = first + groups * number(stride)
        out: list[Statement] = []
        for begin, end, size in ((first, middle, together), (middle, number(p.hi), 1)):
            marks: list[Statement] = []
            totals = list(sums)
            for k in range(size):
                here = {x: shifted(x, k * LANES)} if k else {}
                terms = replaced([s.value for s in p.stores], here)
                totals = [joined(s, a, u) for s, a, u in zip(p.stores, totals, terms)]
                marks += notes(p, here)
            carried = [Carry(a, a if begun else identity(s), u) for s, a, u in zip(p.stores, sums, totals)]
            out.append(For(x, begin, end, tuple(marks), size * LANES, tuple(carried)))
            begun = True
        return tuple(out)


def rows(nest: Nest, parts: list[Body], lanes: int) -> Body:
    """Accumulators, their items, and their sum, for every row."""
    stores = nest.pieces[0].stores
    begin: list[Statement] = []
    end: list[Statement] = []
    for k, s in enumerate(stores):
        begin += over(LANES, lanes, lambda at, k=k, s=s: Put(local(k), 0, (at,), identity(s)))
        half = LANES // 2
        while half:
            end += over(half, min(lanes, half), lambda at, k=k, s=s, half=half: folded(s, k, at, half))
            half //= 2
        end.append(Put(s.buffer, s.plane, s.index, load(local(k), s.value.dtype, number(0))))
    body: Body = (*begin, *(s for part in parts for s in part), *end)
    for k in reversed(range(len(nest.variables) - 1)):
        body = (For(nest.variables[k], *bounds(nest, k), body),)
    return (*(Local(local(k), s.value.dtype, LANES) for k, s in enumerate(stores)), *body)


def over(count: int, lanes: int, put: Any) -> Body:
    """A store for each of some accumulators."""
    if lanes == 1:
        return (For(LANE, number(0), number(count), (put(LANE),), independent=True),)
    vector = For(LANE, number(0), number(lanes), (put(PLACE + LANE),), lanes, lanes=lanes)
    return (For(PLACE, number(0), number(count), (vector,), lanes),)


def folded(s: Store, k: int, at: UOp, half: int) -> Put:
    a, b = (load(local(k), s.value.dtype, i) for i in (at, shifted(at, half)))
    return Put(local(k), 0, (at,), combined(s, a, b))


LANES_KIND = Lanes()
