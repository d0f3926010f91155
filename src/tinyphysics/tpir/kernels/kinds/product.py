"""How is a product of matrices summed?  C[..., i, j] = sum over t of x(i, t)*y(t, j), in the order of ir/reduction.py.

Two orders occur. Where an axis longer than a few components lies behind the one that is summed (z @ A, A @ B), terms
join one after the other, and vectors lie along the last index. Elsewhere (A @ z) a sum has 32 accumulators, and vectors
lie along t. A tile is some rows by some vectors of sums, all in registers. Tiles change no bit: each sum takes its terms
in its own order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tinyphysics.ir.dtype import i64
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.reduction import LANES, one_by_one
from tinyphysics.ir.uop import UOp, toposort
from tinyphysics.tpir.kernels.at_index import AtIndex
from tinyphysics.tpir.kernels.index import Index, Place
from tinyphysics.tpir.kernels.kinds.sequence import SEQUENCE, in_turn
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
from tinyphysics.tpir.kernels.ranges import LANE, bounds, columns, in_pieces, least, outer, sums_of, whole
from tinyphysics.tpir.kernels.sums import combined, identity, in_halves, is_sum, joined, summed
from tinyphysics.util import prod

WIDE_LANES = 8  # doubles: with vectors so wide there are 32 registers, else 16
VECTORS = 3  # of the columns of a tile with several rows
COLUMNS = 64  # sums that plain text has under way
TERMS, PANELS = 256, 5  # of a block: so many terms of the columns of so many tiles stay in the second cache
PACKED_ROWS = 16  # rows from which a copy of the columns of a tile pays
TOGETHER = 8  # terms that a thread of a GPU has under way
BLOCK, FIRST, COLUMN = (UOp.var(f"@{n}", (), i64) for n in ("block", "first", "column"))


def registers(lanes: int, s: Store) -> int:
    """Vectors of sums that fit beside what they are made from."""
    return 16 if lanes * s.value.dtype.bits >= WIDE_LANES * 64 else 8


# what the factors of a product are made of, so that tiles may compute them more than once: nothing that has a guard
FACTORS = frozenset({Ops.LOAD, Ops.VAR, Ops.CONST, Ops.ADD, Ops.SUB, Ops.MUL, Ops.FMA, Ops.NEG})


def is_product(nest: Nest) -> bool:
    """Are all items products of what is read from memory at indices that are no condition, a factor for several sums?

    Without such a factor there is nothing to keep in a tile, and other sums over the same items may join the nest.
    """
    values = [s.value for p in nest.pieces for s in p.stores]
    if not all(u.op is Ops.MUL for u in values) or not all(u.op in FACTORS for u in toposort(values)):
        return False
    return all(any(v not in f.leaves for f in u.src for v in nest.variables) for u in values)


class Product(PlainKind):
    name, rank, alone = "product", 20, True

    def task(self, w: Wanted) -> Task | None:
        """A sum of products, with all that was computed so far in memory."""
        u = w.node
        if (
            not is_sum(w)
            or u.arg[0] not in ("sum", "dot")
            or u.arg[0] == "sum"
            and u.src[0].op is not Ops.MUL
        ):
            return None
        (axis,), shape = u.arg[1], u.src[0].shape
        strided = not w.in_turn and not one_by_one(shape, axis)
        t = Task(u, w.home, self, long_axes(u.shape, w.components), shape[axis], strided=strided)
        return t if is_product(w.builder.trial(t)) else None

    def stores(self, b: Builder, t: Task, pull: AtIndex, at: list[Place], turn: UOp | None) -> list[Store]:
        return summed(b, t, pull, at, Index(0, t.along - 1, turn))

    # --- its meaning ------------------------------------------------------------------------------
    def evaluate(self, run: OnArrays, env: dict[UOp, Any]) -> None:
        nest = run.nest
        if not nest.strided:
            SEQUENCE.evaluate(run, env)
            return
        assert nest.along is not None
        t, count = nest.along
        for p in nest.pieces:
            here = env | run.grid(p)
            shape = [*nest.sizes[:-1], p.hi - p.lo]
            apart = {v: a[..., None] for v, a in here.items()}
            for s in p.stores:
                acc = run.nothing(s, [*shape, LANES])
                for k in range(0, count, LANES):
                    n = min(LANES, count - k)
                    acc[..., :n] = run.join(s, acc[..., :n], apart | {t: run.numbers(k, k + n)})
                at = run.place(s.buffer, s.plane, run.evaluate(s.index, here))
                run.write(s.buffer, at, run.fold(s, acc), shape)

    # --- plain loops ------------------------------------------------------------------------------
    def ranged(self, nest: Nest, kernel: LoopKernel) -> Function:
        body: list[Statement] = []
        for p in nest.pieces:
            body += [
                Local(f"sum{k}", s.value.dtype, LANES if nest.strided else COLUMNS)
                for k, s in enumerate(p.stores)
            ]
            body += outer(
                nest,
                p,
                self.one_row(nest, p) if nest.strided else self.row_of_sums(nest, p),
                not nest.strided,
            )
        return Function(tuple(body))

    def one_row(self, nest: Nest, p: Piece) -> Body:
        """A sum in 32 accumulators."""
        assert nest.along is not None
        t, count = nest.along
        end = count // LANES * LANES
        out: list[Statement] = []

        def every(value: UOp, k: int, s: Store, size: int = LANES) -> For:
            return For(LANE, number(0), number(size), (Put(f"sum{k}", 0, (LANE,), value),), independent=True)

        def term(s: Store, k: int, at: UOp) -> UOp:
            return joined(s, load(f"sum{k}", s.value.dtype, LANE), replaced([s.value], {t: at})[0])

        for k, s in enumerate(p.stores):
            out.append(every(identity(s), k, s))
            out.append(For(BLOCK, number(0), number(end), (every(term(s, k, BLOCK + LANE), k, s),), LANES))
            if end < count:
                out.append(every(term(s, k, shifted(LANE, end)), k, s, count - end))
            half = LANES // 2
            while half:
                a, b = (load(f"sum{k}", s.value.dtype, i) for i in (LANE, shifted(LANE, half)))
                out.append(every(combined(s, a, b), k, s, half))
                half //= 2
            out.append(Put(s.buffer, s.plane, s.index, load(f"sum{k}", s.value.dtype, number(0))))
        return tuple(out)

    def row_of_sums(self, nest: Nest, p: Piece) -> Body:
        """Some columns at a time, one term of each after the other."""
        assert nest.along is not None
        x, (t, count) = nest.variables[-1], nest.along
        lo, hi = columns(nest, p)
        size = least(hi - COLUMN, number(COLUMNS))

        def every(body: Body) -> For:
            return For(LANE, number(0), size, body, independent=True)

        def put(value: UOp, k: int) -> Put:
            return Put(f"sum{k}", 0, (LANE,), value)

        here = {x: COLUMN + LANE}
        sums = [load(f"sum{k}", s.value.dtype, LANE) for k, s in enumerate(p.stores)]
        terms = [joined(s, a, replaced([s.value], here)[0]) for s, a in zip(p.stores, sums)]
        stores = tuple(
            Put(s.buffer, s.plane, tuple(replaced(s.index, here)), a) for s, a in zip(p.stores, sums)
        )
        block = (
            every(tuple(put(identity(s), k) for k, s in enumerate(p.stores))),
            For(t, number(0), number(count), (every(tuple(put(u, k) for k, u in enumerate(terms))),)),
            every(stores),
        )
        return (For(COLUMN, lo, hi, block, COLUMNS),)

    # --- tiles ------------------------------------------------------------------------------------
    def tiled(self, nest: Nest, kernel: LoopKernel, lanes: int, every: bool = False) -> Function:
        body: list[Statement] = []
        for p in nest.pieces:
            body += self.strided_tiles(nest, p, lanes) if nest.strided else self.tiles(nest, p, lanes)
        return Function(tuple(body))

    def strided_tiles(self, nest: Nest, p: Piece, lanes: int) -> Body:
        """Some rows at a time, which share the vectors of what they are multiplied by."""
        rows = max(1, registers(lanes, p.stores[0]) // (len(p.stores) * LANES // lanes))
        x = nest.variables[-1]
        begin, end = columns(nest, p)
        middle = whole(begin, end, rows)
        body = [For(x, begin, middle, self.rows_of_accumulators(nest, p, rows, lanes), rows)]
        if rows > 1:
            body.append(For(x, middle, end, self.rows_of_accumulators(nest, p, 1, lanes)))
        return outer(nest, p, tuple(body), True)

    def rows_of_accumulators(self, nest: Nest, p: Piece, rows: int, lanes: int) -> Body:
        assert nest.along is not None
        (t, count), vectors = nest.along, LANES // lanes
        end = count // LANES * LANES
        carried: list[Carry] = []
        behind: list[Statement] = []
        local: list[Statement] = []
        for n, s in enumerate(p.stores):
            accs = sums_of(rows * vectors, s)
            for r in range(rows):
                here = {nest.variables[-1]: shifted(nest.variables[-1], r)}
                (value, *index) = replaced([s.value, *s.index], here)
                own = accs[r * vectors : (r + 1) * vectors]
                for c, acc in enumerate(own):
                    term = replaced([value], {t: shifted(BLOCK, c * lanes) + LANE})[0]
                    carried.append(Carry(acc, identity(s), joined(s, acc, term)))
                name = f"sum{n}_{r}"
                local.append(Local(name, s.value.dtype, LANES))
                behind += self.folded(s, own, name, lanes, value, t, end, count)
                behind.append(Put(s.buffer, s.plane, tuple(index), load(name, s.value.dtype, number(0))))
        loop = For(BLOCK, number(0), number(end), (), LANES, tuple(carried))
        return (*local, For(LANE, number(0), number(lanes), (loop, *behind), lanes, lanes=lanes))

    def folded(
        self, s: Store, accs: list[UOp], name: str, lanes: int, value: UOp, t: UOp, end: int, count: int
    ) -> Body:
        """The terms of the last block, where it is not whole; then the accumulators in halves."""
        d = s.value.dtype
        out: list[Statement] = []
        if end < count:
            out += [Put(name, 0, (shifted(LANE, c * lanes),), acc) for c, acc in enumerate(accs)]
            for c in range((count - end) // lanes):
                at = shifted(LANE, c * lanes)
                term = replaced([value], {t: shifted(LANE, end + c * lanes)})[0]
                out.append(Put(name, 0, (at,), joined(s, load(name, d, at), term)))
            for k in range((count - end) // lanes * lanes, count - end):
                term = replaced([value], {t: number(end + k)})[0]
                out.append(Put(name, 0, (number(k),), joined(s, load(name, d, number(k)), term)))
            accs = [load(name, d, shifted(LANE, c * lanes)) for c in range(len(accs))]
        out.append(Put(name, 0, (LANE,), in_halves(s, accs)))
        half = lanes // 2
        while half:
            x = UOp.var(f"@half{half}", (), i64)
            value = combined(s, load(name, d, x), load(name, d, shifted(x, half)))
            out.append(For(x, number(0), number(half), (Put(name, 0, (x,), value),), half, lanes=half))
            half //= 2
        return tuple(out)

    def tiles(self, nest: Nest, p: Piece, lanes: int) -> Body:
        """Rows by vectors of columns, one term of all sums after the other."""
        begin, end = columns(nest, p)
        room, sums = registers(lanes, p.stores[0]), len(p.stores)
        if len(nest.variables) == 1:
            return self.along_columns(nest, p, begin, end, 1, max(1, room // sums), lanes)
        vectors = max(1, VECTORS // sums)
        rows = max(1, room // (2 * sums))
        size = vectors * lanes
        rest, packed = begin, tuple[Statement, ...]()
        column = column_factor(nest, p)
        if column is not None and lanes > 1 and nest.sizes[-2] >= PACKED_ROWS and p.hi - p.lo >= size:
            rest = number(p.lo + (p.hi - p.lo) // size * size)
            packed = self.panels(nest, p, begin, rest, rows, vectors, lanes, column)
        over = rows_of(nest, rows, lambda n: self.along_columns(nest, p, rest, end, n, vectors, lanes))
        return outer(nest, p, (*packed, *over) if rest.arg < end.arg else packed, True, 2)

    def panels(
        self, nest: Nest, p: Piece, begin: UOp, end: UOp, rows: int, vectors: int, lanes: int, column: UOp
    ) -> Body:
        """Blocks of terms and columns, for each a copy of the second matrix, tile by tile: it stays in the second cache."""
        assert nest.along is not None
        (t, count), x, size = nest.along, nest.variables[-1], vectors * lanes
        terms, block = min(count, TERMS), min(PANELS * size, int(end.arg - begin.arg))
        local = Local("panel", column.dtype, terms * block)

        def of(first: UOp, last: UOp, begun: bool) -> Body:
            stop = least(shifted(COLUMN, block), end)
            at = (x - COLUMN) * number(terms) + (t - first) * number(size)
            copies: list[Statement] = []
            for c in range(vectors):
                value = replaced([column], {x: shifted(x, c * lanes) + LANE})[0]
                copies.append(Put("panel", 0, (shifted(at, c * lanes) + LANE,), value))
            copy = For(LANE, number(0), number(lanes), tuple(copies), lanes, lanes=lanes)
            panel = Panel(column, at, first, last, begun)

            def tiles(n: int) -> Body:
                return (For(x, COLUMN, stop, self.tile(nest, p, n, vectors, lanes, panel), size),)

            copied = For(t, first, last, (For(x, COLUMN, stop, (copy,), size),))
            return (For(COLUMN, begin, end, (copied, *rows_of(nest, rows, tiles)), block),)

        body = of(number(0), number(terms), False)
        if count > terms:
            last = least(shifted(FIRST, terms), number(count))
            body = (*body, For(FIRST, number(terms), number(count), of(FIRST, last, True), terms))
        return local, *body

    def along_columns(
        self, nest: Nest, p: Piece, begin: UOp, end: UOp, rows: int, vectors: int, lanes: int
    ) -> Body:
        x = nest.variables[-1]
        out: list[Statement] = []
        for size, width in dict.fromkeys(((vectors, lanes), (1, lanes), (1, 1))):
            stop = whole(begin, end, size * width) if size * width > 1 else end
            if stop.op is begin.op is Ops.CONST and stop.arg == begin.arg:
                continue
            out.append(For(x, begin, stop, self.tile(nest, p, rows, size, width), size * width))
            begin = stop
        return tuple(out)

    def tile(
        self, nest: Nest, p: Piece, rows: int, vectors: int, lanes: int, panel: Panel | None = None
    ) -> Body:
        """A loop over the terms, with all sums of the tile going round it."""
        assert nest.along is not None
        t, count = nest.along
        x = nest.variables[-1]
        carried: list[Carry] = []
        stores: list[Statement] = []
        for s in p.stores:
            accs = iter(sums_of(rows * vectors, s))
            for r in range(rows):
                for c in range(vectors):
                    here = {x: shifted(x, c * lanes) + LANE if lanes > 1 else shifted(x, c)}
                    if rows > 1:
                        here[nest.variables[-2]] = shifted(nest.variables[-2], r)
                    factors, index = replaced(s.value.src, here), replaced(s.index, here)
                    if panel is not None:
                        there = load("panel", panel.column.dtype, shifted(panel.at, c * lanes) + LANE)
                        factors = [there if f is panel.column else u for f, u in zip(s.value.src, factors)]
                    value = s.value.replace(tuple(factors))
                    acc, begun = next(accs), panel is not None and panel.begun
                    first = load(s.buffer, s.value.dtype, *index, plane=s.plane) if begun else identity(s)
                    carried.append(Carry(acc, first, joined(s, acc, value)))
                    stores.append(Put(s.buffer, s.plane, tuple(index), acc))
        begin, end = (number(0), number(count)) if panel is None else (panel.first, panel.last)
        body: Body = (For(t, begin, end, (), 1, tuple(carried)), *stores)
        return (For(LANE, number(0), number(lanes), body, lanes, lanes=lanes),) if lanes > 1 else body

    # --- threads ----------------------------------------------------------------------------------
    def threaded(self, nest: Nest, kernel: LoopKernel) -> list[Function]:
        assert nest.along is not None
        t, count = nest.along
        if not nest.strided:
            body = in_pieces(nest, lambda p: in_turn(nest, p, {}, TOGETHER))
            return [Function(body, Threads(nest.variables, nest.sizes))]
        rows = prod(nest.sizes)
        row = number(0)
        for v, n in zip(nest.variables, nest.sizes):
            row = row * number(n) + v

        def waiting(k: int, lane: UOp) -> UOp:
            return shifted(lane, k * LANES) * number(rows) + row

        def fill(p: Piece) -> Body:
            carried = tuple(
                Carry(acc, identity(s), joined(s, acc, s.value)) for s in p.stores for acc in sums_of(1, s)
            )
            loop = For(t, LANE, number(count), (), LANES, carried)
            return loop, *(Put(WORKSPACE, 0, (waiting(k, LANE),), c.name) for k, c in enumerate(carried))

        def fold(p: Piece) -> Body:
            out = []
            for k, s in enumerate(p.stores):
                parts = [load(WORKSPACE, s.value.dtype, waiting(k, number(lane))) for lane in range(LANES)]
                out.append(Put(s.buffer, s.plane, s.index, in_halves(s, parts)))
            return tuple(out)

        room = LANES * rows * len(nest.pieces[0].stores)
        every = Threads((*nest.variables, LANE), (*nest.sizes, LANES))
        return [
            Function(in_pieces(nest, fill), every, "", room),
            Function(in_pieces(nest, fold), Threads(nest.variables, nest.sizes), "_fold", room),
        ]


@dataclass(frozen=True, eq=False)
class Panel:
    """A copy of the columns of a tile, for the terms from `first` to `last`; `at` is where those of one term begin."""

    column: UOp
    at: UOp
    first: UOp
    last: UOp
    begun: bool  # are the sums in memory begun already?


def column_factor(nest: Nest, p: Piece) -> UOp | None:
    """The factor of a product that changes with the column and not with the row, if there is one."""
    row, x = nest.variables[-2:]
    if len(p.stores) > 1:
        return None
    found = [f for f in p.stores[0].value.src if f.op is Ops.LOAD and x in f.leaves and row not in f.leaves]
    return found[0] if len(found) == 1 else None


def rows_of(nest: Nest, rows: int, body: Callable[[int], Body]) -> Body:
    """Loops over rows: some at a time, then one by one."""
    row = nest.variables[-2]
    first, last = bounds(nest, len(nest.variables) - 2)
    middle = whole(first, last, rows)
    return For(row, first, middle, body(rows), rows), For(row, middle, last, body(1))


PRODUCT = Product()
