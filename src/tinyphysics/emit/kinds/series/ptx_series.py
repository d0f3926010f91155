"""A Taylor step for a GPU: the text of emit/kinds/series/series.py in another frame, a thread for each member in turn.

The numbers of members lie side by side, so that the threads of a warp read one line: of what is kept of a member the rows
are as long as the ensemble, of what a thread needs for itself they are a warp. Neither changes a bit.
"""

from __future__ import annotations

from collections.abc import Sequence

from tinyphysics.emit.kinds.series.series import VECTOR, SeriesWriter
from tinyphysics.emit.scalar.ptx import ATTRIBUTES, HEAD, KERNEL, SPECIAL, WHERE
from tinyphysics.emit.text.writer import lines_for
from tinyphysics.ir.uop import UOp
from tinyphysics.rules.calculus.series import QUAD
from tinyphysics.rules.functions.transcendental import lower

WARP = 32  # threads
NAMES = ("advance", "look")
# rows of states, constants and what comes out; of constants that all members share a row has one number and %own is 0
ARGUMENTS = (
    "ptr %states, ptr %fixed, ptr %tables, ptr %room, double %until, i64 %count, i64 %members, i64 %lanes, "
    "i64 %row, i64 %own"
)
WARPS = (f"  %warp = udiv i64 %thread, {WARP}", f"  %inside = urem i64 %thread, {WARP}")


class PtxSeriesWriter(SeriesWriter):
    """Numbers lie as device/engines/cuda_series.py says."""

    def apart(self, base: str) -> str:
        """How far one number of a member is from its next."""
        return {"%state": "%lanes", "%constants": "%row", "%tables": "1", "%scratch": self.between}[base]

    def at(self, base: str, offset: int | str) -> str:
        stride = self.apart(base)
        if stride == "1" or str(offset) == "0":
            return super().at(base, offset)
        if stride.isdigit():
            return super().at(base, self.times(str(offset), int(stride)))
        return super().at(base, self.new(f"mul i64 {stride}, {offset}"))

    def four(self, base: str, offset: int | str) -> list[str]:
        """The places of four numbers in a row."""
        where = [self.at(base, offset)]
        while len(where) < QUAD:
            where.append(self.new(f"getelementptr double, ptr {where[-1]}, i64 {self.apart(base)}"))
        return where

    def load(self, base: str, offset: int | str, type_: str = "double") -> str:
        if type_ != VECTOR:
            return super().load(base, offset, type_)
        return self.joined([self.new(f"load double, ptr {at}, align 8") for at in self.four(base, offset)])

    def store(self, value: str, base: str, offset: int | str, type_: str = "double") -> None:
        if type_ != VECTOR:
            super().store(value, base, offset, type_)
            return
        for at, x in zip(self.four(base, offset), self.parts(value)):
            self.line(f"store double {x}, ptr {at}, align 8")

    def joined(self, names: Sequence[str]) -> str:
        vector = "poison"
        for k, x in enumerate(names):
            vector = self.new(f"insertelement {VECTOR} {vector}, double {x}, i64 {k}")
        return vector

    def parts(self, value: str) -> list[str]:
        return [self.new(f"extractelement {VECTOR} {value}, i64 {k}") for k in range(QUAD)]

    def expression(self, width: int, roots: Sequence[UOp], env: dict[UOp, str]) -> list[str]:
        """Of a vector number by number: the functions that it calls have numbers as arguments."""
        if width == 1:
            return super().expression(width, roots, env)
        each: list[dict[UOp, str]] = [{} for _ in range(QUAD)]
        for u, name in env.items():
            for own, x in zip(each, self.parts(name)):
                own[u] = x
        low = lower(roots)
        lines_for(self.w, low, each)
        return [self.joined([self.w.ref(u, own) for own in each]) for u in low]

    def kernel(self, name: str, scratch: Sequence[str]) -> list[str]:
        """Members in turn to the threads of a grid; the lines so far are of one, and do not begin in the first block."""
        return [
            f"{KERNEL} @{name}({ARGUMENTS}) #0 {{",
            "begin:",
            *WHERE,
            *WARPS,
            "  %any = icmp slt i64 %thread, %members",
            "  br i1 %any, label %entry, label %over",
            "entry:",
            "  %member = phi i64 [ %thread, %begin ], [ %member.next, %next ]",
            "  %state = getelementptr double, ptr %states, i64 %member",
            "  %mine = mul i64 %own, %member",
            "  %constants = getelementptr double, ptr %fixed, i64 %mine",
            *scratch,
            *self.taken(),
            "  br label %next",
            "next:",
            "  %member.next = add i64 %member, %grid",
            "  %more = icmp slt i64 %member.next, %members",
            "  br i1 %more, label %entry, label %over",
            "over:",
            "  ret void",
            "}",
        ]

    def module(self, x86: bool = False) -> str:
        assert not x86
        self.between = str(WARP)
        self.advance(False)
        own = [
            f"  %first = mul i64 %warp, {self.scratch * WARP}",
            "  %place = add i64 %first, %inside",
            "  %scratch = getelementptr double, ptr %room, i64 %place",
        ]
        whole = self.kernel("advance", own)
        self.between = "%lanes"  # what is looked at is a member's
        self.looking(False)
        whole += self.kernel("look", ["  %scratch = getelementptr double, ptr %room, i64 %member"])
        self.w.declared |= SPECIAL
        return "\n".join([HEAD, *self.w.declared.values(), *whole, ATTRIBUTES]) + "\n"
