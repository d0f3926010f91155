"""Which arrays are stored, and which are computed where they are used?  From array expressions to loop nests.

What the method updates is stored, what is summed over a long axis, and what would be computed several times
at a noticeable cost. Everything else is computed in the loop that uses it. Neighbouring loops over the same
indices become one. A value replaces its old one in place unless somebody still reads the old one.
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from tinyphysics.ir.dtype import i64
from tinyphysics.ir.ops import ELEMENTWISE, Ops
from tinyphysics.ir.reduction import CHUNK, LANES, one_by_one, pairs_of, slabs
from tinyphysics.ir.uop import Shape, UOp, substitute, toposort
from tinyphysics.ir.value import NAN, REDUCTION
from tinyphysics.tpir.index import Cut, Index, Place, Unsupported, expr, rolled
from tinyphysics.tpir.nests import Buffer, Nest, Piece, Store
from tinyphysics.tpir.pull import Elsewhere, Home, Places, Pull, inside, is_component, planes
from tinyphysics.util import prod

WEIGHT = {Ops.DIV: 4, Ops.SQRT: 4}  # against one for + - * fma; functions count as a polynomial
FUNCTION_WEIGHT = 16
CHEAP = frozenset({Ops.ADD, Ops.SUB, Ops.MUL, Ops.FMA, Ops.NEG, Ops.ABS, Ops.MIN, Ops.MAX, Ops.WHERE, Ops.LT,
                   Ops.LE, Ops.EQ, Ops.NE, Ops.AND, Ops.OR, Ops.NOT, Ops.CAST})  # fmt: skip
MOST_REPEATED = 8  # operations that may be done again rather than stored
MOST_PIECES = 12


def short_sums(roots: Sequence[UOp]) -> dict[UOp, UOp]:
    """Every node with its reductions along one axis each, and no longer than a chunk."""
    new: dict[UOp, UOp] = {}
    for u in toposort(roots):
        new[u] = u.replace(tuple(new[s] for s in u.src))
        if u.op is Ops.REDUCE:
            kind, axes, *pairs = u.arg
            x = new[u.src[0]]
            for a in sorted(axes, reverse=True):
                shape = x.shape[:a] + x.shape[a + 1 :]
                x = in_chunks(UOp(Ops.REDUCE, u.dtype, shape, (x,), (kind, (a,), *pairs)))
            new[u] = x
    return new


def in_chunks(u: UOp) -> UOp:
    """A long sum as the sum of its chunks."""
    (axis,), x = u.arg[1], u.src[0]
    n = x.shape[axis]
    if u.arg[0] == "pairs" or n <= CHUNK or one_by_one(x.shape, axis):
        return u
    whole = n // CHUNK * CHUNK
    before, after = x.shape[:axis], x.shape[axis + 1 :]

    def part(lo: int, hi: int) -> UOp:
        return x.slice([(0, m, 1) if a != axis else (lo, hi, 1) for a, m in enumerate(x.shape)])

    chunks = part(0, whole).reshape(*before, n // CHUNK, CHUNK, *after).reduce(u.arg[0], axis + 1)
    if whole < n:
        rest = part(whole, n).reduce(u.arg[0], axis, True)
        chunks = UOp(Ops.CONCAT, u.dtype, (*before, n // CHUNK + 1, *after), (chunks, rest), axis)
    return in_chunks(chunks.reduce(u.arg[0], axis))


def is_stored(u: UOp) -> bool:
    """A reduction that needs a nest of its own, or a scatter, which is one."""
    if u.op is Ops.SCATTER:
        return True
    return u.op is Ops.REDUCE and (u.arg[0] == "pairs" or u.src[0].shape[u.arg[1][0]] > LANES)


def moves_long_axis(u: UOp, components: int) -> bool:
    match u.op:
        case Ops.ROLL:
            return any(not is_component(u.shape[a], components) for _, a in u.arg)
        case Ops.SLICE | Ops.PAD:
            old = u.src[0].shape
            return any(m != n and not (is_component(n, components) and is_component(m, components))
                       for n, m in zip(old, u.shape))  # fmt: skip
        case Ops.FLIP:
            return any(not is_component(u.shape[a], components) for a in u.arg)
        case Ops.CONCAT:
            return not is_component(u.shape[u.arg], components)
        case Ops.GATHER:
            return True
        case Ops.PERMUTE:
            long = [a for a in u.arg if not is_component(u.src[0].shape[a], components)]
            return long != sorted(long)
    return False


def broadcasts(u: UOp, components: int) -> bool:
    """Is its source the same along a long axis?"""
    if u.op is not Ops.EXPAND:
        return False
    old = (1,) * (len(u.shape) - u.src[0].ndim) + u.src[0].shape
    return any(m != n and not is_component(m, components) for n, m in zip(old, u.shape))


def weight(u: UOp) -> int:
    if u.op not in ELEMENTWISE:
        return 0
    return WEIGHT.get(u.op, 1 if u.op in CHEAP else FUNCTION_WEIGHT)


def cost(u: UOp, stored: dict[UOp, None]) -> int:
    """Operations to compute one number of u from what is stored."""
    total, seen, waiting = 0, {u: None}, [u]
    while waiting:
        x = waiting.pop()
        total += weight(x)
        for s in x.src:
            if s not in seen and s not in stored:
                seen[s] = None
                waiting.append(s)
    return total


def shifted_views(u: UOp, homes: dict[UOp, Home], components: int) -> list[UOp]:
    """The nodes whose shifted planes are those of u; empty if u is no such view."""
    if u in homes or u.op not in (Ops.ROLL, Ops.CONCAT, Ops.RESHAPE, Ops.SLICE):
        return []
    loops = [Index(0, n - 1, UOp.var(f"@{k}", (), i64)) for k, n in enumerate(long_axes(u.shape, components))]
    found = [peeled(u, where, homes) for _, where in component_places(u.shape, components, loops)]
    if not any(shifts for *_, shifts in found) or any(y in homes for y, *_ in found):
        return []
    return list(dict.fromkeys(y for y, *_ in found))


def to_store(roots: Sequence[UOp], homes: dict[UOp, Home], components: int) -> dict[UOp, None]:
    """What gets a buffer: the roots, long sums, and what is worth not computing again."""
    order = toposort(roots)
    views = {u: shifted_views(u, homes, components) for u in roots}
    stored = dict.fromkeys([*roots, *(u for u in order if is_stored(u)), *homes])
    reach: dict[UOp, dict[object, None]] = {u: {} for u in order}
    wide: dict[UOp, None] = {}
    for u in reversed(order):
        if u in stored:
            reach[u] = {(): None}
        elif u.op in ELEMENTWISE or u.op is Ops.REDUCE:
            again = len(reach[u]) - 1
            price = cost(u, stored) if again or u in wide else 0
            if price * again > MOST_REPEATED or u in wide and price > 1 and u.shape:
                stored[u] = None
                reach[u] = {(): None}
        if u in homes:
            continue
        if views.get(u):  # computed where it is not shifted, stored where it is
            for y in views[u]:
                reach[y][()] = None
            continue
        far = moves_long_axis(u, components)
        for k, s in enumerate(u.src):
            step = (u.op, u.arg, k, *map(id, u.src[1:] if u.op is Ops.GATHER else ()))
            moved = far and not (k and u.op is Ops.GATHER)
            reach[s] |= {(r, step) if moved else r: None for r in reach[u]}
            if broadcasts(u, components) or u in wide and u.op not in ELEMENTWISE and u not in stored:
                wide[s] = None
    return stored


@dataclass(eq=False)
class Task:
    """One array to be stored: its node, where it goes, and the loops over it."""

    node: UOp
    home: Home
    kind: str
    sizes: tuple[int, ...]
    along: int = 0  # length of the axis that is summed over in turn


def long_axes(shape: Shape, components: int) -> tuple[int, ...]:
    return tuple(n for n in shape if not is_component(n, components))


def task_of(u: UOp, home: Home, components: int) -> Task:
    if not is_stored(u):
        return Task(u, home, "map", long_axes(u.shape, components))
    if u.op is Ops.SCATTER:
        return Task(u, home, "scatter", long_axes(u.src[0].shape, components))
    (axis,), shape = u.arg[1], u.src[0].shape
    if u.arg[0] == "pairs":
        return Task(u, home, "pairs", (shape[axis],))
    if one_by_one(shape, axis):
        return Task(u, home, "sequence", long_axes(u.shape, components), shape[axis])
    return Task(u, home, "lanes", (*long_axes(u.shape, components), shape[axis]))


def component_places(shape: Shape, components: int, at: Sequence[Place]) -> list[tuple[int, Places]]:
    """(plane, index) for every combination of components, the long axes at the given places."""
    short = [range(n) for n in shape if is_component(n, components)]
    out = []
    for plane, combination in enumerate(product(*short)):
        own, rest = iter(combination), iter(at)
        out.append((plane, tuple(next(own) if is_component(n, components) else next(rest) for n in shape)))
    return out


def peeled(u: UOp, where: Places, homes: dict[UOp, Home]) -> tuple[UOp, Places, dict[int, int]]:
    """The node that a plane of u is a shifted copy of, its index, and by how much each loop is shifted.

    Storing at a shifted place costs nothing, computing at many shifted places would.
    """
    shifts: dict[int, int] = {}
    places = list(where)
    while u not in homes:
        match u.op:
            case Ops.CONCAT if isinstance(places[u.arg], int):
                k, i = 0, places[u.arg]
                while i >= u.src[k].shape[u.arg]:
                    i -= u.src[k].shape[u.arg]
                    k += 1
                places[u.arg] = i
                u = u.src[k]
            case Ops.RESHAPE if sorted(n for n in u.shape if n != 1) == sorted(n for n in u.src[0].shape if n != 1):
                kept = [i for i, n in zip(places, u.shape) if n != 1]
                inner = iter(kept)
                if [n for n in u.shape if n != 1] != [n for n in u.src[0].shape if n != 1]:
                    break
                places = [0 if n == 1 else next(inner) for n in u.src[0].shape]
                u = u.src[0]
            case Ops.SLICE if all(isinstance(i, int) or b == (0, n, 1) for i, b, n in zip(places, u.arg, u.src[0].shape)):
                places = [b[0] + i * b[2] if isinstance(i, int) else i for i, b in zip(places, u.arg)]
                u = u.src[0]
            case Ops.ROLL:
                for shift, a in u.arg:
                    i = places[a]
                    if isinstance(i, int):
                        places[a] = (i - shift) % u.shape[a]
                    else:
                        loop = next(k for k, j in enumerate(p for p in where if not isinstance(p, int)) if j is i)
                        shifts[loop] = (shifts.get(loop, 0) + shift) % u.shape[a]
                u = u.src[0]
            case _:
                break
    return u, tuple(places), {k: s for k, s in shifts.items() if s}


class Builder:
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
        if last and (last[0].kind, last[0].sizes, last[0].along) == (task.kind, task.sizes, task.along):
            try:
                nest = self.nest([*last, task])
            except Elsewhere:
                pass
            else:
                last.append(task)
                self.nests[-1] = nest
                return
        self.close()
        self.groups.append([task])
        self.nests.append(self.nest([task]))

    def close(self) -> None:
        """What the last nest computes is in memory from now on, and nothing joins it."""
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
        if not sizes:
            return Nest("map", (), (), (self.piece(tasks, variables, None, 0, 1),))
        cuts = [0, sizes[-1]]
        while True:
            try:
                pieces = tuple(self.piece(tasks, variables, turn, lo, hi) for lo, hi in zip(cuts, cuts[1:]))
                return Nest(first.kind, variables, sizes, pieces, (turn, first.along) if turn is not None else None)
            except Cut as cut:
                assert cut.at not in cuts, "a cut that decides nothing"
                cuts = sorted({*cuts, cut.at})

    def piece(self, tasks: list[Task], variables: tuple[UOp, ...], turn: UOp | None, lo: int, hi: int) -> Piece:
        sizes = tasks[0].sizes
        if tasks[0].kind == "pairs":
            n = sizes[0]
            at: list[Place] = [Index(0, n - 1, v) for v in variables]
        else:
            at = [Index(0, n - 1, v) for v, n in zip(variables, sizes)]
            if at:
                at[-1] = Index(lo, hi - 1, variables[-1], inner=True)
        own = {t.node: component_places(t.node.shape, self.components, at)[0][1] if t.kind == "map" else None
               for t in tasks if t.node not in self.homes}  # fmt: skip
        pull = Pull(self.homes, self.components, own, self.flat)
        stores: list[Store] = []
        for t in tasks:
            stores += self.stores(t, pull, at, turn)
        return Piece(lo, hi, tuple(stores))

    def scatter(self, tasks: list[Task], variables: tuple[UOp, ...]) -> Nest:
        """Short axes before the loops are taken one after the other, short axes within them at every index."""
        at: list[Place] = [Index(0, n - 1, v) for v, n in zip(variables, tasks[0].sizes)]
        pull = Pull(self.homes, self.components, {t.node: None for t in tasks if t.node not in self.homes}, self.flat)
        passes: dict[int, list[Store]] = {}
        for t in tasks:
            for turn, store in self.scattered(t, pull, at):
                passes.setdefault(turn, []).append(store)
        end = tasks[0].sizes[-1] if tasks[0].sizes else 1
        return Nest("scatter", variables, tasks[0].sizes, tuple(Piece(0, end, tuple(passes[k])) for k in sorted(passes)))

    def scattered(self, t: Task, pull: Pull, at: list[Place]) -> Iterator[tuple[int, Store]]:
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

    def stores(self, t: Task, pull: Pull, at: list[Place], turn: UOp | None) -> list[Store]:
        u, c = t.node, self.components
        if t.kind == "map":
            return [self.mapped(t, pull, plane, where, at) for plane, where in component_places(u.shape, c, at)]
        (axis,), x = u.arg[1], u.src[0]
        combine = REDUCTION[u.arg[0]]
        out = []
        if t.kind == "pairs":
            a, b = u.arg[2]
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
            out.append(Store(t.home.buffer, plane, index, pull.at(x, full_at), combine))
        return out

    def mapped(self, t: Task, pull: Pull, plane: int, where: Places, at: list[Place]) -> Store:
        node, places, shifts = peeled(t.node, where, self.homes)
        if node in self.homes or not shifts or node.op is Ops.VAR:
            index = tuple(i.expr() for i in at)  # type: ignore[union-attr]
            return Store(t.home.buffer, plane, index, pull.at(t.node, where))
        shifted_at = [rolled(i, -shifts[k], t.sizes[k]) if k in shifts else i for k, i in enumerate(at)]
        return Store(t.home.buffer, plane, tuple(i.expr() for i in shifted_at),  # type: ignore[union-attr]
                     pull.at(node, places))  # fmt: skip


@dataclass(frozen=True, eq=False)
class Schedule:
    nests: tuple[Nest, ...]
    swaps: tuple[tuple[str, str], ...]
    buffers: dict[str, Buffer]


Marks = Sequence[tuple[str, UOp]]  # (buffer, its new value), in the order in which a program updates them


def schedule(
    marks: Marks, homes: dict[UOp, Home], components: int, prefix: str, flat: dict[UOp, str] | None = None
) -> Schedule:
    """Nests that give every marked buffer its value; names of new buffers begin with the prefix."""
    short = short_sums([u for _, u in marks])
    wanted = [(name, short[u]) for name, u in marks]
    stored = to_store([u for _, u in wanted], homes, components)
    b = Builder(homes, components, flat or {})
    logical: dict[str, UOp] = {}  # a buffer, or a version of one -> what it holds
    target: dict[str, str] = {}  # version -> buffer
    placed: dict[UOp, Home] = dict(homes)

    def place(u: UOp, name: str) -> None:
        logical[name] = u
        parts = len(slabs(u.src[0].shape[u.arg[1][0]])) - 1 if u.op is Ops.REDUCE and pairs_of(u) == "columns" else 1
        home = Home(name, parts)
        placed.setdefault(u, home)
        b.add(task_of(u, home, components))

    for name, root in wanted:
        for u in toposort([root]):
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
    nests, swaps, physical = settled(b.nests, target)
    buffers = {}
    for name, u in logical.items():
        parts = placed[u].parts if placed[u].buffer == name else 1
        where = physical.get(name, name)
        buffers[where] = Buffer(where, planes(u.shape, components) * parts, long_axes(u.shape, components), u.dtype)
    return Schedule(tuple(nests), tuple(swaps), buffers)


def settled(
    nests: Sequence[Nest], target: dict[str, str]
) -> tuple[list[Nest], list[tuple[str, str]], dict[str, str]]:
    """The nests with versions made buffers: in place where nobody reads the old value any more."""
    reads = [{u.arg[0] for u in n.loads()} for n in nests]
    writes = [{s.buffer for p in n.pieces for s in p.stores} for n in nests]
    physical: dict[str, str] = {}
    holds: dict[str, str] = {}  # buffer -> the version in it
    for version, name in target.items():
        k = next(k for k, w in enumerate(writes) if version in w)
        spare = [name, *(name + "'" * n for n in range(1, 4))]
        for place in spare:
            old = holds.get(place, place if place == name else "")
            if old and (any(old in r for r in reads[k + 1 :]) or not identical(nests[k], old, version)):
                continue
            physical[version] = place
            holds[place] = version
            break
        else:
            raise AssertionError(f"no buffer is left for {version}")
    last = {name: version for version, name in target.items()}
    swaps = [(name, physical[v]) for name, v in last.items() if physical[v] != name]
    return [renamed(n, physical) for n in nests], swaps, physical


def identical(nest: Nest, old: str, new: str) -> bool:
    """Is the old value read only at the index at which the new one is stored?"""
    for p in nest.pieces:
        at = {s.index for s in p.stores if s.buffer == new}
        read = {u.src for u in toposort(p.roots) if u.op is Ops.LOAD and u.arg[0] == old}
        if read and (nest.kind != "map" or not read <= at or len(at) > 1):
            return False
    return True


def renamed(nest: Nest, physical: dict[str, str]) -> Nest:
    pieces = []
    for p in nest.pieces:
        loads = [u for u in toposort(p.roots) if u.op is Ops.LOAD and u.arg[0] in physical]
        table = {u: UOp(Ops.LOAD, u.dtype, (), u.src, (physical[u.arg[0]], u.arg[1])) for u in loads}
        values = substitute([s.value for s in p.stores], table)
        stores = tuple(replace(s, buffer=physical.get(s.buffer, s.buffer), value=v) for s, v in zip(p.stores, values))
        pieces.append(replace(p, stores=stores))
    return replace(nest, pieces=tuple(pieces))
