"""How does a nest over pairs run in LLVM IR?  Rows in slabs, eight columns at a time, both sums of a pair at once.

The columns of a row are all after it, or the blocks that a list of neighbours gives it.
"""
from __future__ import annotations

from collections.abc import Callable

from tinyphysics.emit.llvm import TYPE
from tinyphysics.emit.nest_writer import BYTES, Names, NestWriter, value_nodes
from tinyphysics.ir.dtype import bool_, i64
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.reduction import PAIR_LANES, slabs
from tinyphysics.ir.uop import UOp, toposort
from tinyphysics.tpir.lists import ACROSS, MASKED
from tinyphysics.tpir.nests import Piece, Store

Carried = list[tuple[str, str]]  # (type, value) of the sums of a row
Block = Callable[..., list[str]]  # (first column, masked, sums, inside the cell?) -> sums


def pairs(f: NestWriter) -> None:
    """Rows i of a slab; for each, blocks of eight columns j, masked where j is not above i or past the end."""
    n = f.nest
    (size,), (piece,) = n.sizes, n.pieces
    i_var, j_var = n.variables
    cuts = slabs(size, n.near is not None)
    table = f"@cuts.{size}" if n.near is None else f"@near.cuts.{size}"
    rows = [s for s in piece.stores if s.index[0] is i_var]
    columns = [s for s in piece.stores if s.index[0] is j_var]
    width = min(f.width, PAIR_LANES)
    f.begin()
    nodes = toposort([*piece.roots, *piece.plain])
    listed = {} if n.near is None else {what: f.array(f"near{n.near}.{what}") for what in ("starts", "blocks")}

    def slab(k: str) -> None:
        low = f.new(f"load i64, ptr {f.new(f'getelementptr i64, ptr {table}, i64 {k}')}")
        after = f.new(f"add i64 {k}, 1")
        high = f.new(f"load i64, ptr {f.new(f'getelementptr i64, ptr {table}, i64 {after}')}")
        own: dict[int, str] = {}
        for c, s in enumerate(columns):
            b = f.kernel.buffers[s.buffer]
            plane = f.new(f"add i64 {f.new(f'mul i64 {k}, {b.planes // (len(cuts) - 1)}')}, {s.plane}")
            own[c] = f.address(s.buffer, plane, [UOp.const(0, i64)], f.scalar)
            clear(f, s, own[c], -(-size // PAIR_LANES) * PAIR_LANES, width)
        f.loop(low, high, 1, lambda i: row(i, own))

    def row(i: str, own: dict[int, str]) -> None:
        f.scalar[i_var] = i
        for u in [u for u in f.scalar if i_var in u.leaves and u is not i_var]:
            del f.scalar[u]
        f.scalars(nodes, 1)
        f.rows.clear()
        prepare_pair_rows(f, piece, j_var)
        shared: Names = {}
        roots = [s.value for s in piece.stores] + list(piece.guards) + list(piece.plain)
        f.splats(roots, j_var, shared, width)
        f.w.width = width  # the sums of the row stay in registers
        kinds = [f.w.type(s.value.dtype) for _ in range(PAIR_LANES // width) for s in rows]
        sums = [f.identity(s) for _ in range(PAIR_LANES // width) for s in rows]
        f.w.width = 1

        def block(j: str, masked: bool, sums: list[str], inside: bool = False) -> list[str]:
            p = piece.inside if inside else piece
            own_rows, own_columns = ([s for s in p.stores if s.index[0] is v] for v in (i_var, j_var))
            return block_of(f, j, i, masked, own, p, own_rows, own_columns, shared, width, sums)

        if listed:
            sums = neighbours(f, i, listed, list(zip(kinds, sums)), block)
        else:
            sums = all_after(f, i, size, list(zip(kinds, sums)), block)
        for k, s in enumerate(rows):
            t = TYPE[s.value.dtype.name]
            for v in range(PAIR_LANES // width):
                at = f.new(f"getelementptr {t}, ptr %row{k}, i64 {v * width}")
                f.line(f"store {kinds[k]} {sums[v * len(rows) + k]}, ptr {at}, align {BYTES[s.value.dtype.name]}")
            at = f.address(s.buffer, s.plane, s.index, f.scalar)
            f.line(f"store {t} {f.fold(s, f'%row{k}', PAIR_LANES)}, ptr {at}")

    for k, s in enumerate(rows):
        f.line(f"%row{k} = alloca [{PAIR_LANES} x {TYPE[s.value.dtype.name]}], align 64")
    f.loop("%lo", "%hi", 1, slab)


def all_after(f: NestWriter, i: str, size: int, sums: Carried, block: Block) -> list[str]:
    """Columns after the row: the block that it is in, whole blocks, and what is left."""
    kinds = [kind for kind, _ in sums]
    first = f.new(f"and i64 {f.new(f'add i64 {i}, 1')}, {-PAIR_LANES}")
    inner = f.new(f"add i64 {first}, {PAIR_LANES}")
    last = size // PAIR_LANES * PAIR_LANES
    begins = f.new(f"icmp slt i64 {inner}, {last}")
    stop = f.new(f"select i1 {begins}, i64 {last}, i64 {inner}")
    out = block(first, True, [value for _, value in sums])
    out = f.carrying(inner, stop, PAIR_LANES, list(zip(kinds, out)), lambda j, sums: block(j, False, sums))
    if size % PAIR_LANES:
        out = f.carrying(stop, str(size), PAIR_LANES, list(zip(kinds, out)), lambda j, sums: block(j, True, sums))
    return out


def neighbours(f: NestWriter, i: str, listed: dict[str, str], sums: Carried, block: Block) -> list[str]:
    """The blocks of a row in a list; most count in full and lie on one side of the edge of the cell."""
    places = [i, f.new(f"add i64 {i}, 1")]
    starts, blocks = listed["starts"], listed["blocks"]
    begin, end = (f.new(f"load i64, ptr {f.new(f'getelementptr i64, ptr {starts}, i64 {k}')}") for k in places)

    def one(q: str, sums_now: list[str]) -> list[str]:
        entry = f.new(f"load i64, ptr {f.new(f'getelementptr i64, ptr {blocks}, i64 {q}')}")
        j = f.new(f"shl i64 {f.new(f'ashr i64 {entry}, 2')}, 3")
        flags = f.new(f"and i64 {entry}, {MASKED | ACROSS}")
        f.labels += 1
        n = f.labels
        f.line(f"br i1 {f.new(f'icmp eq i64 {flags}, 0')}, label %plain{n}, label %other{n}")
        f.label(f"plain{n}")
        plain, from_plain = block(j, False, sums_now, True), f.block
        f.line(f"br label %both{n}")
        f.label(f"other{n}")
        other, from_other = block(j, True, sums_now), f.block
        f.line(f"br label %both{n}")
        f.label(f"both{n}")
        return [f.new(f"phi {kind} [ {a}, %{from_plain} ], [ {b}, %{from_other} ]")
                for (kind, _), a, b in zip(sums, plain, other)]  # fmt: skip

    return f.carrying(begin, end, 1, sums, one)


def clear(f: NestWriter, s: Store, base: str, count: int, width: int) -> None:
    """Accumulators without an item."""

    def one(j: str) -> None:
        f.w.width = width
        d = s.value.dtype
        at = f.new(f"getelementptr {TYPE[d.name]}, ptr {base}, i64 {j}")
        f.line(f"store {f.w.type(d)} {f.identity(s)}, ptr {at}, align {BYTES[d.name]}")
        f.w.width = 1

    f.loop("0", str(count), width, one)


def prepare_pair_rows(f: NestWriter, piece: Piece, x: UOp) -> None:
    for u in value_nodes([s.value for s in piece.stores] + list(piece.guards) + list(piece.plain)):
        if u.op is Ops.LOAD and f.contiguous(u.src, x):
            f.row(u.arg[0], u.arg[1], u.src)


def block_of(
    f: NestWriter, j: str, i: str, masked: bool, own: dict[int, str], piece: Piece, rows: list[Store],
    columns: list[Store], shared: Names, width: int, sums: list[str],
) -> list[str]:  # fmt: skip
    """Eight pairs: added to the sums of the row, which are returned, and to the columns of the slab."""
    added: list[str] = []
    roots = [s.value for s in piece.stores] + list(piece.guards)
    for v in range(PAIR_LANES // width):
        at = f.new(f"add i64 {j}, {v * width}") if v else j
        env, _ = f.body(roots, f.nest.variables[1], at, shared, width)
        inside = mask(f, at, i) if masked else ""

        def kept(s: Store, env: Names = env, inside: str = inside) -> str:
            value = f.w.ref(s.value, env)
            if not inside:
                return value
            t = f.w.type(s.value.dtype)
            return f.new(f"select {f.w.type(bool_)} {inside}, {t} {value}, {t} {f.identity(s)}")

        added += [f.combined(s, sums[v * len(rows) + k], kept(s)) for k, s in enumerate(rows)]
        for k, s in enumerate(columns):
            d = s.value.dtype
            place = f.new(f"getelementptr {TYPE[d.name]}, ptr {own[k]}, i64 {at}")
            old = f.new(f"load {f.w.type(d)}, ptr {place}, align {BYTES[d.name]}")
            f.line(f"store {f.w.type(d)} {f.combined(s, old, kept(s))}, ptr {place}, align {BYTES[d.name]}")
        if piece.guards and inside:
            for g in piece.guards:
                t = f.w.type(bool_)
                env[g] = f.new(f"and {t} {f.w.ref(g, env)}, {inside}")
        f.note_guards(piece.guards, env)
        f.w.width = 1
    return added


def mask(f: NestWriter, j: str, i: str) -> str:
    """The lanes with i < j < n."""
    t = f.w.type(i64)
    steps = ", ".join(f"i64 {k}" for k in range(f.w.width))
    first = f.w.splat(j, i64)
    lane = f.new(f"add {t} {first}, <{steps}>") if f.w.width > 1 else j
    above = f.new(f"icmp sgt {t} {lane}, {f.w.splat(i, i64)}")
    size = f.w.constant(UOp.const(f.nest.sizes[0], i64))
    inside = f.new(f"icmp slt {t} {lane}, {size}")
    return f.new(f"and {f.w.type(bool_)} {above}, {inside}")
