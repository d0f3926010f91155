"""How are equations along a line solved?  Down the line and back, place after place; lines beside each other are lanes.

The whole way is in one nest, since the way back reads what the way down has left (rules/calculus/lines.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import Shape, UOp
from tinyphysics.rules.calculus import lines
from tinyphysics.rules.calculus.linear import is_number
from tinyphysics.tpir.kernels.at_index import AtIndex, Places, is_component
from tinyphysics.tpir.kernels.index import Index, Place, Unsupported, expr
from tinyphysics.tpir.kernels.layout import component_places, long_axes
from tinyphysics.tpir.kernels.loopir import (
    Body,
    Carry,
    For,
    Function,
    Let,
    Statement,
    Threads,
    number,
    replaced,
)
from tinyphysics.tpir.kernels.loopir import Store as Put
from tinyphysics.tpir.kernels.nest_kind import Builder, PlainKind, Task, Wanted
from tinyphysics.tpir.kernels.nests import LoopKernel, Nest, OnArrays, Piece, Store, load
from tinyphysics.tpir.kernels.ranges import LANE, columns, in_pieces, outer, whole

Grid = list[list[UOp]]


@dataclass(frozen=True)
class Line:
    """The node of a nest, and the names of what it carries: a grid for each line that is a plane and no loop."""

    node: UOp
    names: tuple[Grid, ...]


class Lines(PlainKind):
    name, rank, ops = "line", 15, frozenset({Ops.LINE})
    alone = closed = True

    def task(self, w: Wanted) -> Task | None:
        u = w.node
        if u.op is not Ops.LINE:
            return None
        if is_component(u.shape[2], w.components):
            raise Unsupported("equations along so short a line")
        return Task(u, w.home, self, long_axes(u.shape[3:], w.components), u.shape[2])

    def nest(self, b: Builder, tasks: list[Task]) -> Nest:
        u = tasks[0].node
        beside = component_places(u.shape[3:], b.components, [0] * len(tasks[0].sizes))
        names = tuple(named(u, k) for k, _ in beside)
        return replace(b.nest_in_pieces(tasks), detail=Line(u, names))

    def items(self, nest: Nest) -> int:
        return super().items(nest) * len(nest.detail.names)

    def stores(self, b: Builder, t: Task, pull: AtIndex, at: list[Place], turn: UOp | None) -> list[Store]:
        """What each place leaves on the way down, as it depends on what the one before it left."""
        u, place = t.node, Index(0, t.along - 1, turn)
        out: list[Store] = []
        for k, beside in component_places(u.shape[3:], b.components, at):
            before = named(u, k)

            def grid(source: UOp, beside: Places = beside) -> Grid:
                n, wide = source.shape[:2]
                return [[pull.at(source, (i, j, place, *beside)) for j in range(wide)] for i in range(n)]

            low, own, high, right = map(grid, u.src)
            found = lines.down(u, low, own, high, right, before)
            for (i, row), (j, _) in product(enumerate(found), enumerate(found[0])):
                plane, index = address(u.shape, (i, j, place, *beside), b.components)
                out.append(Store(t.home.buffer, plane, index, row[j]))
        return out

    def evaluate(self, run: OnArrays, env: dict[UOp, Any]) -> None:
        nest = run.nest
        assert nest.along is not None
        t, m = nest.along
        for p in nest.pieces:
            shape = [*nest.sizes[:-1], p.hi - p.lo] if nest.sizes else [1]
            here, kept = env | run.grid(p), []
            names = [x for grid in nest.detail.names for row in grid for x in row]
            now = dict.fromkeys(names, run.numbers(0, 1) * 0.0)
            for k in range(m):
                values = run.evaluate([s.value for s in p.stores], here | now | {t: run.numbers(k, k + 1)})
                now = dict(zip(names, values))
                kept.append(now)
            back = way_back(nest)
            behind = {x: run.numbers(0, 1) * 0.0 for x, _ in back}
            for k in reversed(range(m)):
                found = run.evaluate([u for _, u in back], kept[k] | behind)
                behind = dict(zip((x for x, _ in back), found))
                own = kept[k] | {of: behind[x] for of, x in zip(solution(nest), behind)}
                for s, name in zip(p.stores, names):
                    at = run.evaluate(s.index, here | {t: run.numbers(k, k + 1)})
                    run.write(s.buffer, run.place(s.buffer, s.plane, at), own[name], shape)

    def ranged(self, nest: Nest, kernel: LoopKernel) -> Function:
        return Function(tuple(s for p in nest.pieces for s in outer(nest, p, both_ways(nest, p, {}), False)))

    def tiled(self, nest: Nest, kernel: LoopKernel, lanes: int, every: bool = False) -> Function:
        if not nest.variables:
            return self.ranged(nest, kernel)
        x = nest.variables[-1]
        body: list[Statement] = []
        for p in nest.pieces:
            begin, end = columns(nest, p)
            middle = whole(begin, end, lanes)
            vector = For(
                LANE, number(0), number(lanes), both_ways(nest, p, {x: x + LANE}), lanes, lanes=lanes
            )
            loops = [For(x, begin, middle, (vector,), lanes)] if lanes > 1 and p.hi - p.lo >= lanes else []
            rest = For(x, middle if loops else begin, end, both_ways(nest, p, {}))
            body += outer(nest, p, (*loops, rest), True)
        return Function(tuple(body))

    def threaded(self, nest: Nest, kernel: LoopKernel) -> list[Function]:
        body = in_pieces(nest, lambda p: both_ways(nest, p, {}))
        return [Function(body, Threads(nest.variables, nest.sizes))]


def named(u: UOp, k: int) -> Grid:
    rows, columns, *_ = u.shape
    return lines.matrix_of(f"@line{k}.", rows, columns, u.dtype)


def address(shape: Shape, where: Places, components: int) -> tuple[int, tuple[UOp, ...]]:
    """(plane, index) of one number; an axis of few is part of the plane unless it is a loop elsewhere."""
    plane, index = 0, []
    for n, i in zip(shape, where):
        if is_component(n, components):
            assert isinstance(i, int)
            plane = plane * n + i
        else:
            index.append(expr(i))
    return plane, tuple(index)


def solution(nest: Nest) -> list[UOp]:
    """The names under which a place's right-hand sides, and then its unknowns, are known."""
    n = nest.detail.node.shape[0]
    return [x for grid in nest.detail.names for row in grid for x in row[n:]]


