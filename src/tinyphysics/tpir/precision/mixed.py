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
from tinyphysics.tpir.program.isa import Instruction, Operand, Param, Program, Register, Type, Word

TURN = 2 * math.pi
REST = 2.4492935982947064e-16  # of 2*pi, after its float64
PERIODIC = ("sin", "cos", "tan")


class Mixed:
    def __init__(self, program: Program) -> None:
        self.program, self.reach = program, Reach(program)
        self.types: dict[Operand, Type] = {Param(p.name): p.type for p in program.params}
        self.types |= {Register("S", k): s.type for k, s in enumerate(program.states)}
        self.made: dict[str, list[Instruction]] = {}
        self.section = "init"
        self.home: dict[Operand, str] = {}  # where a register is written
        self.copies: dict[tuple[Operand, object], Register] = {}  # in the other format
        used = [
            x.index
            for _, _, i in program.numbered()
            for x in i.operands
            if isinstance(x, Register) and x.kind == "T"
        ]
        self.temporaries = max(used, default=-1) + 1

    def whole(self) -> Program:
        for self.section in ("init", "step", "final"):
            self.made[self.section] = []
            self.copies = {key: r for key, r in self.copies.items() if self.reach.free(key[0])}
            for i in self.program.section(self.section):
                self.instruction(i)
        init, step, final = (tuple(self.made[name]) for name in ("init", "step", "final"))
        return replace(self.program, init=init, step=step, final=final)

    # --- writing ------------------------------------------------------------------------------
    def emit(self, i: Instruction, section: str | None = None) -> None:
        where = self.section if section is None else section
        self.made[where].append(i)
        self.types[i.dst], self.home[i.dst] = i.type, where
        if isinstance(i.dst, Register) and i.dst.kind == "S":  # copies of the old state
            self.copies = {key: r for key, r in self.copies.items() if key[0] != i.dst}

    def temporary(self) -> Register:
        self.temporaries += 1
        return Register("T", self.temporaries - 1)

    def elem(self, type_: Type, name: str, *operands: Operand) -> Register:
        new = self.temporary()
        self.emit(Instruction("ELEM", (new, Word(name), *operands), type_))
        return new

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
    def instruction(self, i: Instruction) -> None:
        if all(self.reach.free(x) for x in sources(i)) and i.op != "LOAD":
            self.emit(self.in_format(i, f64) if writes_state(i) else i)
        elif (
            i.op == "FMA"
            and isinstance(i.dst, Register)
            and i.dst.kind == "G"
            and i.dst not in self.reach.wide
        ):
            new = self.temporary()  # a gradient has the format of its state
            self.emit(self.in_format(replace(i, operands=(new, *i.args)), f32))
            self.emit(Instruction("GRAD_INIT", (i.dst, self.read(new, f64)), i.type, i.note))
        elif i.row.numbers in ("kept", "listed", "watched") or writes_state(i):
            self.emit(self.in_format(i, f64))
        elif i.row.numbers in ("plain", "summed", "moved"):
            self.compute(i)
        else:
            raise PlanError(f'precision="mixed" does not support `{i}`', fix="Leave precision= out.")

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


def mixed(program: Program) -> Program:
    return Mixed(program).whole()
