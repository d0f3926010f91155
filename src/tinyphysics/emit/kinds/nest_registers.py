"""How does a short chain run without touching memory?  Its arrays as vectors in registers, through all steps of a call.

Maps along one short axis are written out, vector by vector, each when it is first needed. What a neighbour is comes
from shuffling two vectors: read from memory, a vector that lies across two that were just stored would wait until
both have reached the cache. A vector in which the pieces of a nest meet is computed for each of them, and blended.

Sums along that axis which no map reads, and the single numbers that they make, stay in registers too: the gradient by a
parameter is such a sum, added to two words in every step.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tinyphysics.emit.loops.nest_writer import Names, NestWriter, value_nodes
from tinyphysics.emit.scalar.llvm import RESTORE_MODE, SET_MODE, TYPE, Writer
from tinyphysics.emit.text.writer import BYTES
from tinyphysics.ir.dtype import bool_, i64
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.reduction import LANES
from tinyphysics.ir.uop import UOp, substitute, toposort
from tinyphysics.tpir.kernels.kernel import NOW
from tinyphysics.tpir.kernels.nests import LoopKernel, LoopSection, Nest, Piece, Store
from tinyphysics.tpir.kernels.sums import combined, identity, joined

MOST_OPERATIONS = (
    600  # of one step, in vectors: more would not fit where a processor keeps its decoded instructions
)
MOST_VECTORS = (
    48  # of the state: most of them lie on the stack where there are sixteen registers, and that is as good
)

Row = tuple[str, int]  # a plane of a buffer


def shift_of(u: UOp, x: UOp) -> int | None:
    """k, if a load or a store is at x + k."""
    if len(u.src) != 1:
        return None
    (i,) = u.src
    if i is x:
        return 0
    near = i.op is Ops.ADD and i.src[0] is x and i.src[1].op is Ops.CONST
    return int(i.src[1].arg) if near else None


def overlapping(nest: Nest, first: int, width: int) -> list[Piece]:
    return [p for p in nest.pieces if p.lo < first + width and first < p.hi]


def is_map(nest: Nest) -> bool:
    return nest.kind == "map" and bool(nest.sizes)


def is_single(nest: Nest) -> bool:
    """Does it compute numbers, not arrays?"""
    return nest.kind == "map" and not nest.sizes


def length(section: LoopSection) -> int:
    """Of the axis that the maps of a section go along."""
    return next((nest.sizes[0] for nest in section.nests if is_map(nest)), 0)


def sums_fit(kernel: LoopKernel, section: LoopSection, n: int, width: int) -> bool:
    """Are sums along the axis, and numbers made of them, such as no map of the step reads?"""
    others = [nest for nest in section.nests if not is_map(nest)]
    single = {s.buffer for nest in others for p in nest.pieces for s in p.stores}
    if single & {name for pair in section.swaps for name in pair}:
        return False
    for nest in others:
        if any(s.index for p in nest.pieces for s in p.stores):
            return False
        if is_single(nest):
            if any(p.guards or any(u.src or u is NOW for u in p.loads()) for p in nest.pieces):
                return False
        elif nest.kind != "lanes" or len(nest.sizes) != 1 or nest.sizes[0] > n + width or LANES % width:
            return False
        elif any(s.combine is not Ops.ADD for p in nest.pieces for s in p.stores):
            return False
    return not any(u.arg[0] in single for nest in section.nests if not is_single(nest) for u in nest.loads())


def fits(kernel: LoopKernel, section: LoopSection, width: int) -> bool:
    """Can a section be written this way, and is it short enough?"""
    if section.name != "step" or section.rolled or section.ends_early or width == 1:
        return False
    n, maps = length(section), [nest for nest in section.nests if is_map(nest)]
    if n < 2 * width or any(nest.sizes != (n,) for nest in maps):
        return False
    if not sums_fit(kernel, section, n, width):
        return False
    stored = {(s.buffer, s.plane): None for nest in maps for p in nest.pieces for s in p.stores}
    names = {name for name, _ in stored} | {
        name for pair in section.swaps for name in pair
    }  # what a step changes
    work, rows = 0, dict(stored)
    for nest in section.nests:
        if is_single(nest):
            work += nest.operations
            continue
        (x,) = nest.variables
        places = [(s.buffer, s.plane) for s in nest.pieces[0].stores]
        for p in nest.pieces:
            here = not is_map(nest) or all(len(s.index) == 1 and s.index[0] is x for s in p.stores)
            if [(s.buffer, s.plane) for s in p.stores] != places or not here:
                return False
            for u in toposort(p.roots):
                if u is NOW:
                    return False
                if u.op is Ops.LOAD and (x in u.leaves or u.arg[0] in names):
                    if shift_of(u, x) is None or kernel.buffers[u.arg[0]].axes != (n,):
                        return False
                    rows[u.arg] = None
        count = sum(len(overlapping(nest, b, width)) for b in range(0, nest.sizes[0], width))
        work += count * nest.operations
    same = len({kernel.buffers[name].dtype for name, _ in rows}) == 1
    return same and work <= MOST_OPERATIONS and len(stored) * -(-n // width) <= MOST_VECTORS


def shifts_of(u: UOp, x: UOp) -> list[int]:
    """Where u reads, relative to x, lowest first; empty if it is not a function of what it reads alone."""
    nodes = value_nodes([u])
    if any(v is x for v in nodes):
        return []
    found = {shift_of(v, x) for v in nodes if v.op is Ops.LOAD and x in v.leaves}
    return sorted(k for k in found if k is not None)


def moved(u: UOp, x: UOp, k: int) -> UOp:
    """What u is at x + k."""
    table = {}
    for v in value_nodes([u]):
        if v.op is Ops.LOAD and x in v.leaves:
            shift = (shift_of(v, x) or 0) + k
            table[v] = v.replace((x + UOp.const(shift, i64) if shift else x,))
    return substitute([u], table)[0] if k else u


@dataclass
class Chain:
    """One step as it is written; `rows` has the vectors that a step begins with."""

    section: LoopSection
    width: int
    w: Writer
    nests: list[NestWriter]
    shared: list[Names]
    rows: dict[Row, list[str]]
    numbers: dict[Row, str]  # single ones, as a step begins with them
    done: dict[tuple[int, int], list[str]] = field(default_factory=dict)  # (nest, vector) -> its stores
    known: dict[tuple[int, UOp, int], str] = field(
        default_factory=dict
    )  # (nest, node, place of the first lane)
    guards: list[str] = field(default_factory=list)
    often: list[dict[UOp, None]] = field(default_factory=list)
    parts: dict[int, list[list[str]]] = field(default_factory=dict)  # (nest) -> accumulators of each sum

    def __post_init__(self) -> None:
        self.size = length(self.section)
        for nest in self.section.nests:
            if is_single(nest):
                self.often.append({})
                continue
            (x,) = nest.variables
            places: dict[UOp, set[int]] = {}
            for u in value_nodes([u for p in nest.pieces for u in (*(s.value for s in p.stores), *p.guards)]):
                if u.op is not Ops.LOAD and (at := shifts_of(u, x)):
                    places.setdefault(moved(u, x, -at[0]), set()).add(at[0])
            self.often.append({u: None for u, where in places.items() if len(where) > 1})

    def go(self, b: int) -> None:
        """One vector of the axis through all nests: what it is made of is used before it has to leave its register."""
        for k, nest in enumerate(self.section.nests):
            if is_map(nest):
                self.block(k, b)
            elif not is_single(nest):
                self.items(k, b)

    def vector(self, before: int, row: Row, b: int) -> str:
        """A vector of a row as the nests before a given one leave it."""
        if not 0 <= b * self.width < self.size:
            return "poison"  # for lanes that a blend leaves out
        for k in range(before - 1, -1, -1):
            places = [(s.buffer, s.plane) for s in self.section.nests[k].pieces[0].stores]
            if row in places:  # kicked twice, by what is fast and by what is slow: the last store counts
                return self.block(k, b)[len(places) - 1 - places[::-1].index(row)]
        return self.rows[row][b]

    def number(self, before: int, row: Row) -> str:
        """A single number as the nests before a given one leave it."""
        for k in range(before - 1, -1, -1):
            nest = self.section.nests[k]
            places = [(s.buffer, s.plane) for s in nest.pieces[0].stores]
            if row in places:
                at = len(places) - 1 - places[::-1].index(row)
                return (self.single(k) if is_single(nest) else self.sums(k))[at]
        return self.numbers[row]

    def single(self, k: int) -> list[str]:
        """What a nest of single numbers stores."""
        if (k, 0) not in self.done:
            values = [s.value for s in self.section.nests[k].pieces[0].stores]
            env = dict(self.shared[k])
            for u in value_nodes(values):
                if u.op is Ops.LOAD:
                    env[u] = self.number(k, u.arg)
                else:
                    self.w.width = 1
                    self.w.operation(u, env)
            self.w.width = 1
            self.done[k, 0] = [self.w.ref(u, env) for u in values]
        return self.done[k, 0]

    def sums(self, k: int) -> list[str]:
        """The sums of a nest: item i in accumulator i modulo 32, which are folded in halves."""
        if (k, 0) not in self.done:
            nest = self.section.nests[k]
            for b in range(-(-nest.sizes[0] // self.width)):
                self.items(k, b)
            ahead = self.ahead(k)
            stores = nest.pieces[0].stores
            self.done[k, 0] = [
                self.folded(s, self.turned(s, parts, ahead)) for s, parts in zip(stores, self.parts[k])
            ]
        return self.done[k, 0]

    def ahead(self, k: int) -> int:
        """How much further than at a whole vector its items begin, so that the first number that each reads lies at one."""
        (x,) = self.section.nests[k].variables
        at = [
            where[0]
            for p in self.section.nests[k].pieces
            for s in p.stores
            if (where := shifts_of(s.value, x))
        ]
        return max(0, -min(at, default=0)) % self.width

    def items(self, k: int, b: int) -> None:
        """The items of one vector join their sums, once, after those before it."""
        if (k, -1 - b) in self.done:
            return
        self.done[k, -1 - b] = []
        nest, ahead, places = self.section.nests[k], self.ahead(k), [b]
        if b == 0:
            self.w.width = self.width
            count = LANES // self.width
            self.parts[k] = [[self.w.constant(identity(s))] * count for s in nest.pieces[0].stores]
            places = [-1, 0] if ahead else [0]
        for place in places:
            first = place * self.width + ahead
            for p in overlapping(nest, first, self.width):
                for parts, s in zip(self.parts[k], p.stores):
                    at = place % len(parts)
                    parts[at] = self.with_item(k, p, s, parts[at], first)
                self.watch(k, p, first)

    def turned(self, s: Store, parts: list[str], by: int) -> list[str]:
        """Accumulators that began so many items further on, in the order of items."""
        if not by:
            return parts
        self.w.width = self.width
        t, first = self.w.type(s.value.dtype), self.width - by
        lanes = ", ".join(f"i32 {first + i}" for i in range(self.width))
        around = [parts[-1], *parts]
        return [
            self.w.new(f"shufflevector {t} {a}, {t} {b}, <{self.width} x i32> <{lanes}>")
            for a, b in zip(around, parts)
        ]

    def with_item(self, k: int, p: Piece, s: Store, part: str, first: int) -> str:
        total = UOp.var("@sum", (), s.value.dtype)
        u = joined(s, total, s.value)
        env = {total: part, **{x: self.value(k, x, first) for x in u.src if x is not total}}
        self.w.width = self.width
        self.w.operation(u, env)
        whole = p.lo <= first and first + self.width <= p.hi
        return env[u] if whole else self.blended(part, env[u], p, first, s.value)

    def folded(self, s: Store, parts: list[str]) -> str:
        a, b = (UOp.var(name, (), s.value.dtype) for name in ("@low", "@high"))
        both, w = combined(s, a, b), self.w

        def one(x: str, y: str, width: int) -> str:
            w.width = width
            env = {a: x, b: y}
            w.operation(both, env)
            return env[both]

        while len(parts) > 1:
            half = len(parts) // 2
            parts = [one(x, y, self.width) for x, y in zip(parts, parts[half:])]
        (v,), width = parts, self.width
        while width > 1:
            w.width = width
            t, half = w.type(s.value.dtype), width // 2
            ends = []
            for first in (0, half):
                lanes = ", ".join(f"i32 {first + i}" for i in range(half))
                ends.append(
                    w.new(f"shufflevector {t} {v}, {t} poison, <{half} x i32> <{lanes}>")
                    if half > 1
                    else w.new(f"extractelement {t} {v}, i64 {first}")
                )
            v, width = one(ends[0], ends[1], half), half
        return v

    def block(self, k: int, b: int) -> list[str]:
        """What a nest stores at one vector of its axis."""
        if (k, b) not in self.done:
            nest, first = self.section.nests[k], b * self.width
            out: list[str] = []
            for p in overlapping(nest, first, self.width):
                values = [self.value(k, s.value, first) for s in p.stores]
                self.watch(k, p, first)
                out = [
                    self.blended(old, new, p, first, s.value) for old, new, s in zip(out, values, p.stores)
                ] or values
            self.done[k, b] = out
        return self.done[k, b]

    def value(self, k: int, u: UOp, at: int) -> str:
        """A node of a nest for `width` values of its variable, from `at` on."""
        (x,) = self.section.nests[k].variables
        self.w.width = self.width
        if u.op is Ops.CONST:
            return self.w.constant(u)
        if u in self.shared[k]:
            return self.shared[k][u]
        if u is x:
            return "<" + ", ".join(f"i64 {at + lane}" for lane in range(self.width)) + ">"
        where = shifts_of(u, x)
        u, at = (moved(u, x, -where[0]), at + where[0]) if where else (u, at)
        if (k, u, at) not in self.known:
            self.known[k, u, at] = self.fresh(k, u, at)
        return self.known[k, u, at]

    def fresh(self, k: int, u: UOp, at: int) -> str:
        b, lane = divmod(at, self.width)
        if lane and (u.op is Ops.LOAD or u in self.often[k]):
            low, high = (self.aligned(k, u, c) for c in (b, b + 1))
            self.w.width = self.width
            t = self.w.type(u.dtype)
            lanes = ", ".join(f"i32 {lane + i}" for i in range(self.width))
            return self.w.new(f"shufflevector {t} {low}, {t} {high}, <{self.width} x i32> <{lanes}>")
        if u.op is Ops.LOAD:
            return self.vector(k, u.arg, b)
        env = {s: self.value(k, s, at) for s in u.src}
        self.w.width = self.width
        self.w.operation(u, env)
        return env[u]

    def aligned(self, k: int, u: UOp, b: int) -> str:
        return self.value(k, u, b * self.width) if 0 <= b * self.width < self.size else "poison"

    def watch(self, k: int, p: Piece, first: int) -> None:
        words = f"<{self.width} x i64>"
        for g in p.guards:
            seen = self.value(k, g, first)
            self.w.width = self.width
            word = self.w.new(f"sext {self.w.type(bool_)} {seen} to {words}")
            inside = ", ".join(f"i64 {-(p.lo <= first + lane < p.hi)}" for lane in range(self.width))
            self.guards.append(self.w.new(f"and {words} {word}, <{inside}>"))

    def blended(self, old: str, new: str, p: Piece, first: int, value: UOp) -> str:
        self.w.width = self.width
        t = self.w.type(value.dtype)
        inside = ", ".join(
            f"i1 {'true' if p.lo <= first + lane < p.hi else 'false'}" for lane in range(self.width)
        )
        return self.w.new(f"select <{self.width} x i1> <{inside}>, {t} {new}, {t} {old}")


def driver(
    kernel: LoopKernel, section: LoopSection, slots: dict[str, int], width: int, x86: bool
) -> tuple[list[str], dict[str, str]]:
    """The function of a section, and what it needs declared."""
    w = Writer(1)
    n = length(section)
    vectors = range(-(-n // width))
    nests = [NestWriter(kernel, slots, nest, width, w) for nest in section.nests]
    shared = [parameters(f) if is_single(f.nest) else lanes_share(f, width) for f in nests]
    maps = [nest for nest in section.nests if is_map(nest)]
    stored = dict.fromkeys((s.buffer, s.plane) for nest in maps for s in nest.pieces[0].stores)
    along = [f.nest for f in nests if not is_single(f.nest)]
    read = dict.fromkeys(u.arg for nest in along for u in nest.loads() if nest.variables[0] in u.leaves)
    made = {
        (s.buffer, s.plane): None for nest in section.nests if not is_map(nest) for s in nest.pieces[0].stores
    }
    singles = made | dict.fromkeys(u.arg for f in nests if is_single(f.nest) for u in f.nest.loads())
    for pair in section.swaps:  # a buffer that is only read takes part as well
        planes = [plane for name, plane in stored | read if name in pair]
        stored |= dict.fromkeys((name, plane) for name in pair for plane in planes)
    aside = scratch(kernel, section)
    written = {(s.buffer, s.plane) for nest in maps for s in nest.pieces[0].stores}
    rounds = [row for row in stored if row[0] not in aside or row not in written]
    base = {row: beginning(w, kernel, slots, row) for row in dict.fromkeys([*rounds, *read])}
    begun = {row: [load(w, kernel, base[row], row[0], b, width) for b in vectors] for row in base}
    rows = dict(begun)
    place = {row: beginning(w, kernel, slots, row) for row in singles}
    first = {
        row: w.new(f"load {TYPE[kernel.buffers[row[0]].dtype.name]}, ptr {place[row]}") for row in singles
    }
    numbers = {row: f"%n{k}" if row in made else first[row] for k, row in enumerate(singles)}
    w.lines += ["  br label %head", "head:", "  %k = phi i64 [ 0, %entry ], [ %k.next, %body ]"]
    for number, row in enumerate(rounds):
        rows[row] = [f"%s{number}.{b}" for b in vectors]
    phis = len(w.lines)
    w.lines += ["  %more = icmp slt i64 %k, %steps", "  br i1 %more, label %body, label %exit", "body:"]
    chain = Chain(section, width, w, nests, shared, rows, numbers)
    for b in vectors:
        chain.go(b)
    last = {row: chain.number(len(nests), row) for row in made}
    after = {row: [chain.vector(len(nests), row, b) for b in vectors] for row in stored}
    for one, other in section.swaps:
        for row in [r for r in stored if r[0] == one]:
            twin = (other, row[1])
            after[row], after[twin] = after[twin], after[row]
    seen = "%seen"
    for g in chain.guards:
        seen = w.new(f"or <{width} x i64> {seen}, {g}")
    w.width = width
    carried = [
        f"  {rows[row][b]} = phi {w.type(kernel.buffers[row[0]].dtype)} "
        f"[ {begun[row][b]}, %entry ], [ {after[row][b]}, %body ]"
        for row in rounds
        for b in vectors
    ]
    carried += [
        f"  {numbers[row]} = phi {TYPE[kernel.buffers[row[0]].dtype.name]} "
        f"[ {first[row]}, %entry ], [ {last[row]}, %body ]"
        for row in made
    ]
    if chain.guards:
        carried.append(f"  %seen = phi <{width} x i64> [ zeroinitializer, %entry ], [ {seen}, %body ]")
    w.lines[phis:phis] = carried
    w.lines += ["  %k.next = add i64 %k, 1", "  br label %head", "exit:"]
    for row in rounds:
        if not row[0].startswith(f"{section.name}."):  # what a step needs for itself is not read by others
            for b in vectors:
                store(w, kernel, base[row], row[0], rows[row][b], b, width, n)
    for row in made:
        w.lines.append(f"  store {TYPE[kernel.buffers[row[0]].dtype.name]} {numbers[row]}, ptr {place[row]}")
    if chain.guards:
        raise_flag(w, width)
    given = "ptr %buffers, ptr %uniform, ptr %flags, i64 %first, i64 %steps"
    return [
        f"define void @{section.name}({given}) #0 {{",
        "entry:",
        *([SET_MODE] if x86 else []),
        *w.lines,
        *([RESTORE_MODE] if x86 else []),
        "  ret void",
        "}",
    ], w.declared


def scratch(kernel: LoopKernel, section: LoopSection) -> set[str]:
    """Buffers that a step writes and swaps with others, and that nothing reads before it is written again."""
    read = {u.arg[0] for s in kernel.sections.values() for nest in s.nests for u in nest.loads()}
    return {other for _, other in section.swaps if other not in read and other.endswith("'")}


def parameters(f: NestWriter) -> Names:
    """Of a nest of single numbers, loaded before the first step."""
    f.w.width = 1
    return f.uniforms(f.kernel.params, toposort([s.value for p in f.nest.pieces for s in p.stores]))


def lanes_share(f: NestWriter, width: int) -> Names:
    """What is the same in all lanes, computed before the first step."""
    f.begin()
    out: Names = {}
    for p in f.nest.pieces:
        f.splats([s.value for s in p.stores] + list(p.guards), f.nest.variables[0], out, width)
    return out


def beginning(w: Writer, kernel: LoopKernel, slots: dict[str, int], row: Row) -> str:
    name, plane = row
    b = kernel.buffers[name]
    buffer = w.new(f"load ptr, ptr {w.new(f'getelementptr ptr, ptr %buffers, i64 {slots[name]}')}, align 8")
    return w.new(f"getelementptr {TYPE[b.dtype.name]}, ptr {buffer}, i64 {plane * b.plane}")


def raise_flag(w: Writer, width: int) -> None:
    name = f"@llvm.vector.reduce.or.v{width}i64"
    w.declared[name] = f"declare i64 {name}(<{width} x i64>)"
    any_lane = w.new(f"call i64 {name}(<{width} x i64> %seen)")
    bit = w.new(f"zext i1 {w.new(f'icmp ne i64 {any_lane}, 0')} to i8")
    old = w.new("load i8, ptr %flags")
    w.lines.append(f"  store i8 {w.new(f'or i8 {old}, {bit}')}, ptr %flags")


def load(w: Writer, kernel: LoopKernel, base: str, name: str, b: int, width: int) -> str:
    """The last vector is loaded whole: there is room behind every plane."""
    e = TYPE[kernel.buffers[name].dtype.name]
    at = w.new(f"getelementptr {e}, ptr {base}, i64 {b * width}")
    return w.new(f"load <{width} x {e}>, ptr {at}, align {BYTES[kernel.buffers[name].dtype.name]}")


def store(
    w: Writer, kernel: LoopKernel, base: str, name: str, value: str, b: int, width: int, n: int
) -> None:
    """A vector, or of the last the lanes that there are."""
    e = TYPE[kernel.buffers[name].dtype.name]
    size = BYTES[kernel.buffers[name].dtype.name]
    if (b + 1) * width <= n:
        at = w.new(f"getelementptr {e}, ptr {base}, i64 {b * width}")
        w.lines.append(f"  store <{width} x {e}> {value}, ptr {at}, align {size}")
        return
    for lane in range(n - b * width):
        at = w.new(f"getelementptr {e}, ptr {base}, i64 {b * width + lane}")
        item = w.new(f"extractelement <{width} x {e}> {value}, i64 {lane}")
        w.lines.append(f"  store {e} {item}, ptr {at}, align {size}")
