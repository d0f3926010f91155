"""In which number format does a program run?  The same instructions, in other types.

A step is derived, fused and verified in float64, and made shorter last: so every constant, weight and parameter is
rounded once, where it is read, and a certificate says of a float32 program what it says of the float64 one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

from tinyphysics.errors import PlanError
from tinyphysics.ir.dtype import DType, as_number, f32, f64, i64
from tinyphysics.ir.uop import UOp
from tinyphysics.system import State
from tinyphysics.tpir.precision.compensated import compensated
from tinyphysics.tpir.precision.double_double import in_double_double
from tinyphysics.tpir.precision.lattice import UNIT, on_lattice
from tinyphysics.tpir.precision.mixed import mixed
from tinyphysics.tpir.precision.rewriter import LOW as LOW
from tinyphysics.tpir.precision.rewriter import Choices, Units
from tinyphysics.tpir.precision.solved_wide import solved_wide, solves
from tinyphysics.tpir.program.isa import SECTIONS, Instruction, Param, Program, Register, Type, Word

Rewrite = Callable[[Program, Choices], Program]


def as_written(program: Program, _: Choices) -> Program:
    return program


def retyped(program: Program, old: DType, new: DType) -> Program:
    """The program with every value of one type in another."""

    def typed(t: Type) -> Type:
        return Type(new, t.shape) if t.dtype is old else t

    def instruction(i: Instruction) -> Instruction:
        # STORE has the type of what it stores
        return i if i.op == "STORE" else replace(i, type=typed(i.type))

    return replace(
        program,
        states=tuple(replace(s, type=typed(s.type)) for s in program.states),
        params=tuple(replace(p, type=typed(p.type)) for p in program.params),
        energy=tuple(map(instruction, program.energy)),
        init=tuple(map(instruction, program.init)),
        step=tuple(map(instruction, program.step)),
        final=tuple(map(instruction, program.final)),
    )


def in_float32(program: Program, choices: Choices) -> Program:
    return solved_wide(program, choices) if solves(program) else retyped(program, f64, f32)


@dataclass(frozen=True)
class Precision:
    """How a state is kept, and in which formats a step computes."""

    name: str
    state: DType  # of a state, or of its first word
    given: DType  # of the parameters
    forces: DType  # of what moves the states
    low: DType | None = None  # of the error word that stands after each state
    units: Units = ()  # of states that are whole numbers of one; "" is any other state
    rewrite: Rewrite = field(default=as_written, compare=False, repr=False)  # a float64 program in it
    note: str = field(default="", compare=False, repr=False)  # what explain() says of it
    # what it goes with; of a new precision nothing is shown yet
    is_piloted: bool = field(default=False, compare=False, repr=False)  # are there trial runs for goals?
    takes_shears: bool = field(default=False, compare=False, repr=False)  # steps of parts that mix q and p?
    takes_fast: bool = field(default=False, compare=False, repr=False)  # math="fast", with its digits?
    # lines on which rounding is looked for, by the power of 2 that they are shorter than the longest
    lines: tuple[int, ...] = field(default=(0, 5, 10, 15, 23, 31), compare=False, repr=False)

    def unit(self, state: str) -> float:
        """What 1 stands for in a state of whole numbers."""
        given = dict(self.units)
        return given.get(state, given.get("", UNIT))

    @property
    def formats(self) -> frozenset[DType]:
        """All that a device has to compute in."""
        return frozenset(d for d in (self.state, self.given, self.forces, self.low) if d is not None)

    @property
    def bits(self) -> int:
        """Of a number of the state, with its words."""
        return self.state.bits + (0 if self.low is None else self.low.bits)

    @property
    def wide(self) -> bool:
        """Is everything computed in pairs of float64, and what is watched too?"""
        return self.state is f64 and self.low is f64

    def names(self, state: str) -> tuple[str, ...]:
        """Under which names a state is kept: an error word comes after its array."""
        return (state,) if self.low is None else (state, f"{state}{LOW}")

    def kept(self, s: State) -> tuple[State, ...]:
        """A state of the system as a program declares it, word by word; whole numbers stay what they are."""
        if not s.var.dtype.is_float:
            return (s,)
        high = replace(s, var=UOp.var(s.name, s.var.shape, self.state))
        if self.low is None:
            return (high,)
        name = f"{s.name}{LOW}"
        return high, State(name, UOp.var(name, s.var.shape, self.low), "error", s.unit)

    def value(self, s: State) -> UOp:
        """What is kept of a state, as one float64 number: what energies and observables see, beside whole numbers."""
        if not s.var.dtype.is_float:
            return s.var
        high, *low = (word.var.cast(f64) for word in self.kept(s))
        if not self.state.is_float:
            return high * self.unit(s.name)
        return high + low[0] if low else high


# fmt: off
PRECISIONS: dict[str, Precision] = {p.name: p for p in (
    Precision("float64", f64, f64, f64, is_piloted=True, takes_shears=True, takes_fast=True),
    Precision("float32", f32, f32, f32, rewrite=in_float32, is_piloted=True, takes_fast=True, lines=(0, 3, 6),
        note="states, parameters and every operation of a step; energies and observables are float64"),
    Precision("mixed", f64, f64, f32, rewrite=mixed, is_piloted=True, takes_fast=True, lines=(0, 3, 6, 10, 15, 23, 31),
        note="states, their differences and updates are float64; all else in a force is float32"),
    Precision("compensated", f32, f64, f32, f32, rewrite=compensated, lines=(0, 3, 6),
        note="states are pairs of float32, updated by TwoSum; forces, and dt where it multiplies them, are float32"),
    Precision("lattice", i64, f64, f64, rewrite=on_lattice, lines=(0, 5, 10, 15, 23),
        note="states are whole numbers of units; every sub-step adds a whole number, which is float64 rounded once"),
    Precision("dd", f64, f64, f64, f64, rewrite=in_double_double, takes_shears=True, lines=(0, 15),
        note="pairs of float64, about 32 digits: states and every operation of a step; parameters are float64 numbers"),
)}
# fmt: on
FLOAT64 = PRECISIONS["float64"]
ROUNDING = {f64: 2.0**-53, f32: 2.0**-24}  # the largest relative error of a number that is rounded once
NOT_NUMBERS = ("clock", "added", "drawn")  # what stands there counts steps, sources or numbers


def format_of(program: Program) -> DType:
    """The format of the states."""
    return program.states[0].type.dtype if program.states else f64


def in_precision(
    program: Program,
    precision: str,
    units: Units = (),
    weights: Mapping[float, Fraction] | None = None,
    even: tuple[str, ...] | None = None,
) -> Program:
    """A float64 program in another precision; a PlanError if one of its constants has no place there.

    `units` are those of a lattice; `weights` says which numbers the coefficients of a method stand for.
    `even` are the states that move by even numbers there, where the program itself does not say so.
    """
    row = PRECISIONS[precision]
    new = row.rewrite(program, Choices(units, weights or {}, even))
    for i, x in out_of_range(new) if f32 in row.formats else ():
        where = f" ({i.note})" if i.note else ""
        raise PlanError(
            f"the step holds the constant {x!r}{where}, which is out of the range of {precision}",
            fix='Choose units in which it is nearer to 1, or precision="float64".',
        )
    return new


def out_of_range(program: Program) -> Iterator[tuple[Instruction, float]]:
    """The constants that would be infinite, zero or short of digits in the type that they are read in."""
    for _, section, i in program.numbered():
        dtype = i.type.dtype if i.type.dtype.is_float else format_of(program)  # of what a comparison compares
        if section != "energy" and i.row.numbers not in NOT_NUMBERS:
            yield from ((i, x) for x in i.args if isinstance(x, float) and not fits(x, dtype))


def fits(x: float, dtype: DType) -> bool:
    """Is a number, rounded to a format, itself to one rounding?  Not if it overflows, or underflows."""
    return not math.isfinite(x) or abs(as_number(x, dtype) - x) <= ROUNDING[dtype] * abs(x)


def in_reals(program: Program) -> Program:
    """The program as the verifier reads it: exact arithmetic, with constants as they are written.

    Reading bits as a number of another type means nothing there, so that such a program stays as it is.
    """
    body = [i for _, _, i in program.numbered()]
    types = [*(s.type for s in program.states), *(p.type for p in program.params), *(i.type for i in body)]
    if all(t.dtype is not f32 for t in types) or any(Word("bitcast") in i.args for i in body):
        return program
    return without_roundings(retyped(program, f32, f64))


def without_roundings(program: Program) -> Program:
    """The program without conversions from one float to another, which change nothing of a real number."""
    types: dict[object, Type] = {Param(p.name): p.type for p in program.params}
    types |= {Register("S", k): s.type for k, s in enumerate(program.states)}

    def instruction(i: Instruction) -> Instruction:
        types[i.dst] = i.type
        if i.op != "ELEM" or i.args[0] != Word("cast") or i.type != types.get(i.args[1]):
            return i
        return replace(i, op="MOVE", operands=(i.dst, Word("reshape"), i.args[1]))

    energy, init, step, final = (tuple(map(instruction, program.section(name))) for name in SECTIONS)
    return replace(program, energy=energy, init=init, step=step, final=final)
