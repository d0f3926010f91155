"""Which loops run, over what, in which order?  From array expressions to loop nests over buffers.

Arrays that are stored become tasks; neighbouring tasks over the same indices become one nest, cut along its
innermost loop wherever a condition on an index changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tinyphysics.ir.dtype import f64, i64
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.reduction import one_by_one, pairs_of, slabs
from tinyphysics.ir.uop import UOp, toposort
from tinyphysics.ir.value import NAN, REDUCTION
from tinyphysics.tpir.kernels.at_index import AtIndex, Home, NotHere, Places, inside, is_component, planes
from tinyphysics.tpir.kernels.double_buffer import assign_buffers
from tinyphysics.tpir.kernels.index import Cut, Index, Place, Unsupported, expr, rolled
from tinyphysics.tpir.kernels.layout import component_places, long_axes, peeled
from tinyphysics.tpir.kernels.materialise import is_stored, long_sums, short_sums, to_store
from tinyphysics.tpir.kernels.neighbours import in_order, list_of
from tinyphysics.tpir.kernels.nests import Buffer, Nest, Piece, Store, in_memory, kept_as
from tinyphysics.tpir.kernels.tree import MASSES, POINTS, evaluation_in, pull_of
from tinyphysics.util import prod


@dataclass(eq=False)
class Task:
    """One array to be stored: its node, where it goes, and the loops over it."""

    node: UOp
    home: Home
    kind: str
    sizes: tuple[int, ...]
    along: int = 0  # length of the axis that is summed over in turn
    near: int | None = None  # the list of neighbours that it goes by, or that it is
    strided: bool = False  # of a product

    @property
    def like(self) -> tuple[object, ...]:
        """What tasks of one nest have in common; a list, a tree or a product is a nest of its own."""
        return (
            self.kind,
            self.sizes,
            self.along,
            self.near,
            id(self.node) if self.kind in ("list", "tree", "product") else None,
        )


def task_of(u: UOp, home: Home, components: int, in_turn: bool = False) -> Task:
    """`in_turn`: a short sum that is a loop, and not written out."""
    if in_turn:
        return Task(u, home, "sequence", long_axes(u.shape, components), u.src[0].shape[u.arg[1][0]])
    if not is_stored(u) or in_order(u):
        return Task(u, home, "map", long_axes(u.shape, components))
    if u.op is Ops.NEIGHBOURS:
        return Task(u, home, "list", u.shape[:1], near=u.arg[1])
    if u.op is Ops.TREE:
        return Task(u, home, "tree", u.shape[:1])
    if u.op is Ops.SCATTER:
        return Task(u, home, "scatter", long_axes(u.src[0].shape, components))
    (axis,), shape = u.arg[1], u.src[0].shape
    if u.arg[0] == "pairs":
        return Task(u, home, "pairs", (shape[axis],), near=list_of(u.src[0]) if len(u.arg[2]) > 2 else None)
    if one_by_one(shape, axis):
        return Task(u, home, "sequence", long_axes(u.shape, components), shape[axis])
    return Task(u, home, "lanes", (*long_axes(u.shape, components), shape[axis]))


# what the factors of a product are made of, so that tiles may compute them more than once: nothing that has a guard
FACTORS = frozenset({Ops.LOAD, Ops.VAR, Ops.CONST, Ops.ADD, Ops.SUB, Ops.MUL, Ops.FMA, Ops.NEG})


def as_product(t: Task, components: int) -> Task | None:
    """A sum of products as what it may be, or None."""
    u = t.node
    if t.kind not in ("sequence", "lanes") or u.arg[0] not in ("sum", "dot"):
        return None
    if u.arg[0] == "sum" and u.src[0].op is not Ops.MUL:
        return None
    n = u.src[0].shape[u.arg[1][0]]
    return Task(u, t.home, "product", long_axes(u.shape, components), n, strided=t.kind == "lanes")


def is_product(nest: Nest) -> bool:
    """Are all items products of what is read from memory at indices that are no condition, a factor for several sums?

    Without such a factor there is nothing to keep in a tile, and other sums over the same items may join the nest.
    """
    values = [s.value for p in nest.pieces for s in p.stores]
    if not all(u.op is Ops.MUL for u in values) or not all(u.op in FACTORS for u in toposort(values)):
        return False
    return all(any(v not in f.leaves for f in u.src for v in nest.variables) for u in values)


class NestBuilder:
    """Nests of one section, in order; homes grow as arrays are stored."""

    def __init__(self, homes: dict[UOp, Home], components: int, flat: dict[UOp, str]) -> None:
        self.homes, self.components, self.flat = dict(homes), components, flat
        self.groups: list[list[Task]] = []
        self.nests: list[Nest] = []

    def variables(self, task: Task) -> tuple[UOp, ...]:
        names = ["i", "j"] if task.kind == "pairs" else [f"i{k}" for k in range(len(task.sizes))]
        return tuple(UOp.var(f"@{n}", (), i64) for n in names)

    def add(self, task: Task) -> None:
        """The task in the last nest, if it has the same loops and needs nothing of it elsewhere; else in a new one."""
        last = self.groups[-1] if self.groups else []
        if last and last[0].like == task.like:
            try:
                nest = self.nest([*last, task])
            except NotHere:
                pass
            else:
                last.append(task)
                self.nests[-1] = nest
                return
        self.close()
        self.groups.append([task])
        self.nests.append(self.nest([task]))

    def product_of(self, task: Task) -> Task | None:
        """The task as a product, if it is one with all that was computed so far in memory."""
        if (product := as_product(task, self.components)) is None:
            return None
        before = self.homes
        self.homes = before | {t.node: t.home for t in (self.groups[-1] if self.groups else ())}
        nest = self.nest([product])
        self.homes = before
        return product if is_product(nest) else None

    def close(self) -> None:
        """What the last nest computes is in memory from now on, and nothing joins it."""
        if self.groups and (parts := [t.home for t in self.groups[-1] if t.home.folded]):
            self.nests.append(self.folded(self.groups[-1][0], parts))
        for t in self.groups[-1] if self.groups else ():
            if t.node.op is not Ops.VAR:  # a copy has another home already
                self.homes.setdefault(t.node, t.home)
        self.groups.append([])

    def nest(self, tasks: list[Task]) -> Nest:
        first = tasks[0]
        variables = self.variables(first)
        turn = UOp.var("@t", (), i64) if first.along else None
        sizes = first.sizes
        if first.kind == "scatter":
            return self.scatter(tasks, variables)
        if first.kind == "list":
            return self.listed(first, variables[0])
        if first.kind == "tree":
            return self.pulled(first, variables[0])
        if not sizes:
            along = None if turn is None else (turn, first.along)
            piece = self.piece(tasks, variables, turn, 0, 1)
            return Nest(first.kind, (), (), (piece,), along, strided=first.strided)
        cuts = [0, sizes[-1]]
        pieces: dict[tuple[int, int], Piece] = {}
        while True:
            ends = list(zip(cuts, cuts[1:]))
            try:
                for lo, hi in ends:
                    if (lo, hi) not in pieces:
                        pieces[lo, hi] = self.piece(tasks, variables, turn, lo, hi)
                along = (turn, first.along) if turn is not None else None
                kept = tuple(pieces[e] for e in ends)
                return Nest(first.kind, variables, sizes, kept, along, first.near, first.strided)
            except Cut as cut:
                assert cut.at not in cuts, "a cut that decides nothing"
                cuts = sorted({*cuts, cut.at})

    def piece(
        self, tasks: list[Task], variables: tuple[UOp, ...], turn: UOp | None, lo: int, hi: int
    ) -> Piece:
        sizes = tasks[0].sizes
        if tasks[0].kind == "pairs":
            n = sizes[0]
            at: list[Place] = [Index(0, n - 1, v) for v in variables]
        else:
            at = [Index(0, n - 1, v) for v, n in zip(variables, sizes)]
            if at:
                at[-1] = Index(lo, hi - 1, variables[-1], inner=True)
        own = {
            t.node: component_places(t.node.shape, self.components, at)[0][1] if t.kind == "map" else None
            for t in tasks
            if t.node not in self.homes
        }
        pull = AtIndex(self.homes, self.components, own, self.flat)
        stores: list[Store] = []
        for t in tasks:
            stores += self.stores(t, pull, at, turn)
        return Piece(lo, hi, tuple(replace(s, value=in_memory(s.value)) for s in stores))

    def folded(self, t: Task, homes: Sequence[Home]) -> Nest:
        """The sums over rows of each slab, added to those of the first: where the rows of the slab have neighbours."""
        variable = UOp.var("@i0", (), i64)
        stores = []
        for home in homes:
            own = next(u for u in self.groups[-1] if u.home is home).node
            for plane in range(planes(own.shape, self.components)):
                value = UOp(Ops.LOAD, own.dtype, (), (variable,), (home.buffer, plane))
                stores.append(Store(home.buffer, plane, (variable,), value, Ops.ADD))
        return Nest("fold", (variable,), t.sizes, (Piece(0, t.sizes[0], tuple(stores)),), near=t.near)

    def listed(self, t: Task, variable: UOp) -> Nest:
        """The points as they are now, to be stored when the list is made again."""
        q, way = t.node.src
        at = Index(0, t.sizes[0] - 1, variable, inner=True)
        pull = AtIndex(self.homes, self.components, {}, self.flat)
        stores = tuple(
            Store(f"near{t.near}.points", k, (variable,), pull.at(q, (at, k))) for k in range(q.shape[1])
        )
        limit = UOp(Ops.LOAD, f64, (), (), (f"near{t.near}.limit", 0))
        piece, when = Piece(0, t.sizes[0], stores), limit < pull.at(way, ())
        return Nest("list", (variable,), t.sizes, (piece,), near=t.near, when=when)

    def pulled(self, t: Task, variable: UOp) -> Nest:
        """Points and masses, to be stored before the tree is asked."""
        q, m, _ = t.node.src
        at = Index(0, t.sizes[0] - 1, variable, inner=True)
        pull = AtIndex(self.homes, self.components, {}, self.flat)
        stores = [Store(POINTS, k, (variable,), pull.at(q, (at, k))) for k in range(3)]
        stores.append(Store(MASSES, 0, (variable,), pull.at(m, (at,))))
        piece = Piece(0, t.sizes[0], tuple(stores))
        return Nest("tree", (variable,), t.sizes, (piece,), evaluation=evaluation_in(t.home.buffer))

    def scatter(self, tasks: list[Task], variables: tuple[UOp, ...]) -> Nest:
        """Short axes before the loops are taken one after the other, short axes within them at every index."""
        at: list[Place] = [Index(0, n - 1, v) for v, n in zip(variables, tasks[0].sizes)]
        pull = AtIndex(
            self.homes, self.components, {t.node: None for t in tasks if t.node not in self.homes}, self.flat
        )
        passes: dict[int, list[Store]] = {}
        for t in tasks:
            for turn, store in self.scattered(t, pull, at):
                passes.setdefault(turn, []).append(store)
        end = tasks[0].sizes[-1] if tasks[0].sizes else 1
        return Nest(
            "scatter",
            variables,
            tasks[0].sizes,
            tuple(Piece(0, end, tuple(passes[k])) for k in sorted(passes)),
        )

    def scattered(self, t: Task, pull: AtIndex, at: list[Place]) -> Iterator[tuple[int, Store]]:
        u, c = t.node, self.components
        x, *indices = u.src
        items, axes = indices[0].shape, u.shape[: len(indices)]
        short = [is_component(n, c) for n in items]
        first = short.index(False) if False in short else len(items)
        last = len(items) - short[::-1].index(False) if False in short else len(items)
        if any(short[first:last]):
            raise Unsupported("a scatter along a short axis between long ones")
        planes_behind = planes(u.shape[len(axes) :], c)
        for number, (_, where) in enumerate(component_places(x.shape, c, at)):
            here, rest = where[: len(items)], where[len(items) :]
            index: list[UOp] = []
            shift, outside = UOp.const(0, i64), None
            for k, (i, n) in enumerate(zip(indices, axes)):
                place, bad = inside(pull.at(i, here), n)
                outside = bad if outside is None else outside | bad
                if is_component(n, c):
                    shift = shift + place * UOp.const(planes(axes[k + 1 :], c) * planes_behind, i64)
                else:
                    index.append(place)
            assert outside is not None
            own, plane = [(n, r) for n, r in zip(u.shape[len(axes) :], rest) if is_component(n, c)], 0
            for n, r in own:
                assert isinstance(r, int)
                plane = plane * n + r
            index += [expr(r) for n, r in zip(u.shape[len(axes) :], rest) if not is_component(n, c)]
            value = pull.either(outside, UOp.const(NAN, u.dtype), pull.at(x, where))
            turn = number // (prod(x.shape[k] for k in range(first, x.ndim) if is_component(x.shape[k], c)))
            yield turn, Store(t.home.buffer, plane, tuple(index), value, Ops.ADD, shift)

    def stores(self, t: Task, pull: AtIndex, at: list[Place], turn: UOp | None) -> list[Store]:
        u, c = t.node, self.components
        if t.kind == "map":
            return [
                self.mapped(t, pull, plane, where, at) for plane, where in component_places(u.shape, c, at)
            ]
        (axis,), x = u.arg[1], u.src[0]
        combine = REDUCTION[u.arg[0]]
        out = []
        if t.kind == "pairs":
            a, b = u.arg[2][:2]
            rows = pairs_of(u) == "rows"
            kept = at[0] if rows else at[1]
            for plane, where in component_places(u.shape, c, [kept]):
                full = list(where)
                full.insert(axis, at[1] if rows else at[0])
                full[a], full[b] = at
                out.append(Store(t.home.buffer, plane, (kept.expr(),), pull.at(x, tuple(full)), combine))  # type: ignore[union-attr]
            return out
        inner: Place = at[-1] if t.kind == "lanes" else Index(0, t.along - 1, turn)
        kept_at = at[:-1] if t.kind == "lanes" else at
        for plane, where in component_places(u.shape, c, kept_at):
            full_at = (*where[:axis], inner, *where[axis:])
            index = tuple(i.expr() for i in kept_at)  # type: ignore[union-attr]
            value, *other = (pull.at(s, full_at) for s in u.src)
            if other:
                value = UOp(Ops.MUL, u.dtype, (), (value, *other))
            out.append(Store(t.home.buffer, plane, index, value, combine, joins=bool(other)))
        return out

    def mapped(self, t: Task, pull: AtIndex, plane: int, where: Places, at: list[Place]) -> Store:
        node, places, shifts = peeled(t.node, where, self.homes)
        if node in self.homes or not shifts or node.op is Ops.VAR:
            index = tuple(i.expr() for i in at)  # type: ignore[union-attr]
            return Store(t.home.buffer, plane, index, pull.at(t.node, where))
        shifted_at = [rolled(i, -shifts[k], t.sizes[k]) if k in shifts else i for k, i in enumerate(at)]
        return Store(
            t.home.buffer,
            plane,
            tuple(i.expr() for i in shifted_at),  # type: ignore[union-attr]
            pull.at(node, places),
        )


def is_same_list(u: UOp, v: UOp) -> bool:
    return u.op is v.op is Ops.NEIGHBOURS and u.src[0] is v.src[0] and u.arg[1] == v.arg[1]


@dataclass(frozen=True, eq=False)
class Schedule:
    nests: tuple[Nest, ...]
    swaps: tuple[tuple[str, str], ...]
    buffers: dict[str, Buffer]


Marks = Sequence[tuple[str, UOp]]  # (buffer, its new value), in the order in which a program updates them


def schedule(
    marks: Marks,
    homes: dict[UOp, Home],
    components: int,
    prefix: str,
    flat: dict[UOp, str] | None = None,
    apart: bool = False,
) -> Schedule:
    """Nests that give every marked buffer its value; names of new buffers begin with the prefix."""
    short = short_sums([u for _, u in marks])
    wanted = [(name, short[u]) for name, u in marks]
    stored = to_store([u for _, u in wanted], homes, components, apart)
    in_turn = long_sums([u for _, u in wanted], components)
    b = NestBuilder(homes, components, flat or {})
    logical: dict[str, UOp] = {}  # a buffer, or a version of one -> what it holds
    target: dict[str, str] = {}  # version -> buffer
    placed: dict[UOp, Home] = dict(homes)

    def place(u: UOp, name: str) -> None:
        if u.op is Ops.NEIGHBOURS:
            placed[u] = Home(f"near{u.arg[1]}.{u.arg[0]}")
            if not any(v is not u and is_same_list(v, u) for v in placed):  # else it is made already
                b.add(task_of(u, placed[u], components))
            b.close()
            b.homes[u] = placed[u]
            return
        if u.op is Ops.TREE:
            placed[u] = Home(pull_of(sum(v.op is Ops.TREE for v in placed)))
            b.add(task_of(u, placed[u], components))
            b.close()
            return
        logical[name] = u
        by_list = u.op is Ops.REDUCE and pairs_of(u) == "columns" and len(u.arg[2]) > 2
        parts = 1
        if u.op is Ops.REDUCE and pairs_of(u) == "columns":
            parts = len(slabs(u.src[0].shape[u.arg[1][0]], by_list)) - 1
        home = Home(name, parts, by_list)
        placed.setdefault(u, home)
        task = task_of(u, home, components, u in in_turn)
        b.add(product if (product := b.product_of(task)) is not None else task)

    below: dict[UOp, None] = {}
    for name, root in wanted:
        for u in toposort([root], below):
            if u in stored and u not in placed and u is not root:
                place(u, f"{prefix}{len(logical)}")
        version = f"{name}#{sum(t == name for t in target.values()) + 1}"
        unchanged = root in homes and homes[root].buffer == name and name not in target.values()
        if unchanged:
            continue
        target[version] = name
        if root in placed:  # a copy of what is somewhere else
            logical[version] = root
            b.close()
            b.add(Task(root, Home(version), "map", long_axes(root.shape, components)))
        else:
            place(root, version)
    b.close()
    nests, swaps, physical = assign_buffers(b.nests, target)
    buffers = {}
    for name, u in logical.items():
        parts = placed[u].parts if placed[u].buffer == name else 1
        where = physical.get(name, name)
        buffers[where] = Buffer(
            where, planes(u.shape, components) * parts, long_axes(u.shape, components), kept_as(u.dtype)
        )
    return Schedule(tuple(nests), tuple(swaps), buffers)
