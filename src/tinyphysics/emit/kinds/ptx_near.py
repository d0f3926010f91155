"""How does a sum over neighbours run on a CUDA device?  A thread owns one point, and reads the list both ways.

As i it has the blocks of eight that its row of the list gives it; as j the rows that were given its block, in ascending
order, slab by slab (device/cuda/neighbours.py turns the list round). What is too far away adds nothing, so blocks are
done as they are written, with a mask. Slabs are added at once: there is nothing left to fold.
"""

from __future__ import annotations

from tinyphysics.emit.kinds.ptx_pairs import Side, finish
from tinyphysics.emit.loops.nest_writer import Names, NestWriter
from tinyphysics.emit.loops.ptx_threads import in_turn, note, put, several
from tinyphysics.emit.scalar.llvm import TYPE
from tinyphysics.ir.dtype import bool_
from tinyphysics.ir.reduction import PAIR_LANES, slabs
from tinyphysics.tpir.kernels.neighbours import FIRST
from tinyphysics.tpir.kernels.nests import Nest

LISTED = ("starts", "blocks", "columns", "rows")  # of a list: blocks of each row, rows of each block and slab
ASKED = "asked"  # whether a new list is asked for


def listed_as(nest: Nest, *what: str) -> list[str]:
    return [f"near{nest.near}.{w}" for w in what]


def asked(f: NestWriter, _: str) -> None:
    """If points have gone too far they are stored, and a list is asked for."""
    n, (piece,) = f.nest, f.nest.pieces
    assert n.when is not None
    f.begin()
    f.line(f"br i1 {f.w.ref(n.when, f.scalar)}, label %ask, label %asked")
    f.label("ask")
    env = f.scalar | {n.variables[0]: "%thread"}
    several(f, piece.roots, [env])
    for s in piece.stores:
        put(f, s, f.w.ref(s.value, env), env)
    f.line(f"store i8 1, ptr {f.pointer[listed_as(n, ASKED)[0]]}")
    f.line("br label %asked")
    f.label("asked")


def near(f: NestWriter, _: str) -> None:
    (piece,) = f.nest.pieces
    i, j = f.nest.variables
    f.begin()
    if rows := [s for s in piece.stores if s.index[0] is i]:
        as_first(Side(f, i, j, rows, piece.guards))
    if columns := [s for s in piece.stores if s.index[0] is j]:
        as_second(Side(f, j, i, columns, () if rows else piece.guards))


def number(f: NestWriter, array: str, k: str, t: str = "i64") -> str:
    """A whole number of a list, as one of 64 bits."""
    found = f.new(f"load {t}, ptr {f.new(f'getelementptr {t}, ptr {array}, i64 {k}')}")
    return found if t == "i64" else f.new(f"sext {t} {found} to i64")


def as_first(side: Side) -> None:
    """The blocks of its row, each column to its accumulator."""
    f = side.f
    starts, blocks = (f.pointer[name] for name in listed_as(f.nest, "starts", "blocks"))
    end = str(f.nest.sizes[0])

    def block(e: str, sums: list[str]) -> list[str]:
        word = number(f, blocks, e, "i32")
        return side.block(f.new(f"shl i64 {f.new(f'ashr i64 {word}, {FIRST}')}, 3"), end, sums, PAIR_LANES)

    kinds = [t for t in side.kinds for _ in range(PAIR_LANES)] + [TYPE[bool_.name]]
    begin, stop = number(f, starts, "%thread"), number(f, starts, f.new("add i64 %thread, 1"))
    finish(side, f.carrying(begin, stop, 1, list(zip(kinds, side.nothing)), block))


def as_second(side: Side) -> None:
    """The rows of its block, slab after slab."""
    f = side.f
    places, rows = (f.pointer[name] for name in listed_as(f.nest, "columns", "rows"))
    parts = len(slabs(f.nest.sizes[0], True)) - 1
    own = f.new(f"mul i64 {f.new('lshr i64 %thread, 3')}, {parts}")

    def slab(k: str, totals: list[str]) -> list[str]:
        place = f.new(f"add i64 {own}, {k}")
        begin, end = number(f, places, place), number(f, places, f.new(f"add i64 {place}, 1"))

        def at(c: str) -> Names:
            return side.point | {side.other: number(f, rows, f.new(f"add i64 {begin}, {c}"), "i32")}

        def counts(env: Names) -> str:
            return f.new(f"icmp slt i64 {env[side.other]}, %thread")

        sums = in_turn(f, side.stores, side.guards, f.new(f"sub i64 {end}, {begin}"), at, None, counts)
        first = f.new(f"icmp eq i64 {k}, 0")
        out = []
        for s, t, total, more in zip(side.stores, side.kinds, totals, sums):
            out.append(f.new(f"select i1 {first}, {t} {more}, {t} {f.combined(s, total, more)}"))
        return [*out, f.new(f"or i1 {totals[-1]}, {sums[-1]}")]

    kinds = [*side.kinds, TYPE[bool_.name]]
    start = [*(f.identity(s) for s in side.stores), "false"]
    totals = f.carrying("0", str(parts), 1, list(zip(kinds, start)), slab)
    for s, total in zip(side.stores, totals):
        put(f, s, total, side.point)
    if side.guards:
        note(f, totals[-1])
