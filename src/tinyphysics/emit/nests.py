"""Loop nests as LLVM IR: contiguous loads and stores along the innermost loop, scalar leftovers, sums in their order.

One function for each nest, over a range of its outermost loop, so that threads can share it; one for each
section, which runs all its nests for as many steps as asked. Nothing here decides a bit: what a number is
was written down in the nest.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tinyphysics.emit.llvm import RESTORE_MODE, SET_MODE, TYPE, Writer
from tinyphysics.ir.dtype import bool_, f32, i64
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.reduction import LANES, PAIR_LANES, slabs
from tinyphysics.ir.uop import UOp, toposort
from tinyphysics.rules.transcendental import lower
from tinyphysics.tpir.kernel import NOW
from tinyphysics.tpir.nests import LoopKernel, LoopSection, Nest, Piece, Store
from tinyphysics.util import prod

NEST_ARGUMENTS = "ptr %buffers, ptr %uniform, ptr %flags, i64 %lo, i64 %hi, i64 %now"
IDENTITY = {Ops.ADD: -0.0, Ops.MAX: -math.inf, Ops.MIN: math.inf}  # x + -0.0 is x, bit for bit
BYTES = {"f64": 8, "f32": 4, "i64": 8, "i32": 4, "u64": 8, "u32": 4}


def slope(u: UOp, x: UOp) -> int | None:
    """By how much an index grows with a loop variable; None if it is not linear in it."""
    if u is x:
        return 1
    if x not in u.leaves:
        return 0
    if u.op in (Ops.ADD, Ops.SUB):
        a, b = (slope(s, x) for s in u.src)
        return None if a is None or b is None else a + b if u.op is Ops.ADD else a - b
    if u.op is Ops.MUL and u.src[1].op is Ops.CONST:
        a = slope(u.src[0], x)
        return None if a is None else a * int(u.src[1].arg)
    return None


def value_nodes(roots: Sequence[UOp]) -> list[UOp]:
    """What is computed as a value, not as an address: in order, loads not followed into their indices."""
    order: dict[UOp, None] = {}
    stack: list[tuple[UOp, bool]] = [(u, False) for u in reversed(roots)]
    while stack:
        u, ready = stack.pop()
        if u in order:
            continue
        if ready or u.op is Ops.LOAD:
            order[u] = None
        else:
            stack.append((u, True))
            stack.extend((s, False) for s in reversed(u.src) if s not in order)
    return list(order)


@dataclass
class NestWriter:
    """One nest. `scalar` names what is the same for all lanes, by level of the loop that it changes with."""

    kernel: LoopKernel
    slots: dict[str, int]
    nest: Nest
    width: int
    w: Writer = field(default_factory=lambda: Writer(1))
    scalar: dict[UOp, str] = field(default_factory=dict)
    pointer: dict[str, str] = field(default_factory=dict)
    rows: dict[tuple[object, ...], str] = field(default_factory=dict)
    block: str = "entry"
    labels: int = 0

    # --- small things -------------------------------------------------------------------------
    def line(self, text: str) -> None:
        self.w.lines.append("  " + text)

    def label(self, name: str) -> None:
        self.w.lines.append(f"{name}:")
        self.block = name

    def new(self, text: str) -> str:
        return self.w.new(text)

    def loop(self, begin: str, end: str, step: int, body: Callable[[str], None]) -> None:
        """A loop that is entered only if there is something to do."""
        self.labels += 1
        n, before = self.labels, self.block
        i = f"%n{n}"
        self.line(f"br label %h{n}")
        self.label(f"h{n}")
        self.line(f"{i} = phi i64 [ {begin}, %{before} ], [ {i}.next, %l{n} ]")
        self.line(f"%c{n} = icmp slt i64 {i}, {end}")
        self.line(f"br i1 %c{n}, label %b{n}, label %e{n}")
        self.label(f"b{n}")
        body(i)
        self.line(f"br label %l{n}")
        self.label(f"l{n}")
        self.line(f"{i}.next = add i64 {i}, {step}")
        self.line(f"br label %h{n}")
        self.label(f"e{n}")

    def level(self, u: UOp) -> int:
        """The innermost loop that u changes with, counted from 1; 0 if it is the same everywhere."""
        names = [*self.nest.variables, *([self.nest.along[0]] if self.nest.along else [])]
        return max((k + 1 for k, v in enumerate(names) if v in u.leaves), default=0)

    # --- what lanes share ---------------------------------------------------------------------
    def begin(self) -> None:
        """Pointers, parameters, and what depends on nothing else."""
        used = dict.fromkeys(u.arg[0] for u in self.nest.loads())
        used |= dict.fromkeys(s.buffer for p in self.nest.pieces for s in p.stores)
        for name in used:
            at = self.new(f"getelementptr ptr, ptr %buffers, i64 {self.slots[name]}")
            self.pointer[name] = self.new(f"load ptr, ptr {at}, align 8")
        everything = toposort([u for p in self.nest.pieces for u in p.roots])
        for slot, p in enumerate(self.kernel.params):
            if any(p is u for u in everything):
                at = self.new(f"getelementptr double, ptr %uniform, i64 {slot}")
                value = self.new(f"load double, ptr {at}, align 8")
                self.scalar[p] = self.new(f"fptrunc double {value} to float") if p.dtype is f32 else value
        if any(u is NOW for u in everything):
            self.scalar[NOW] = self.new("sitofp i64 %now to double")
        self.scalars(everything, 0)

    def scalars(self, nodes: Sequence[UOp], level: int) -> None:
        """Everything of one level, as scalars."""
        self.w.width = 1
        for u in nodes:
            if u not in self.scalar and u.op is not Ops.CONST and self.level(u) == level:
                self.one(u, self.scalar)

    def one(self, u: UOp, env: dict[UOp, str]) -> None:
        if u.op is Ops.LOAD:
            env[u] = self.new(f"load {TYPE[u.dtype.name]}, ptr {self.address(u.arg[0], u.arg[1], u.src, env)}")
        elif u.op is not Ops.VAR:
            self.w.operation(u, env)

    def address(self, buffer: str, plane: int | str, index: Sequence[UOp], env: dict[UOp, str]) -> str:
        b = self.kernel.buffers[buffer]
        t = TYPE[b.dtype.name]
        offset = str(plane * b.plane) if isinstance(plane, int) else self.new(f"mul i64 {plane}, {b.plane}")
        total = offset
        for k, i in enumerate(index):
            stride = prod(b.axes[k + 1 :])
            place = self.w.ref(i, env)
            part = place if stride == 1 else self.new(f"mul i64 {place}, {stride}")
            total = part if total == "0" else self.new(f"add i64 {total}, {part}")
        return self.new(f"getelementptr {t}, ptr {self.pointer[buffer]}, i64 {total}")

    # --- bodies -------------------------------------------------------------------------------
    def index_value(self, u: UOp, env: dict[UOp, str]) -> None:
        """An address is computed for the first lane."""
        width, self.w.width = self.w.width, 1
        for x in toposort([u]):
            if x not in env and x.op is not Ops.CONST:
                self.one(x, env)
        self.w.width = width

    def row(self, buffer: str, plane: int, index: Sequence[UOp]) -> str:
        """The pointer to the beginning of a row: what the outer loops decide of an address."""
        key = (buffer, plane, *index[:-1])
        if key not in self.rows:
            width, self.w.width = self.w.width, 1
            self.rows[key] = self.address(buffer, plane, [*index[:-1], UOp.const(0, i64)], self.scalar)
            self.w.width = width
        return self.rows[key]

    def contiguous(self, index: Sequence[UOp], x: UOp) -> bool:
        return bool(index) and slope(index[-1], x) == 1 and all(slope(i, x) == 0 for i in index[:-1])

    def prepare_rows(self, pieces: Sequence[Piece], x: UOp) -> None:
        for p in pieces:
            for u in value_nodes([s.value for s in p.stores] + list(p.guards)):
                if u.op is Ops.LOAD and self.contiguous(u.src, x):
                    self.row(u.arg[0], u.arg[1], u.src)
            for s in p.stores:
                if self.contiguous(s.index, x):
                    self.row(s.buffer, s.plane, s.index)

    def vector_address(self, buffer: str, plane: int, index: Sequence[UOp], env: dict[UOp, str], x: UOp) -> str:
        t = TYPE[self.kernel.buffers[buffer].dtype.name]
        row, i = self.row(buffer, plane, index), index[-1]
        offset = 0
        if i.op is Ops.ADD and i.src[0] is x and i.src[1].op is Ops.CONST:
            i, offset = x, int(i.src[1].arg)
        if i is not x:
            self.index_value(i, env)
        at = self.new(f"getelementptr {t}, ptr {row}, i64 {env[i]}")
        return self.new(f"getelementptr {t}, ptr {at}, i64 {offset}") if offset else at

    def vector_load(self, u: UOp, env: dict[UOp, str], index_env: dict[UOp, str], x: UOp) -> str:
        t, e = self.w.type(u.dtype), TYPE[u.dtype.name]
        if self.contiguous(u.src, x):
            at = self.vector_address(u.arg[0], u.arg[1], u.src, index_env, x)
            return self.new(f"load {t}, ptr {at}, align {BYTES[u.dtype.name]}")
        out = "poison"
        for lane in range(self.w.width):  # a stride other than one
            own = {v: n for v, n in index_env.items() if x not in v.leaves}
            own[x] = self.new(f"add i64 {index_env[x]}, {lane}")
            for i in u.src:
                self.index_value(i, own)
            width, self.w.width = self.w.width, 1
            item = self.new(f"load {e}, ptr {self.address(u.arg[0], u.arg[1], u.src, own)}")
            self.w.width = width
            out = self.new(f"insertelement {t} {out}, {e} {item}, i64 {lane}")
        return out

    def vector_store(self, s: Store, value: str, index_env: dict[UOp, str], x: UOp) -> None:
        d = self.kernel.buffers[s.buffer].dtype
        t, e = self.w.type(d), TYPE[d.name]
        if self.contiguous(s.index, x):
            at = self.vector_address(s.buffer, s.plane, s.index, index_env, x)
            self.line(f"store {t} {value}, ptr {at}, align {BYTES[d.name]}")
            return
        for lane in range(self.w.width):
            own = {v: n for v, n in index_env.items() if x not in v.leaves}
            own[x] = self.new(f"add i64 {index_env[x]}, {lane}")
            for i in s.index:
                self.index_value(i, own)
            width, self.w.width = self.w.width, 1
            at = self.address(s.buffer, s.plane, s.index, own)
            self.w.width = width
            item = self.new(f"extractelement {t} {value}, i64 {lane}") if self.w.width > 1 else value
            self.line(f"store {e} {item}, ptr {at}")

    def splats(self, roots: Sequence[UOp], x: UOp, env: dict[UOp, str], width: int) -> None:
        """What the lanes share, in every lane; written before the loop."""
        self.w.width = width
        for u in value_nodes(roots):
            for s in u.src if u.op is not Ops.LOAD else ():
                if x not in s.leaves and s.op is not Ops.CONST and s not in env:
                    env[s] = self.w.splat(self.scalar[s], s.dtype)
        for u in roots:
            if x not in u.leaves and u.op is not Ops.CONST and u not in env:
                env[u] = self.w.splat(self.scalar[u], u.dtype)
        self.w.width = 1

    def body(self, roots: Sequence[UOp], x: UOp, at: str, shared: dict[UOp, str], width: int) -> tuple[dict[UOp, str], dict[UOp, str]]:
        """The roots for `width` values of x from `at` on: (values, addresses)."""
        self.w.width = width
        index_env = dict(self.scalar)
        index_env[x] = at
        env = dict(shared) if width > 1 else dict(self.scalar)
        nodes = value_nodes(roots)
        if width == 1:
            env[x] = at
        elif any(s is x for u in nodes if u.op is not Ops.LOAD for s in (u, *u.src)):
            first = self.w.splat(at, i64)
            steps = ", ".join(f"i64 {k}" for k in range(width))
            env[x] = self.new(f"add {self.w.type(i64)} {first}, <{steps}>")
        for u in nodes:
            if u in env or u.op in (Ops.CONST, Ops.VAR):
                continue
            if u.op is Ops.LOAD:
                env[u] = self.vector_load(u, env, index_env, x) if width > 1 else self.scalar_load(u, index_env, x)
            else:
                self.w.operation(u, env)
        return env, index_env

    def scalar_load(self, u: UOp, env: dict[UOp, str], x: UOp) -> str:
        if self.contiguous(u.src, x):
            return self.new(f"load {TYPE[u.dtype.name]}, ptr {self.vector_address(u.arg[0], u.arg[1], u.src, env, x)}")
        for i in u.src:
            self.index_value(i, env)
        return self.new(f"load {TYPE[u.dtype.name]}, ptr {self.address(u.arg[0], u.arg[1], u.src, env)}")

    def note_guards(self, guards: Sequence[UOp], env: dict[UOp, str]) -> None:
        """A mark if an argument was too large for the fast path; the block is then done again."""
        for g in guards:
            seen = self.w.ref(g, env)
            if self.w.width > 1:
                t = self.w.type(bool_)
                name = f"@llvm.vector.reduce.or.v{self.w.width}i1"
                self.w.declared[name] = f"declare i1 {name}({t})"
                seen = self.new(f"call i1 {name}({t} {seen})")
            old = self.new("load i8, ptr %seen")
            word = self.new(f"zext i1 {seen} to i8")
            self.line(f"store i8 {self.new(f'or i8 {old}, {word}')}, ptr %seen")

    # --- kinds of nests -----------------------------------------------------------------------
    def write(self) -> list[str]:
        self.line("%seen = alloca i8")
        self.line("store i8 0, ptr %seen")
        match self.nest.kind:
            case "map":
                self.map()
            case "lanes":
                self.lanes()
            case "sequence":
                self.sequence()
            case _:
                self.pairs()
        self.line("%was = load i8, ptr %seen")
        self.line("%any = icmp ne i8 %was, 0")
        self.line("br i1 %any, label %raise, label %leave")
        self.label("raise")
        self.line("store i8 1, ptr %flags")
        self.line("br label %leave")
        self.label("leave")
        return self.w.lines

    def outer_loops(self, inside: Callable[[], None], count: int, first: tuple[str, str] = ("%lo", "%hi")) -> None:
        """Loops over the outer variables, each with what changes at its level."""
        nodes = toposort([u for p in self.nest.pieces for u in p.roots])
        self.begin()

        def at(k: int) -> None:
            if k == count:
                inside()
                return
            begin, end = first if k == 0 else ("0", str(self.nest.sizes[k]))

            def body(i: str) -> None:
                self.scalar[self.nest.variables[k]] = i
                self.scalars(nodes, k + 1)
                at(k + 1)

            self.loop(begin, end, 1, body)

        at(0)

    def bounds(self, p: Piece, alone: bool) -> tuple[str, str]:
        """The piece, cut to the range of this call if the innermost loop is the one that is shared out."""
        if not alone:
            return str(p.lo), str(p.hi)
        low = self.new(f"icmp sgt i64 %lo, {p.lo}")
        high = self.new(f"icmp slt i64 %hi, {p.hi}")
        return self.new(f"select i1 {low}, i64 %lo, i64 {p.lo}"), self.new(f"select i1 {high}, i64 %hi, i64 {p.hi}")

    def map(self) -> None:
        n = self.nest
        if not n.variables:
            self.begin()
            self.single(n.pieces[0])
            return
        x = n.variables[-1]

        def inside() -> None:
            self.rows.clear()
            self.prepare_rows(n.pieces, x)
            for p in n.pieces:
                roots = [s.value for s in p.stores] + list(p.guards)
                shared: dict[UOp, str] = {}
                self.splats(roots, x, shared, self.width)
                begin, end = self.bounds(p, len(n.variables) == 1)
                length = self.new(f"sub i64 {end}, {begin}")
                whole = self.new(f"and i64 {length}, {-self.width}")
                middle = self.new(f"add i64 {begin}, {whole}")

                def vector(i: str, width: int, p: Piece = p, roots: list[UOp] = roots, shared: dict[UOp, str] = shared) -> None:
                    env, index_env = self.body(roots, x, i, shared, width)
                    for s in p.stores:
                        self.vector_store(s, self.w.ref(s.value, env), index_env, x)
                    self.note_guards(p.guards, env)
                    self.w.width = 1

                if p.hi - p.lo >= self.width:
                    positive = self.new(f"icmp sgt i64 {length}, 0")
                    middle = self.new(f"select i1 {positive}, i64 {middle}, i64 {begin}")
                    self.loop(begin, middle, self.width, lambda i: vector(i, self.width))
                    self.loop(middle, end, 1, lambda i: vector(i, 1))
                else:
                    self.loop(begin, end, 1, lambda i: vector(i, 1))

        self.outer_loops(inside, len(n.variables) - 1)

    def single(self, p: Piece) -> None:
        """Numbers without a loop."""
        for s in p.stores:
            d = self.kernel.buffers[s.buffer].dtype
            at = self.address(s.buffer, s.plane, s.index, self.scalar)
            self.line(f"store {TYPE[d.name]} {self.w.ref(s.value, self.scalar)}, ptr {at}")
        self.note_guards(p.guards, self.scalar)

    def combined(self, s: Store, acc: str, item: str) -> str:
        assert s.combine is not None
        if s.combine is Ops.ADD:
            return self.new(f"fadd {self.w.type(s.value.dtype)} {acc}, {item}")
        a, b = UOp.var("acc", (), s.value.dtype), UOp.var("item", (), s.value.dtype)
        (graph,) = lower([a.alu(s.combine, b)])
        env = {a: acc, b: item}
        for u in toposort([graph]):
            if u.op not in (Ops.VAR, Ops.CONST):
                self.w.operation(u, env)
        return env[graph]

    def identity(self, s: Store) -> str:
        assert s.combine is not None
        return self.w.constant(UOp.const(IDENTITY[s.combine], s.value.dtype))

    def lanes(self) -> None:
        n = self.nest
        x = n.variables[-1]
        stores = n.pieces[0].stores
        for k, s in enumerate(stores):
            self.line(f"%acc{k} = alloca [{LANES} x {TYPE[s.value.dtype.name]}], align 64")

        def inside() -> None:
            self.rows.clear()
            for p in n.pieces:
                for u in value_nodes([s.value for s in p.stores] + list(p.guards)):
                    if u.op is Ops.LOAD and self.contiguous(u.src, x):
                        self.row(u.arg[0], u.arg[1], u.src)
            self.w.width = 1
            for k, s in enumerate(stores):
                t = TYPE[s.value.dtype.name]
                for lane in range(LANES):
                    at = self.new(f"getelementptr {t}, ptr %acc{k}, i64 {lane}")
                    self.line(f"store {t} {self.identity(s)}, ptr {at}")
            for p in n.pieces:
                self.accumulate(p, x)
            self.w.width = 1
            for k, s in enumerate(stores):
                at = self.address(s.buffer, s.plane, s.index, self.scalar)
                self.line(f"store {TYPE[s.value.dtype.name]} {self.fold(s, f'%acc{k}', LANES)}, ptr {at}")

        # with one variable the whole sum is one piece of work: it is not shared out
        self.outer_loops(inside, len(n.variables) - 1)

    def accumulate(self, p: Piece, x: UOp) -> None:
        roots = [s.value for s in p.stores] + list(p.guards)
        shared: dict[UOp, str] = {}
        self.splats(roots, x, shared, self.width)

        def step(i: str, width: int) -> None:
            env, _ = self.body(roots, x, i, shared, width)
            lane = self.new(f"and i64 {i}, {LANES - 1}")
            for k, s in enumerate(p.stores):
                t = self.w.type(s.value.dtype)
                at = self.new(f"getelementptr {TYPE[s.value.dtype.name]}, ptr %acc{k}, i64 {lane}")
                old = self.new(f"load {t}, ptr {at}, align {BYTES[s.value.dtype.name]}")
                value = self.combined(s, old, self.w.ref(s.value, env))
                self.line(f"store {t} {value}, ptr {at}, align {BYTES[s.value.dtype.name]}")
            self.note_guards(p.guards, env)
            self.w.width = 1

        first = min(-(-p.lo // self.width) * self.width, p.hi)
        last = max(first, p.hi // self.width * self.width)
        self.loop(str(p.lo), str(first), 1, lambda i: step(i, 1))
        self.loop(str(first), str(last), self.width, lambda i: step(i, self.width))
        self.loop(str(last), str(p.hi), 1, lambda i: step(i, 1))

    def fold(self, s: Store, acc: str, lanes: int) -> str:
        """Accumulators in memory, combined in halves."""
        t = TYPE[s.value.dtype.name]
        values = [self.new(f"load {t}, ptr {self.new(f'getelementptr {t}, ptr {acc}, i64 {k}')}") for k in range(lanes)]
        while len(values) > 1:
            half = len(values) // 2
            values = [self.combined(s, values[k], values[k + half]) for k in range(half)]
        return values[0]

    def sequence(self) -> None:
        n = self.nest
        assert n.along is not None
        x, (t_var, count) = n.variables[-1], n.along

        def inside() -> None:
            self.rows.clear()
            for p in n.pieces:
                begin, end = self.bounds(p, len(n.variables) == 1)
                self.loop(begin, end, 1, lambda i, p=p: one(i, p))  # type: ignore[misc]

        def one(i: str, p: Piece) -> None:
            """One index, in turn: the lanes of a wider form would be neighbours of x."""
            env = dict(self.scalar)
            env[x] = i
            for k, s in enumerate(p.stores):
                self.line(f"store {TYPE[s.value.dtype.name]} {self.identity(s)}, ptr %acc{k}")

            def item(t: str) -> None:
                own = dict(env)
                own[t_var] = t
                for u in toposort([s.value for s in p.stores] + list(p.guards)):
                    if u not in own and u.op is not Ops.CONST:
                        self.one(u, own)
                for k, s in enumerate(p.stores):
                    kind = TYPE[s.value.dtype.name]
                    old = self.new(f"load {kind}, ptr %acc{k}")
                    self.line(f"store {kind} {self.combined(s, old, self.w.ref(s.value, own))}, ptr %acc{k}")
                self.note_guards(p.guards, own)

            self.loop("0", str(count), 1, item)
            for k, s in enumerate(p.stores):
                kind = TYPE[s.value.dtype.name]
                for j in s.index:
                    self.index_value(j, env)
                at = self.address(s.buffer, s.plane, s.index, env)
                self.line(f"store {kind} {self.new(f'load {kind}, ptr %acc{k}')}, ptr {at}")

        for k, s in enumerate(n.pieces[0].stores):
            self.line(f"%acc{k} = alloca {TYPE[s.value.dtype.name]}, align 64")
        self.outer_loops(inside, len(n.variables) - 1)

    # --- pairs --------------------------------------------------------------------------------
    def pairs(self) -> None:
        """Rows i of a slab; for each, blocks of eight columns j, masked where j is not above i or past the end."""
        n = self.nest
        (size,), (piece,) = n.sizes, n.pieces
        i_var, j_var = n.variables
        cuts = slabs(size)
        rows = [s for s in piece.stores if s.index[0] is i_var]
        columns = [s for s in piece.stores if s.index[0] is j_var]
        width = min(self.width, PAIR_LANES)
        vectors = PAIR_LANES // width
        self.begin()
        nodes = toposort(piece.roots)

        def slab(k: str) -> None:
            low = self.new(f"load i64, ptr {self.new(f'getelementptr i64, ptr @cuts.{size}, i64 {k}')}")
            after = self.new(f"add i64 {k}, 1")
            high = self.new(f"load i64, ptr {self.new(f'getelementptr i64, ptr @cuts.{size}, i64 {after}')}")
            own: dict[int, str] = {}
            for c, s in enumerate(columns):
                b = self.kernel.buffers[s.buffer]
                plane = self.new(f"add i64 {self.new(f'mul i64 {k}, {b.planes // (len(cuts) - 1)}')}, {s.plane}")
                own[c] = self.address(s.buffer, plane, [UOp.const(0, i64)], self.scalar)
                self.w.width = width
                t = self.w.type(s.value.dtype)
                nothing = self.identity(s)
                self.loop("0", str(-(-size // PAIR_LANES) * PAIR_LANES), width, lambda j, c=c, t=t, nothing=nothing, s=s: self.line(  # type: ignore[misc]
                    f"store {t} {nothing}, ptr {self.new(f'getelementptr {TYPE[s.value.dtype.name]}, ptr {own[c]}, i64 {j}')}, align {BYTES[s.value.dtype.name]}"))  # fmt: skip
                self.w.width = 1
            self.loop(low, high, 1, lambda i: row(i, own))

        def row(i: str, own: dict[int, str]) -> None:
            self.scalar[i_var] = i
            for u in [u for u in self.scalar if i_var in u.leaves and u is not i_var]:
                del self.scalar[u]
            self.scalars(nodes, 1)
            self.rows.clear()
            self.prepare_pair_rows(piece, j_var)
            shared: dict[UOp, str] = {}
            roots = [s.value for s in piece.stores] + list(piece.guards)
            self.splats(roots, j_var, shared, width)
            for k, s in enumerate(rows):
                self.w.width = width
                t, e = self.w.type(s.value.dtype), TYPE[s.value.dtype.name]
                for v in range(vectors):
                    at = self.new(f"getelementptr {e}, ptr %row{k}, i64 {v * width}")
                    self.line(f"store {t} {self.identity(s)}, ptr {at}, align 64")
                self.w.width = 1
            first = self.new(f"and i64 {self.new(f'add i64 {i}, 1')}, {-PAIR_LANES}")
            inner = self.new(f"add i64 {first}, {PAIR_LANES}")
            last = size // PAIR_LANES * PAIR_LANES
            begins = self.new(f"icmp slt i64 {inner}, {last}")
            stop = self.new(f"select i1 {begins}, i64 {last}, i64 {inner}")
            self.block_of(first, i, True, own, piece, rows, columns, shared, width)
            self.loop(inner, stop, PAIR_LANES,
                      lambda j: self.block_of(j, i, False, own, piece, rows, columns, shared, width))  # fmt: skip
            if size % PAIR_LANES:
                self.loop(stop, str(size), PAIR_LANES,
                          lambda j: self.block_of(j, i, True, own, piece, rows, columns, shared, width))  # fmt: skip
            for k, s in enumerate(rows):
                at = self.address(s.buffer, s.plane, s.index, self.scalar)
                self.line(f"store {TYPE[s.value.dtype.name]} {self.fold(s, f'%row{k}', PAIR_LANES)}, ptr {at}")

        for k, s in enumerate(rows):
            self.line(f"%row{k} = alloca [{PAIR_LANES} x {TYPE[s.value.dtype.name]}], align 64")
        self.loop("%lo", "%hi", 1, slab)

    def prepare_pair_rows(self, piece: Piece, x: UOp) -> None:
        for u in value_nodes([s.value for s in piece.stores] + list(piece.guards)):
            if u.op is Ops.LOAD and self.contiguous(u.src, x):
                self.row(u.arg[0], u.arg[1], u.src)

    def block_of(
        self, j: str, i: str, masked: bool, own: dict[int, str], piece: Piece, rows: list[Store],
        columns: list[Store], shared: dict[UOp, str], width: int,
    ) -> None:  # fmt: skip
        """Eight pairs: added to the accumulators of the row, and to the columns of the slab."""
        roots = [s.value for s in piece.stores] + list(piece.guards)
        for v in range(PAIR_LANES // width):
            at = self.new(f"add i64 {j}, {v * width}") if v else j
            env, _ = self.body(roots, self.nest.variables[1], at, shared, width)
            inside = self.mask(at, i) if masked else ""

            def kept(s: Store, env: dict[UOp, str] = env, inside: str = inside) -> str:
                value = self.w.ref(s.value, env)
                if not inside:
                    return value
                t = self.w.type(s.value.dtype)
                return self.new(f"select {self.w.type(bool_)} {inside}, {t} {value}, {t} {self.identity(s)}")

            for places, items in ((rows, "row"), (columns, "")):
                for k, s in enumerate(places):
                    t, e = self.w.type(s.value.dtype), TYPE[s.value.dtype.name]
                    where = f"getelementptr {e}, ptr %row{k}, i64 {v * width}" if items else f"getelementptr {e}, ptr {own[k]}, i64 {at}"
                    place = self.new(where)
                    align = 64 if items and width == PAIR_LANES else BYTES[s.value.dtype.name] * (width if items else 1)
                    old = self.new(f"load {t}, ptr {place}, align {align}")
                    self.line(f"store {t} {self.combined(s, old, kept(s))}, ptr {place}, align {align}")
            if piece.guards and inside:
                for g in piece.guards:
                    t = self.w.type(bool_)
                    env[g] = self.new(f"and {t} {self.w.ref(g, env)}, {inside}")
            self.note_guards(piece.guards, env)
            self.w.width = 1

    def mask(self, j: str, i: str) -> str:
        """The lanes with i < j < n."""
        t = self.w.type(i64)
        steps = ", ".join(f"i64 {k}" for k in range(self.w.width))
        first = self.w.splat(j, i64)
        lane = self.new(f"add {t} {first}, <{steps}>") if self.w.width > 1 else j
        above = self.new(f"icmp sgt {t} {lane}, {self.w.splat(i, i64)}")
        size = self.w.constant(UOp.const(self.nest.sizes[0], i64))
        inside = self.new(f"icmp slt {t} {lane}, {size}")
        return self.new(f"and {self.w.type(bool_)} {above}, {inside}")


def function_name(section: LoopSection, k: int) -> str:
    return f"{section.name}.{k}"


def driver(section: LoopSection, slots: dict[str, int], x86: bool) -> list[str]:
    """All nests of a section in turn, as often as asked, then the exchange of buffers."""
    lines = [f"define void @{section.name}(ptr %buffers, ptr %uniform, ptr %flags, i64 %first, i64 %steps) #0 {{", "entry:"]
    lines += [SET_MODE] if x86 else []
    lines += ["  br label %head", "head:", "  %k = phi i64 [ 0, %entry ], [ %k.next, %body ]",
              "  %more = icmp slt i64 %k, %steps", "  br i1 %more, label %body, label %exit", "body:",
              "  %now = add i64 %first, %k"]  # fmt: skip
    for k, nest in enumerate(section.nests):
        lines.append(f'  call void @"{function_name(section, k)}"(ptr %buffers, ptr %uniform, ptr %flags, i64 0, i64 {nest.extent}, i64 %now)')
    for k, (a, b) in enumerate(section.swaps):
        for name, slot in (("a", slots[a]), ("b", slots[b])):
            lines += [f"  %{name}{k} = getelementptr ptr, ptr %buffers, i64 {slot}", f"  %{name}v{k} = load ptr, ptr %{name}{k}"]
        lines += [f"  store ptr %bv{k}, ptr %a{k}", f"  store ptr %av{k}, ptr %b{k}"]
    lines += ["  %k.next = add i64 %k, 1", "  br label %head", "exit:"]
    return [*lines, *([RESTORE_MODE] if x86 else []), "  ret void", "}"]


def part(section: LoopSection, k: int, x86: bool) -> list[str]:
    """One nest over a range, called from outside."""
    lines = [f'define void @"part.{function_name(section, k)}"({NEST_ARGUMENTS}) #0 {{', "entry:"]
    lines += [SET_MODE] if x86 else []
    lines.append(f'  call void @"{function_name(section, k)}"(ptr %buffers, ptr %uniform, ptr %flags, i64 %lo, i64 %hi, i64 %now)')
    return [*lines, *([RESTORE_MODE] if x86 else []), "  ret void", "}"]


def module(kernel: LoopKernel, careful: bool, width: int, x86: bool) -> str:
    """Every section of a kernel as one module."""
    slots = {name: k for k, name in enumerate(kernel.buffers)}
    declared: dict[str, str] = {}
    text: list[str] = []
    sizes: dict[int, None] = {}
    sections = kernel.careful if careful else kernel.sections
    for section in sections.values():
        for k, nest in enumerate(section.nests):
            doubles = all(kernel.buffers[s.buffer].dtype.bits == 64 for p in nest.pieces for s in p.stores)
            w = NestWriter(kernel, slots, nest, width if doubles else 2 * width)
            body = w.write()
            text += [f'define internal void @"{function_name(section, k)}"({NEST_ARGUMENTS}) #0 {{', "entry:", *body, "  ret void", "}"]
            text += part(section, k, x86)
            declared |= w.w.declared
            if nest.kind == "pairs":
                sizes[nest.sizes[0]] = None
        text += driver(section, slots, x86)
    if x86:
        declared["ld"] = "declare void @llvm.x86.sse.ldmxcsr(ptr)"
        declared["st"] = "declare void @llvm.x86.sse.stmxcsr(ptr)"
    for n in sizes:
        cuts = ", ".join(f"i64 {c}" for c in slabs(n))
        declared[f"cuts{n}"] = f"@cuts.{n} = internal constant [{len(slabs(n))} x i64] [{cuts}]"
    attributes = 'attributes #0 = { nounwind "stackrealign" "prefer-vector-width"="512" }'
    return "\n".join([*declared.values(), *text, attributes, ""])


