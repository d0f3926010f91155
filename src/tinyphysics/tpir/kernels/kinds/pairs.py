"""How is a sum over pairs i < j taken?  Rows in eight accumulators by j modulo 8, columns in slabs of rows: ir/reduction.py.

This is its meaning and its plain text. What runs fast is written by hand: emit/kinds/nest_pairs.py and nest_near.py for a
processor, ptx_pairs.py and ptx_near.py for a GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tinyphysics.ir.dtype import i32, i64
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.reduction import PAIR_LANES, pairs_of, slabs
from tinyphysics.ir.uop import UOp
from tinyphysics.ir.value import REDUCTION
from tinyphysics.tpir.kernels.at_index import AtIndex, Home
from tinyphysics.tpir.kernels.index import Index, Place, expr
from tinyphysics.tpir.kernels.kinds.fold import FOLD
from tinyphysics.tpir.kernels.layout import component_places
from tinyphysics.tpir.kernels.loopir import (
    HI,
    LO,
    Body,
    Carry,
    For,
    Function,
    Let,
    Local,
    Statement,
    Threads,
    When,
    load,
    number,
    replaced,
    shifted,
)
from tinyphysics.tpir.kernels.loopir import Store as Put
from tinyphysics.tpir.kernels.neighbours import FIRST, list_of
from tinyphysics.tpir.kernels.nest_kind import Builder, PlainKind, Task, Wanted
from tinyphysics.tpir.kernels.nests import LINKS, LoopKernel, Nest, OnArrays, Store
from tinyphysics.tpir.kernels.ranges import LANE, least, most, notes, sums_of
from tinyphysics.tpir.kernels.sums import combined, identity, joined

SLAB, BLOCK, ENTRY, LINK = (UOp.var(f"@{n}", (), i64) for n in ("slab", "block", "e", "link"))
NEIGHBOURS = 100  # pairs that are looked at for each particle of a list: a guess, for costs
BEGIN, END, WITHIN = (UOp.var(f"@{n}", (), i64) for n in ("begin", "end", "within"))


def cut(k: UOp, cuts: Sequence[int], first: int = 0) -> UOp:
    """The number at a place of a short table, by choices between halves."""
    if len(cuts) == 1:
        return number(cuts[0])
    half = len(cuts) // 2
    low, high = cut(k, cuts[:half], first), cut(k, cuts[half:], first + half)
    return UOp(Ops.WHERE, i64, (), (k < number(first + half), low, high))


def and_(x: UOp, mask: int) -> UOp:
    return UOp(Ops.AND, i64, (), (x, number(mask)))


class Pairs(PlainKind):
    """The first variable is i, the innermost j > i; stores indexed by i are sums over j and the others sums over i, in
    slabs, each with planes of its own. With a list, j is a neighbour of i in it; both are places in its order."""

    name, rank, links = "pairs", 20, LINKS

    def task(self, w: Wanted) -> Task | None:
        u = w.node
        if u.op is not Ops.REDUCE or u.arg[0] != "pairs":
            return None
        size, home, by_list = u.src[0].shape[u.arg[1][0]], w.home, len(u.arg[2]) > 2
        if pairs_of(u) == "columns":
            home = Home(w.name, len(slabs(size, by_list)) - 1, by_list)
        return Task(u, home, self, (size,), near=list_of(u.src[0]) if by_list else None)

    def together(self, u: UOp, v: UOp) -> bool:
        """Sums over the same pairs, all of them."""
        if v.op is not Ops.REDUCE or v.arg[0] != "pairs" or len(u.arg[2]) > 2:
            return False
        return v.arg[2] == u.arg[2] and v.src[0].shape[:2] == u.src[0].shape[:2]

    def variables(self, t: Task) -> tuple[UOp, ...]:
        return UOp.var("@i", (), i64), UOp.var("@j", (), i64)

    def places(self, t: Task, variables: tuple[UOp, ...], lo: int, hi: int) -> list[Place]:
        return [Index(0, t.sizes[0] - 1, v) for v in variables]

    def stores(self, b: Builder, t: Task, pull: AtIndex, at: list[Place], turn: UOp | None) -> list[Store]:
        u, (axis,) = t.node, t.node.arg[1]
        first, second = u.arg[2][:2]
        kept, other = at if pairs_of(u) == "rows" else at[::-1]
        out = []
        for plane, where in component_places(u.shape, b.components, [kept]):
            full = list(where)
            full.insert(axis, other)
            full[first], full[second] = at
            value = pull.at(u.src[0], tuple(full))
            out.append(Store(t.home.buffer, plane, (expr(kept),), value, REDUCTION[u.arg[0]]))
        return out

    def after(self, b: Builder, tasks: list[Task]) -> list[Nest]:
        folded = [t for t in tasks if t.home.folded]
        return [FOLD.of(b, folded)] if folded else []

    def extent(self, nest: Nest) -> int:
        return nest.parts * LINKS

    def items(self, nest: Nest) -> int:
        (n,) = nest.sizes
        return n * NEIGHBOURS if nest.near is not None else n * (n - 1) // 2

    def evaluate(self, run: OnArrays, env: dict[UOp, Any]) -> None:
        run.pairs(env)

    def ranged(self, nest: Nest, kernel: LoopKernel) -> Function:
        (size,), (piece,) = nest.sizes, nest.pieces
        i, j = nest.variables
        rows = [s for s in piece.stores if s.index[0] is i]
        columns = [s for s in piece.stores if s.index[0] is j]
        cuts = slabs(size, nest.near is not None)
        further = {s: SLAB * number(apart(nest, kernel, s)) for s in columns}

        def pair(lane: UOp, here: dict[UOp, UOp]) -> Body:
            terms = replaced([s.value for s in (*rows, *columns)], here)
            at = here.get(j, j)
            places = [(f"row{k}", 0, lane) for k in range(len(rows))]
            places += [(s.buffer, s.plane, at + further[s]) for s in columns]
            puts = [
                Put(b, plane, (x,), joined(s, load(b, s.value.dtype, x, plane=plane), u))
                for s, u, (b, plane, x) in zip((*rows, *columns), terms, places)
            ]
            return (*puts, *notes(piece, here))

        def one_by_one(begin: UOp, end: UOp) -> For:
            return For(j, begin, end, pair(and_(j, PAIR_LANES - 1), {}))

        row: list[Statement] = [
            over(PAIR_LANES, Put(f"row{k}", 0, (LANE,), identity(s))) for k, s in enumerate(rows)
        ]
        if nest.near is None:
            block, last = and_(shifted(i, PAIR_LANES), -PAIR_LANES), size // PAIR_LANES * PAIR_LANES
            whole = For(LANE, number(0), number(PAIR_LANES), pair(LANE, {j: BLOCK + LANE}), independent=True)
            row.append(one_by_one(shifted(i, 1), least(block, number(size))))
            row.append(For(BLOCK, block, number(last), (whole,), PAIR_LANES))
            row.append(one_by_one(most(block, number(last)), number(size)))
        else:
            entry = load(f"near{nest.near}.blocks", i32, ENTRY).cast(i64)
            block = UOp(Ops.SHR, i64, (), (entry, number(FIRST))) * number(PAIR_LANES)
            begin, end = (load(f"near{nest.near}.starts", i64, shifted(i, k)) for k in (0, 1))
            inner = one_by_one(most(block, shifted(i, 1)), least(shifted(block, PAIR_LANES), number(size)))
            row.append(For(ENTRY, begin, end, (inner,)))
        for k, s in enumerate(rows):
            row += folded(f"row{k}", s)
            row.append(Put(s.buffer, s.plane, s.index, load(f"row{k}", s.value.dtype, number(0))))
        spans = f"near{nest.near}.spans"
        lo, hi = (
            (number(0), number(size))
            if nest.near is None
            else tuple(load(spans, i64, shifted(SLAB * number(2), k)) for k in (0, 1))
        )
        clear = [
            For(LANE, lo, hi, (Put(s.buffer, s.plane, (LANE + further[s],), identity(s)),)) for s in columns
        ]
        where = (UOp(Ops.TDIV, i64, (), (LINK, number(LINKS))), and_(LINK, LINKS - 1))
        begin, end = cut(SLAB, cuts), cut(shifted(SLAB, 1), cuts)
        up_to = BEGIN + link_end(shifted(WITHIN, 1))
        bounds = BEGIN + link_end(WITHIN), UOp(Ops.WHERE, i64, (), (WITHIN < number(LINKS - 1), up_to, END))
        part: Body = (
            Let((SLAB, WITHIN), where),
            Let((BEGIN, END), (begin, end)),
            When(WITHIN < number(1), tuple(clear)),
            For(i, *bounds, tuple(row)),
        )
        local = [Local(f"row{k}", s.value.dtype, PAIR_LANES) for k, s in enumerate(rows)]
        return Function((*local, For(LINK, LO, HI, part)))

    def threaded(self, nest: Nest, kernel: LoopKernel) -> list[Function]:
        """A thread for each point: the sum over later ones in eight accumulators, that over earlier ones slab by slab."""
        (size,), (piece,) = nest.sizes, nest.pieces
        i, j = nest.variables
        rows = [s for s in piece.stores if s.index[0] is i]
        columns = [s for s in piece.stores if s.index[0] is j]
        body: list[Statement] = []
        if rows or piece.guards:
            lane = and_(j, PAIR_LANES - 1)
            body += [Local(f"row{k}", s.value.dtype, PAIR_LANES) for k, s in enumerate(rows)]
            body += [over(PAIR_LANES, Put(f"row{k}", 0, (LANE,), identity(s))) for k, s in enumerate(rows)]
            puts = [
                Put(f"row{k}", 0, (lane,), joined(s, load(f"row{k}", s.value.dtype, lane), s.value))
                for k, s in enumerate(rows)
            ]
            body.append(For(j, shifted(i, 1), number(size), (*puts, *notes(piece, {}))))
            for k, s in enumerate(rows):
                body += folded(f"row{k}", s)
                body.append(Put(s.buffer, s.plane, s.index, load(f"row{k}", s.value.dtype, number(0))))
        if columns:
            cuts, earlier = slabs(size), UOp.var("@earlier", (), i64)
            here = {j: i, i: earlier}  # the thread's own point is the later one now
            sums = [sums_of(1, s)[0] for s in columns]
            terms = replaced([s.value for s in columns], here)
            carried = [Carry(a, identity(s), joined(s, a, u)) for s, a, u in zip(columns, sums, terms)]
            end = least(cut(shifted(SLAB, 1), cuts), i)
            loop = For(earlier, cut(SLAB, cuts), end, (), 1, tuple(carried))
            puts = [
                Put(s.buffer, s.plane, (i + SLAB * number(apart(nest, kernel, s)),), a)
                for s, a in zip(columns, sums)
            ]
            body.append(For(SLAB, number(0), number(len(cuts) - 1), (loop, *puts)))
        return [Function(tuple(body), Threads((i,), (size,)))]


def link_end(place: UOp) -> UOp:
    """How many rows of a slab come before one of its links: a multiple of the pair lanes."""
    return and_(UOp(Ops.TDIV, i64, (), ((END - BEGIN) * place, number(LINKS))), -PAIR_LANES)


def apart(nest: Nest, kernel: LoopKernel, s: Store) -> int:
    """Numbers from the sums of one slab to those of the next."""
    b = kernel.buffers[s.buffer]
    return b.planes // nest.parts * b.plane


def over(count: int, put: Put) -> For:
    return For(LANE, number(0), number(count), (put,), independent=True)


def folded(name: str, s: Store) -> Body:
    """Accumulators in halves."""
    out: list[Statement] = []
    half = PAIR_LANES // 2
    while half:
        a, b = (load(name, s.value.dtype, x) for x in (LANE, shifted(LANE, half)))
        out.append(over(half, Put(name, 0, (LANE,), combined(s, a, b))))
        half //= 2
    return tuple(out)


PAIRS = Pairs()
