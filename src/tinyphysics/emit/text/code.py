"""What is a function of LLVM IR written with that no graph gives?  Arithmetic and memory, on the lines of lines.py.

It is for kernels of a GPU that are no nests, and for lists and trees on a processor (`Vectors`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tinyphysics.emit.text.lines import Lines

ARRAY = "ptr addrspace(1)"  # memory of the device
WIDTH = {"i8": 1, "i32": 4, "i64": 8, "float": 4, "double": 8}
PLACES = ("tid", "ntid", "ctaid")
DECLARED = [f"declare i32 @llvm.nvvm.read.ptx.sreg.{s}.x()" for s in PLACES]
LANES = 8  # of a vector
V, B, W = (f"<{LANES} x {t}>" for t in ("double", "i1", "i64"))


class Arithmetic:
    """Of one number, or of a vector of them: the same operations in the same order."""

    lanes = 1
    new: Callable[[str], str]
    declared: dict[str, str]

    def of(self, t: str) -> str:
        return t if self.lanes == 1 else f"<{self.lanes} x {t}>"

    @property
    def zero(self) -> str:
        return "0.0" if self.lanes == 1 else "zeroinitializer"

    def op(self, name: str, a: str, b: str) -> str:
        return self.new(f"{name} {self.of('double')} {a}, {b}")

    def call(self, name: str, *args: str, t: str = "") -> str:
        """A function of LLVM's, of doubles."""
        t = t or self.of("double")
        suffix = "f64" if t == "double" else f"v{self.lanes}f64"
        self.declared[f"@llvm.{name}.{suffix}"] = (
            f"declare {t} @llvm.{name}.{suffix}({', '.join([t] * len(args))})"
        )
        return self.new(f"call {t} @llvm.{name}.{suffix}({', '.join(f'{t} {a}' for a in args)})")

    def fma(self, a: str, b: str, c: str) -> str:
        return self.call("fma", a, b, c)

    def root(self, x: str) -> str:
        return self.call("sqrt", x)

    def minus(self, x: str) -> str:
        return self.new(f"fneg {self.of('double')} {x}")

    def splat(self, x: str, t: str = "double") -> str:
        if self.lanes == 1:
            return x
        v = self.of(t)
        one = self.new(f"insertelement {v} poison, {t} {x}, i64 0")
        return self.new(f"shufflevector {v} {one}, {v} poison, <{self.lanes} x i32> zeroinitializer")

    def chosen(self, condition: str, a: str, b: str, t: str = "double") -> str:
        kind = self.of(t)
        return self.new(f"select {self.of('i1')} {condition}, {kind} {a}, {kind} {b}")

    def unless_own(self, ids: str, who: str, x: str) -> str:
        """Zero where it is the point itself."""
        other = self.new(f"icmp ne {self.of('i64')} {ids}, {self.splat(who, 'i64')}")
        return self.chosen(other, x, self.zero)

    def whole(self, x: int) -> str:
        return str(x) if self.lanes == 1 else f"<{', '.join([f'i64 {x}'] * self.lanes)}>"

    def ints(self, op: str, a: str, b: str) -> str:
        return self.new(f"{op} {self.of('i64')} {a}, {b}")

    def if_set(self, x: str, bit: int, a: str, b: str) -> str:
        none = "0" if self.lanes == 1 else "zeroinitializer"
        is_set = self.new(f"icmp ne {self.of('i64')} {self.ints('and', x, self.whole(bit))}, {none}")
        return self.chosen(is_set, a, b, "i64")


