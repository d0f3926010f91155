"""How does a nest over pairs run in LLVM IR?  Rows in slabs, eight columns at a time, both sums of a pair at once.

Where eight columns are one vector, two or four rows are done together: what they read and add to is loaded once. Where
they are not, or where there are many registers, what waits for the divider is begun a block ahead: otherwise a processor
would have to look past a whole block to find the next division that it could begin. Neither changes the order of a sum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tinyphysics.emit.loops.nest_writer import Names, NestWriter, value_nodes
from tinyphysics.emit.scalar.llvm import TYPE
from tinyphysics.emit.text.writer import BYTES
from tinyphysics.ir.dtype import bool_, i64
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.reduction import PAIR_LANES, slabs
from tinyphysics.ir.uop import UOp, toposort
from tinyphysics.tpir.kernels.nests import LINKS, Piece, Store

TOGETHER = 2  # rows, of the same block of eight
MORE = 4  # with the registers of AVX-512; measured on Zen 5, two take 1.12 times as long and eight 0.96 times
WIDE = 512  # bits of a vector, where there are 32 of them
DIVIDER = (Ops.SQRT, Ops.DIV, Ops.RSQRT_ESTIMATE)
MOST_CARRIED = 4  # numbers of a pair that are kept from one block to the next


@dataclass(frozen=True)
class PairRow:
    """What the pairs of one i share."""

    i: str
    scalar: Names
    pointers: dict[tuple[object, ...], str]
    lanes: Names


@dataclass
class Block:
    """Eight columns j of some rows: their pairs are added to the sums of the rows and to the columns of the slab."""

    f: NestWriter
    piece: Piece
    width: int
    columns_at: list[str]

    def __post_init__(self) -> None:
        self.i, self.j = self.f.nest.variables
        self.roots = [s.value for s in self.piece.stores] + list(self.piece.guards)
        self.rows = [s for s in self.piece.stores if s.index[0] is self.i]
        self.columns = [s for s in self.piece.stores if s.index[0] is self.j]
        self.vectors = range(PAIR_LANES // self.width)

    def row(self, i: str) -> PairRow:
        f = self.f
        for u in [u for u in f.scalar if self.i in u.leaves]:
            del f.scalar[u]
        f.scalar[self.i] = i
        f.scalars(toposort(self.piece.roots), 1)
        f.rows.clear()
        for u in value_nodes(self.roots):
            if u.op is Ops.LOAD and f.contiguous(u.src, self.j):
                f.row(u.arg[0], u.arg[1], u.src)
        lanes: Names = {}
        f.splats(self.roots, self.j, lanes, self.width)
        return PairRow(i, dict(f.scalar), dict(f.rows), lanes)

    def values(self, row: PairRow, roots: Sequence[UOp], j: str, known: Names) -> Names:
        self.f.scalar, self.f.rows = dict(row.scalar), dict(row.pointers)
        return self.f.body(roots, self.j, j, row.lanes, self.width, known)[0]

    def sums(self, rows: int) -> list[tuple[str, str]]:
        """(type, first value) of what goes round the loop over columns: sums of rows, and what the guards have seen."""
        f = self.f
        f.w.width = self.width
        out = [
            (f.w.type(s.value.dtype), f.identity(s))
            for _ in range(rows)
            for _ in self.vectors
            for s in self.rows
        ]
        if self.piece.guards:
            out.append((f.w.type(i64), f.w.constant(UOp.const(0, i64))))
        f.w.width = 1
        return out

    def add(
        self,
        rows: Sequence[PairRow],
        j: str,
        masked: bool,
        sums: list[str],
        known: Callable[[int], Sequence[Names]] | None = None,
    ) -> list[str]:
        """The sums after it. Columns get their rows in order, after everything that is read was read."""
        f, out = self.f, list(sums)
        for v in self.vectors:
            at = f.new(f"add i64 {j}, {v * self.width}") if v else j
            carried = known(v) if known else [{}] * len(rows)
            envs = [self.values(row, self.roots, at, own) for row, own in zip(rows, carried)]
            inside = [mask(f, at, row.i) if masked else "" for row in rows]
            for r, env in enumerate(envs):
                for k, s in enumerate(self.rows):
                    place = (r * len(self.vectors) + v) * len(self.rows) + k
                    out[place] = added(f, s, out[place], env, inside[r])
                for g in self.piece.guards:
                    out[-1] = marked(f, out[-1], f.w.ref(g, env), inside[r])
            for s, column in zip(self.columns, self.columns_at):
                d = s.value.dtype
                place_ = f.new(f"getelementptr {TYPE[d.name]}, ptr {column}, i64 {at}")
                total = f.new(f"load {f.w.type(d)}, ptr {place_}, align {BYTES[d.name]}")
                for env, lanes in zip(envs, inside):
                    total = added(f, s, total, env, lanes)
                f.line(f"store {f.w.type(d)} {total}, ptr {place_}, align {BYTES[d.name]}")
            f.w.width = 1
        return out

    def store(self, rows: Sequence[PairRow], sums: Sequence[str]) -> None:
        """The sums of rows, their lanes folded in halves."""
        f = self.f
        if self.piece.guards:
            note(f, sums[-1], self.width)
        for r, row in enumerate(rows):
            f.scalar = dict(row.scalar)
            for k, s in enumerate(self.rows):
                d = s.value.dtype
                for v in self.vectors:
                    f.w.width = self.width
                    t, total = f.w.type(d), sums[(r * len(self.vectors) + v) * len(self.rows) + k]
                    f.w.width = 1
                    at = f.new(f"getelementptr {TYPE[d.name]}, ptr %row{k}, i64 {v * self.width}")
                    f.line(f"store {t} {total}, ptr {at}, align {BYTES[d.name]}")
                at = f.address(s.buffer, s.plane, s.index, f.scalar)
                f.line(f"store {TYPE[d.name]} {f.fold(s, f'%row{k}', PAIR_LANES)}, ptr {at}")


def pairs(f: NestWriter) -> None:
    """Rows i of a slab; for each, blocks of eight columns j, masked where j is not above i or past the end."""
    (size,), (piece,) = f.nest.sizes, f.nest.pieces
    cuts = slabs(size)
    width = min(f.width, PAIR_LANES)
    whole = width == PAIR_LANES
    f.begin()
    outside = dict(f.scalar)
    block = Block(f, piece, width, [])
    whole = whole and not any(u.op is Ops.RSQRT_ESTIMATE for u in value_nodes(block.roots))
    plenty = whole and f.width * 8 * BYTES[block.roots[0].dtype.name] >= WIDE
    together = MORE if plenty else TOGETHER
    early = begun_early(block.roots, block.j, plenty) if plenty or not whole else []
    if not whole:
        numbers_on_stack(f, block.roots, width)
    for k, s in enumerate(block.rows):
        f.line(f"%row{k} = alloca [{PAIR_LANES} x {TYPE[s.value.dtype.name]}], align 64")

    def part(link: str) -> None:
        f.scalar = dict(outside)
        k, low, high, first = rows_of(f, f"@cuts.{size}", link)
        block.columns_at = []
        count = -(-size // PAIR_LANES) * PAIR_LANES
        begin = f.new(f"select i1 {first}, i64 0, i64 {count}")
        for s in block.columns:
            b = f.kernel.buffers[s.buffer]
            plane = f.new(f"add i64 {f.new(f'mul i64 {k}, {b.planes // (len(cuts) - 1)}')}, {s.plane}")
            block.columns_at.append(f.address(s.buffer, plane, [UOp.const(0, i64)], f.scalar))
            clear(f, s, block.columns_at[-1], count, width, begin)
        rest = low
        if whole:
            rows = f.new(f"sub i64 {high}, {low}")
            rest = f.new(f"add i64 {low}, {f.new(f'and i64 {rows}, {-together}')}")
            f.loop(
                low,
                rest,
                together,
                lambda i: some_rows([i, *(f.new(f"add i64 {i}, {r}") for r in range(1, together))]),
            )
        f.loop(rest, high, 1, lambda i: some_rows([i]))

    def some_rows(indices: Sequence[str]) -> None:
        rows = [block.row(i) for i in indices]
        first = f.new(f"and i64 {f.new(f'add i64 {indices[0]}, 1')}, {-PAIR_LANES}")
        inner = f.new(f"add i64 {first}, {PAIR_LANES}")  # above all rows: they are in the block before
        last = size // PAIR_LANES * PAIR_LANES
        begins = f.new(f"icmp slt i64 {inner}, {last}")
        stop = f.new(f"select i1 {begins}, i64 {last}, i64 {inner}")
        begun = block.sums(len(rows))
        kinds, sums = [kind for kind, _ in begun], [name for _, name in begun]
        sums = block.add(rows, first, True, sums)
        if early:
            sums = ahead(block, rows, early, (inner, stop, begins), list(zip(kinds, sums)))
        else:
            start, finish = list(zip(kinds, sums)), lambda j, sums: block.add(rows, j, False, sums)  # noqa: E731
            sums = f.carrying(inner, stop, PAIR_LANES, start, finish)
        if size % PAIR_LANES:
            start = list(zip(kinds, sums))
            sums = f.carrying(
                stop, str(size), PAIR_LANES, start, lambda j, sums: block.add(rows, j, True, sums)
            )
        block.store(rows, sums)

    f.loop("%lo", "%hi", 1, part)


def rows_of(f: NestWriter, cuts: str, link: str) -> tuple[str, str, str, str]:
    """(the slab of a link, where its rows begin and end, whether it is the first of them): pairs.py says the same."""
    k, within = f.new(f"sdiv i64 {link}, {LINKS}"), f.new(f"srem i64 {link}, {LINKS}")
    after = f.new(f"add i64 {k}, 1")
    low = f.new(f"load i64, ptr {f.new(f'getelementptr i64, ptr {cuts}, i64 {k}')}")
    high = f.new(f"load i64, ptr {f.new(f'getelementptr i64, ptr {cuts}, i64 {after}')}")
    rows, following = f.new(f"sub i64 {high}, {low}"), f.new(f"add i64 {within}, 1")

    def cut(place: str) -> str:
        way = f.new(f"sdiv i64 {f.new(f'mul i64 {rows}, {place}')}, {LINKS}")
        return f.new(f"add i64 {low}, {f.new(f'and i64 {way}, {-PAIR_LANES}')}")

    last = f.new(f"icmp eq i64 {following}, {LINKS}")
    end = f.new(f"select i1 {last}, i64 {high}, i64 {cut(following)}")
    return k, cut(within), end, f.new(f"icmp eq i64 {within}, 0")


def ahead(
    block: Block,
    rows: Sequence[PairRow],
    early: Sequence[UOp],
    bounds: tuple[str, str, str],
    start: list[tuple[str, str]],
) -> list[str]:
    """The blocks of some rows, each of their vectors after the one of the next block is begun."""
    f, (inner, stop, begins), count, each = block.f, bounds, len(start), len(rows) * len(early)

    def begun(j: str, v: int) -> list[str]:
        at = f.new(f"add i64 {j}, {v * block.width}") if v else j
        envs = [block.values(row, early, at, {}) for row in rows]
        f.w.width = 1
        return [env[u] for env in envs for u in early]

    def both(j: str, names: list[str]) -> list[str]:
        after: list[str] = []
        following = f.new(f"add i64 {j}, {PAIR_LANES}")

        def known(v: int) -> list[Names]:
            after.extend(begun(following, v))
            own = names[count + v * each :]
            return [dict(zip(early, own[r * len(early) :])) for r in range(len(rows))]

        return [*block.add(rows, j, False, names[:count], known), *after]

    # where there is no block to do, the one that is begun is any that there is
    somewhere = f.new(f"select i1 {begins}, i64 {inner}, i64 0")
    waiting = [name for v in block.vectors for name in begun(somewhere, v)]
    f.w.width = block.width
    kinds = [f.w.type(u.dtype) for _ in block.vectors for _ in rows for u in early]
    f.w.width = 1
    return f.carrying(inner, stop, PAIR_LANES, start + list(zip(kinds, waiting)), both)[:count]


def begun_early(roots: Sequence[UOp], x: UOp, plenty: bool) -> list[UOp]:
    """What is carried from the block before: what the divider gives, and what led there and is needed again.

    Loads and single operations on them are done again instead: they are cheaper than a register. With plenty of those
    nothing that waits for the divider is begun with it: it would fill the queue that the next division waits in.
    """
    nodes = [u for u in value_nodes(roots) if x in u.leaves]
    users: dict[UOp, dict[UOp, None]] = {u: {} for u in nodes}
    for u in nodes:
        for s in u.src if u.op is not Ops.LOAD else ():
            if s in users:
                users[s][u] = None
    done = dict.fromkeys(u for u in value_nodes([u for u in nodes if u.op in DIVIDER]) if u in users)
    for u in () if plenty else nodes:  # and what needs nothing else, if there is not more to carry after it
        below = [s for s in u.src if s in users] if u.op is not Ops.LOAD else []
        if below and u not in done and all(s in done and len(users[s]) == 1 for s in below):
            done[u] = None
    last = dict.fromkeys(roots)

    def again(u: UOp) -> bool:
        return u.op is Ops.LOAD or all(s.op is Ops.LOAD for s in u.src if s in users)

    found = [u for u in done if not again(u) and (u in last or any(v not in done for v in users[u]))]
    return found if len(found) <= MOST_CARRIED else []


def numbers_on_stack(f: NestWriter, roots: Sequence[UOp], width: int) -> None:
    """Sixteen registers are few: a number that is an operand in memory needs none, unless LLVM brings it into one."""
    f.w.width = width
    for k, u in enumerate(u for u in value_nodes(roots) if u.op is Ops.CONST and u.dtype.is_float):
        t = f.w.type(u.dtype)
        f.line(f"%number{k} = alloca {t}, align 64")
        f.line(f"store {t} {f.w.constant(u)}, ptr %number{k}, align 64")
        f.on_stack[u] = f"%number{k}"
    f.w.width = 1


def clear(f: NestWriter, s: Store, base: str, count: int | str, width: int, begin: str = "0") -> None:
    """Accumulators without an item."""

    def one(j: str) -> None:
        f.w.width = width
        d = s.value.dtype
        at = f.new(f"getelementptr {TYPE[d.name]}, ptr {base}, i64 {j}")
        f.line(f"store {f.w.type(d)} {f.identity(s)}, ptr {at}, align {BYTES[d.name]}")
        f.w.width = 1

    f.loop(begin, str(count), width, one)


def added(f: NestWriter, s: Store, total: str, env: Names, inside: str) -> str:
    """A sum with one more item, where its lanes count."""
    return (
        f.combined(s, total, kept(f, s, env, inside))
        if inside
        else f.joined(s, total, env, f.kernel.contracts)
    )


def kept(f: NestWriter, s: Store, env: Names, inside: str) -> str:
    """The value of a store, where its lanes count."""
    value = f.w.ref(s.value, env)
    if not inside:
        return value
    t = f.w.type(s.value.dtype)
    return f.new(f"select {f.w.type(bool_)} {inside}, {t} {value}, {t} {f.identity(s)}")


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


def marked(f: NestWriter, seen: str, guard: str, inside: str) -> str:
    """What the guards have seen, in words: masks of single bits are slow without AVX-512."""
    t = f.w.type(bool_)
    mark = f.new(f"and {t} {guard}, {inside}") if inside else guard
    word = f.new(f"sext {t} {mark} to {f.w.type(i64)}")
    return f.new(f"or {f.w.type(i64)} {seen}, {word}")


def note(f: NestWriter, seen: str, width: int) -> None:
    """A mark if an argument was too large for the fast path; the block is then done again."""
    if width > 1:
        f.w.width = width
        t = f.w.type(i64)
        f.w.width = 1
        name = f"@llvm.vector.reduce.or.v{width}i64"
        f.w.declared[name] = f"declare i64 {name}({t})"
        seen = f.new(f"call i64 {name}({t} {seen})")
    bit = f.new(f"zext i1 {f.new(f'icmp ne i64 {seen}, 0')} to i8")
    old = f.new("load i8, ptr %seen")
    f.line(f"store i8 {f.new(f'or i8 {old}, {bit}')}, ptr %seen")
