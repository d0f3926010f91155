"""How is a program written in other numbers?  Line by line, by a table of rules for each precision.

Which rule is asked follows from what the row of an instruction says of its numbers (`Behaviour` in tpir/program/isa.py).
A word without a rule is refused: so is an instruction that a precision has not heard of.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar

from tinyphysics.errors import PlanError
from tinyphysics.ir.dtype import DType
from tinyphysics.tpir.program.isa import (
    SECTIONS,
    Instruction,
    Operand,
    Param,
    Program,
    Register,
    StateDecl,
    Type,
    Word,
)

LOW = ".low"  # no name of a user's has a dot
Rule = Callable[[Any, Instruction], None]  # of the precision that it belongs to
Units = tuple[tuple[str, float], ...]  # of a lattice, by the name of a state, "" for any other


@dataclass(frozen=True)
class Choices:
    """What is known beside a program."""

    units: Units = ()
    weights: Mapping[float, Fraction] = field(default_factory=dict)  # the numbers that coefficients stand for
    even: tuple[str, ...] | None = (
        None  # states that move by even numbers on a lattice; None: as the program says
    )


class Rewriter:
    """Walks the sections of a program, numbers new temporaries after those that it has, and collects what rules write."""

    name: ClassVar[str]
    rules: ClassVar[Mapping[str, Rule]]
    sections: ClassVar[tuple[str, ...]] = ("init", "step", "final")

    def __init__(self, program: Program) -> None:
        self.program = program
        self.types: dict[Operand, Type] = {Param(p.name): p.type for p in program.params}
        self.made: dict[str, list[Instruction]] = {name: [] for name in SECTIONS}
        self.home: dict[Operand, str] = {}  # where a register is written
        self.section, self.position = "init", 0
        self.beyond = 0  # lines of a section that a rule has written together
        self.writes = 0  # of states, so far
        self.definitions: dict[Operand, tuple[Instruction, int]] = {}  # with the states written before it
        operands = (x for _, _, i in program.numbered() for x in i.operands)
        used = [x.index for x in operands if isinstance(x, Register) and x.kind == "T"]
        self.temporaries = max(used, default=-1) + 1

    def begin(self) -> None:
        """Before the first line of a section."""

    def rewritten(self, **changes: Any) -> Program:
        for section in self.sections:
            self.section = section
            self.begin()
            self.beyond = 0
            for position, i in enumerate(self.program.section(section)):
                if position < self.beyond:
                    continue
                self.position = position
                self.definitions[i.dst] = i, self.writes
                self.rules.get(i.row.numbers, type(self).refuse)(self, i)
        changes |= {name: tuple(self.made[name]) for name in self.sections}
        return replace(self.program, **changes)

    def refuse(self, i: Instruction) -> None:
        raise PlanError(f'precision="{self.name}" does not support `{i}`', fix="Leave precision= out.")

    # --- writing ------------------------------------------------------------------------------
    def put(self, i: Instruction, section: str | None = None) -> None:
        where = self.section if section is None else section
        self.made[where].append(i)
        self.types[i.dst], self.home[i.dst] = i.type, where

    def temporary(self) -> Register:
        self.temporaries += 1
        return Register("T", self.temporaries - 1)

    def new(
        self, op: str, type_: Type, *operands: Operand, section: str | None = None, note: str = ""
    ) -> Register:
        out = self.temporary()
        self.put(Instruction(op, (out, *operands), type_, note), section)
        return out

    def elem(self, type_: Type, name: str, *operands: Operand, section: str | None = None) -> Register:
        return self.new("ELEM", type_, Word(name), *operands, section=section)


def with_error_words(program: Program, dtype: DType | None = None) -> tuple[StateDecl, ...]:
    """The states, in another format perhaps, and after each the word with what the first could not hold."""
    out: list[StateDecl] = []
    for k, s in enumerate(program.states):
        own = s.type if dtype is None else Type(dtype, s.type.shape)
        out.append(replace(s, type=own, conjugate=None if s.conjugate is None else 2 * s.conjugate))
        out.append(StateDecl(f"{s.name}{LOW}", "error", own, low_of=2 * k))
    return tuple(out)
