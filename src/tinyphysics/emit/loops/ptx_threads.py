"""What is a kernel of a CUDA device in LLVM IR?  Its arguments, which thread this is, and bodies for several items at once.

Arguments are the buffers that a nest touches, then parameters, flags, the number of the step that a graph began with, and
how many steps after it this is. A thread looks once whether it is needed, and keeps sums in registers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tinyphysics.emit.loops.nest_writer import Names, NestWriter
from tinyphysics.emit.scalar.llvm import TYPE
from tinyphysics.ir.dtype import bool_
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp, toposort
from tinyphysics.tpir.kernels.kernel import NOW
from tinyphysics.tpir.kernels.nests import LoopKernel, Nest, Store

BLOCK = 128  # threads
TOGETHER = 4  # items that a thread has under way at a time: their loads and roots wait beside each other
MANY, LITTLE = 16, 12  # the same, where an item is so few operations that it is a load above all
SPECIAL = ("tid", "ctaid")
BUFFER = "ptr addrspace(1)"


@dataclass(frozen=True)
class Launch:
    """A kernel: so many threads in blocks of `block`, and the buffers that are its first arguments."""

    name: str
    threads: int
    block: int
    buffers: tuple[str, ...]
    clocked: bool  # does it look at the number of the step?

    @property
    def blocks(self) -> int:
        return -(-self.threads // self.block)


@dataclass(frozen=True)
class Kernel:
    launch: Launch
    body: str  # all after its name
    declared: dict[str, str]


@dataclass
class Threads:
    """How many threads do what, each with its number %thread."""

    kernel: LoopKernel
    nest: Nest
    name: str
    count: int
    buffers: Sequence[str]
    body: Callable[[NestWriter, str], None]  # of a number's type: i32 where all are that small
    block: int = BLOCK
    resident: int = (
        0  # blocks that a processor needs room for: with more of them, threads have fewer registers
    )

    def written(self) -> Kernel:
        f = NestWriter(self.kernel, {}, self.nest, 1)
        clocked = any(u is NOW for u in toposort([u for p in self.nest.pieces for u in p.roots]))
        given = [f"{BUFFER} %given{k}" for k in range(len(self.buffers))]
        given += [f"{BUFFER} %{name}.there" for name in ("uniform", "flags", "clock")] + ["i64 %ahead"]
        for k, name in enumerate(self.buffers):
            f.pointer[name] = f.new(f"addrspacecast {BUFFER} %given{k} to ptr")
        for name in ("uniform", "flags"):
            f.line(f"%{name} = addrspacecast {BUFFER} %{name}.there to ptr")
        if clocked:
            f.line(f"%began = load i64, {BUFFER} %clock.there")
            f.line("%now = add i64 %began, %ahead")
        self.number(f)
        if self.kernel.lists:
            self.unless_halted(f)
        self.body(f, self.word)
        f.line("br label %leave")
        f.label("leave")
        attributes = f'"nvvm.maxntid"="{self.block}"' + (
            f' "nvvm.minctasm"="{self.resident}"' if self.resident else ""
        )
        text = [f"({', '.join(given)}) nounwind {attributes} {{", "entry:", *f.w.lines, "  ret void", "}"]
        launch = Launch(self.name, self.count, self.block, tuple(self.buffers), clocked)
        return Kernel(launch, "\n".join(text), f.w.declared)

    @property
    def word(self) -> str:
        """Whole numbers of 32 bits are divided in fewer instructions."""
        return "i32" if -(-self.count // self.block) * self.block < 1 << 31 else "i64"

    def number(self, f: NestWriter) -> None:
        """Which thread is it?  %number, and %thread as a number of 64 bits; those past the last one leave."""
        for what in SPECIAL:
            intrinsic = f"@llvm.nvvm.read.ptx.sreg.{what}.x"
            f.w.declared[intrinsic] = f"declare i32 {intrinsic}()"
            f.line(f"%{what} = call i32 {intrinsic}()")
        t, block, place = self.word, "%ctaid", "%tid"
        if t == "i64":
            block, place = (f.new(f"zext i32 {x} to i64") for x in (block, place))
        f.line(f"%before = mul {t} {block}, {self.block}")
        f.line(f"%number = add {t} %before, {place}")
        f.line("%thread = " + ("zext i32 %number to i64" if t == "i32" else "add i64 %number, 0"))
        if self.count % self.block:
            f.line(f"%needed = icmp ult {t} %number, {self.count}")
            f.line("br i1 %needed, label %there, label %leave")
            f.label("there")

    def unless_halted(self, f: NestWriter) -> None:
        """Nothing is done while a list of neighbours is asked for and not made."""
        word = f.new(f"load i64, {BUFFER} {f.new(f'getelementptr i64, {BUFFER} %clock.there, i64 1')}")
        f.line(f"br i1 {f.new(f'icmp eq i64 {word}, 0')}, label %runs, label %leave")
        f.label("runs")


def unflattened(f: NestWriter, t: str, sizes: Sequence[int], rest: str = "%number") -> list[str]:
    """The indices of an item from its number, row-major."""
    out: list[str] = []
    for size in reversed(sizes[1:]):
        out.append(f.new(f"urem {t} {rest}, {size}"))
        rest = f.new(f"udiv {t} {rest}, {size}")
    out.append(rest)
    return [f.new(f"zext i32 {x} to i64") if t == "i32" else x for x in reversed(out)] if sizes else []


def several(f: NestWriter, roots: Sequence[UOp], envs: Sequence[Names]) -> None:
    """The roots in several environments, one operation beside the other."""
    for u in toposort(roots):
        for env in envs:
            if u not in env and u.op is not Ops.CONST:
                f.one(u, env)


def note(f: NestWriter, seen: str) -> None:
    """A mark if an argument was too large for the fast path; the block is then done again."""
    f.w.when(seen, lambda: f.line("store i8 1, ptr %flags"))


def any_of(f: NestWriter, guards: Sequence[UOp], env: Names, seen: str = "false") -> str:
    for g in guards:
        found = f.w.ref(g, env)
        seen = found if seen == "false" else f.new(f"or i1 {seen}, {found}")
    return seen


def put(f: NestWriter, s: Store, value: str, env: Names) -> None:
    for i in s.index:
        f.index_value(i, env)
    f.line(
        f"store {TYPE[f.kernel.buffers[s.buffer].dtype.name]} {value}, ptr {f.address(s.buffer, s.plane, s.index, env)}"
    )


Sums = list[str]


def in_turn(
    f: NestWriter,
    stores: Sequence[Store],
    guards: Sequence[UOp],
    count: str | int,
    at: Callable[[str], Names],
    sums: Sums | None = None,
    counts: Callable[[Names], str] | None = None,
) -> Sums:
    """So many items combined one after the other, some under way at a time; `at` is the environment of an item.

    What is carried are the sums, and last whether a guard was seen. An item may not count.
    """
    kinds = [TYPE[s.value.dtype.name] for s in stores] + [TYPE[bool_.name]]
    if sums is None:
        sums = begun(f, stores)
    roots = [*(s.value for s in stores), *guards]
    together = MANY if f.nest.operations <= LITTLE else TOGETHER

    def some(how_many: int) -> Callable[[str, list[str]], list[str]]:
        def body(c: str, sums: list[str]) -> list[str]:
            envs = [at(f.new(f"add i64 {c}, {r}") if r else c) for r in range(how_many)]
            several(f, roots, envs)
            out = list(sums)
            for env in envs:
                inside = "" if counts is None else counts(env)
                for k, s in enumerate(stores):
                    if not inside:
                        out[k] = f.joined(s, out[k], env)
                        continue
                    value = f.w.ref(s.value, env)
                    value = f.new(f"select i1 {inside}, {kinds[k]} {value}, {kinds[k]} {f.identity(s)}")
                    out[k] = f.combined(s, out[k], value)
                if guards:
                    seen = any_of(f, guards, env)
                    out[-1] = f.new(
                        f"or i1 {out[-1]}, {f.new(f'and i1 {seen}, {inside}') if inside else seen}"
                    )
            return out

        return body

    whole: str | int = (
        count - count % together if isinstance(count, int) else f.new(f"and i64 {count}, {-together}")
    )
    if whole != 0:
        sums = f.carrying("0", str(whole), together, list(zip(kinds, sums)), some(together))
    if whole != count:
        sums = f.carrying(str(whole), str(count), 1, list(zip(kinds, sums)), some(1))
    return sums


def begun(f: NestWriter, stores: Sequence[Store]) -> Sums:
    """Sums without an item."""
    return [*(f.identity(s) for s in stores), "false"]
