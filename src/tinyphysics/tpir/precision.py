"""In which number format does a program run?  The same instructions, in other types.

A step is derived, fused and verified in float64, and made shorter last: so every constant, weight and parameter is
rounded once, where it is read, and a certificate says of a float32 program what it says of the float64 one.
"""
from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from tinyphysics.errors import PlanError
from tinyphysics.ir.dtype import DType, as_number, f32, f64
from tinyphysics.tpir.isa import Instruction, Program, Type, Word

PRECISIONS: dict[str, DType] = {"float64": f64, "float32": f32}
ROUNDING = {f64: 2.0**-53, f32: 2.0**-24}  # the largest relative error of a number that is rounded once
NOT_NUMBERS = ("TIME", "ACC_GRAD", "NOISE")  # what stands there counts steps, sources or numbers


def format_of(program: Program) -> DType:
    """The format of the states."""
    return program.states[0].type.dtype if program.states else f64


def retyped(program: Program, old: DType, new: DType) -> Program:
    """The program with every value of one type in another."""

    def typed(t: Type) -> Type:
        return Type(new, t.shape) if t.dtype is old else t

    def instruction(i: Instruction) -> Instruction:
        return i if i.op == "STORE" else replace(i, type=typed(i.type))  # STORE has the type of what it stores

    return replace(
        program, states=tuple(replace(s, type=typed(s.type)) for s in program.states),
        params=tuple(replace(p, type=typed(p.type)) for p in program.params),
        energy=tuple(map(instruction, program.energy)), init=tuple(map(instruction, program.init)),
        step=tuple(map(instruction, program.step)), final=tuple(map(instruction, program.final)),
    )  # fmt: skip


def in_precision(program: Program, precision: str) -> Program:
    """A float64 program in another precision; a PlanError if one of its constants has no place there."""
    if PRECISIONS[precision] is f64:
        return program
    short = retyped(program, f64, PRECISIONS[precision])
    for i, x in out_of_range(short):
        where = f" ({i.note})" if i.note else ""
        raise PlanError(f"the step holds the constant {x!r}{where}, which is out of the range of {precision}",
                        fix='Choose units in which it is nearer to 1, or precision="float64".')  # fmt: skip
    return short


def out_of_range(program: Program) -> Iterator[tuple[Instruction, float]]:
    """The constants that would be infinite, zero or short of digits in the type that they are read in."""
    for _, section, i in program.numbered():
        dtype = i.type.dtype if i.type.dtype.is_float else format_of(program)  # of what a comparison compares
        if section != "energy" and i.op not in NOT_NUMBERS:
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
    return retyped(program, f32, f64)
