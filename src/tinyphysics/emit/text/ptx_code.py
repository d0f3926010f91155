"""How is a kernel written that is no nest?  Lines of LLVM IR for one thread; loops and choices carry values, not memory.

LLVM makes PTX of it without a pass, so a variable in memory would stay there: what changes in a loop is a phi.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tinyphysics.emit.text.lines import Lines

ARRAY = "ptr addrspace(1)"  # memory of the device
WIDTH = {"i8": 1, "i32": 4, "i64": 8, "float": 4, "double": 8}
Values = list[str]
PLACES = ("tid", "ntid", "ctaid")
DECLARED = [f"declare i32 @llvm.nvvm.read.ptx.sreg.{s}.x()" for s in PLACES]


class Code(Lines):
    """Of one kernel."""

    # --- numbers ------------------------------------------------------------------------------------
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

    def both(self, a: str, b: str) -> str:
        return self.new(f"and i1 {a}, {b}")

    # --- memory -------------------------------------------------------------------------------------
    def place(self, array: str, index: str, t: str) -> str:
        return self.new(f"getelementptr {t}, {ARRAY} {array}, i64 {index}")

    def get(self, array: str, index: str | int, t: str = "i64") -> str:
        return self.new(f"load {t}, {ARRAY} {self.place(array, str(index), t)}, align {WIDTH[t]}")

    def put(self, array: str, index: str | int, value: str, t: str = "i64") -> None:
        self.line(f"store {t} {value}, {ARRAY} {self.place(array, str(index), t)}, align {WIDTH[t]}")

    # --- ways through it ----------------------------------------------------------------------------
    def loop(
        self,
        begin: str,
        end: str,
        carried: Sequence[tuple[str, str]],
        body: Callable[[str, Values], Values],
        step: str | int = 1,
    ) -> Values:
        """What is carried, (type, value) before, after a loop from begin to end."""

        def more(values: Values) -> str:
            return self.is_("slt", values[0], end)

        def once(values: Values) -> Values:
            out = body(values[0], values[1:])
            return [self.add(values[0], step), *out]

        return self.while_(more, [("i64", begin), *carried], once)[1:]

    def while_(
        self,
        more: Callable[[Values], str],
        carried: Sequence[tuple[str, str]],
        body: Callable[[Values], Values],
    ) -> Values:
        before, head, inside, out = self.block, *(self.label(kind) for kind in ("head", "body", "out"))
        self.line(f"br label %{head}")
        self.at(head)
        names = [f"%{head}.{k}" for k in range(len(carried))]
        top = len(self.lines)
        self.line(f"br i1 {more(names)}, label %{inside}, label %{out}")
        self.at(inside)
        after = body(names)
        phis = [
            f"  {name} = phi {t} [ {first}, %{before} ], [ {later}, %{self.block} ]"
            for name, (t, first), later in zip(names, carried, after)
        ]
        self.line(f"br label %{head}")
        self.lines[top:top] = phis
        self.at(out)
        return names

    def when(self, condition: str, body: Callable[[], None]) -> None:
        yes, on = self.label("yes"), self.label("on")
        self.line(f"br i1 {condition}, label %{yes}, label %{on}")
        self.at(yes)
        body()
        self.line(f"br label %{on}")
        self.at(on)


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