def way_back(nest: Nest) -> list[tuple[UOp, UOp]]:
    """(name, value) of the unknowns of a place, by what it left and by those of the place behind it."""
    u: UOp = nest.detail.node
    n, wide = u.shape[:2]
    out: list[tuple[UOp, UOp]] = []
    for k, grid in enumerate(nest.detail.names):
        behind = lines.matrix_of(f"@behind{k}.", n, wide - n, u.dtype)
        out += zip(lines.flat(behind), lines.flat(lines.back(u, grid, behind)))
    return out


def carries(names: Sequence[UOp], values: Sequence[UOp]) -> tuple[Carry, ...]:
    return tuple(Carry(x, UOp.const(0.0, x.dtype), v) for x, v in zip(names, values) if not is_number(v, 0.0))


def both_ways(nest: Nest, p: Piece, here: dict[UOp, UOp]) -> Body:
    assert nest.along is not None
    (t, m), names = nest.along, [x for grid in nest.detail.names for row in grid for x in row]
    new = [UOp.var(f"{x.arg}'", (), x.dtype) for x in names]
    values = replaced([s.value for s in p.stores], here)
    puts = [Put(s.buffer, s.plane, tuple(replaced(s.index, here)), x) for s, x in zip(p.stores, new)]
    carried = tuple(c for c in carries(names, values))
    after = dict(zip(names, new))
    down = For(
        t, number(0), number(m), (Let(tuple(new), tuple(values)), *puts),
        carried=tuple(Carry(c.name, c.first, after[c.name]) for c in carried),
    )  # fmt: skip
    there = here | {t: number(m - 1) - t}
    of = {
        x: load(x.dtype, tuple(replaced(s.index, there)), s.buffer, s.plane) for s, x in zip(p.stores, names)
    }
    behind, found = zip(*way_back(nest))
    found = tuple(replaced(found, of))
    last = tuple(UOp.var(f"{x.arg}'", (), x.dtype) for x in behind)
    into = dict(zip(names, p.stores))
    back = [
        Put(into[of].buffer, into[of].plane, tuple(replaced(into[of].index, there)), x)
        for of, x in zip(solution(nest), last)
    ]
    zero = UOp.const(0.0, p.stores[0].value.dtype)
    way = tuple(Carry(x, zero, y) for x, y in zip(behind, last))
    return (down, For(t, number(0), number(m), (Let(last, found), *back), carried=way))


LINE = Lines()
