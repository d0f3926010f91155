"""How is a Fourier transform done?  Row by row, its stages between numbers that stay in a cache; what is transformed is
computed where the first stage reads it.

The operations are those of ir/fourier.py. Vectors hold a number of several rows. On a GPU a block of threads does some rows
(tpir/kernels/fourier_blocks.py); where they are too long for that, and to be read, a thread does one small transform of a
stage, and a row waits in memory between two stages.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from tinyphysics.ir.dtype import DType, i64
from tinyphysics.ir.fourier import Complex, Stage, first_root, results, stages, tables, transform
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp, component
from tinyphysics.tpir.kernels.at_index import AtIndex, is_component
from tinyphysics.tpir.kernels.fourier_blocks import in_blocks
from tinyphysics.tpir.kernels.fourier_rows import Transform, copy_of, one, over, transforms
from tinyphysics.tpir.kernels.fourier_vectors import along_row, lanes_along
from tinyphysics.tpir.kernels.index import Index, Place, expr
from tinyphysics.tpir.kernels.layout import component_places, long_axes
from tinyphysics.tpir.kernels.loopir import (
    WORKSPACE,
    Body,
    For,
    Function,
    Local,
    Statement,
    Threads,
    load,
    number,
    shifted,
)
from tinyphysics.tpir.kernels.loopir import Store as Put
from tinyphysics.tpir.kernels.nest_kind import Builder, PlainKind, Task, Wanted
from tinyphysics.tpir.kernels.nests import LoopKernel, Nest, OnArrays, Piece, Store
from tinyphysics.tpir.kernels.ranges import LANE, columns, in_pieces, outer, whole
from tinyphysics.util import prod

ITEM = UOp.var("@item", (), i64)


WAITING = 1 << 19  # bytes on the stack of what waits behind the first stages of a row


class Fourier(PlainKind):
    name, rank, ops = "fft", 20, frozenset({Ops.FOURIER})

    def task(self, w: Wanted) -> Task | None:
        u = w.node
        if u.op is not Ops.FOURIER:
            return None
        axis = u.arg[2]
        rows = long_axes(u.shape[:axis] + u.shape[axis + 1 :], w.components)
        return Task(u, w.home, self, rows, u.shape[axis])

    def together(self, u: UOp, v: UOp) -> bool:
        """The real and the imaginary part."""
        same = v.op is Ops.FOURIER and v.arg[1:] == u.arg[1:]
        return same and all(x is y for x, y in zip(u.src, v.src))

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
        if (own := lanes_along(nest, lanes)) and nest.along is not None:
            rows: list[Statement] = []
            for p in nest.pieces:
                for some in self.together_at_once(nest, p, 1):
                    rows += outer(nest, p, along_row(*nest.along, some, p, own), False)
            return Function((*self.room(nest, 1), *rows))
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
            loops = (
                For(x, begin, middle, (vector,), lanes),
                For(x, middle, end, self.rows(nest, p, {}, 1, lanes)),
            )
            body += outer(nest, p, loops, True)
        return Function((*self.room(nest, lanes), *body))

    def together_at_once(self, nest: Nest, p: Piece, lanes: int) -> list[list[Transform]]:
        """The transforms of a piece, as many at a time as wait on the stack behind their first stage."""
        assert nest.along is not None
        every = transforms(p)
        most = max(1, WAITING // (2 * nest.along[1] * lanes * (every[0].dtype.bits // 8))) if every else 1
        return [every[k : k + most] for k in range(0, len(every), most)]

    def room(self, nest: Nest, lanes: int) -> Body:
        """Two copies of a row, or one where there are two stages; of the first stage, one for each transform."""
        assert nest.along is not None
        n = nest.along[1]
        many = len(stages(n))
        count = max((len(x) for p in nest.pieces for x in self.together_at_once(nest, p, lanes)), default=0)
        names = [*(f"even{g}" for g in range(count) if many > 1), *(["odd"] if many > 2 else [])]
        d = nest.pieces[0].stores[0].value.dtype
        return tuple(Local(f"{name}_{part}", d, n * lanes) for name in names for part in ("re", "im"))

    def rows(self, nest: Nest, p: Piece, here: dict[UOp, UOp], lanes: int, room: int = 0) -> Body:
        """All transforms of a row, or of the rows of a vector: what they read is read once, in the first stage of all.

        There may be room for vectors of more lanes.
        """
        assert nest.along is not None
        turn, n = nest.along
        row = stages(n)

        def place(i: UOp) -> UOp:
            return i * number(lanes) + LANE if lanes > 1 else i

        def small(g: int, t: Transform, k: int, a: UOp, b: UOp) -> Body:
            def read(i: UOp) -> Complex:
                if not k:
                    return t.read(turn, i, here)
                name = copy_of(g, k - 1)
                return load(f"{name}_re", t.dtype, place(i)), load(f"{name}_im", t.dtype, place(i))

            def write(i: UOp, part: int, y: UOp) -> Put:
                return Put(f"{copy_of(g, k)}_{('re', 'im')[part]}", 0, (place(i),), y)

            return one(t, turn, n, row[k], a, b, read, write, p if not k else None, here)

        def first(every: list[Transform], a: UOp, b: UOp) -> Body:
            return tuple(s for g, t in enumerate(every) for s in small(g, t, 0, a, b))

        out: Body = ()
        for every in self.together_at_once(nest, p, room or lanes):
            out = (*out, *over(row[0], partial(first, every)))
            for g, t in enumerate(every):
                for k, s in enumerate(row[1:], 1):
                    out = (*out, *over(s, partial(small, g, t, k)))
        return out

    # --- threads ----------------------------------------------------------------------------------
    def blocked(self, nest: Nest, kernel: LoopKernel) -> list[Function]:
        """A launch for all stages, where they fit in the memory that a block of threads shares."""
        made = in_blocks(nest)
        return self.threaded(nest, kernel) if made is None else [made]

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
                    return one(t, turn, n, s, a, b, read, write, p if not k else None, {})

                threads = Threads((*nest.variables, ITEM), (*nest.sizes, n // s.radix))
                name = f"_{g}_{k}" if (g, k) != (0, 0) else ""
                out.append(Function(in_pieces(nest, small), threads, name, room))
        return out


def one_stage(run: OnArrays, t: Transform, turn: UOp, s: Stage, x: list[Any]) -> list[Any]:
    """A stage of all rows at once."""
    rows, n = x[0].shape[:-1], x[0].shape[-1]
    names = [variables("x", j, t.dtype) for j in range(s.radix)]
    items = [a.reshape(*rows, s.radix, s.parts, s.stride) for a in x]
    env = {v: a[..., j, :, :] for j, pair in enumerate(names) for v, a in zip(pair, items)}
    roots = [variables("w", k, t.dtype) for k in range(1, s.radix)] if s.parts > 1 else []
    for k, pair in enumerate(roots):
        first = first_root(n, s) + s.parts * k
        places = run.numbers(first, first + s.parts)
        env |= dict(zip(pair, (a[:, None] for a in run.evaluate([t.cos, t.sin], {turn: places}))))
    found = run.evaluate([u for y in results(names, roots, t.sign) for u in y], env)
    out = [run.blank((*rows, s.parts, s.radix, s.stride), t.dtype) for _ in "ri"]
    for k, y in enumerate(found):
        out[k % 2][..., :, k // 2, :] = y
    return [a.reshape(*rows, n) for a in out]


def variables(name: str, k: int, dtype: DType) -> Complex:
    return UOp.var(f"@{name}{k}.re", (), dtype), UOp.var(f"@{name}{k}.im", (), dtype)


FOURIER = Fourier()
