"""How is a Fourier transform done?  Row by row, its stages between numbers that stay in a cache; what is transformed is
computed where the first stage reads it.

The operations are those of ir/fourier.py. Vectors hold a number of several rows. On a GPU a thread does one small transform
of a stage, and a row waits in memory between two stages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tinyphysics.ir.dtype import DType, i64
from tinyphysics.ir.fourier import Complex, Stage, results, stages, tables, transform
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp, component
from tinyphysics.tpir.kernels.at_index import AtIndex, is_component
from tinyphysics.tpir.kernels.index import Index, Place, expr
from tinyphysics.tpir.kernels.layout import component_places, long_axes
from tinyphysics.tpir.kernels.loopir import (
    WORKSPACE,
    Body,
    For,
    Function,
    Let,
    Local,
    Note,
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
from tinyphysics.tpir.kernels.ranges import LANE, columns, in_pieces, notes, outer, whole
from tinyphysics.util import prod

P, Q, ITEM = (UOp.var(f"@{n}", (), i64) for n in ("part", "stride", "item"))


@dataclass(frozen=True, eq=False)
class Transform:
    """Stores of one row that are parts of one transform."""

    re: UOp
    im: UOp
    cos: UOp
    sin: UOp
    sign: int
    stores: tuple[Store, ...]

    @property
    def dtype(self) -> DType:
        return self.re.dtype

    def read(self, turn: UOp, i: UOp, here: dict[UOp, UOp]) -> Complex:
        """The item that is transformed."""
        re, im = replaced([self.re, self.im], {**here, turn: i})
        return re, im

    def root(self, turn: UOp, i: UOp) -> Complex:
        cos, sin = replaced([self.cos, self.sin], {turn: i})
        return cos, sin


def transforms(p: Piece) -> list[Transform]:
    """What is stored in a piece, transform by transform."""
    groups: dict[tuple[tuple[UOp, ...], int], list[Store]] = {}
    for s in p.stores:
        groups.setdefault((s.value.src, s.value.arg[1]), []).append(s)
    return [
        Transform(re, im, cos, sin, sign, tuple(own)) for ((re, im, cos, sin), sign), own in groups.items()
    ]


def at(s: Stage, j: int, p: UOp, q: UOp) -> UOp:
    """Where the j-th item of a small transform is."""
    return shifted(p * number(s.stride) + q, s.stride * s.parts * j)


def behind(s: Stage, k: int, p: UOp, q: UOp) -> UOp:
    """Where its k-th result goes."""
    return shifted(p * number(s.stride * s.radix) + q, s.stride * k)


def over(s: Stage, body: Callable[[UOp, UOp], Body]) -> Body:
    """All small transforms of a stage."""
    p, q = P if s.parts > 1 else number(0), Q if s.stride > 1 else number(0)
    inner = body(p, q)
    if s.stride > 1:
        inner = (For(Q, number(0), number(s.stride), inner, independent=True),)
    if s.parts > 1:
        inner = (For(P, number(0), number(s.parts), inner, independent=True),)
    return inner


def named(values: Sequence[UOp]) -> tuple[UOp, ...]:
    return tuple(UOp.var(f"@y{k}", (), u.dtype) for k, u in enumerate(values))


class Fourier(PlainKind):
    name, rank, ops = "fft", 20, frozenset({Ops.FOURIER})

    def task(self, w: Wanted) -> Task | None:
        u = w.node
        if u.op is not Ops.FOURIER:
            return None
        axis = u.arg[2]
        rows = long_axes(u.shape[:axis] + u.shape[axis + 1 :], w.components)
        return Task(u, w.home, self, rows, u.shape[axis])

    def reads(self, u: UOp) -> tuple[UOp, ...]:
        return tables(u.shape[u.arg[2]], u.dtype)

    def written(self, u: UOp, components: int) -> UOp:
        part, sign, axis = u.arg
        n = u.shape[axis]
        if not is_component(n, components):
            return u
        items = [(component(u.src[0], axis, k), component(u.src[1], axis, k)) for k in range(n)]
        one = (*u.shape[:axis], 1, *u.shape[axis + 1 :])
        parts = tuple(y[part].reshape(one) for y in transform(items, sign))
        return UOp(Ops.CONCAT, u.dtype, u.shape, parts, axis)

    def stores(self, b: Builder, t: Task, pull: AtIndex, at: list[Place], turn: UOp | None) -> list[Store]:
        u = t.node
        part, sign, axis = u.arg
        along = Index(0, t.along - 1, turn)
        before = len(long_axes(u.shape[:axis], b.components))
        places: list[Place] = [*at[:before], along, *at[before:]]
        roots = [pull.at(table, (along,)) for table in self.reads(u)]
        return [
            Store(
                t.home.buffer,
                plane,
                tuple(map(expr, places)),
                UOp(
                    Ops.FOURIER,
                    u.dtype,
                    (),
                    (*(pull.at(s, where) for s in u.src), *roots),
                    (part, sign, t.along),
                ),
            )
            for plane, where in component_places(u.shape, b.components, places)
        ]

    def operations(self, nest: Nest) -> int:
        assert nest.along is not None
        longest = max(nest.pieces, key=lambda p: p.hi - p.lo)
        each = sum(s.radix.bit_length() + 3 for s in stages(nest.along[1]))
        return super().operations(nest) + 2 * each * len(transforms(longest))

    # --- its meaning ------------------------------------------------------------------------------
    def evaluate(self, run: OnArrays, env: dict[UOp, Any]) -> None:
        nest = run.nest
        assert nest.along is not None
        turn, n = nest.along
        for p in nest.pieces:
            apart = {v: a[..., None] for v, a in (env | run.grid(p)).items()} | {turn: run.numbers(0, n)}
            shape = [*nest.sizes[:-1], p.hi - p.lo, n] if nest.sizes else [1, n]
            run.guards(p, apart)
            for t in transforms(p):
                x = [run.blank(shape, t.dtype) for _ in "ri"]
                for whole_row, found in zip(x, run.evaluate([t.re, t.im], apart)):
                    whole_row[...] = found
                for s in stages(n):
                    x = one_stage(run, t, turn, s, x)
                for store in t.stores:
                    place = run.place(store.buffer, store.plane, run.evaluate(store.index, apart))
                    run.write(store.buffer, place, x[store.value.arg[0]], shape)

    # --- plain loops ------------------------------------------------------------------------------
    def ranged(self, nest: Nest, kernel: LoopKernel) -> Function:
        body: list[Statement] = []
        for p in nest.pieces:
            body += outer(nest, p, self.rows(nest, p, {}, 1), False)
        return Function((*self.room(nest, 1), *body))

    def tiled(self, nest: Nest, kernel: LoopKernel, lanes: int, every: bool = False) -> Function:
        if lanes == 1 or not nest.sizes or nest.sizes[-1] < lanes:
            return self.ranged(nest, kernel)
        x = nest.variables[-1]
        body: list[Statement] = []
        for p in nest.pieces:
            begin, end = columns(nest, p)
            middle = whole(begin, end, lanes)
            vector = For(
                LANE, number(0), number(lanes), self.rows(nest, p, {x: x + LANE}, lanes), lanes, lanes=lanes
            )
            loops = (For(x, begin, middle, (vector,), lanes), For(x, middle, end, self.rows(nest, p, {}, 1)))
            body += outer(nest, p, loops, True)
        return Function((*self.room(nest, lanes), *body))

    def room(self, nest: Nest, lanes: int) -> Body:
        """Two copies of a row, or one where there are two stages."""
        assert nest.along is not None
        n = nest.along[1]
        names = ("even", "odd")[: len(stages(n)) - 1]
        d = nest.pieces[0].stores[0].value.dtype
        return tuple(Local(f"{name}_{part}", d, n * lanes) for name in names for part in ("re", "im"))

    def rows(self, nest: Nest, p: Piece, here: dict[UOp, UOp], lanes: int) -> Body:
        """All transforms of a row, or of the rows of a vector."""
        assert nest.along is not None
        turn, n = nest.along

        def place(i: UOp) -> UOp:
            return i * number(lanes) + LANE if lanes > 1 else i

        out: list[Statement] = []
        for t in transforms(p):
            for k, s in enumerate(stages(n)):

                def read(i: UOp, t: Transform = t, k: int = k) -> Complex:
                    if not k:
                        return t.read(turn, i, here)
                    name = ("odd", "even")[k % 2]
                    return load(f"{name}_re", t.dtype, place(i)), load(f"{name}_im", t.dtype, place(i))

                def write(i: UOp, part: int, y: UOp, k: int = k) -> Put:
                    return Put(f"{('even', 'odd')[k % 2]}_{('re', 'im')[part]}", 0, (place(i),), y)

                def small(
                    a: UOp,
                    b: UOp,
                    t: Transform = t,
                    s: Stage = s,
                    k: int = k,
                    read: Any = read,
                    write: Any = write,
                ) -> Body:
                    return one(t, turn, s, a, b, read, write, p if not k else None, here)

                out += over(s, small)
        return tuple(out)

    # --- threads ----------------------------------------------------------------------------------
    def threaded(self, nest: Nest, kernel: LoopKernel) -> list[Function]:
        """A launch for each stage."""
        assert nest.along is not None
        turn, n = nest.along
        rows = prod(nest.sizes)
        row = number(0)
        for v, size in zip(nest.variables, nest.sizes):
            row = row * number(size) + v
        many = len(stages(n))
        room = 4 * n * rows if many > 1 else 0
        out: list[Function] = []
        count = max(len(transforms(p)) for p in nest.pieces)

        def place(k: int, part: int, i: UOp) -> UOp:
            return shifted(row * number(n) + i, (2 * (k % 2) + part) * n * rows)

        for g in range(count):
            for k, s in enumerate(stages(n)):

                def small(p: Piece, g: int = g, k: int = k, s: Stage = s) -> Body:
                    if g >= len(transforms(p)):
                        return ()
                    t = transforms(p)[g]

                    def read(i: UOp) -> Complex:
                        if not k:
                            return t.read(turn, i, {})
                        re, im = (load(WORKSPACE, t.dtype, place(k - 1, part, i)) for part in (0, 1))
                        return re, im

                    def write(i: UOp, part: int, y: UOp) -> Put:
                        return Put(WORKSPACE, 0, (place(k, part, i),), y)

                    a = UOp(Ops.TDIV, i64, (), (ITEM, number(s.stride))) if s.stride > 1 else ITEM
                    b = ITEM - a * number(s.stride) if s.stride > 1 else number(0)
                    return one(t, turn, s, a, b, read, write, p if not k else None, {})

                threads = Threads((*nest.variables, ITEM), (*nest.sizes, n // s.radix))
                name = f"_{g}_{k}" if (g, k) != (0, 0) else ""
                out.append(Function(in_pieces(nest, small), threads, name, room))
        return out


def one(
    t: Transform,
    turn: UOp,
    s: Stage,
    p: UOp,
    q: UOp,
    read: Callable[[UOp], Complex],
    write: Callable[[UOp, int, UOp], Put],
    first: Piece | None,
    here: dict[UOp, UOp],
) -> Body:
    """One small transform of a stage; the last stage stores what is wanted of it."""
    last = s.parts == 1
    places = [at(s, j, p, q) for j in range(s.radix)]
    roots = [] if last else [t.root(turn, p * number(s.stride * k)) for k in range(1, s.radix)]
    found = results([read(i) for i in places], roots, t.sign)
    guards: list[Note] = []
    for i in places if first is not None else ():
        guards += notes(first, {**here, turn: i})  # type: ignore[arg-type]
    if last:
        wanted = [(store, k) for k in range(s.radix) for store in t.stores]
        values = [found[k][store.value.arg[0]] for store, k in wanted]
        names = named(values)
        puts = [
            Put(
                store.buffer, store.plane, tuple(replaced(store.index, {**here, turn: behind(s, k, p, q)})), y
            )
            for (store, k), y in zip(wanted, names)
        ]
    else:
        values = [y for pair in found for y in pair]
        names = named(values)
        puts = [write(behind(s, k // 2, p, q), k % 2, y) for k, y in enumerate(names)]
    seen = tuple(UOp.var(f"@seen{k}", (), g.condition.dtype) for k, g in enumerate(guards))
    return (
        Let((*names, *seen), (*values, *(g.condition for g in guards))),
        *puts,
        *(Note(g) for g in seen),
    )


def one_stage(run: OnArrays, t: Transform, turn: UOp, s: Stage, x: list[Any]) -> list[Any]:
    """A stage of all rows at once."""
    rows, n = x[0].shape[:-1], x[0].shape[-1]
    names = [variables("x", j, t.dtype) for j in range(s.radix)]
    items = [a.reshape(*rows, s.radix, s.parts, s.stride) for a in x]
    env = {v: a[..., j, :, :] for j, pair in enumerate(names) for v, a in zip(pair, items)}
    roots = [variables("w", k, t.dtype) for k in range(1, s.radix)] if s.parts > 1 else []
    for k, pair in enumerate(roots, 1):
        places = run.numbers(0, s.parts) * (s.stride * k)
        env |= dict(zip(pair, (a[:, None] for a in run.evaluate([t.cos, t.sin], {turn: places}))))
    found = run.evaluate([u for y in results(names, roots, t.sign) for u in y], env)
    out = [run.blank((*rows, s.parts, s.radix, s.stride), t.dtype) for _ in "ri"]
    for k, y in enumerate(found):
        out[k % 2][..., :, k // 2, :] = y
    return [a.reshape(*rows, n) for a in out]


def variables(name: str, k: int, dtype: DType) -> Complex:
    return UOp.var(f"@{name}{k}.re", (), dtype), UOp.var(f"@{name}{k}.im", (), dtype)


FOURIER = Fourier()
