"""What a loop nest is written with in LLVM IR: loops, addresses, bodies for one lane or many, accumulators.

Addresses along the innermost loop are pointers to a row plus an offset, so that loads and stores are of whole
vectors; what the lanes share is computed outside of the loop that it does not change with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from tinyphysics.emit.text.writer import BYTES, TYPE, OnWriter, Writer
from tinyphysics.ir.dtype import i64
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.reduction import identity
from tinyphysics.ir.uop import UOp, toposort
from tinyphysics.rules.functions.transcendental import lower
from tinyphysics.tpir.kernels.neighbours import shifts_in
from tinyphysics.tpir.kernels.nests import LoopKernel, Nest, Store
from tinyphysics.util import prod

Names = dict[UOp, str]


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


def value_nodes(roots: Sequence[UOp], known: Iterable[UOp] = ()) -> list[UOp]:
    """What is computed as a value, not as an address: in order, loads not followed into their indices.

    What is `known` already is not followed either, and not among them.
    """
    order: dict[UOp, None] = dict.fromkeys(known)
    begin = len(order)
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
    return list(order)[begin:]


@dataclass
class NestWriter(OnWriter):
    """One nest. `scalar` names what is the same for all lanes, by level of the loop that it changes with."""

    kernel: LoopKernel
    slots: dict[str, int]
    nest: Nest
    width: int
    w: Writer = field(default_factory=lambda: Writer(1))
    scalar: Names = field(default_factory=dict)
    pointer: dict[str, str] = field(default_factory=dict)
    rows: dict[tuple[object, ...], str] = field(default_factory=dict)
    on_stack: Names = field(default_factory=dict)  # numbers that bodies read from there

    # --- small things -------------------------------------------------------------------------
    def loop(self, begin: str, end: str, step: int, body: Callable[[str], None]) -> None:
        """A loop that is entered only if there is something to do."""

        def nothing_carried(i: str, _: list[str]) -> list[str]:
            body(i)
            return []

        self.w.loop(begin, end, [], nothing_carried, step)

    def carrying(
        self,
        begin: str,
        end: str,
        step: int,
        start: Sequence[tuple[str, str]],
        body: Callable[[str, list[str]], list[str]],
    ) -> list[str]:
        """A loop that carries values round, given as (type, first value); returns their names after it."""
        return self.w.loop(begin, end, start, body, step)

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
            if name not in self.pointer:  # an argument of its own otherwise
                self.pointer[name] = self.array(name)
        roots = [u for p in self.nest.pieces for u in (*p.roots, *p.plain)]
        everything = toposort([*roots, *([] if self.nest.when is None else [self.nest.when])])
        self.scalar |= self.uniforms(self.kernel.params, everything)
        self.scalars(everything, 0)

    def array(self, buffer: str) -> str:
        """The address of a buffer that no expression reads."""
        at = self.new(f"getelementptr ptr, ptr %buffers, i64 {self.slots[buffer]}")
        return self.new(f"load ptr, ptr {at}, align 8")

    def scalars(self, nodes: Sequence[UOp], level: int) -> None:
        """Everything of one level, as scalars."""
        self.w.width = 1
        for u in nodes:
            if u not in self.scalar and u.op is not Ops.CONST and self.level(u) == level and not shifts_in(u):
                self.one(u, self.scalar)

    def one(self, u: UOp, env: Names) -> None:
        if u.op is Ops.LOAD:
            env[u] = self.new(
                f"load {TYPE[u.dtype.name]}, ptr {self.address(u.arg[0], u.arg[1], u.src, env)}"
            )
        elif u.op is not Ops.VAR:
            self.w.operation(u, env)

    def address(self, buffer: str, plane: int | str, index: Sequence[UOp], env: Names) -> str:
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
    def index_value(self, u: UOp, env: Names) -> None:
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

    def vector_address(self, buffer: str, plane: int, index: Sequence[UOp], env: Names, x: UOp) -> str:
        t = TYPE[self.kernel.buffers[buffer].dtype.name]
        row, i = self.row(buffer, plane, index), index[-1]
        offset = 0
        if i.op is Ops.ADD and i.src[0] is x and i.src[1].op is Ops.CONST:
            i, offset = x, int(i.src[1].arg)
        if i is not x:
            self.index_value(i, env)
        at = self.new(f"getelementptr {t}, ptr {row}, i64 {env[i]}")
        return self.new(f"getelementptr {t}, ptr {at}, i64 {offset}") if offset else at

    def vector_load(self, u: UOp, env: Names, index_env: Names, x: UOp) -> str:
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

    def splats(self, roots: Sequence[UOp], x: UOp, env: Names, width: int) -> None:
        """What the lanes share, in every lane; written before the loop."""
        self.w.width = width
        for u in value_nodes(roots):
            for s in u.src if u.op is not Ops.LOAD else ():
                if x not in s.leaves and s.op is not Ops.CONST and s not in env and not shifts_in(s):
                    env[s] = self.w.splat(self.scalar[s], s.dtype)
        for u in roots:
            if x not in u.leaves and u.op is not Ops.CONST and u not in env:
                env[u] = self.w.splat(self.scalar[u], u.dtype)
        self.w.width = 1

    def body(
        self, roots: Sequence[UOp], x: UOp, at: str, shared: Names, width: int, known: Names | None = None
    ) -> tuple[Names, Names]:
        """The roots for `width` values of x from `at` on: (values, addresses); what is known is not computed again."""
        self.w.width = width
        index_env = dict(self.scalar)
        index_env[x] = at
        known = known or {}
        env = (dict(shared) if width > 1 else dict(self.scalar)) | known
        nodes = value_nodes(roots, known)
        if width == 1:
            env[x] = at
        elif any(s is x for u in nodes if u.op is not Ops.LOAD for s in (u, *u.src)):
            first = self.w.splat(at, i64)
            steps = ", ".join(f"i64 {k}" for k in range(width))
            env[x] = self.new(f"add {self.w.type(i64)} {first}, <{steps}>")
        for u in nodes:
            if u in self.on_stack and width > 1:
                env[u] = self.new(
                    f"load {self.w.type(u.dtype)}, ptr {self.on_stack[u]}, align {width * BYTES[u.dtype.name]}"
                )
            if u in env or u.op in (Ops.CONST, Ops.VAR):
                continue
            if u.op is Ops.LOAD:
                env[u] = (
                    self.vector_load(u, env, index_env, x) if width > 1 else self.scalar_load(u, index_env, x)
                )
            else:
                self.w.operation(u, env)
        return env, index_env

    def scalar_load(self, u: UOp, env: Names, x: UOp) -> str:
        if self.contiguous(u.src, x):
            return self.new(
                f"load {TYPE[u.dtype.name]}, ptr {self.vector_address(u.arg[0], u.arg[1], u.src, env, x)}"
            )
        for i in u.src:
            self.index_value(i, env)
        return self.new(f"load {TYPE[u.dtype.name]}, ptr {self.address(u.arg[0], u.arg[1], u.src, env)}")

    # --- loops and sums ----------------------------------------------------------------------
    def combined(self, s: Store, acc: str, item: str) -> str:
        assert s.combine is not None
        if s.combine is Ops.ADD and s.value.dtype.is_float:
            return self.new(f"fadd {self.w.type(s.value.dtype)} {acc}, {item}")
        a, b = UOp.var("acc", (), s.value.dtype), UOp.var("item", (), s.value.dtype)
        (graph,) = lower([a.alu(s.combine, b)])
        env = {a: acc, b: item}
        for u in toposort([graph]):
            if u.op not in (Ops.VAR, Ops.CONST):
                self.w.operation(u, env)
        return env[graph]

    def joined(self, s: Store, acc: str, env: Names, contracts: bool = False) -> str:
        """A sum with the value of a store; where it joins, or the kernel contracts, a product does it with one rounding."""
        u = s.value
        if not (s.joins or contracts) or s.combine is not Ops.ADD or u.op is not Ops.MUL:
            return self.combined(s, acc, self.w.ref(u, env))
        return self.w.call("fma", u, [self.w.ref(u.src[0], env), self.w.ref(u.src[1], env), acc])

    def identity(self, s: Store) -> str:
        assert s.combine is not None
        return self.w.constant(UOp.const(identity(s.combine, s.value.dtype), s.value.dtype))

    def fold(self, s: Store, acc: str, lanes: int) -> str:
        """Accumulators in memory, combined in halves."""
        t = TYPE[s.value.dtype.name]
        values = [
            self.new(f"load {t}, ptr {self.new(f'getelementptr {t}, ptr {acc}, i64 {k}')}")
            for k in range(lanes)
        ]
        while len(values) > 1:
            half = len(values) // 2
            values = [self.combined(s, values[k], values[k + half]) for k in range(half)]
        return values[0]
