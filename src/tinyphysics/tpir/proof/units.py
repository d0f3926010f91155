"""What does an update do to the user's state?  Whatever units the loop keeps it in.

Nothing is proved about scaled registers. Each is read as a multiple of the user's state, so that what is
certified is the map that the user sees, and a factor that is forgotten or undone wrongly shows up in it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from tinyphysics.errors import VerifyError
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp, substitute
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.rules.equality.normal import MOST_COMPONENTS, Normal, add, chooses
from tinyphysics.tpir.program.isa import Instruction, Program, Register, Type
from tinyphysics.tpir.program.symbolic import Symbolic, clocks, state_var

DT = UOp.var("$dt")
ONE = UOp.const(1.0)


def is_scaled(program: Program) -> bool:
    """Do its updates have to be read in the user's units?"""
    return any(i.row.numbers in ("units", "by_sum") for _, _, i in program.numbered())


def moving(u: UOp) -> set[int]:
    """The states that an expression holds."""
    return {int(str(v.arg)[1:].partition("@")[0]) for v in u.leaves if str(v.arg)[0] == "S"}


def everywhere(holds: Callable[[UOp, UOp], bool], u: UOp, v: UOp) -> bool:
    """Does it hold as a whole, or number by number?"""
    if holds(u, v):
        return True
    if not 1 < u.size <= MOST_COMPONENTS or any(map(chooses, (u, v))):
        return False
    return all(holds(a, b) for a, b in zip(*unroll([u, v])))


def exactly(u: UOp, v: UOp, normal: Normal) -> bool:
    """The same function, constants to the last bit: a factor of 1 + 2**-52 at every step is a growth."""
    return everywhere(lambda a, b: not add(normal.form(a), normal.form(b), Fraction(-1)), u, v)


def added(value: UOp, own: UOp, variable: UOp, normal: Normal) -> UOp | None:
    """The d with value = own + d that the variable of `own` does not enter; None if that is not shown."""
    (d,) = substitute([value], {variable: UOp.const(0.0, variable.dtype, variable.shape)})
    return d if exactly(value, own + d, normal) else None


def rate(d: UOp, normal: Normal) -> tuple[UOp, UOp]:
    """(flow, h) with d = h*flow: h is dt where d is shown to be proportional to it, else 1."""
    if DT in d.leaves:
        (flow,) = substitute([d], {DT: ONE})
        if everywhere(normal.same, d, DT.expand(d.shape) * flow):
            return flow, DT
    return d, ONE


def rescale(symbolic: Symbolic, i: Instruction, where: str, normal: Normal) -> None:
    """After a SCALE the register holds another multiple of the same state."""
    assert isinstance(i.dst, Register)
    k = i.dst.index
    symbolic.read(i.dst, i.type, where)
    one = UOp.const(1.0, i.type.dtype, i.type.shape)
    factor, given = symbolic.becomes(i, where, one), symbolic.read(i.args[1], Type(i.type.dtype), where)
    if held := sorted(moving(factor)):
        raise VerifyError(
            f"{where} has a factor that depends on S{held[0]}",
            fix="A unit is a number or made of parameters: ELEM T0, mul, $dt, $k.",
        )
    if clocks(factor):
        raise VerifyError(f"{where} has a factor that depends on time", fix="A unit holds for a whole run.")
    for x in (given, *unroll([given])[0]):
        if not normal.form(x) or x.op is Ops.CONST and not math.isfinite(x.arg):
            raise VerifyError(
                f"{where} has a factor of {'zero' if not normal.form(x) else x.arg}",
                fix="A unit can be undone: it is finite, and not zero.",
            )
    unit = symbolic.units.pop(k, one) * factor
    variable = state_var(symbolic.program, k, symbolic.version[k])
    if not exactly(unit, one, normal):
        symbolic.units[k] = unit
        variable = variable * unit
    symbolic.env[i.dst] = variable


def check_undone(symbolic: Symbolic, i: Instruction, where: str) -> None:
    """What is stored is in the user's units."""
    source = i.args[0]
    if isinstance(source, Register) and source.kind == "S" and source.index in symbolic.units:
        raise VerifyError(
            f"{where} gives {i.dst} back in other units: {source} holds a multiple of it",
            fix=f"Undo its SCALE by the same factor in `final:`, before the STORE: SCALE {source}, over, ...",
        )
