"""A program with float32 states whose steps solve equations: what moves a state is computed in float64, and rounded once.

Rounds end where corrections are rounding (rules/calculus/solve.py), and residuals are small differences of large numbers:
in float32 both would be lost. So every operation is float64, from states and parameters that are float32.
"""

from __future__ import annotations

from dataclasses import replace

from tinyphysics.ir.dtype import f32, f64
from tinyphysics.tpir.precision.rewriter import Choices, Rewriter
from tinyphysics.tpir.program.isa import Instruction, Operand, Param, Program, Register, Type, Word


class SolvedWide(Rewriter):
    """Every line as it is, from operands that are converted where they are read."""

    name = "float32"

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.copies: dict[Operand, Register] = {}  # in float64

    def begin(self) -> None:
        self.copies = {x: r for x, r in self.copies.items() if isinstance(x, Param)}

    def read(self, x: Operand) -> Operand:
        """An operand in float64: of a parameter once, of a state until it moves."""
        narrow = isinstance(x, Param) or isinstance(x, Register) and x.kind == "S"
        own = self.types.get(x)
        if not narrow or own is None or not own.dtype.is_float:
            return x
        if x not in self.copies:
            where = "init" if isinstance(x, Param) else self.section
            self.copies[x] = self.elem(Type(f64, own.shape), "cast", x, section=where)
        return self.copies[x]

    def wide(self, i: Instruction) -> Instruction:
        return replace(i, operands=(i.dst, *map(self.read, i.args)))

    # --- instructions -------------------------------------------------------------------------
    def kept(self, i: Instruction) -> None:
        self.put(replace(i, type=narrow_type(i.type)))

    def computed(self, i: Instruction) -> None:
        self.put(self.wide(i))

    def moved(self, i: Instruction) -> None:
        """s + h f, with one rounding to float32."""
        given = replace(i, operands=(i.dst, i.dst, *i.args))
        own, flow, h = self.wide(given).args
        if i.type.shape and not isinstance(h, float):
            h = self.new("MOVE", i.type, Word("expand"), h)
        made = self.new("FMA", i.type, flow, h, own)
        self.write(replace(i, op="MAP"), made)

    def becomes(self, i: Instruction) -> None:
        (value,) = self.wide(i).args
        self.write(i, value)

    def write(self, i: Instruction, value: Operand) -> None:
        type_ = narrow_type(i.type)
        if not isinstance(value, float) and type_ is not i.type:
            value = self.elem(type_, "cast", value)
        self.put(replace(i, operands=(i.dst, value), type=type_))
        self.copies.pop(i.dst, None)


def narrow_type(t: Type) -> Type:
    return Type(f32, t.shape) if t.dtype is f64 else t


# fmt: off
SolvedWide.rules = {
    "kept": SolvedWide.kept, "by_flow": SolvedWide.moved, "by_value": SolvedWide.becomes,
    **dict.fromkeys(("plain", "moved", "summed", "gradient", "added", "flow", "clock", "solved"), SolvedWide.computed),
}
# fmt: on


def solved_wide(program: Program, _: Choices) -> Program:
    made = SolvedWide(program)
    made.types |= {Param(p.name): p.type for p in program.params}
    made.types |= {Register("S", k): s.type for k, s in enumerate(program.states)}
    return made.rewritten(
        states=tuple(replace(s, type=narrow_type(s.type)) for s in program.states),
        params=tuple(replace(p, type=narrow_type(p.type)) for p in program.params),
        energy=tuple(replace(i, type=narrow_type(i.type)) for i in program.energy),
    )


def solves(program: Program) -> bool:
    return any(i.row.kind == "open" for _, _, i in program.numbered())
