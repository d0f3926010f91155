"""How does a sum over neighbours run in LLVM IR?  Rows in slabs; for each, the blocks of eight that its list gives it.

Most blocks count in full and lie across the edge of the cell in one way, or not at all: there the point of the row is
shifted once for the eight. The others are done as they are written, with a mask.
"""

from __future__ import annotations

from collections.abc import Sequence

from tinyphysics.emit.kinds.nest_pairs import Block, PairRow, clear, rows_of
from tinyphysics.emit.loops.nest_writer import Names, NestWriter
from tinyphysics.emit.scalar.llvm import TYPE
from tinyphysics.ir.dtype import i64
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.reduction import PAIR_LANES, slabs
from tinyphysics.ir.uop import UOp, toposort
from tinyphysics.tpir.kernels.neighbours import FIRST, MASKED, MIXED, WAY, shifts_in


def near(f: NestWriter) -> None:
    (size,), (piece,), name = f.nest.sizes, f.nest.pieces, f"near{f.nest.near}."
    cuts, width = slabs(size, True), min(f.width, PAIR_LANES)
    f.begin()
    starts, blocks, spans = (f.array(name + what) for what in ("starts", "blocks", "spans"))
    outside = dict(f.scalar)
    plain, whole = Block(f, piece.inside, width, []), Block(f, piece, width, [])
    points = [
        u for u in toposort(plain.roots) if u.op is Ops.SUB and u.src[1].op is Ops.VAR and shifts_in(u.src[1])
    ]
    shifts = f.array(name + "shifts") if points else ""
    for k, s in enumerate(whole.rows):
        f.line(f"%row{k} = alloca [{PAIR_LANES} x {TYPE[s.value.dtype.name]}], align 64")

    def place(array: str, k: str) -> str:
        return f.new(f"getelementptr i32, ptr {array}, i64 {k}")

    def number(array: str, k: str) -> str:
        return f.new(f"load i64, ptr {f.new(f'getelementptr i64, ptr {array}, i64 {k}')}")

    def part(link: str) -> None:
        f.scalar = dict(outside)
        k, low, high, first = rows_of(f, f"@near.cuts.{size}", link)
        plain.columns_at = whole.columns_at = []
        twice = f.new(f"shl i64 {k}, 1")
        end = number(spans, f.new(f"add i64 {twice}, 1"))
        begin = f.new(f"select i1 {first}, i64 {number(spans, twice)}, i64 {end}")
        for s in whole.columns:
            b = f.kernel.buffers[s.buffer]
            plane = f.new(f"add i64 {f.new(f'mul i64 {k}, {b.planes // (len(cuts) - 1)}')}, {s.plane}")
            whole.columns_at.append(f.address(s.buffer, plane, [UOp.const(0, i64)], f.scalar))
            clear(f, s, whole.columns_at[-1], end, width, begin)
        f.loop(low, high, 1, row)

    def row(i: str) -> None:
        own, other = plain.row(i), whole.row(i)
        start = whole.sums(1)

        def entry(q: str, sums: list[str]) -> list[str]:
            e = f.new(f"zext i32 {f.new(f'load i32, ptr {place(blocks, q)}')} to i64")
            j = f.new(f"shl i64 {f.new(f'ashr i64 {e}, {FIRST}')}, 3")
            flags = f.new(f"and i64 {e}, {MASKED | MIXED}")

            def plainly() -> list[str]:
                way = (
                    f.new(f"and i64 {f.new(f'ashr i64 {e}, {WAY}')}, {(1 << (FIRST - WAY)) - 1}")
                    if points
                    else ""
                )
                seen = shifted(f, points, shifts, way, own, width)
                return plain.add([own], j, False, sums, lambda v: [seen])

            simple = f.new(f"icmp eq i64 {flags}, 0")
            return f.w.either(
                simple, [kind for kind, _ in start], plainly, lambda: whole.add([other], j, True, sums)
            )

        sums = f.carrying(number(starts, i), number(starts, f.new(f"add i64 {i}, 1")), 1, start, entry)
        whole.store([other], sums)

    f.loop("%lo", "%hi", 1, part)


def shifted(f: NestWriter, points: Sequence[UOp], shifts: str, way: str, row: PairRow, width: int) -> Names:
    """The point of the row as a block sees it from across the edge of the cell."""
    out: Names = {}
    for u in points:
        point, shift = u.src
        plane = f.kernel.buffers[f"near{f.nest.near}.shifts"].plane * int(
            str(shift.arg).removeprefix("@shift")
        )
        t = TYPE[u.dtype.name]
        at = f.new(f"getelementptr {t}, ptr {shifts}, i64 {f.new(f'add i64 {way}, {plane}')}")
        moved = f.new(f"fsub {t} {row.scalar[point]}, {f.new(f'load {t}, ptr {at}')}")
        f.w.width = width
        out[u] = f.w.splat(moved, u.dtype) if width > 1 else moved
        f.w.width = 1
    return out
