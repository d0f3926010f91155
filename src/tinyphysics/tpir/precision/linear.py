"""Into which values do states enter as they are?  Sums of states, of which a difference may be small.

Such a value must be computed with all digits that the states have: q0 - q1 of a pair far from the origin is what is left
when the leading digits cancel. A product of two states, or a function of one, has no more digits than its format.
"""

from __future__ import annotations

from collections.abc import Iterator

from tinyphysics.tpir.program.isa import Instruction, Operand, Param, Program, Register, Word

SUMS = ("add", "sub", "neg", "image")  # sums, whatever stands in them
KEPT = ("abs", "floor", "rint", "max", "min", "where")  # as wide as what they choose from


def sources(i: Instruction) -> list[Operand]:
    """What an instruction reads as numbers."""
    return [x for x in i.args if isinstance(x, (Register, Param, float))]


class Reach:
    """Which registers depend on states, and which of them are sums of states."""

    def __init__(self, program: Program) -> None:
        self.program = program
        states = {Register("S", k) for k in range(len(program.states))}
        self.moving: set[Operand] = set(states)
        self.wide: set[Operand] = set(states)
        for section in ("init", "step", "final"):
            for i in program.section(section):
                self.look(i)

    def free(self, x: Operand) -> bool:
        """Does no state enter?"""
        return x not in self.moving

    def look(self, i: Instruction) -> None:
        if not isinstance(i.dst, Register) or i.dst.kind == "S" or i.row.numbers in ("clock", "drawn"):
            return
        if any(x in self.moving for x in sources(i)):
            self.moving.add(i.dst)
            if self.sums(i):
                self.wide.add(i.dst)

    def sums(self, i: Instruction) -> bool:
        """Is what an instruction computes a sum in which a state stands?"""
        match i.op:
            case "FMA":
                return bool(list(self.addends(i)))
            case "ELEM":
                match str(i.args[0]):
                    case "mul":
                        return self.weighed(*i.args[1:])
                    case "div":
                        return i.args[1] in self.wide and self.free(i.args[2])
                    case "cast":
                        return i.type.dtype.is_float
                    case name:
                        return name in (*SUMS, *KEPT) and any(x in self.wide for x in i.args[1:])
            case "NEAR":
                return i.args[0] == Word("images")
        return any(x in self.wide for x in sources(i))  # movements, reductions, gradients and flows

    def weighed(self, a: Operand, b: Operand) -> bool:
        """Is a product a sum of states with a weight?"""
        return a in self.wide and self.free(b) or b in self.wide and self.free(a)

    def addends(self, i: Instruction) -> Iterator[Operand]:
        """Of a sum, the sums of states that are added; of a product with a weight, what is weighed."""
        if i.op == "FMA":
            a, b, c = i.args
            if c in self.wide:
                yield c
            if self.weighed(a, b):
                yield a if a in self.wide else b
        elif i.op == "ELEM" and str(i.args[0]) in SUMS:
            yield from (x for x in i.args[1:] if x in self.wide)


def in_full(program: Program, reach: Reach) -> set[Operand]:
    """Which sums of states are needed with all digits: new states, and what another such sum is added to."""
    out: set[Operand] = set()
    for section in ("final", "step", "init"):
        for i in reversed(program.section(section)):
            if i.row.numbers in ("by_sum", "by_value"):
                out |= {i.args[0]} & reach.wide
            elif i.dst in out and not (i.op == "ELEM" and str(i.args[0]) in ("floor", "rint", "abs")):
                out |= {x for x in sources(i) if x in reach.wide}
            else:
                addends = list(reach.addends(i))
                if len(addends) > 1 or i.op == "ELEM" and str(i.args[0]) == "image":
                    out |= set(addends)
            if i.op == "MOVE" and i.dst in out:
                out |= set(sources(i)) & reach.wide
    return out
