"""What does a program do, line by line?  One walk for all readers: versions of states, declared terms, what is carried.

A reader takes the instructions that move states. What it does not take is read here where it computes a value, and refused
where it does anything else: an instruction without a rule never leads to a yes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Protocol

from tinyphysics.errors import VerifyError
from tinyphysics.ir.uop import UOp, substitute
from tinyphysics.rules.equality.normal import Normal
from tinyphysics.rules.formulas.smoothness import JUMP, KINK, rough_places
from tinyphysics.structure import Structure
from tinyphysics.tpir.program.form import check_form
from tinyphysics.tpir.program.isa import Instruction, Program, Register
from tinyphysics.tpir.program.liveness import reads_before_writing
from tinyphysics.tpir.program.symbolic import Symbolic, clocks, state_of, state_var, structure_at
from tinyphysics.tpir.proof.certificate import Verdict
from tinyphysics.tpir.proof.units import DT, moving
from tinyphysics.tpir.proof.weights import STEPS_DONE, Applied, Update


class Reader(Protocol):
    """Says what programs of one kind conserve; all that it assumes and does not derive is in the first lines of its file."""

    walk: Walk
    by_derivatives: bool  # does all that it shows rest on derivatives of the energy?
    rank: int  # of two that a program needs, the lower one reads it: they do not mix

    def __init__(self, program: Program) -> None: ...
    @staticmethod
    def has(program: Program) -> bool:
        """Does a program need it?"""
        ...

    def verdicts(self) -> Mapping[str, Verdict]: ...


class Lines(Protocol):
    """Understands the lines that move states."""

    name: str  # by which rows of the ISA say that an instruction is no part of what it reads
    refusal: str  # what is said of an instruction without a rule, after its line

    def take(self, walk: Walk, i: Instruction) -> bool:
        """Reads an instruction, or leaves it to the walk."""
        ...

    def close(self, walk: Walk) -> None:
        """A section ends."""
        ...


class NotShown(Exception):
    """Why something is not shown."""


class Walk:
    """A well-formed program on symbols, and what its reader has found in it."""

    def __init__(self, program: Program, terms: list[UOp] | None = None) -> None:
        self.program, self.normal, self.symbolic = program, Normal(), Symbolic(program)
        self.applied: list[Applied] = []
        self.trouble = ""  # why nothing is shown
        self.stale: Update | None = None  # the first that moves a state by what is no longer so
        self.section, self.number, self.where = "init", 0, ""
        self.began: dict[int, int] = {}  # the versions of the states when the section began
        if terms is None:
            check_form(program)
        else:  # another walk has checked it
            self.terms = terms

    @cached_property
    def terms(self) -> list[UOp]:
        """The declared terms of the energy, as expressions of S0@0, S1@0, ... and $parameters."""
        symbolic, out = Symbolic(self.program), []
        for k in range(len(self.program.states)):
            symbolic.env[Register("S", k)] = state_var(self.program, k, 0)
        for number, section, i in self.program.numbered():
            if section == "energy":
                value = value_of(symbolic, i, f"step {number} `{i}`")
                if isinstance(i.dst, Register) and i.dst.kind == "E":
                    out.append(value)
        return out

    @cached_property
    def structure(self) -> Structure:
        """How an energy moves S0@0, S1@0, ..."""
        return structure_at(self.program)

    def refuse(self, why: str) -> None:
        self.trouble = self.trouble or why

    def step_of(self, h: UOp, where: str) -> Fraction:
        """A time in units of dt."""
        found = self.normal.ratio(h, DT)
        if found is None:
            self.refuse(f"{where}: h is not shown to be a multiple of dt")
        return Fraction(0) if found is None else found

    def read(self, reader: Lines) -> None:
        for self.section, self.symbolic.steps in STEPS_DONE.items():
            self.began = dict(self.symbolic.version)
            for number, section, i in self.program.numbered():
                if section == self.section:
                    self.number = number
                    self.where = f"step {self.number} `{i}`"
                    self.symbolic.check_kinds(i, self.where)
                    if not reader.take(self, i):
                        self.line(reader, i)
            reader.close(self)

    def line(self, reader: Lines, i: Instruction) -> None:
        """What is the same for all readers."""
        s, state = self.symbolic, isinstance(i.dst, Register) and i.dst.kind == "S"
        if i.row.kind == "memory" and isinstance(i.dst, Register):
            s.load(i.dst.index)
        elif state or reader.name in i.row.no_part_of:
            self.refuse(f"{self.where} {reader.refusal}")
            if not state:  # whatever it is, it moves
                s.env[i.dst] = UOp.var(f"S0@{i.dst}", i.type.shape, i.type.dtype)
            for k in range(len(self.program.states)) if state else []:
                s.load(k)
        elif i.row.writes == "&":
            s.read(i.args[0], i.type, self.where)
        else:
            self.value(i)

    def value(self, i: Instruction) -> UOp:
        return value_of(self.symbolic, i, self.where)

    def update(self, i: Instruction, flow: UOp, h: UOp) -> Update:
        assert isinstance(i.dst, Register)
        return Update(self.number, i, self.section, i.dst.index, flow, h)

    @property
    def carried(self) -> list[Register]:
        """What a step or `final` reads of an earlier section, and may depend on the state or on time."""
        out, rewritten = [], {i.dst for i in self.program.step}
        for r in reads_before_writing((*self.program.step, *self.program.final)):
            kept = self.symbolic.env.get(r, UOp.const(0.0))
            if r.kind != "S" and (r in rewritten or moving(kept) or clocks(kept)):
                out.append(r)
        return out

    # --- questions about the declared energy --------------------------------------------------
    @property
    def jump(self) -> str:
        """Why its derivative is not all of its force; empty if it is."""
        found = jump_in(self.program, self.terms)
        return "" if found is None else f"{found} in the energy may jump, and a jump exerts no force"

    @property
    def kink(self) -> str:
        """Why equations with its slopes may have several solutions; empty if there is no reason to think so."""
        found = rough_in(self.program, self.terms, KINK)
        across = "across it the equations of a step may have several solutions"
        return "" if found is None else f"{found} in the energy may have a kink: {across}"

    @property
    def mirror(self) -> dict[UOp, UOp]:
        """The reversing symmetry, of states at version 0: momenta with the other sign."""
        return self.structure.mirror()

    @property
    def odd(self) -> int | None:
        """The first term that is not shown to be even in the momenta."""
        terms, mirror, same = self.terms, self.mirror, self.normal.same
        return next((k for k, u in enumerate(terms) if not same(substitute([u], mirror)[0], u)), None)


def value_of(symbolic: Symbolic, i: Instruction, where: str) -> UOp:
    value = symbolic.value(i, where)
    assert value is not None
    check_type(value, i, where)
    symbolic.env[i.dst] = value
    return value


def check_type(value: UOp, i: Instruction, where: str) -> None:
    if value.shape != i.type.shape or value.dtype is not i.type.dtype:
        raise VerifyError(
            f"{where} puts {value.dtype}{list(value.shape)} into {i.type}",
            fix="Write the type of the destination, or expand: MOVE T1:f64[3], expand, T0.",
        )


def jump_in(program: Program, terms: Sequence[UOp]) -> UOp | None:
    """A function of the state in some expressions that is not shown to be continuous, in its own names."""
    return rough_in(program, terms, JUMP)


def rough_in(program: Program, terms: Sequence[UOp], order: int) -> UOp | None:
    """The roughest function that is not shown to have more than so many continuous derivatives."""
    states = frozenset(v for u in terms for v in u.leaves if state_of(v) is not None)
    places = [
        r for r in rough_places(terms, states) if r.order <= order and (r.order < 0 or not r.is_a_point)
    ]
    worst = min(places, key=lambda r: r.order, default=None)
    names = {
        v: UOp.var(program.states[k].name, v.shape, v.dtype) for v in states if (k := state_of(v)) is not None
    }
    return None if worst is None else substitute([worst.node], names)[0]
