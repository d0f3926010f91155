"""What is a function of LLVM IR written with that no graph gives?  Lines, names by number, labels."""

from __future__ import annotations


class Lines:
    """Lines of one function; `block` is the label that they are under."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.count = 0
        self.block = "entry"

    def line(self, text: str) -> None:
        self.lines.append("  " + text)

    def new(self, text: str) -> str:
        self.count += 1
        self.line(f"%v{self.count} = {text}")
        return f"%v{self.count}"

    def label(self, kind: str) -> str:
        self.count += 1
        return f"{kind}{self.count}"

    def at(self, label: str) -> None:
        self.lines.append(f"{label}:")
        self.block = label
