"""How do particles and the nodes of a mesh see each other?  One particle after the other; its weights wait on the stack.

What a weight is, and in which order items are added, is said in ir/mesh.py. The order of additions is part of the meaning: a
thread has nodes of its own, planes of a mesh or columns on a GPU, goes over all particles, and takes those that reach them.
Particles that read the mesh share the threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tinyphysics.ir.dtype import DType, i64
from tinyphysics.ir.mesh import AXES, INTERPOLATE, SPREAD, Along, at_nodes, derivatives
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import Shape, UOp
from tinyphysics.rules.functions.transcendental import lower
from tinyphysics.tpir.kernels.at_index import AtIndex
from tinyphysics.tpir.kernels.index import Index, Place
from tinyphysics.tpir.kernels.kinds.scatter import ITEM, written, zero
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
)
from tinyphysics.tpir.kernels.loopir import Store as Put
from tinyphysics.tpir.kernels.mesh_columns import Waiting, after, over_particles
from tinyphysics.tpir.kernels.nest_kind import Builder, PlainKind, Task, Wanted
from tinyphysics.tpir.kernels.nests import LoopKernel, Nest, OnArrays, Piece, Store
from tinyphysics.tpir.kernels.ranges import in_pieces, least, outer

X, Y, Z, J, K = (UOp.var(f"@{n}", (), i64) for n in ("nx", "ny", "nz", "nj", "nk"))
NODE = (X, Y, Z)


@dataclass(frozen=True, eq=False)
class Particle:
    """What is done at one particle: stores that share its place and the mesh."""

    place: tuple[UOp, ...]
    other: UOp  # the charge, or what is at a node
    order: int
    grid: Shape
    stores: tuple[tuple[Store, Along], ...]

    @property
    def along(self) -> tuple[Along, ...]:
        return tuple(dict.fromkeys(d for _, d in self.stores))

    @property
    def dtype(self) -> DType:
        return self.other.dtype

    def derivatives(self, axis: int) -> list[int]:
        return derivatives(self.along, axis)


def particles(p: Piece) -> list[Particle]:
    groups: dict[tuple[Any, ...], list[tuple[Store, Along]]] = {}
    for s in p.stores:
        what, order, along, grid = s.value.arg
        alone = s if what == SPREAD else None  # each mesh is filled in its own order
        groups.setdefault((s.value.src, order, grid, alone), []).append((s, along))
    return [
        Particle(src[:AXES], src[AXES], order, grid, tuple(own))
        for (src, order, grid, _), own in groups.items()
    ]


@lru_cache(maxsize=64)
def expressions(
    order: int, grid: Shape, along: tuple[Along, ...], dtype: DType
) -> tuple[tuple[UOp, ...], list[UOp]]:
    """Variables for a place, and what follows from it in the operations of a machine."""
    names = tuple(UOp.var(f"@place{a}", (), dtype) for a in range(AXES))
    return names, lower(at_nodes(names, order, grid, along))


def node(below: UOp, j: int, order: int, size: int) -> UOp:
    """The j-th node that a particle sees."""
    at = below + number(j - order + 1) if j - order + 1 else below
    return UOp(Ops.WHERE, i64, (), (at < number(0), at + number(size), at))


class Seen:
    """The nodes and weights of a particle: those along the last axis have names, the others wait on the stack."""

    def __init__(self, t: Particle, tag: str) -> None:
        self.t, self.tag = t, tag
        given, found = expressions(t.order, t.grid, t.along, t.dtype)
        names = tuple(UOp.var(f"@w{tag}{k}", (), u.dtype) for k, u in enumerate(found))
        places = tuple(UOp.var(f"@p{tag}{a}", (), t.dtype) for a in range(AXES))
        table = dict(zip(given, places))
        self.begin: list[Statement] = [Let(places, t.place), Let(names, tuple(replaced(found, table)))]
        self.below: list[UOp] = []
        self.weights: list[dict[int, list[UOp]]] = []
        rest = iter(names)
        for a in range(AXES):
            self.below.append(next(rest))
            self.weights.append({d: [next(rest) for _ in range(t.order)] for d in t.derivatives(a)})
        for a in range(AXES - 1):
            for j in range(t.order):
                self.begin.append(
                    Put(self.local(a), 0, (number(j),), node(self.below[a], j, t.order, t.grid[a]))
                )
            for d, w in self.weights[a].items():
                self.begin += [Put(self.local(a, d), 0, (number(j),), x) for j, x in enumerate(w)]
        self.last = tuple(UOp.var(f"@z{tag}{j}", (), i64) for j in range(t.order))
        self.begin.append(
            Let(self.last, tuple(node(self.below[2], j, t.order, t.grid[2]) for j in range(t.order)))
        )

    def local(self, axis: int, derivative: int | None = None) -> str:
        return f"mesh{self.tag}_{axis}{'n' if derivative is None else f'd{derivative}'}"

    def room(self) -> Body:
        out: list[Statement] = []
        for a in range(AXES - 1):
            out.append(Local(self.local(a), i64, self.t.order))
            out += [Local(self.local(a, d), self.t.dtype, self.t.order) for d in self.t.derivatives(a)]
        return tuple(out)

    def node(self, axis: int, at: UOp) -> UOp:
        return load(self.local(axis), i64, at)

    def weight(self, axis: int, derivative: int, at: UOp) -> UOp:
        return load(self.local(axis, derivative), self.t.dtype, at)


def at_each(p: Piece, tag: str, of: Callable[[Particle, Seen], Body]) -> tuple[Body, Body]:
    """Room on the stack for the particles of a piece, and what is done at each."""
    room: list[Statement] = []
    body: list[Statement] = []
    for n, t in enumerate(particles(p)):
        seen = Seen(t, f"{tag}_{n}_")
        room += seen.room()
        body += of(t, seen)
    return tuple(room), tuple(body)


def turns(variable: UOp, count: UOp, body: Body, sums: dict[UOp, UOp]) -> For:
    """A loop with sums that begin with zero."""
    new = tuple(UOp.var(f"{x.arg}'", (), x.dtype) for x in sums)
    carried = tuple(Carry(x, UOp.const(0.0, x.dtype), y) for x, y in zip(sums, new))
    return For(variable, number(0), count, (*body, Let(new, tuple(sums.values()))), carried=carried)


class OnMesh(PlainKind):
    what = ""
    at_particle: Callable[[Particle, Seen], Body]
    evaluate: Callable[[OnArrays, dict[UOp, Any]], None]

    def task(self, w: Wanted) -> Task | None:
        if w.node.op is not Ops.MESH or w.node.arg[0] != self.what:
            return None
        return Task(w.node, w.home, self, w.node.src[0].shape[:1])

    def stores(self, b: Builder, t: Task, pull: AtIndex, at: list[Place], turn: UOp | None) -> list[Store]:
        u = t.node
        f, other = u.src
        place = tuple(pull.at(f, (at[0], a)) for a in range(AXES))
        nodes = tuple(Index(0, n - 1, v) for n, v in zip(u.arg[3], NODE))
        if self.what == SPREAD:
            value = UOp(Ops.MESH, u.dtype, (), (*place, pull.at(other, (at[0],))), u.arg)
            return [Store(t.home.buffer, 0, NODE, value, Ops.ADD)]
        value = UOp(Ops.MESH, u.dtype, (), (*place, pull.at(other, nodes)), u.arg)
        (i,) = at
        assert isinstance(i, Index)
        return [Store(t.home.buffer, 0, (i.expr(),), value)]

    def operations(self, nest: Nest) -> int:
        return sum(2 * t.order**AXES * len(t.stores) for t in particles(nest.pieces[0]))

    def ranged(self, nest: Nest, kernel: LoopKernel) -> Function:
        room, body = self.loops(nest)
        return Function((*room, *self.clear(nest, kernel), *body))

    def clear(self, nest: Nest, kernel: LoopKernel) -> Body:
        return ()

    def loops(self, nest: Nest) -> tuple[Body, Body]:
        room: list[Statement] = []
        out: list[Statement] = []
        for k, p in enumerate(nest.pieces):
            own, body = at_each(p, str(k), self.whole)
            room += own
            out += self.over(nest, p, body)
        return tuple(room), tuple(out)

    def over(self, nest: Nest, p: Piece, body: Body) -> Body:
        return outer(nest, p, body, False)

    def whole(self, t: Particle, seen: Seen) -> Body:
        return (*seen.begin, *self.at_particle(t, seen))

    def found(
        self, run: OnArrays, t: Particle, env: dict[UOp, Any], along: Along
    ) -> tuple[list[Any], list[list[Any]]]:
        """With NumPy: for each axis the nodes and the weights of every particle, node by node."""
        given, found = expressions(t.order, t.grid, (along,), t.dtype)
        places = run.evaluate(t.place, env)
        values = run.evaluate(found, env | dict(zip(given, places)))
        nodes, w = [], []
        for a in range(AXES):
            below, *own = values[a * (t.order + 1) : (a + 1) * (t.order + 1)]
            nodes.append([(below - (t.order - 1) + j) % t.grid[a] for j in range(t.order)])
            w.append(own)
        return nodes, w


class Spread(OnMesh):
    name, rank, ops, what = "spread", 21, frozenset({Ops.MESH}), SPREAD

    def extent(self, nest: Nest) -> int:
        """Planes, which threads share."""
        return max(t.grid[0] for p in nest.pieces for t in particles(p))

    def clear(self, nest: Nest, kernel: LoopKernel) -> Body:
        """The planes of this thread; a mesh of fewer planes than another is cleared by those that have them."""
        out: list[Statement] = []
        for t in (t for p in nest.pieces for t in particles(p)):
            ((store, _),) = t.stores
            x, y, z = t.grid
            empty = Put(store.buffer, 0, (X, Y, Z), UOp.const(0, t.dtype))
            row = For(Z, number(0), number(z), (empty,))
            out.append(For(X, LO, least(HI, number(x)), (For(Y, number(0), number(y), (row,)),)))
        return tuple(out)

    def over(self, nest: Nest, p: Piece, body: Body) -> Body:
        return (For(nest.variables[0], number(p.lo), number(p.hi), body),)

    def whole(self, t: Particle, seen: Seen) -> Body:
        """At particles that reach the planes of this thread."""
        planes = HI - LO + number(t.order - 1)
        given, below = self.below(t, seen, 1)
        reaches = after(LO, below[0], t.grid[0]) < planes
        return (*given, When(reaches, super().whole(t, seen)))

    def below(self, t: Particle, seen: Seen, axes: int) -> tuple[Body, tuple[UOp, ...]]:
        """The node below a particle, along the first axes, before anything else is known of it."""
        given, found = expressions(t.order, t.grid, t.along, t.dtype)
        places = tuple(UOp.var(f"@b{seen.tag}{a}", (), t.dtype) for a in range(axes))
        names = tuple(UOp.var(f"@k{seen.tag}{a}", (), i64) for a in range(axes))
        wanted, before = [], 0
        for a in range(axes):
            wanted.append(found[before])
            before += 1 + t.order * len(t.derivatives(a))
        table = dict(zip(given, places))
        return (Let(places, t.place[:axes]), Let(names, tuple(replaced(wanted, table)))), names

    def at_particle(self, t: Particle, seen: Seen) -> Body:
        (store, (dx, _, _)) = t.stores[0]
        charge = UOp.var(f"@c{seen.tag}", (), t.dtype)
        x = UOp.var(f"@x{seen.tag}", (), i64)
        n = number(t.order)
        column = self.column(t, seen, charge, x, seen.weight(0, dx, J), K)
        plane: Body = (
            Let((x,), (seen.node(0, J),)),
            When((LO <= x) & (x < HI), (For(K, number(0), n, column),)),
        )
        return (Let((charge,), (t.other,)), For(J, number(0), n, plane))

    def column(self, t: Particle, seen: Seen, charge: UOp, x: UOp, weight: UOp, along: UOp) -> Body:
        """What nodes along the third axis have of a particle."""
        (store, (_, dy, dz)) = t.stores[0]
        ab, y = UOp.var(f"@ab{seen.tag}", (), t.dtype), UOp.var(f"@y{seen.tag}", (), i64)
        puts = []
        for z, w in zip(seen.last, seen.weights[2][dz]):
            at = (x, y, z)
            puts.append(Put(store.buffer, 0, at, load(store.buffer, t.dtype, *at) + ab * w))
        return (Let((y, ab), (seen.node(1, along), weight * charge * seen.weight(1, dy, along))), *puts)

    def at_column(self, t: Particle, seen: Seen) -> Body:
        """What one column of nodes has of a particle that reaches it."""
        given, below = self.below(t, seen, 2)
        away = [after(here, there, n) for here, there, n in zip((X, Y), below, t.grid)]
        charge = UOp.var(f"@c{seen.tag}", (), t.dtype)
        (_, (dx, _, _)) = t.stores[0]
        # of the nodes that it sees the last is the one below it
        j, i = (number(t.order - 1) - d for d in away)
        inside = (
            *seen.begin,
            Let((charge,), (t.other,)),
            *self.column(t, seen, charge, X, seen.weight(0, dx, j), i),
        )
        here = (away[0] < number(t.order)) & (away[1] < number(t.order))
        exists = (X < number(t.grid[0])) & (Y < number(t.grid[1]))
        return (*given, When(here & exists, inside))

    def threaded(self, nest: Nest, kernel: LoopKernel) -> list[Function]:
        """A thread for each column of nodes: it looks at every particle, and adds those that reach it, in their order."""
        largest = max(kernel.buffers[b].size for b in written(nest))
        clear = tuple(When(ITEM < number(kernel.buffers[b].size), (zero(kernel, b),)) for b in written(nest))
        sizes = tuple(max(t.grid[a] for p in nest.pieces for t in particles(p)) for a in (0, 1))
        room: list[Statement] = []
        out: list[Statement] = []
        for k, p in enumerate(nest.pieces):
            own, body = at_each(p, str(k), self.at_column)
            room += own
            out += self.over(nest, p, body)
        return [
            Function(clear, Threads((ITEM,), (largest,)), "_clear"),
            Function((*room, *out), Threads((X, Y), sizes)),
        ]

    def blocked(self, nest: Nest, kernel: LoopKernel) -> list[Function]:
        """The same, with what is known of a particle computed once, by a launch before it."""
        count, arrays = nest.sizes[0], 0
        every: list[tuple[Piece, Particle, Waiting]] = []
        for p in nest.pieces:
            for t in particles(p):
                known = Waiting(
                    count, arrays, t.order, tuple(tuple(t.derivatives(a)) for a in range(AXES)), t.dtype
                )
                every.append((p, t, known))
                arrays += known.arrays

        def write(p: Piece) -> Body:
            out: list[Statement] = []
            for k, (of, t, known) in enumerate(every):
                if of is p:
                    out += self.known(nest, t, known, f"{k}_")
            return tuple(out)

        clear, columns = self.threaded(nest, kernel)
        body = [s for p, t, known in every for s in self.columns(p, t, known)]
        return [
            clear,
            Function(in_pieces(nest, write), Threads(nest.variables, nest.sizes), "_known", arrays * count),
            Function(tuple(body), columns.shares, "", arrays * count),
        ]

    def known(self, nest: Nest, t: Particle, known: Waiting, tag: str) -> Body:
        """Nodes, weights and charge of a particle, where they wait."""
        given, found = expressions(t.order, t.grid, t.along, t.dtype)
        names = tuple(UOp.var(f"@w{tag}{k}", (), u.dtype) for k, u in enumerate(found))
        places = tuple(UOp.var(f"@p{tag}{a}", (), t.dtype) for a in range(AXES))
        charge = UOp.var(f"@c{tag}", (), t.dtype)
        rest, below, weights = iter(names), [], []
        for a in range(AXES):
            below.append(next(rest))
            weights.append({d: [next(rest) for _ in range(t.order)] for d in t.derivatives(a)})
        lets = (
            Let((*places, charge), (*t.place, t.other)),
            Let(names, tuple(replaced(found, dict(zip(given, places))))),
        )
        return (*lets, *known.put(nest.variables[0], below, charge, weights))

    def columns(self, p: Piece, t: Particle, known: Waiting) -> Body:
        """What a thread does for the nodes of its column."""
        ((store, (dx, dy, dz)),) = t.stores

        def away(i: UOp) -> list[UOp]:
            return [after(here, known.below(a, i), t.grid[a]) for a, here in enumerate((X, Y))]

        def reaches(i: UOp) -> UOp:
            x, y = away(i)
            return (x < number(t.order)) & (y < number(t.order))

        def take(i: UOp) -> Body:
            j, k = (number(t.order - 1) - d for d in away(i))
            ab, z = UOp.var("@ab", (), t.dtype), UOp.var("@below", (), i64)
            begin = Let(
                (z, ab),
                (
                    known.below(2, i),
                    known.weight(0, dx, j, i) * known.charge(i) * known.weight(1, dy, k, i),
                ),
            )
            out: list[Statement] = [begin]
            for n in range(t.order):
                at = (X, Y, node(z, n, t.order, t.grid[2]))
                w = known.weight(2, dz, number(n), i)
                out.append(Put(store.buffer, 0, at, load(store.buffer, t.dtype, *at) + ab * w))
            return tuple(out)

        body = over_particles(p.lo, p.hi, reaches, take)
        exists = (X < number(t.grid[0])) & (Y < number(t.grid[1]))
        return (When(exists, body),)

    def evaluate(self, run: OnArrays, env: dict[UOp, Any]) -> None:
        nest = run.nest
        for name in written(nest):
            run.memory[name][:] = 0
        for p in nest.pieces:
            here = env | run.grid(p)
            for t in particles(p):
                ((store, along),) = t.stores
                (charge,) = run.evaluate([t.other], here)
                (nx, ny, nz), (wx, wy, wz) = self.found(run, t, here, along)
                items: list[Store] = []
                known: dict[UOp, Any] = {}
                for i, a in zip(nx, wx):
                    for j, b in zip(ny, wy):
                        ab = (a * charge) * b
                        for k, w in zip(nz, wz):
                            at = tuple(UOp.var(f"@{n}{len(items)}", (), i64) for n in ("nx", "ny", "nz"))
                            value = UOp.var(f"@v{len(items)}", (), t.dtype)
                            known |= dict(zip(at, (i, j, k))) | {value: ab * w}
                            items.append(Store(store.buffer, 0, at, value, Ops.ADD, number(0)))
                run.add_in_order(items, known, (p.hi - p.lo,))


class Interpolate(OnMesh):
    name, rank, ops, what = "interpolate", 21, frozenset({Ops.MESH}), INTERPOLATE

    def at_particle(self, t: Particle, seen: Seen) -> Body:
        """Sums along the last axis are shared by all that differ along the others only, and so on."""
        zero = UOp.const(0.0, t.dtype)
        columns = list(dict.fromkeys(d[2] for d in t.along))
        planes = list(dict.fromkeys(d[1:] for d in t.along))
        values = tuple(UOp.var(f"@g{seen.tag}{j}", (), t.dtype) for j in range(t.order))
        read = [replaced([t.other], {X: seen.node(0, J), Y: seen.node(1, K), Z: z})[0] for z in seen.last]
        lines = {}
        for c in columns:
            total = zero
            for w, v in zip(seen.weights[2][c], values):
                total = w.fma(v, total)
            lines[c] = total
        of_plane = {d: UOp.var(f"@m{seen.tag}{d[0]}_{d[1]}", (), t.dtype) for d in planes}
        totals = {d: UOp.var(f"@s{seen.tag}{d[0]}_{d[1]}_{d[2]}", (), t.dtype) for d in t.along}
        one = {d: seen.weight(1, d[0], K).fma(lines[d[1]], of_plane[d]) for d in planes}
        two = {d: seen.weight(0, d[0], J).fma(of_plane[d[1:]], totals[d]) for d in t.along}
        n = number(t.order)
        inner = turns(K, n, (Let(values, tuple(read)),), {of_plane[d]: one[d] for d in planes})
        loop = turns(J, n, (inner,), {totals[d]: two[d] for d in t.along})
        return (loop, *(Put(s.buffer, s.plane, s.index, totals[d]) for s, d in t.stores))

    def threaded(self, nest: Nest, kernel: LoopKernel) -> list[Function]:
        room: list[Statement] = []

        def write(p: Piece) -> Body:
            own, body = at_each(p, str(p.lo), self.whole)
            room.extend(own)
            return body

        body = in_pieces(nest, write)
        return [Function((*room, *body), Threads(nest.variables, nest.sizes))]

    def evaluate(self, run: OnArrays, env: dict[UOp, Any]) -> None:
        nest = run.nest
        for p in nest.pieces:
            here = env | run.grid(p)
            for t in particles(p):
                for store, along in t.stores:
                    (nx, ny, nz), (wx, wy, wz) = self.found(run, t, here, along)
                    total = self.joined(run, t, wx, [self.plane(run, t, here, i, ny, nz, wy, wz) for i in nx])
                    at = run.place(store.buffer, store.plane, run.evaluate(store.index, here))
                    run.write(store.buffer, at, total, [p.hi - p.lo])

    def plane(
        self, run: OnArrays, t: Particle, env: dict[UOp, Any], i: Any, ny: Any, nz: Any, wy: Any, wz: Any
    ) -> Any:
        lines = []
        for j in ny:
            values = [run.evaluate([t.other], env | {X: i, Y: j, Z: k})[0] for k in nz]
            lines.append(self.joined(run, t, wz, values))
        return self.joined(run, t, wy, lines)

    def joined(self, run: OnArrays, t: Particle, weights: Sequence[Any], values: Sequence[Any]) -> Any:
        """The sum of products, each joined with one rounding."""
        a, b, c = (UOp.var(f"@{n}", (), t.dtype) for n in "abc")
        (total,) = run.evaluate([UOp.const(0.0, t.dtype)], {})
        for w, v in zip(weights, values):
            (total,) = run.evaluate([a.fma(b, c)], {a: w, b: v, c: total})
        return total


SPREAD_KIND, INTERPOLATE_KIND = Spread(), Interpolate()
