"""A program with float64 states and float32 forces.

What no state enters is float64, and so is every sum in which a state stands as it is: pair differences, minimum images,
the update itself. All else, which is what a force costs, is computed in float32 from those, rounded once.
"""

from __future__ import annotations

import math
from dataclasses import replace

from tinyphysics.errors import PlanError
from tinyphysics.ir.dtype import f32, f64
from tinyphysics.tpir.precision.linear import Reach, sources
from tinyphysics.tpir.precision.rewriter import Choices, Rewriter
from tinyphysics.tpir.program.isa import Instruction, Operand, Param, Program, Register, Type, Word

TURN = 2 * math.pi
REST = 2.4492935982947064e-16  # of 2*pi, after its float64
PERIODIC = ("sin", "cos", "tan")


class Mixed(Rewriter):
    name = "mixed"

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.reach = Reach(program)
        self.types |= {Register("S", k): s.type for k, s in enumerate(program.states)}
        self.copies: dict[tuple[Operand, object], Register] = {}  # in the other format

    def begin(self) -> None:
        self.copies = {key: r for key, r in self.copies.items() if self.reach.free(key[0])}

    # --- writing ------------------------------------------------------------------------------
    def emit(self, i: Instruction, section: str | None = None) -> None:
        self.put(i, section)
        if isinstance(i.dst, Register) and i.dst.kind == "S":  # copies of the old state
            self.copies = {key: r for key, r in self.copies.items() if key[0] != i.dst}

    def read(self, x: Operand, dtype: object) -> Operand:
        """An operand in a format; what no state enters is converted where it is computed, once."""
        own = self.types.get(x)
        if own is None or not own.dtype.is_float or own.dtype is dtype:
            return x
        if (x, dtype) not in self.copies:
            new = self.copies[x, dtype] = self.temporary()
            where = "init" if isinstance(x, Param) else self.home.get(x) if self.reach.free(x) else None
            to = f32 if dtype is f32 else f64
            self.emit(Instruction("ELEM", (new, Word("cast"), x), Type(to, own.shape)), where)
        return self.copies[x, dtype]

    # --- instructions -------------------------------------------------------------------------
    def kept(self, i: Instruction) -> None:
        if i.row.kind == "memory" and isinstance(i.dst, Register) or not self.once(i):
            self.emit(self.in_format(i, f64))

    def once(self, i: Instruction) -> bool:
        """Is it float64, because no state enters?"""
        free = all(self.reach.free(x) for x in sources(i))
        if free:
            self.emit(self.in_format(i, f64) if writes_state(i) else i)
        return free

    def computed(self, i: Instruction) -> None:
        if self.once(i):
            return
        if not writes_state(i):
            self.compute(i)
        elif i.dst in self.reach.wide:
            self.emit(self.in_format(i, f64))
        else:
            new = self.temporary()  # a gradient has the format of its state
            self.emit(self.in_format(replace(i, operands=(new, *i.args)), f32))
            self.emit(Instruction("GRAD_INIT", (i.dst, self.read(new, f64)), i.type, i.note))

    def of_state(self, i: Instruction) -> None:
        """What a state is moved by, or becomes, is float64."""
        self.kept(i) if writes_state(i) else self.unless_moving(i)

    def unless_moving(self, i: Instruction) -> None:
        if not self.once(i):
            self.refuse(i)

    def compute(self, i: Instruction) -> None:
        name = str(i.args[0]) if i.op == "ELEM" else ""
        if name == "bitcast":
            raise PlanError(
                'precision="mixed" cannot be combined with reading the bits of a state',
                fix="Leave precision= out.",
            )
        if not i.type.dtype.is_float:  # comparisons, and whole numbers
            wide = any(x in self.reach.wide for x in i.args) or name == "cast"
            self.emit(i if name == "cast" else self.in_format(i, f64 if wide else f32))
        elif i.dst in self.reach.wide:
            self.emit(self.in_format(i, f64))
        elif name in PERIODIC and i.args[1] in self.reach.wide:
            turned = self.turned(i.args[1])
            self.emit(replace(i, operands=(i.dst, i.args[0], turned), type=Type(f32, i.type.shape)))
        else:
            self.emit(self.in_format(replace(i, type=Type(f32, i.type.shape)), f32))

    def in_format(self, i: Instruction, dtype: object) -> Instruction:
        own = f32 if dtype is f32 else f64
        type_ = Type(own, i.type.shape) if i.type.dtype.is_float else i.type
        return replace(i, operands=(i.dst, *(self.read(x, dtype) for x in i.args)), type=type_)

    def turned(self, x: Operand) -> Operand:
        """An angle without its whole turns: those are taken off in float64, which an angle of many turns needs."""
        t = Type(f64, self.types[x].shape)
        turns = self.elem(t, "rint", self.elem(t, "mul", x, 1 / TURN))
        off = self.elem(t, "neg", turns)
        for part in (TURN, REST):
            new = self.temporary()
            self.emit(Instruction("FMA", (new, off, part, x), t))
            x = new
        return self.read(x, f32)


def writes_state(i: Instruction) -> bool:
    return isinstance(i.dst, Register) and i.dst.kind in "SGF"


# fmt: off
Mixed.rules = {
    "kept": Mixed.kept, "watched": Mixed.kept, "listed": Mixed.kept,
    "plain": Mixed.computed, "summed": Mixed.computed, "moved": Mixed.computed,
    **dict.fromkeys(("gradient", "added", "flow", "by_flow", "by_sum", "by_value", "units", "whole"), Mixed.kept),
    "orbit": Mixed.of_state, "turn": Mixed.of_state,
    **dict.fromkeys(("clock", "drawn", "tree", "line", "solved"), Mixed.unless_moving),
}
# fmt: on


def mixed(program: Program, _: Choices) -> Program:
    return Mixed(program).rewritten()
