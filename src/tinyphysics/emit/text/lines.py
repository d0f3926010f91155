"""How is a function of LLVM IR put together?  Lines, names by number, labels, loops: the one builder of all that write it.

No pass runs on this text, so a variable in memory would stay there: what changes in a loop is a phi.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

Values = list[str]


@dataclass(kw_only=True)
class Lines:
    """Lines of one function; `block` is the label that they are under."""

    lines: list[str] = field(default_factory=list)
    declared: dict[str, str] = field(default_factory=dict)
    count: int = 0
    block: str = "entry"

    def line(self, text: str) -> None:
        self.lines.append("  " + text)

    def new(self, text: str) -> str:
        self.count += 1
        self.lines.append(f"  %v{self.count} = {text}")
        return f"%v{self.count}"

    def label(self, kind: str) -> str:
        self.count += 1
        return f"{kind}{self.count}"

    def at(self, label: str) -> None:
        self.lines.append(f"{label}:")
        self.block = label

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
            return self.new(f"icmp slt i64 {values[0]}, {end}")

        def once(values: Values) -> Values:
            out = body(values[0], values[1:])
            return [self.new(f"add i64 {values[0]}, {step}"), *out]

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

    def when(
        self, condition: str, body: Callable[[], None], otherwise: Callable[[], None] | None = None
    ) -> None:
        yes, no, on = self.label("yes"), self.label("no"), self.label("on")
        self.line(f"br i1 {condition}, label %{yes}, label %{on if otherwise is None else no}")
        for name, do in ((yes, body), (no, otherwise)):
            if do is not None:
                self.at(name)
                do()
                self.line(f"br label %{on}")
        self.at(on)

    def either(
        self, condition: str, types: Sequence[str], a: Callable[[], Values], b: Callable[[], Values]
    ) -> Values:
        """What one of two ways gives."""
        found: list[tuple[Values, str]] = []
        self.when(condition, *((lambda way=way: found.append((way(), self.block))) for way in (a, b)))
        (first, from_a), (second, from_b) = found
        return [
            self.new(f"phi {t} [ {x}, %{from_a} ], [ {y}, %{from_b} ]")
            for t, x, y in zip(types, first, second)
        ]
