"""What is an operation in LLVM IR?  One line, for a number or for the lanes of a vector."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from tinyphysics.emit.text import inside, seeds
from tinyphysics.emit.text.lines import Lines
from tinyphysics.emit.text.marks import mark, marking
from tinyphysics.emit.text.solved import loop_of_rounds
from tinyphysics.ir.dtype import DType, bool_, f32, f64, i64, u32, u64
from tinyphysics.ir.ops import COMPARE, INSIDE, MINIMAL, Ops
from tinyphysics.ir.text import dump
from tinyphysics.ir.uop import UOp, toposort
from tinyphysics.rules.calculus.solve import part
from tinyphysics.rules.functions.transcendental import alone, expanded
from tinyphysics.tpir.kernels.kernel import NOW
from tinyphysics.util import digest

TYPE = {
    "f64": "double",
    "f32": "float",
    "i64": "i64",
    "i32": "i32",
    "i16": "i16",
    "i8": "i8",
    "u64": "i64",
    "u32": "i32",
    "bool": "i1",
}
BYTES = {"f64": 8, "f32": 4, "i64": 8, "i32": 4, "i16": 2, "i8": 1, "u64": 8, "u32": 4}
FLOAT = {Ops.ADD: "fadd", Ops.SUB: "fsub", Ops.MUL: "fmul", Ops.DIV: "fdiv"}
INTEGER = {
    Ops.ADD: "add",
    Ops.SUB: "sub",
    Ops.MUL: "mul",
    Ops.AND: "and",
    Ops.OR: "or",
    Ops.XOR: "xor",
    Ops.SHL: "shl",
    Ops.SHR: "lshr",
    Ops.SAR: "ashr",
    Ops.TDIV: "sdiv",
}
FLOAT_COMPARE = {Ops.LT: "fcmp olt", Ops.LE: "fcmp ole", Ops.EQ: "fcmp oeq", Ops.NE: "fcmp une"}
SIGNED_COMPARE = {Ops.LT: "icmp slt", Ops.LE: "icmp sle", Ops.EQ: "icmp eq", Ops.NE: "icmp ne"}
UNSIGNED_COMPARE = SIGNED_COMPARE | {Ops.LT: "icmp ult", Ops.LE: "icmp ule"}


def literal(u: UOp) -> str:
    if u.dtype.is_float:  # LLVM writes a float constant with the bits of the double that it equals
        return f"0x{struct.unpack('<Q', struct.pack('<d', u.arg))[0]:016X}"
    if u.dtype is bool_:
        return "true" if u.arg else "false"
    return str(u.arg)


@dataclass
class Writer(Lines):
    """Lines of one function from graphs; `env` maps a node to its name in one of the interleaved copies."""

    width: int
    word: DType = i64  # the integers that are as wide as the states
    careful: bool = False  # which form functions have
    estimates: bool = False  # does this machine divide by estimates where numbers are INSIDE?

    def type(self, d: DType) -> str:
        return TYPE[d.name] if self.width == 1 else f"<{self.width} x {TYPE[d.name]}>"

    def suffix(self, d: DType) -> str:
        kind = {"f64": "f64", "f32": "f32", "bool": "i1"}.get(d.name, TYPE[d.name])
        return kind if self.width == 1 else f"v{self.width}{kind}"

    def constant(self, u: UOp) -> str:
        return literal(u) if self.width == 1 else f"splat ({TYPE[u.dtype.name]} {literal(u)})"

    def splat(self, name: str, d: DType) -> str:
        """A scalar in every lane."""
        if self.width == 1:
            return name
        t = self.type(d)
        one = self.new(f"insertelement {t} poison, {TYPE[d.name]} {name}, i64 0")
        return self.new(f"shufflevector {t} {one}, {t} poison, <{self.width} x i32> zeroinitializer")

    def ref(self, u: UOp, env: dict[UOp, str]) -> str:
        return self.constant(u) if u.op is Ops.CONST and u not in env else env[u]

    def call(self, name: str, u: UOp, args: Sequence[str]) -> str:
        t = self.type(u.dtype)
        function = f"@llvm.{name}.{self.suffix(u.dtype)}"
        self.declared[function] = f"declare {t} {function}({', '.join([t] * len(args))})"
        return self.new(f"call {t} {function}({', '.join(f'{t} {a}' for a in args)})")

    def operation(self, u: UOp, env: dict[UOp, str]) -> None:
        """One node, in one copy."""
        begin = len(self.lines)
        self._write(u, env)
        mark(self.lines, begin, u)

    def _write(self, u: UOp, env: dict[UOp, str]) -> None:
        if u.op in (Ops.CONST, Ops.VAR):
            return
        if u.op is Ops.SOLVED:
            env[u] = self.solved(u, env)
            return
        if u.op is Ops.RSQRT_ESTIMATE:
            env[u] = seeds.seed(self, u, self.ref(u.src[0], env))
            return
        if u.op not in MINIMAL:
            env[u] = self.function(u, env)
            return
        a = [self.ref(s, env) for s in u.src]
        t, d = self.type(u.dtype), u.dtype
        source = u.src[0].dtype
        if u.op in COMPARE:
            table = (
                FLOAT_COMPARE
                if source.is_float
                else SIGNED_COMPARE
                if source.kind == "i"
                else UNSIGNED_COMPARE
            )
            env[u] = self.new(f"{table[u.op]} {self.type(source)} {a[0]}, {a[1]}")
        elif u.op is Ops.WHERE:
            env[u] = self.new(f"select {self.type(bool_)} {a[0]}, {t} {a[1]}, {t} {a[2]}")
        elif u.op is Ops.FMA:
            env[u] = self.call("fma", u, a)
        elif u.arg is INSIDE and d is f64 and self.estimates:
            env[u] = inside.root(self, *a) if u.op is Ops.SQRT else inside.quotient(self, *a)
        elif u.op is Ops.SQRT:
            env[u] = self.call("sqrt", u, a)
        elif u.op is Ops.NEG:
            env[u] = self.new(
                f"fneg {t} {a[0]}"
                if d.is_float
                else f"sub {t} zeroinitializer, {a[0]}"
                if self.width > 1
                else f"sub {t} 0, {a[0]}"
            )
        elif u.op is Ops.NOT:
            ones = self.constant(UOp.const(True, bool_) if d is bool_ else UOp.const(-1, d))
            env[u] = self.new(f"xor {t} {a[0]}, {ones}")
        elif u.op is Ops.BITCAST:
            same = TYPE[source.name] == TYPE[d.name]
            env[u] = a[0] if same else self.new(f"bitcast {self.type(source)} {a[0]} to {t}")
        elif u.op is Ops.CAST:
            env[u] = self.cast(source, d, a[0])
        elif u.op is Ops.MULHI:
            wide = self.type(i64)
            thirty_two = "32" if self.width == 1 else "splat (i64 32)"
            high = self.new(f"lshr {wide} {self.product(u, env)}, {thirty_two}")
            env[u] = self.new(f"trunc {wide} {high} to {t}")
        elif u.op is Ops.MUL and d is u32 and self.width == 1:  # its high half may be wanted too
            env[u] = self.new(f"trunc i64 {self.product(u, env)} to {t}")
        else:
            name = FLOAT[u.op] if d.is_float else INTEGER[u.op]
            env[u] = self.new(f"{name} {t} {a[0]}, {a[1]}")

    def product(self, u: UOp, env: dict[UOp, str]) -> str:
        """All 64 bits of a product of words: machines have both halves from one instruction."""
        whole = u.src[0].cast(u64) * u.src[1].cast(u64)
        if whole not in env:
            x, y = (
                self.new(f"zext {self.type(s.dtype)} {self.ref(s, env)} to {self.type(i64)}") for s in u.src
            )
            env[whole] = self.new(f"mul {self.type(i64)} {x}, {y}")
        return env[whole]

    def function(self, u: UOp, env: dict[UOp, str]) -> str:
        """A call of what the machine does not have, written once for the module."""
        name, text, wants = helper(alone(u), self.careful, self.width)
        self.declared |= wants | {name: text}
        args = [f"{self.type(s.dtype)} {env[s]}" for s in u.src if s.op is not Ops.CONST]
        return self.new(f"call {self.type(u.dtype)} {name}({', '.join(args)})")

    def solved(self, u: UOp, env: dict[UOp, str]) -> str:
        """One number of a solution; the others come from the same call."""
        which, n, *_ = u.arg
        name, struct, text, wants = solver(part(u, 0), self.careful, self.width)
        call = part(u, -1)
        if call not in env:
            self.declared |= wants | {name: text}
            args = [f"{self.type(s.dtype)} {self.ref(s, env)}" for s in u.src]
            env[call] = self.new(f"call {struct} {name}({', '.join(args)})")
        value = self.new(f"extractvalue {struct} {env[call]}, {which}")
        none = "0" if self.width == 1 else "zeroinitializer"
        return self.new(f"icmp ne {self.type(i64)} {value}, {none}") if u.dtype is bool_ else value

    def cast(self, source: DType, d: DType, a: str) -> str:
        s, t = self.type(source), self.type(d)
        if source.is_float and d.is_float:
            return self.new(f"{'fptrunc' if d is f32 else 'fpext'} {s} {a} to {t}")
        if source.is_float:
            return self.new(f"{'fptosi' if d.kind == 'i' else 'fptoui'} {s} {a} to {t}")
        if source is i64 and d is f64 and self.width > 1:
            return self.to_double(a)
        if d.is_float:
            return self.new(f"{'sitofp' if source.kind == 'i' else 'uitofp'} {s} {a} to {t}")
        if source.bits == d.bits:
            return a
        if source.bits > d.bits:
            return self.new(f"trunc {s} {a} to {t}")
        return self.new(f"{'sext' if source.kind == 'i' else 'zext'} {s} {a} to {t}")

    def to_double(self, a: str) -> str:
        """i64 to f64 as vectors without AVX-512 can: 2**84 + its high half, 2**52 + its low half, added with one rounding."""
        s, t = self.type(i64), self.type(f64)
        low = self.new(f"and {s} {a}, splat (i64 {(1 << 32) - 1})")
        low = self.new(f"or {s} {low}, splat (i64 {0x433 << 52})")
        high = self.new(f"lshr {s} {a}, splat (i64 32)")
        high = self.new(f"xor {s} {high}, splat (i64 {(0x453 << 52) + (1 << 31)})")
        low, high = (self.new(f"bitcast {s} {x} to {t}") for x in (low, high))
        rest = self.new(f"fsub {t} {high}, splat (double {literal(UOp.const(2.0**84 + 2.0**63 + 2.0**52))})")
        return self.new(f"fadd {t} {rest}, {low}")


@lru_cache(maxsize=256)
def helper(u: UOp, careful: bool, width: int) -> tuple[str, str, dict[str, str]]:
    """(name, text, intrinsics) of a function of its operands that are not numbers."""
    w = Writer(width, careful=careful)
    value = expanded(u, careful)
    args = [s for s in u.src if s.op is not Ops.CONST]
    env = {x: f"%{x.arg}" for x in args}
    with marking(None):
        lines_for(w, [value], [env])
    name = f"@{u.op.value}.{digest(dump([u]).encode())[:16]}" + (".any" if careful else "")
    head = f"define internal {w.type(u.dtype)} {name}({', '.join(f'{w.type(x.dtype)} %{x.arg}' for x in args)}) nounwind {{"
    end = f"  ret {w.type(u.dtype)} {w.ref(value, env)}"
    return name, "\n".join([head, *w.lines, end, "}"]), w.declared


@lru_cache(maxsize=64)
def solver(u: UOp, careful: bool, width: int) -> tuple[str, str, str, dict[str, str]]:
    """(name, what it gives, text, what that needs) of the function that solves."""
    w = Writer(width, careful=careful)
    with marking(None):
        name, struct, text = loop_of_rounds(u, w, lambda roots, env: lines_for(w, roots, [env]))
    return name, struct, text, w.declared


def lines_for(w: Writer, roots: Sequence[UOp], envs: Sequence[dict[UOp, str]]) -> None:
    """The graph below the roots, op by op, each op in every copy."""
    for u in toposort(roots):
        if all(u in env for env in envs):
            continue
        for env in envs:
            w.operation(u, env)


class OnWriter:
    """What is written with a Writer, and asks it for lines, names and labels."""

    w: Writer

    def line(self, text: str) -> None:
        self.w.line(text)

    def label(self, name: str) -> None:
        self.w.at(name)

    def new(self, text: str) -> str:
        return self.w.new(text)

    def uniforms(self, params: Sequence[UOp], used: Sequence[UOp]) -> dict[UOp, str]:
        """The parameters among some nodes, and the number of the step."""
        out: dict[UOp, str] = {}
        wanted = set(map(id, used))
        for slot, p in enumerate(params):
            if id(p) in wanted:
                at = self.new(f"getelementptr double, ptr %uniform, i64 {slot}")
                value = self.new(f"load double, ptr {at}, align 8")
                out[p] = self.new(f"fptrunc double {value} to float") if p.dtype is f32 else value
        if id(NOW) in wanted:
            out[NOW] = self.new("sitofp i64 %now to double")
        return out

    def begin_marks(self) -> None:
        self.line("%seen = alloca i8")
        self.line("store i8 0, ptr %seen")

    def end_marks(self) -> None:
        """A mark of a guard is left for the caller."""
        was = self.new("load i8, ptr %seen")
        self.w.when(self.new(f"icmp ne i8 {was}, 0"), lambda: self.line("store i8 1, ptr %flags"))
