"""How are the statements of a loop nest written in LLVM IR?  For a processor, or for one thread of a GPU.

No pass runs on this text, so the printer does three things itself. What does not change in a loop is computed before
it. An address is a pointer to what the outer loops decide, plus an offset. What a loop carries is a phi, never memory.
No operation on floats is joined with another or left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from tinyphysics.emit.text.writer import BYTES, TYPE, OnWriter, Writer
from tinyphysics.ir.dtype import bool_, i64
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp, substitute, toposort
from tinyphysics.tpir.kernels.loopir import (
    FLAGS,
    HI,
    LO,
    WORKSPACE,
    Barrier,
    Body,
    Call,
    Carry,
    For,
    Function,
    Let,
    Local,
    Note,
    Reads,
    Statement,
    Store,
    When,
    While,
    Woven,
    affine,
    bound,
    buffers_of,
    expressions,
    locals_of,
    stored,
    unconditional,
    walk,
)
from tinyphysics.tpir.kernels.nests import LoopKernel
from tinyphysics.util import prod

BARRIER = "@llvm.nvvm.barrier0"
LINE = 64  # bytes: what lies on the stack begins with a line of the cache
Names = dict[UOp, str]


def value_nodes(roots: Sequence[UOp], known: Names) -> list[UOp]:
    """What is computed as a value, in order; a load is not followed into its index."""
    order: dict[UOp, None] = {}
    stack: list[tuple[UOp, bool]] = [(u, False) for u in reversed(roots)]
    while stack:
        u, ready = stack.pop()
        if u in order or u in known or u.op in (Ops.CONST, Ops.VAR):
            continue
        if ready or u.op is Ops.LOAD:
            order[u] = None
        else:
            stack.append((u, True))
            stack.extend((s, False) for s in reversed(u.src))
    return list(order)


@dataclass
class LlvmPrinter(OnWriter):
    """One function. `env` has the names of what is computed, `wide` the variables that are vectors."""

    kernel: LoopKernel
    pointer: dict[str, str]  # of the buffers that it is given
    parallel: bool = False  # is this one thread of many?  Then a mark is a branch
    w: Writer = field(default_factory=lambda: Writer(1))
    env: Names = field(default_factory=dict)
    wide: dict[UOp, int] = field(default_factory=dict)  # and how many lanes they have
    vectors: dict[UOp, None] = field(default_factory=dict)  # those among them that count the lanes
    splats: Names = field(default_factory=dict)
    places: dict[tuple[object, ...], str] = field(default_factory=dict)
    addresses: dict[tuple[object, ...], tuple[dict[UOp, int], int]] = field(default_factory=dict)
    depth: dict[UOp, int] = field(default_factory=dict)  # of the loop that binds a name
    locals: dict[str, Local] = field(default_factory=dict)
    reads: Reads = field(default_factory=Reads)
    loaded: set[str] = field(default_factory=set)  # buffers that something was read from
    level: int = 0

    def scope(self) -> Callable[[], None]:
        """What is computed from here on is forgotten when the result is called."""
        saved = self.env, self.splats, self.places, self.wide, self.vectors, self.level
        self.env, self.splats, self.places = dict(self.env), dict(self.splats), dict(self.places)
        self.wide, self.vectors, self.level = dict(self.wide), dict(self.vectors), self.level + 1

        def back() -> None:
            self.env, self.splats, self.places, self.wide, self.vectors, self.level = saved

        return back

    # --- expressions ------------------------------------------------------------------------------
    def lanes(self, u: UOp) -> int:
        """1 if all lanes share it."""
        return max((n for v, n in self.wide.items() if v in u.leaves), default=1) if self.wide else 1

    def splat(self, u: UOp, lanes: int) -> str:
        if u.op is Ops.CONST:
            self.w.width = lanes
            return self.w.constant(u)
        if u not in self.splats:
            self.w.width = lanes
            self.splats[u] = self.w.splat(self.env[u], u.dtype)
        return self.splats[u]

    def name(self, u: UOp, lanes: int) -> str:
        """A computed value as so many lanes."""
        if u.op is Ops.CONST or self.lanes(u) < lanes:
            return self.splat(u, lanes)
        return self.env[u]

    def compute(self, roots: Sequence[UOp]) -> None:
        for u in value_nodes(roots, self.env):
            self.operation(u)

    def value(self, u: UOp, lanes: int | None = None) -> str:
        self.compute([u])
        return self.name(u, self.lanes(u) if lanes is None else lanes)

    def operation(self, u: UOp) -> None:
        lanes = self.lanes(u)
        if u.op is Ops.LOAD:
            self.env[u] = self.load(u, lanes)
            self.loaded.add(u.arg[0])
            return
        own = {s: self.name(s, lanes) for s in u.src}
        given = dict(own)
        self.w.width = lanes
        self.w.operation(u, own)
        self.env |= {v: n for v, n in own.items() if v not in given}

    # --- memory -----------------------------------------------------------------------------------
    def linear(self, buffer: str, plane: int, index: Sequence[UOp]) -> tuple[dict[UOp, int], int]:
        """An address as whole multiples of nodes, plus a number."""
        key = (buffer, plane, *index)
        if key not in self.addresses:
            self.addresses[key] = self.multiples(buffer, plane, index)
        return self.addresses[key]

    def multiples(self, buffer: str, plane: int, index: Sequence[UOp]) -> tuple[dict[UOp, int], int]:
        b = self.kernel.buffers.get(buffer)  # none of a local one
        strides = [1 if b is None else prod(b.axes[k + 1 :]) for k in range(len(index))]
        terms: dict[UOp, int] = {}
        total = 0 if b is None else plane * b.plane
        for u, stride in zip(index, strides):
            own, k = affine(u)
            total += k * stride
            for x, c in own.items():
                terms[x] = terms.get(x, 0) + c * stride
        return {x: c for x, c in terms.items() if c}, total

    def kind(self, buffer: str) -> str:
        if buffer == WORKSPACE:
            return "i64"  # eight bytes each, whatever is in them
        d = self.locals[buffer].dtype if buffer in self.locals else self.kernel.buffers[buffer].dtype
        return TYPE[d.name]

    def known(self, u: UOp) -> bool:
        return all(v in self.env for v in u.leaves)

    def place(self, buffer: str, plane: int, index: Sequence[UOp], part: bool = False) -> str:
        """The address of a number; of what is known already, if only a part is wanted."""
        terms, rest = self.linear(buffer, plane, index)
        at, key, t = self.pointer[buffer], (buffer,), self.kind(buffer)
        depths = {x: max((self.depth.get(v, 0) for v in x.leaves), default=0) for x in terms}
        if part:
            terms = {x: c for x, c in terms.items() if self.known(x)}
        for d in sorted(set(depths[x] for x in terms)):
            own = [(x, c) for x, c in terms.items() if depths[x] == d]
            key = (*key, *own)  # type: ignore[assignment]
            if key not in self.places:
                total = ""
                for x, c in own:
                    self.compute([x])
                    if self.env[x] == "0":
                        continue
                    one = self.times(x, c)
                    total = self.new(f"add i64 {total}, {one}") if total else one
                self.places[key] = self.new(f"getelementptr {t}, ptr {at}, i64 {total}") if total else at
            at = self.places[key]
        return self.new(f"getelementptr {t}, ptr {at}, i64 {rest}") if rest and not part else at

    def times(self, x: UOp, c: int) -> str:
        """So many of what is in `env`, which all arrays of a shape have in their addresses."""
        key = ("times", x, c)
        if c != 1 and key not in self.places:
            self.places[key] = self.new(f"mul i64 {self.env[x]}, {c}")
        return self.env[x] if c == 1 else self.places[key]

    def lane_of(self, u: UOp) -> UOp | None:
        """The variable that makes a vector of an address."""
        return next((v for v in self.vectors if v in u.leaves), None)

    def in_a_row(self, index: Sequence[UOp], plane: int, buffer: str, x: UOp, step: int = 1) -> bool:
        """Do neighbouring lanes read neighbouring numbers, upwards or downwards?"""
        terms, _ = self.linear(buffer, plane, index)
        return terms.get(x) == step and not any(x in u.leaves for u in terms if u is not x)

    def at_lane(self, u: UOp, x: UOp, lane: int) -> UOp:
        first = first_of(x)
        return substitute([u], {x: first + UOp.const(lane, i64) if lane else first})[0]

    def load(self, u: UOp, lanes: int) -> str:
        buffer, plane = u.arg
        e, size = TYPE[u.dtype.name], BYTES[u.dtype.name]
        if lanes == 1:
            return self.new(f"load {e}, ptr {self.place(buffer, plane, u.src)}, align {size}")
        x = self.lane_of(u)
        assert x is not None
        t = f"<{lanes} x {e}>"
        if self.in_a_row(u.src, plane, buffer, x):
            at = self.place(buffer, plane, [self.at_lane(i, x, 0) for i in u.src])
            return self.new(f"load {t}, ptr {at}, align {size}")
        if self.in_a_row(u.src, plane, buffer, x, -1):
            at = self.place(buffer, plane, [self.at_lane(i, x, lanes - 1) for i in u.src])
            backwards = ", ".join(f"i32 {k}" for k in reversed(range(lanes)))
            there = self.new(f"load {t}, ptr {at}, align {size}")
            return self.new(f"shufflevector {t} {there}, {t} poison, <{lanes} x i32> <{backwards}>")
        out = "poison"
        for lane in range(lanes):
            item = self.value(self.at_lane(u, x, lane))
            out = self.new(f"insertelement {t} {out}, {e} {item}, i64 {lane}")
        return out

    def store(self, s: Store) -> None:
        t = TYPE[s.value.dtype.name]
        size = BYTES[s.value.dtype.name]
        roots = [s.value, *s.index]
        lanes = max(self.lanes(u) for u in roots)
        value = self.value(s.value, lanes)
        self.forget((s.buffer,))
        if lanes == 1:
            self.line(f"store {t} {value}, ptr {self.place(s.buffer, s.plane, s.index)}, align {size}")
            return
        x = next(x for u in roots[1:] if (x := self.lane_of(u)) is not None)
        if self.in_a_row(s.index, s.plane, s.buffer, x):
            at = self.place(s.buffer, s.plane, [self.at_lane(i, x, 0) for i in s.index])
            self.line(f"store <{lanes} x {t}> {value}, ptr {at}, align {size}")
            return
        for lane in range(lanes):
            at = self.place(s.buffer, s.plane, [self.at_lane(i, x, lane) for i in s.index])
            item = self.new(f"extractelement <{lanes} x {t}> {value}, i64 {lane}")
            self.line(f"store {t} {item}, ptr {at}, align {size}")

    def woven(self, stores: Sequence[Store]) -> None:
        """As many vectors as there are stores, each of neighbours in memory, by weaving pairs into each other."""
        first = stores[0]
        lanes = max(self.lanes(s.value) for s in stores)
        if lanes == 1 or len(stores) & (len(stores) - 1):
            for s in stores:
                self.store(s)
            return
        t = f"<{lanes} x {TYPE[first.value.dtype.name]}>"
        both = [[k // 2 + half * lanes // 2 + k % 2 * lanes for k in range(lanes)] for half in (0, 1)]
        masks = [f"<{lanes} x i32> <{', '.join(f'i32 {k}' for k in mask)}>" for mask in both]

        def weave(vectors: list[str]) -> list[str]:
            if len(vectors) == 1:
                return vectors
            pairs = zip(weave(vectors[::2]), weave(vectors[1::2]))
            return [self.new(f"shufflevector {t} {a}, {t} {b}, {m}") for a, b in pairs for m in masks]

        rows = weave([self.value(s.value, lanes) for s in stores])
        self.forget((first.buffer,))
        x = next(x for u in first.index if (x := self.lane_of(u)) is not None)
        at = self.place(first.buffer, first.plane, [self.at_lane(i, x, 0) for i in first.index])
        for k, row in enumerate(rows):
            there = self.new(f"getelementptr {t}, ptr {at}, i64 {k}") if k else at
            self.line(f"store {t} {row}, ptr {there}, align {BYTES[first.value.dtype.name]}")

    # --- statements -------------------------------------------------------------------------------
    def statements(self, body: Body) -> None:
        for s in body:
            self.statement(s)

    def statement(self, s: Statement) -> None:
        match s:
            case For():
                self.loop(s)
            case While():
                self.turns(s)
            case When():
                self.when(s)
            case Let():
                self.side_by_side(s)
            case Local():
                pass  # it has its place since the function began
            case Store():
                self.store(s)
            case Woven():
                self.woven(s.stores)
            case Note():
                self.note(s.condition)
            case Call():
                self.line(f"call void {self.pointer[s.buffer]}()")
            case Barrier():
                self.w.declared[BARRIER] = f"declare void {BARRIER}()"
                self.line(f"call void {BARRIER}()")
                self.forget([name for name, local in self.locals.items() if local.shared])

    def bind(self, name: UOp, value: str, lanes: int = 1) -> None:
        if name in self.env:  # what the name meant before, and what follows from it, is over
            self.env = {u: n for u, n in self.env.items() if name not in u.leaves}
            self.splats = {u: n for u, n in self.splats.items() if name not in u.leaves}
            self.wide.pop(name, None)
        self.env[name] = value
        self.depth[name] = self.level
        if lanes > 1:
            self.wide[name] = lanes

    def side_by_side(self, s: Let) -> None:
        self.compute(s.values)
        for name, value in zip(s.names, s.values):
            lanes = self.lanes(value)
            self.bind(name, self.name(value, lanes), lanes)

    def before(self, body: Body, names: Sequence[UOp]) -> None:
        """What does not change in a loop: values, vectors of what lanes share, and pointers."""
        inner = {*names, *(v for s in walk(body) for v in bound(s))}
        changed, tainted = stored(body), dict[UOp, bool]()
        certain = list(unconditional(body))
        for u in toposort([e for s in certain for e in expressions(s)]):
            tainted[u] = (
                u in inner or u.op is Ops.LOAD and u.arg[0] in changed or any(tainted[x] for x in u.src)
            )
            if u.op is Ops.LOAD and u.arg[0] in self.pointer:
                self.part(u.arg[0], u.arg[1], u.src)
        for s in certain:
            if isinstance(s, Store):
                self.part(s.buffer, s.plane, s.index)
        free = [e for s in certain for e in expressions(s)]
        for u in value_nodes(free, self.env):
            if not tainted[u]:
                self.compute([u])
                continue
            lanes = self.lanes(u)
            for x in u.src if lanes > 1 and u.op is not Ops.LOAD else ():
                if not tainted[x] and x.op is not Ops.CONST and self.lanes(x) == 1 and self.known(x):
                    self.compute([x])
                    self.splat(x, lanes)

    def part(self, buffer: str, plane: int, index: Sequence[UOp]) -> None:
        """The pointer that an address in a loop begins with."""
        first = {x: first_of(x) for x in self.vectors}
        self.place(buffer, plane, substitute(list(index), first) if first else index, part=True)

    def forget(self, buffers: Iterable[str]) -> None:
        """What was read from memory that has changed since is read again."""
        changed = self.loaded.intersection(buffers)
        if changed:
            self.env = {u: n for u, n in self.env.items() if changed.isdisjoint(self.reads[u])}
            self.splats = {u: n for u, n in self.splats.items() if changed.isdisjoint(self.reads[u])}

    def loop(self, s: For) -> None:
        once = s.begin.op is s.end.op is Ops.CONST and 0 < s.end.arg - s.begin.arg <= s.step
        carried = s.carried
        begin, end = self.value(s.begin), self.value(s.end)
        firsts = [c.first for c in carried]
        self.compute(firsts)
        if once:
            back = self.scope()
            self.enter(s, begin)
            self.statements(s.body)
            self.compute([c.next for c in carried])
            last = [(c.name, self.name(c.next, n), n) for c in carried if (n := self.lanes(c.next))]
            back()
            self.forget(stored(s.body))
            for one, value, width in last:
                self.bind(one, value, width)
            return
        self.forget(stored(s.body))
        inner = (s.variable, *(c.name for c in carried))
        self.before(s.body, inner)
        self.before((Let(tuple(c.name for c in carried), tuple(c.next for c in carried)),), inner)
        lanes = self.carried_lanes(s.body, carried)
        start = self.before_turns(carried, lanes)

        def turn(i: str, names: list[str]) -> list[str]:
            back = self.scope()
            self.enter(s, i, dict(zip((c.name for c in carried), names)), lanes)
            return self.after_turn(s.body, carried, lanes, back)

        self.behind(carried, lanes, self.w.loop(begin, end, start, turn, s.step))

    def before_turns(self, carried: Sequence[Carry], lanes: dict[UOp, int]) -> list[tuple[str, str]]:
        """(type, value) of what a loop carries."""
        return [(self.type(c.name, lanes[c.name]), self.name(c.first, lanes[c.name])) for c in carried]

    def after_turn(
        self, body: Body, carried: Sequence[Carry], lanes: dict[UOp, int], back: Callable[[], None]
    ) -> list[str]:
        self.statements(body)
        self.compute([c.next for c in carried])
        later = [self.name(c.next, lanes[c.name]) for c in carried]
        back()
        return later

    def behind(self, carried: Sequence[Carry], lanes: dict[UOp, int], names: Sequence[str]) -> None:
        for c, name in zip(carried, names):
            self.bind(c.name, name, lanes[c.name])

    def enter(
        self, s: For, i: str, names: dict[UOp, str] | None = None, lanes: dict[UOp, int] | None = None
    ) -> None:
        """The names of a turn."""
        self.bind(s.variable, i)
        if s.lanes > 1:
            self.bind(first_of(s.variable), i)
            steps = ", ".join(f"i64 {k}" for k in range(s.lanes))
            self.w.width = s.lanes
            roots = [e for x in walk((s,)) for e in expressions(x)]
            used = [*roots, *(x for u in value_nodes(roots, {}) if u.op is not Ops.LOAD for x in u.src)]
            if any(u is s.variable for u in used):
                vector = self.new(f"add {self.w.type(i64)} {self.w.splat(i, i64)}, <{steps}>")
                self.bind(s.variable, vector)
            self.wide[s.variable] = s.lanes
            self.vectors[s.variable] = None
        for c in s.carried:
            n = self.lanes(c.first) if lanes is None else lanes[c.name]
            self.bind(c.name, self.name(c.first, n) if names is None else names[c.name], n)

    def carried_lanes(self, body: Body, carried: Sequence[Carry]) -> dict[UOp, int]:
        """Which of the carried values are vectors: those that become one in some turn."""
        wide = dict(self.wide)

        def of(u: UOp) -> int:
            return max((n for v, n in wide.items() if v in u.leaves), default=1)

        pairs = [(c.name, u) for c in carried for u in (c.first, c.next)]
        for s in walk(body):
            if isinstance(s, Let):
                pairs += zip(s.names, s.values)
            elif isinstance(s, For | While):
                pairs += [(c.name, u) for c in s.carried for u in (c.first, c.next)]
            if isinstance(s, For) and s.lanes > 1:
                wide[s.variable] = s.lanes
        growing = True
        while growing:
            growing = False
            for name, u in pairs:
                if name not in wide and (n := of(u)) > 1:
                    wide[name], growing = n, True
        return {c.name: wide.get(c.name, 1) for c in carried}

    def type(self, u: UOp, lanes: int) -> str:
        self.w.width = lanes
        return self.w.type(u.dtype)

    def turns(self, s: While) -> None:
        self.compute([c.first for c in s.carried])
        names_in = tuple(c.name for c in s.carried)
        self.forget(stored(s.body))
        self.before((*s.body, Let(names_in, tuple(c.next for c in s.carried))), names_in)
        lanes = self.carried_lanes(s.body, s.carried)
        scopes: list[Callable[[], None]] = []

        def more(names: list[str]) -> str:
            scopes.append(self.scope())
            self.behind(s.carried, lanes, names)
            return self.value(s.more)

        def turn(_: list[str]) -> list[str]:
            return self.after_turn(s.body, s.carried, lanes, scopes.pop())

        self.behind(s.carried, lanes, self.w.while_(more, self.before_turns(s.carried, lanes), turn))

    def when(self, s: When) -> None:
        def way(body: Body) -> Callable[[], None] | None:
            def write() -> None:
                back = self.scope()
                self.statements(body)
                back()

            return write if body else None

        then = way(s.then)
        assert then is not None
        self.w.when(self.value(s.condition), then, way(s.otherwise))
        self.forget(stored((*s.then, *s.otherwise)))

    def note(self, condition: UOp) -> None:
        seen, lanes = self.value(condition), self.lanes(condition)
        if lanes > 1:
            self.w.width = lanes
            t, name = self.w.type(bool_), f"@llvm.vector.reduce.or.v{lanes}i1"
            self.w.declared[name] = f"declare i1 {name}({t})"
            seen = self.new(f"call i1 {name}({t} {seen})")
        if not self.parallel:
            old = self.new("load i8, ptr %seen")
            word = self.new(f"zext i1 {seen} to i8")
            self.line(f"store i8 {self.new(f'or i8 {old}, {word}')}, ptr %seen")
            return
        self.w.when(seen, lambda: self.line(f"store i8 1, ptr %{FLAGS}"))

    # --- a function -------------------------------------------------------------------------------
    def begin(self, f: Function) -> None:
        """What lies on the stack, parameters, the clock."""
        self.locals = locals_of(f.body)
        for name, local in self.locals.items():
            if local.shared:
                self.pointer[name] = self.shared(local)
                continue
            self.line(f"%{name} = alloca [{local.count} x {TYPE[local.dtype.name]}], align {LINE}")
            self.pointer[name] = f"%{name}"
        everything = toposort([e for s in walk(f.body) for e in expressions(s)])
        for u, name in self.uniforms(self.kernel.params, everything).items():
            self.bind(u, name)

    def shared(self, local: Local) -> str:
        """Memory of a block of threads: kernels with as much of it have one name for it."""
        t = f"[{local.count} x {TYPE[local.dtype.name]}]"
        name = f"@{local.name}.{local.dtype.name}.{local.count}"
        self.w.declared[name] = f"{name} = internal addrspace(3) global {t} poison, align {LINE}"
        return self.new(f"addrspacecast ptr addrspace(3) {name} to ptr")


def first_of(x: UOp) -> UOp:
    """The number of the first lane of a vector's variable."""
    return UOp.var(f"{x.arg}.first", (), i64)


def host_lines(kernel: LoopKernel, slots: dict[str, int], f: Function) -> tuple[list[str], dict[str, str]]:
    """(the lines of a function over a range of its outermost loop, what it needs declared)."""
    p = LlvmPrinter(kernel, {})
    p.begin_marks()
    for name in buffers_of(f):
        at = p.new(f"getelementptr ptr, ptr %buffers, i64 {slots[name]}")
        p.pointer[name] = p.new(f"load ptr, ptr {at}, align 8")
    p.bind(LO, "%lo")
    p.bind(HI, "%hi")
    p.begin(f)
    p.statements(f.body)
    if any(isinstance(s, Note) for s in walk(f.body)):
        p.end_marks()
    return p.w.lines, p.w.declared
