"""How is every store made at every index?  No two indices share a number, so neighbours are the lanes of a vector.

All values of an index are computed before the first is stored: a buffer may be read where it is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp, toposort
from tinyphysics.tpir.kernels.at_index import AtIndex, Places
from tinyphysics.tpir.kernels.index import Place, expr, rolled
from tinyphysics.tpir.kernels.layout import component_places, long_axes, peeled
from tinyphysics.tpir.kernels.loopir import (
    Body,
    For,
    Function,
    Let,
    Note,
    Statement,
    Threads,
    number,
    replaced,
)
from tinyphysics.tpir.kernels.loopir import Store as Put
from tinyphysics.tpir.kernels.neighbours import in_order
from tinyphysics.tpir.kernels.nest_kind import Builder, PlainKind, Task, Wanted
from tinyphysics.tpir.kernels.nests import LoopKernel, Nest, OnArrays, Piece, Store
from tinyphysics.tpir.kernels.ranges import LANE, columns, in_pieces, notes, outer, whole

DRAWN_TOGETHER = 4  # vectors: the ten rounds of a draw wait for each other, and those of another do not
MOST_WRITTEN_OUT = 160  # operations and stores of a loop that is written out


class Map(PlainKind):
    name, rank, immediate = "map", 10, True

    def task(self, w: Wanted) -> Task | None:
        """Whatever no other kind has to compute, and what is put in the order of a list."""
        if w.in_turn or w.stored and not in_order(w.node):
            return None
        return Task(w.node, w.home, self, long_axes(w.node.shape, w.components))

    def stores(self, b: Builder, t: Task, pull: AtIndex, at: list[Place], turn: UOp | None) -> list[Store]:
        every = component_places(t.node.shape, b.components, at)
        return [self.stored(b, t, pull, plane, where, at) for plane, where in every]

    def stored(self, b: Builder, t: Task, pull: AtIndex, plane: int, where: Places, at: list[Place]) -> Store:
        node, places, shifts = peeled(t.node, where, b.homes)
        if node in b.homes or not shifts or node.op is Ops.VAR:
            return Store(t.home.buffer, plane, tuple(map(expr, at)), pull.at(t.node, where))
        there = [rolled(i, -shifts[k], t.sizes[k]) if k in shifts else i for k, i in enumerate(at)]
        return Store(t.home.buffer, plane, tuple(map(expr, there)), pull.at(node, places))

    def evaluate(self, run: OnArrays, env: dict[UOp, Any]) -> None:
        nest = run.nest
        for p in nest.pieces:
            here = env | run.grid(p)
            shape = [*nest.sizes[:-1], p.hi - p.lo] if nest.sizes else [1]
            values = run.evaluate([s.value for s in p.stores], here)
            for s, v in zip(p.stores, values):
                run.write(s.buffer, run.place(s.buffer, s.plane, run.evaluate(s.index, here)), v, shape)
            run.guards(p, here)

    def ranged(self, nest: Nest, kernel: LoopKernel) -> Function:
        body: list[Statement] = []
        for p in nest.pieces:
            if not nest.variables:
                body += at(p, {})
                continue
            loop = For(nest.variables[-1], *columns(nest, p), at(p, {}), independent=True)
            body += outer(nest, p, (loop,), True)
        return Function(tuple(body))

    def tiled(self, nest: Nest, kernel: LoopKernel, lanes: int, every: bool = False) -> Function:
        """With `every`, all of a nest along one axis, whatever range is asked for: then bounds are numbers."""
        if not nest.variables:
            return self.ranged(nest, kernel)
        loops = [s for p in nest.pieces for s in self.piece(nest, p, lanes, every)]
        return Function(outer(nest, nest.pieces[0], tuple(loops), True))

    def piece(self, nest: Nest, p: Piece, lanes: int, every: bool) -> Body:
        """One range of the innermost loop: vectors, and what is left over."""
        x = nest.variables[-1]
        widest = lanes * (DRAWN_TOGETHER if draws([s.value for s in p.stores] + list(p.guards)) else 1)
        if len(nest.variables) > 1 or every:
            work = nest.operations + max(len(q.stores) for q in nest.pieces)
            found = spans(p.lo, p.hi, widest)
            if not every and repeatable(nest):
                found = overlapping(found, widest)
            return tuple(s for span in found for s in over(p, x, *span, work))
        begin, end = columns(nest, p)
        out: list[Statement] = []
        for width in dict.fromkeys((widest, lanes)):
            if width == 1 or p.hi - p.lo < width:
                continue
            middle = whole(begin, end, width)
            out.append(For(x, begin, middle, vector(p, x, x, width), width))
            begin = middle
        return (*out, For(x, begin, end, at(p, {})))

    def threaded(self, nest: Nest, kernel: LoopKernel) -> list[Function]:
        return [Function(in_pieces(nest, lambda p: at(p, {})), Threads(nest.variables, nest.sizes))]


def at(p: Piece, here: dict[UOp, UOp]) -> Body:
    """All stores of an index, or of the lanes of a vector."""
    values = replaced([s.value for s in p.stores], here)
    names = tuple(UOp.var(f"@value{k}", (), u.dtype) for k, u in enumerate(values))
    guards = tuple(n.condition for n in notes(p, here))
    seen = tuple(UOp.var(f"@seen{k}", (), g.dtype) for k, g in enumerate(guards))
    puts = [Put(s.buffer, s.plane, tuple(replaced(s.index, here)), name) for s, name in zip(p.stores, names)]
    return Let((*names, *seen), (*values, *guards)), *puts, *(Note(g) for g in seen)


def vector(p: Piece, x: UOp, first: UOp, lanes: int) -> Body:
    if lanes == 1:
        return at(p, {x: first} if first is not x else {})
    return (For(LANE, number(0), number(lanes), at(p, {x: first + LANE}), lanes, lanes=lanes),)


def over(p: Piece, x: UOp, begin: int, end: int, lanes: int, work: int) -> Body:
    """A range between numbers that are known, written out if it is short."""
    if (end - begin) // lanes * work > MOST_WRITTEN_OUT and end - begin > lanes:
        return (For(x, number(begin), number(end), vector(p, x, x, lanes), lanes),)
    return tuple(s for i in range(begin, end, lanes) for s in vector(p, x, number(i), lanes))


def draws(roots: Sequence[UOp]) -> bool:
    """Are random numbers drawn here?"""
    return any(u.op is Ops.MULHI or u.op is Ops.RANDOM for u in toposort(roots))


def spans(lo: int, hi: int, width: int) -> list[tuple[int, int, int]]:
    """A range as (begin, end, width): vectors at multiples of their width, the widest in the middle.

    A vector that lies across two that were just stored waits until both have reached the cache.

    >>> spans(1, 63, 4)
    [(1, 2, 1), (2, 4, 2), (4, 60, 4), (60, 62, 2), (62, 63, 1)]
    """
    if width == 1:
        return [(lo, hi, 1)] if lo < hi else []
    first, last = -(-lo // width) * width, hi // width * width
    if first >= last:
        return spans(lo, hi, width // 2)
    return [*spans(lo, first, width // 2), (first, last, width), *spans(last, hi, width // 2)]


def overlapping(found: list[tuple[int, int, int]], width: int) -> list[tuple[int, int, int]]:
    """The same range, where what is left at an end is one vector that shares places with the next.

    Three short vectors are more text, and more time, than one whole one.

    >>> overlapping(spans(1, 63, 4), 4)
    [(1, 5, 4), (4, 60, 4), (59, 63, 4)]
    """
    wide = [k for k, (_, _, w) in enumerate(found) if w == width]
    if width == 1 or not wide:
        return found
    (k,) = wide
    lo, hi = found[0][0], found[-1][1]
    before = [(lo, lo + width, width)] if k > 1 else found[:k]
    after = [(hi - width, hi, width)] if len(found) - k > 2 else found[k + 1 :]
    return [*before, found[k], *after]


def repeatable(nest: Nest) -> bool:
    """May an index be done twice?  Not where something is read that was written at its first time."""
    written = {s.buffer for p in nest.pieces for s in p.stores}
    return all(u.arg[0] not in written for u in nest.loads())


MAP = Map()
