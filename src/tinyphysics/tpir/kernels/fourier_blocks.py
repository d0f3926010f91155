"""How does a block of threads of a GPU do Fourier transforms?  All stages of some rows in one launch.

A thread has small transforms of every stage in its registers; between two stages they go through memory that
the block shares. Where
neighbouring rows are neighbours in memory, neighbouring threads are of different rows: what they read lies in a row then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tinyphysics.ir.dtype import i64
from tinyphysics.ir.fourier import Complex, Stage, results, stages
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp
from tinyphysics.tpir.kernels.fourier_rows import Transform, stored_at, transforms
from tinyphysics.tpir.kernels.loopir import (
    Barrier,
    Body,
    Function,
    Let,
    Local,
    Note,
    Statement,
    Threads,
    When,
    load,
    number,
    shifted,
)
from tinyphysics.tpir.kernels.loopir import Store as Put
from tinyphysics.tpir.kernels.nests import Nest, Piece
from tinyphysics.tpir.kernels.ranges import in_pieces, least, notes
from tinyphysics.util import prod

TILE, ROW, ITEM = (UOp.var(f"@{n}", (), i64) for n in ("tile", "row", "item"))
POINTS = 8  # of a row that a thread has, about
THREADS = 256  # of a block, about
MOST = 512  # threads of a block: with more of them each has too few registers
RESIDENT = 512  # threads of a processor: each has 128 registers then
SHARED = 48 * 1024  # bytes of a block
SIDE = 8  # rows beside each other, where they are neighbours in memory
BANKS = 16  # numbers of eight bytes that the shared memory gives at a time


@dataclass(frozen=True)
class Layout:
    """How the rows of a nest lie on blocks of threads."""

    n: int
    rows: int  # in all
    beside: int  # rows of a block
    items: int  # threads of a row
    across: bool  # are neighbouring threads of neighbouring rows?
    apart: bool  # do real and imaginary parts go through the same memory, one after the other?

    @property
    def threads(self) -> int:
        return self.items * self.beside

    @property
    def tiles(self) -> int:
        return -(-self.rows // self.beside)

    def many(self, s: Stage) -> int:
        """Small transforms of a thread."""
        return -(-(self.n // s.radix) // self.items)

    def pad(self, s: Stage) -> int:
        """Behind the results of one part of a stage, so that neighbouring threads write to different banks."""
        return s.stride if s.stride * (self.beside if self.across else 1) < BANKS else 0

    def pitch(self, s: Stage) -> int:
        return s.stride * s.radix + self.pad(s)

    @property
    def room(self) -> int:
        """Numbers of a row while it waits behind a stage."""
        return max(s.parts * self.pitch(s) for s in stages(self.n)[:-1])


def layout_of(nest: Nest) -> Layout | None:
    """None if a row is too long to be shared, or needs one stage only."""
    assert nest.along is not None
    turn, n = nest.along
    if len(stages(n)) < 2:
        return None
    rows, first = prod(nest.sizes), nest.pieces[0].stores[0]
    size = first.value.dtype.bits // 8
    items = min(-(-n // POINTS), max(n // s.radix for s in stages(n)))
    across = bool(nest.sizes) and turn not in first.index[-1].leaves
    beside = max(THREADS // items, SIDE if across else 1)
    while beside > 1 and (beside // 2 >= rows or beside * items > MOST or beside * n * size > SHARED):
        beside //= 2
    whole = Layout(n, rows, beside, items, across, False)
    for found in (whole, Layout(n, rows, beside, items, across, True)):
        if found.threads <= 2 * MOST and (1 if found.apart else 2) * found.room * beside * size <= SHARED:
            return found
    return None


def alike(nest: Nest) -> list[list[Transform]] | None:
    """The transforms of every piece, if they are as many, with the same roots, and go the same way."""
    found = [transforms(p) for p in nest.pieces]
    of = [[(t.sign, t.cos, t.sin, t.dtype) for t in own] for own in found]
    return found if all(x == of[0] for x in of) else None


def in_blocks(nest: Nest) -> Function | None:
    """All transforms of a nest as one launch; None if that is not possible."""
    layout, found = layout_of(nest), alike(nest)
    if layout is None or found is None or layout.apart and len(nest.pieces) > 1:
        return None
    w = Blocks(nest, layout)
    count = layout.room * layout.beside
    own = ("shared",) if layout.apart else ("shared_re", "shared_im")
    body: list[Statement] = [Local(name, found[0][0].dtype, count, shared=True) for name in own]
    body += w.indices()
    for g in range(len(found[0])):
        body += w.whole([own[g] for own in found], g)
    order = (ROW, ITEM) if not layout.across else (ITEM, ROW)
    sizes = {ROW: layout.beside, ITEM: layout.items}
    shares = Threads(
        (TILE, *order),
        (layout.tiles, *(sizes[v] for v in order)),
        layout.threads,
        max(1, RESIDENT // layout.threads),
    )
    return Function(tuple(body), shares)


def quotient(u: UOp, k: int) -> UOp:
    return UOp(Ops.TDIV, i64, (), (u, number(k))) if k > 1 else u


@dataclass(frozen=True)
class Blocks:
    """What is written for a nest that lies so."""

    nest: Nest
    layout: Layout

    @property
    def turn(self) -> UOp:
        assert self.nest.along is not None
        return self.nest.along[0]

    @property
    def row(self) -> UOp:
        return TILE * number(self.layout.beside) + ROW

    def indices(self) -> Body:
        """Which row a thread is of: one past the last does the last one again, and stores nothing."""
        out, rest = [], self.row
        if self.layout.rows % self.layout.beside:
            rest = least(rest, number(self.layout.rows - 1))
        for size in reversed(self.nest.sizes[1:]):
            out.append(rest - quotient(rest, size) * number(size))
            rest = quotient(rest, size)
        values = (*([rest] if self.nest.sizes else []), *reversed(out))
        return (Let(self.nest.variables, values),) if values else ()

    # --- the small transforms of a thread ---------------------------------------------------------------
    def item(self, s: Stage, m: int) -> tuple[UOp, UOp | None]:
        """Which one of a stage its m-th is, and whether there is one; without it, the last is done again."""
        count, first = self.layout.n // s.radix, self.layout.items * m
        i = shifted(ITEM, first)
        if first + self.layout.items <= count:
            return i, None
        return least(i, number(count - 1)), i < number(count)

    def part(self, s: Stage, m: int) -> tuple[UOp, UOp]:
        """The part and the place in it."""
        i, _ = self.item(s, m)
        if s.stride == 1 or s.parts == 1:
            return (i, number(0)) if s.stride == 1 else (number(0), i)
        p = quotient(i, s.stride)
        return p, i - p * number(s.stride)

    def results(self, t: Transform, k: int, m: int, read: Sequence[Complex]) -> list[UOp]:
        """Real and imaginary parts in turn."""
        s = stages(self.layout.n)[k]
        found = results(read, t.roots(self.turn, self.layout.n, s, self.part(s, m)[0]), t.sign)
        return [u for y in found for u in y]

    # --- the memory between -----------------------------------------------------------------------------
    def place(self, i: UOp) -> UOp:
        beside = self.layout.beside
        return i * number(beside) + ROW if self.layout.across else ROW * number(self.layout.room) + i

    def name(self, part: int) -> str:
        return "shared" if self.layout.apart else ("shared_re", "shared_im")[part]

    def put(self, k: int, m: int, part: int, names: Sequence[UOp]) -> Body:
        """The results of a small transform where the next stage looks for them."""
        s = stages(self.layout.n)[k]
        p, q = self.part(s, m)
        at = p * number(self.layout.pitch(s)) + q
        puts = tuple(
            Put(self.name(part), 0, (self.place(shifted(at, s.stride * j)),), names[2 * j + part])
            for j in range(s.radix)
        )
        _, there = self.item(s, m)
        return puts if there is None else (When(there, puts),)

    def taken(self, t: Transform, k: int, m: int, part: int) -> list[UOp]:
        """What a small transform of stage k reads."""
        s, before = stages(self.layout.n)[k], stages(self.layout.n)[k - 1]
        p, q = self.part(s, m)
        pitch = self.layout.pitch(before)
        at = p * number(pitch) + q
        return [
            load(self.name(part), t.dtype, self.place(shifted(at, pitch * s.parts * j)))
            for j in range(s.radix)
        ]

    # --- one transform ----------------------------------------------------------------------------------
    def whole(self, pieces: Sequence[Transform], g: int) -> Body:
        """The transform number g, stage by stage."""
        t, row = pieces[0], stages(self.layout.n)
        of = dict(zip((p.lo for p in self.nest.pieces), pieces))
        out: list[Statement] = [Barrier()] if g else []
        if len(self.nest.pieces) > 1:
            out += in_pieces(self.nest, lambda p: self.first(of[p.lo], p, f"@{g}.y0"))
        else:
            out += self.first(t, self.nest.pieces[0], f"@{g}.y0")
        for k in range(1, len(row)):
            names = [self.names(t, f"@{g}.x{k}.{m}", row[k].radix) for m in range(self.layout.many(row[k]))]
            out += self.exchange(t, k, f"@{g}.y{k - 1}", names)
            values = [
                self.results(t, k, m, [(x[2 * j], x[2 * j + 1]) for j in range(row[k].radix)])
                for m, x in enumerate(names)
            ]
            if k < len(row) - 1:
                out += self.let(f"@{g}.y{k}", values)
        out += self.last(of, g, values)
        return tuple(out)

    def names(self, t: Transform, name: str, radix: int) -> list[UOp]:
        return [UOp.var(f"{name}.{j}", (), t.dtype) for j in range(2 * radix)]

    def let(self, name: str, values: Sequence[Sequence[UOp]]) -> Body:
        return tuple(
            Let(tuple(UOp.var(f"{name}.{m}.{j}", (), u.dtype) for j, u in enumerate(own)), tuple(own))
            for m, own in enumerate(values)
        )

    def first(self, t: Transform, p: Piece, name: str) -> Body:
        """What is transformed is computed here; where a nest has several pieces, what comes of it is put away at once."""
        s = stages(self.layout.n)[0]
        values, guards = [], list[Note]()
        for m in range(self.layout.many(s)):
            i, _ = self.item(s, m)
            places = [shifted(i, s.parts * j) for j in range(s.radix)]
            values.append(self.results(t, 0, m, [t.read(self.turn, place, {}) for place in places]))
            guards += [note for place in places for note in notes(p, {self.turn: place})]
        out: list[Statement] = [*self.let(name, values), *guards]
        if len(self.nest.pieces) > 1:
            out += self.puts(0, name, (0, 1))
        return tuple(out)

    def puts(self, k: int, name: str, parts: Sequence[int]) -> Body:
        s, out = stages(self.layout.n)[k], list[Statement]()
        d = self.nest.pieces[0].stores[0].value.dtype
        for m in range(self.layout.many(s)):
            names = [UOp.var(f"{name}.{m}.{j}", (), d) for j in range(2 * s.radix)]
            for part in parts:
                out += self.put(k, m, part, names)
        return tuple(out)

    def exchange(self, t: Transform, k: int, name: str, names: Sequence[Sequence[UOp]]) -> Body:
        """The results of stage k - 1 become what stage k reads, under new names."""
        out: list[Statement] = []
        done = k == 1 and len(self.nest.pieces) > 1
        for turn, parts in enumerate(((0,), (1,)) if self.layout.apart else ((0, 1),)):
            if k > 1 or turn:
                out.append(Barrier())  # what lay there before has been read
            if not done:
                out += self.puts(k - 1, name, parts)
            out.append(Barrier())
            for m, own in enumerate(names):
                values = [u for part in parts for u in self.taken(t, k, m, part)]
                out.append(Let(tuple(x for part in parts for x in own[part::2]), tuple(values)))
        return tuple(out)

    def last(self, of: dict[int, Transform], g: int, values: Sequence[Sequence[UOp]]) -> Body:
        """The results of the last stage are stored where they are wanted."""
        s, out = stages(self.layout.n)[-1], list[Statement]()
        for m, own in enumerate(values):
            i, there = self.item(s, m)

            def stores(p: Piece, own: Sequence[UOp] = own, i: UOp = i) -> Body:
                places = [shifted(i, s.stride * k) for k in range(s.radix)]
                return tuple(stored_at(of[p.lo], self.turn, places, own, {}))

            if self.layout.rows % self.layout.beside:
                inside = self.row < number(self.layout.rows)
                there = inside if there is None else there & inside
            body = in_pieces(self.nest, stores)
            out += body if there is None else (When(there, body),)
        return tuple(out)