class Code(Arithmetic, Lines):
    """Lines of one function that no graph gives."""

    array = ARRAY

    # --- whole numbers ------------------------------------------------------------------------------
    def add(self, a: str, b: str | int) -> str:
        return self.new(f"add i64 {a}, {b}")

    def sub(self, a: str, b: str | int) -> str:
        return self.new(f"sub i64 {a}, {b}")

    def times(self, a: str, b: str | int) -> str:
        return self.new(f"mul i64 {a}, {b}")

    def is_(self, how: str, a: str, b: str | int, t: str = "i64") -> str:
        return self.new(f"icmp {how} {t} {a}, {b}")

    def select(self, condition: str, a: str, b: str, t: str = "i64") -> str:
        return self.new(f"select i1 {condition}, {t} {a}, {t} {b}")

    def minimum(self, a: str, b: str) -> str:
        return self.select(self.is_("slt", a, b), a, b)

    def maximum(self, a: str, b: str) -> str:
        return self.select(self.is_("sgt", a, b), a, b)

    def both(self, a: str, b: str) -> str:
        return self.new(f"and i1 {a}, {b}")

    # --- memory -------------------------------------------------------------------------------------
    def place(self, array: str, index: str, t: str = "i64") -> str:
        return self.new(f"getelementptr {t}, {self.array} {array}, i64 {index}")

    def get(self, array: str, index: str | int, t: str = "i64") -> str:
        return self.new(f"load {t}, {self.array} {self.place(array, str(index), t)}, align {WIDTH[t]}")

    def put(self, array: str, index: str | int, value: str, t: str = "i64") -> None:
        self.line(f"store {t} {value}, {self.array} {self.place(array, str(index), t)}, align {WIDTH[t]}")


class Vectors(Code):
    """On a processor, eight numbers at once; with variables in memory, which LLVM takes into registers there."""

    lanes, array = LANES, "ptr"

    def variable(self, value: str) -> str:
        """A whole number that changes."""
        place = self.new("alloca i64")
        self.set(place, value)
        return place

    def value(self, place: str) -> str:
        return self.new(f"load i64, ptr {place}")

    def set(self, place: str, value: str) -> None:
        self.line(f"store i64 {value}, ptr {place}")

    def append(self, array: str, counter: str, value: str) -> None:
        k = self.value(counter)
        self.put(array, k, value)
        self.set(counter, self.add(k, 1))

    def each(self, place: str, begin: str, end: str, body: Callable[[str], None]) -> None:
        """`place` counts from begin to end; it is made outside, once."""
        head, inside, out = (self.label(k) for k in ("head", "body", "out"))
        self.set(place, begin)
        self.line(f"br label %{head}")
        self.at(head)
        i = self.value(place)
        self.line(f"br i1 {self.is_('slt', i, end)}, label %{inside}, label %{out}")
        self.at(inside)
        body(i)
        self.set(place, self.add(i, 1))
        self.line(f"br label %{head}")
        self.at(out)

    def vector(self, place: str, v: str = V) -> str:
        return self.new(f"load {v}, ptr {place}, align 8")


def function(result: str, name: str, arguments: str, c: Code) -> list[str]:
    return [f"define {result} @{name}({arguments}) #0 {{", "entry:", *c.lines, "}"]


def module(functions: Sequence[list[str]], declared: Sequence[str]) -> str:
    attributes = 'attributes #0 = { nounwind "prefer-vector-width"="512" }'
    return "\n".join([*declared, *(line for f in functions for line in f), attributes, ""])


def kernel(name: str, arguments: Sequence[str], body: Callable[[Code], None]) -> list[str]:
    """A kernel for %count threads, the last of its arguments; each is %thread. An argument is a number, or an *array."""
    c = Code()
    for s in PLACES:
        c.line(f"%{s} = zext i32 {c.new(f'call i32 @llvm.nvvm.read.ptx.sreg.{s}.x()')} to i64")
    c.line(f"%thread = add i64 {c.times('%ctaid', '%ntid')}, %tid")
    c.when(c.is_("slt", "%thread", "%count"), lambda: body(c))
    given = ", ".join(
        f"{ARRAY} %{a[1:]}" if a.startswith("*") else f"i64 %{a}" for a in (*arguments, "count")
    )
    return [f"define ptx_kernel void @{name}({given}) #0 {{", "entry:", *c.lines, "  ret void", "}"]
