"""How are the statements of a loop nest written in C, OpenCL C and CUDA C?  To be read, and compiled with the same bits.

What does not change in a loop is computed before it, so that the text says where a number comes from.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tinyphysics.emit.text.dialects import TYPE, C, Dialect, expression, literal
from tinyphysics.ir.dtype import DType
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp, toposort
from tinyphysics.tpir.kernels.kernel import NOW
from tinyphysics.tpir.kernels.loopir import (
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
    Threads,
    When,
    While,
    Woven,
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


def c_name(text: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in text)


PLAIN = 2**31  # whole numbers up to here are written as they are: an index reads better without its type


@dataclass
class CPrinter:
    """One function."""

    kernel: LoopKernel
    dialect: Dialect = C
    lines: list[str] = field(default_factory=list)
    names: dict[UOp, str] = field(default_factory=dict)
    pointers: dict[str, str] = field(default_factory=dict)
    locals: dict[str, Local] = field(default_factory=dict)
    reads: Reads = field(default_factory=Reads)
    loaded: set[str] = field(default_factory=set)  # buffers that something was read from
    depth: int = 1
    count: int = 0

    # --- lines ------------------------------------------------------------------------------------
    def line(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

    def open(self, text: str) -> dict[UOp, str]:
        self.line(text + " {")
        self.depth += 1
        return dict(self.names)

    def close(self, before: dict[UOp, str], changed: Iterable[str]) -> None:
        self.depth -= 1
        self.line("}")
        self.names = before
        self.forget(changed)

    # --- expressions ------------------------------------------------------------------------------
    def of(self, u: UOp) -> str:
        if u.op is Ops.CONST:
            return str(u.arg) if u.dtype.is_int and abs(u.arg) < PLAIN else literal(u)
        return self.names[u]

    def forget(self, buffers: Iterable[str]) -> None:
        """What was read from memory that has changed since is read again."""
        changed = self.loaded.intersection(buffers)
        if changed:
            self.names = {u: n for u, n in self.names.items() if changed.isdisjoint(self.reads[u])}

    def place(self, buffer: str, plane: int, index: Sequence[UOp]) -> str:
        b = self.kernel.buffers.get(buffer)
        strides = [1] * len(index) if b is None else [prod(b.axes[k + 1 :]) for k in range(len(index))]
        each = 0 if b is None else b.plane
        parts = [str(plane * each)]
        parts += [
            self.of(i) if stride == 1 else f"{self.of(i)}*{stride}" for i, stride in zip(index, strides)
        ]
        return f"{self.pointers[buffer]}[{' + '.join(p for p in parts if p != '0') or '0'}]"

    def compute(self, roots: Sequence[UOp]) -> None:
        for u in toposort(roots):
            self.number(u)

    def number(self, u: UOp) -> None:
        """A line for one node, whose sources have theirs."""
        if u in self.names or u.op in (Ops.CONST, Ops.VAR):
            return
        if u.op is Ops.LOAD:
            self.loaded.add(u.arg[0])
        text = self.read(u) if u.op is Ops.LOAD else expression(u, [self.of(s) for s in u.src])
        self.count += 1
        self.names[u] = f"v{self.count}"
        self.line(f"const {TYPE[u.dtype.name]} v{self.count} = {text};")

    def read(self, u: UOp) -> str:
        at = self.place(u.arg[0], u.arg[1], u.src)
        return self.waiting(at, u.dtype) if u.arg[0] == WORKSPACE else at

    def waiting(self, at: str, d: DType) -> str:
        return at if TYPE[d.name] == "double" else f"*({TYPE[d.name]} *)&{at}"

    def value(self, u: UOp) -> str:
        self.compute([u])
        return self.of(u)

    def bind(self, name: UOp, kind: str = "") -> str:
        """The text of a variable, numbered where it is taken."""
        text = c_name(str(name.arg).lstrip("@"))
        while text in self.names.values() or text in self.pointers.values():
            text += "_"
        self.names[name] = text
        return text

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
                before = self.open(f"if ({self.value(s.condition)})")
                self.statements(s.then)
                if s.otherwise:
                    self.close(before, ())
                    before = self.open("else")
                    self.statements(s.otherwise)
                self.close(before, stored((*s.then, *s.otherwise)))
            case Let():
                self.compute(s.values)
                self.names |= {name: self.of(value) for name, value in zip(s.names, s.values)}
            case Local():
                pass  # declared where the function begins
            case Store():
                self.store(s)
            case Woven():
                self.statements(s.stores)
            case Note():
                self.line(f"seen |= {self.value(s.condition)};")
            case Call():
                self.line(f"((void (*)(void)){self.pointers[s.buffer]})();")
            case Barrier():
                raise AssertionError("threads that wait for each other are written in LLVM IR only")

    def store(self, s: Store) -> None:
        self.compute([s.value, *s.index])
        value, at = self.of(s.value), self.place(s.buffer, s.plane, s.index)
        self.line(f"{self.waiting(at, s.value.dtype) if s.buffer == WORKSPACE else at} = {value};")
        self.forget((s.buffer,))

    def before(self, body: Body, names: Sequence[UOp]) -> None:
        """What does not change in a loop."""
        inner = {*names, *(v for s in walk(body) for v in bound(s))}
        changed = frozenset(stored(body))
        for u in toposort([e for s in unconditional(body) for e in expressions(s)]):
            fixed = (
                not u.leaves & inner
                and changed.isdisjoint(self.reads[u])
                and all(v in self.names for v in u.leaves)
            )
            if fixed:  # so are its sources, which come first here: no walk for each node
                self.number(u)

    def begun(self, carried: Sequence[Carry]) -> None:
        """Variables for what a loop carries; one that was carried before goes on."""
        for c in carried:
            if c.first is not c.name:
                first = self.value(c.first)
                self.line(f"{TYPE[c.name.dtype.name]} {self.bind(c.name)} = {first};")

    def turned(self, carried: Sequence[Carry]) -> None:
        self.compute([c.next for c in carried])
        later = [(self.names[c.name], self.of(c.next)) for c in carried]
        direct = len(later) == 1 or not any(
            a.name in b.next.leaves for a in carried for b in carried if a is not b
        )
        if not direct:
            for k, (_, value) in enumerate(later):
                self.line(f"const {TYPE[carried[k].name.dtype.name]} next{k} = {value};")
            later = [(name, f"next{k}") for k, (name, _) in enumerate(later)]
        for name, value in later:
            self.line(f"{name} = {value};")

    def loop(self, s: For) -> None:
        self.compute([s.begin, s.end])
        self.begun(s.carried)
        inner = (s.variable, *(c.name for c in s.carried))
        self.forget(stored(s.body))
        self.before((*s.body, Let((), tuple(c.next for c in s.carried))), inner)
        if s.independent and self.dialect.independent:
            self.lines.append(self.dialect.independent)
        outside, begin, end = dict(self.names), self.of(s.begin), self.of(s.end)
        i = self.bind(s.variable)
        step = f"{i}++" if s.step == 1 else f"{i} += {s.step}"
        self.open(f"for (int64_t {i} = {begin}; {i} < {end}; {step})")
        self.statements(s.body)
        self.turned(s.carried)
        self.close(outside, stored(s.body))

    def turns(self, s: While) -> None:
        self.begun(s.carried)
        self.forget(stored(s.body))
        before = self.open("for (;;)")
        self.line(f"if (!({self.value(s.more)})) break;")
        self.statements(s.body)
        self.turned(s.carried)
        self.close(before, stored(s.body))

    # --- a function -------------------------------------------------------------------------------
    def pointer(self, buffer: str) -> str:
        """A buffer as it is declared."""
        d = self.kernel.buffers[buffer].dtype.name if buffer in self.kernel.buffers else "f64"
        self.pointers[buffer] = c_name(f"b_{buffer}") if buffer != WORKSPACE else buffer
        return f"{self.dialect.space}{TYPE[d]} *{self.pointers[buffer]}"

    def begin(self, f: Function, unused: str) -> None:
        """Buffers that are no arguments, parameters, the clock, what lies on the stack."""
        slots = list(self.kernel.buffers)
        for name in buffers_of(f):
            if name not in self.pointers:
                self.line(f"{self.pointer(name)} = buffers[{slots.index(name)}];  /* {name} */")
        everything = toposort([e for s in walk(f.body) for e in expressions(s)])
        for slot, p in enumerate(self.kernel.params):
            if any(p is u for u in everything):
                name = c_name(str(p.arg))
                # in float32 a clock asks for dt in float64 too: two parameters of one name
                self.names[p] = f"{name}_{slot}" if name in self.names.values() else name
                self.line(f"const {TYPE[p.dtype.name]} {self.names[p]} = uniform[{slot}];")
        if any(u is NOW for u in everything):
            self.names[NOW] = "clock"
            self.line("const double clock = (double)now;")
        self.line(unused)
        self.line("int seen = 0;")
        self.locals = locals_of(f.body)
        for local in self.locals.values():
            self.pointers[local.name] = c_name(local.name)
            self.line(f"{TYPE[local.dtype.name]} {c_name(local.name)}[{local.count}];")

    def written(
        self, f: Function, unused: str = "(void)uniform; (void)now; (void)lo; (void)hi;"
    ) -> list[str]:
        """The lines of a function over a range, or of a thread that has its number."""
        if isinstance(f.shares, Threads):
            self.indices(f.shares)
        else:
            self.names |= {LO: "lo", HI: "hi"}
        self.begin(f, unused)
        self.statements(f.body)
        self.line("if (seen) *flags = 1;")
        return self.lines

    def indices(self, shares: Threads) -> None:
        """The variables of a thread, the last of which runs fastest from thread to thread."""
        for k, v in enumerate(shares.variables):
            behind = "*".join(map(str, shares.sizes[k + 1 :]))
            at = f"thread/({behind})" if behind else "thread"
            self.line(f"const int64_t {self.bind(v)} = {f'{at} % {shares.sizes[k]}' if k else at};")
