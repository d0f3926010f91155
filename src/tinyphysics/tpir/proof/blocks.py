"""Which updates does a program make, and what does each depend on?  Its updates, in blocks that commute.

One step is read for all: what it finds in registers must be the same function of the state whether
`init` or another step went before. Then n steps do n times what one does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tinyphysics.errors import VerifyError
from tinyphysics.ir.uop import UOp, substitute
from tinyphysics.rules.equality.normal import Normal
from tinyphysics.rules.equality.probe import seen_to_be_something
from tinyphysics.tpir.program.form import check_form
from tinyphysics.tpir.program.isa import Instruction, Operand, Program, Register, Type, Word
from tinyphysics.tpir.program.liveness import reads_before_writing
from tinyphysics.tpir.program.symbolic import Symbolic, at_clock, clocks, state_of, state_var, version_of
from tinyphysics.tpir.proof.components import numbers
from tinyphysics.tpir.proof.units import added, check_undone, is_scaled, moving, rate, rescale

STEPS_DONE = {"init": 0, "step": 0, "final": 1}  # when each section begins, in a run of one step


@dataclass
class Update:
    """One shear, with its flow as an expression of the states at version 0."""

    number: int
    instruction: Instruction
    section: str
    state: int
    flow: UOp
    h: UOp
    stale: str = ""  # why the flow is not fresh
    force: bool = False  # made by `POISSON_J ... force`: no energy is known for it

    def __str__(self) -> str:
        return f"step {self.number} `{self.instruction}`"

    @property
    def times(self) -> list[float]:
        """The times that its flow reads, in steps since the run began."""
        return clocks(self.flow)

    @property
    def timeless(self) -> UOp:
        """The flow with its clock at 0."""
        return at_clock(self.flow, self.times[0], 0.0) if len(self.times) == 1 else self.flow


@dataclass
class Group:
    """Consecutive updates that do not read what they write and share one h: one sub-flow."""

    updates: list[Update] = field(default_factory=list)

    @property
    def written(self) -> list[int]:
        return [u.state for u in self.updates]


class Blocks:
    """A well-formed program as its declared terms and the groups of its updates."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.normal = Normal()
        self.scaled = is_scaled(program)
        self.terms: list[UOp] = []
        self.groups: list[Group] = []
        self.maps: list[str] = []
        self.mixing: str = ""  # a position added to a momentum
        self.unsettled: str = ""  # a register that differs from step to step
        self.forced: dict[Operand, bool] = {}
        check_form(program)
        self.declare()
        self.walk()

    @property
    def updates(self) -> list[Update]:
        return [u for g in self.groups for u in g.updates]

    def declare(self) -> None:
        symbolic = Symbolic(self.program)
        for k in range(len(self.program.states)):
            symbolic.env[Register("S", k)] = state_var(self.program, k, 0)
        for number, section, i in self.program.numbered():
            if section == "energy":
                value = self.value(symbolic, i, f"step {number} `{i}`")
                if isinstance(i.dst, Register) and i.dst.kind == "E":
                    self.terms.append(value)

    def walk(self) -> None:
        symbolic = Symbolic(self.program)
        left: dict[str, dict[Register, UOp]] = {}
        for name, symbolic.steps in STEPS_DONE.items():
            began = dict(symbolic.version)
            for number, section, i in self.program.numbered():
                if section == name:
                    self.read(symbolic, i, number, section, began)
            left[name] = self.left(symbolic, symbolic.steps + (name == "step"))
        for r, u in left["init"].items():
            if left["step"][r] is not u:
                self.unsettled = (
                    f"{r} is carried from step to step, and is not the same function of the "
                    "state after a step as after `init`"
                )

    def left(self, symbolic: Symbolic, steps: int) -> dict[Register, UOp]:
        """What a section leaves in registers to a step or to `final`, as functions of the state it leaves."""
        out = {}
        for r in reads_before_writing((*self.program.step, *self.program.final)):
            if r.kind != "S" and r in symbolic.env:
                u = symbolic.env[r]
                table = {
                    v: state_var(self.program, k, version_of(v) - symbolic.version[k])
                    for v in u.leaves
                    if (k := state_of(v)) is not None
                }
                (u,) = substitute([u], table)
                for t in clocks(u) if steps else []:
                    u = at_clock(u, t, t - steps)
                out[r] = u
        return out

    def read(
        self, symbolic: Symbolic, i: Instruction, number: int, section: str, began: dict[int, int]
    ) -> None:
        where = f"step {number} `{i}`"
        symbolic.check_kinds(i, where)
        match i.row.numbers:
            case "kept" if isinstance(i.dst, Register):
                symbolic.load(i.dst.index)
            case "by_flow" | "by_sum":
                self.update(symbolic, i, number, section, began)
            case "units":
                rescale(symbolic, i, where, self.normal)
            case "by_value" | "turn" if isinstance(i.dst, Register) and i.row.kind == "update":
                check_type(symbolic.read(i.args[0], i.type, where), i, where)
                self.maps.append(f"{where} is an explicit map")
                symbolic.load(i.dst.index)
            case "whole":
                if i.op == "SERIES":
                    self.maps.append(f"{where} follows a solution, to a tolerance")
                for k in range(len(self.program.states)):
                    symbolic.load(k)
            case "kept" | "watched":
                symbolic.read(i.args[0], i.type, where)
                check_undone(symbolic, i, where)
            case _:
                self.forced[i.dst] = i.op == "POISSON_J" and i.args[1] == Word("force")
                self.check_mixing(symbolic, i, where)
                self.value(symbolic, i, where)

    def value(self, symbolic: Symbolic, i: Instruction, where: str) -> UOp:
        value = symbolic.value(i, where)
        assert value is not None
        check_type(value, i, where)
        symbolic.env[i.dst] = value
        return value

    def check_mixing(self, symbolic: Symbolic, i: Instruction, where: str) -> None:
        """A position added to a momentum: a type error in a program that claims to be symplectic.

        In other units a momentum may well be what its position moves by.
        """
        summands: tuple[Operand, ...] = ()
        if i.op == "ELEM" and i.args[0] in (Word("add"), Word("sub")):
            summands = i.args[1:]
        if i.op == "FMA" and any(isinstance(x, float) for x in i.args[:2]):  # a multiple is of the same kind
            summands = i.args
        roles = [
            (self.program.states[r.index].role, r)
            for r in summands
            if isinstance(r, Register) and r.kind == "S" and r.index not in symbolic.units
        ]
        if len({role for role, _ in roles}) > 1 and not self.mixing:
            (a, x), (b, y) = roles[:2]
            self.mixing = f"{where} adds {a} {x} and {b} {y}"

    def update(
        self, symbolic: Symbolic, i: Instruction, number: int, section: str, began: dict[int, int]
    ) -> None:
        where = f"step {number} `{i}`"
        assert isinstance(i.dst, Register)
        own = symbolic.read(i.dst, i.type, where)
        flow = symbolic.read(i.args[0], i.type, where)
        h = (
            symbolic.read(i.args[1], Type(i.type.dtype), where)
            if i.row.numbers == "by_flow"
            else UOp.const(1.0)
        )
        if i.row.numbers == "by_sum":
            check_type(flow, i, where)
            sum_ = added(
                flow, own, state_var(self.program, i.dst.index, symbolic.version[i.dst.index]), self.normal
            )
            if sum_ is None:
                self.maps.append(f"{where} is not shown to add to {i.dst} what {i.dst} does not enter")
                symbolic.load(i.dst.index)
                return
            flow = sum_
        if h.shape:
            raise VerifyError(
                f"{where} has an h of shape {h.shape}",
                fix="h is one number: the components of a state move together.",
            )
        stale = ""
        for k in symbolic.version:
            old = [
                version_of(v) for v in flow.leaves if state_of(v) == k and version_of(v) < symbolic.version[k]
            ]
            if old:
                stale = (
                    f"{where} uses {i.args[0]}, computed from {state_var(self.program, k, min(old))}; "
                    f"S{k} is now S{k}@{symbolic.version[k]}"
                )
        if self.scaled and not moving(h):
            moved = flow * h.expand(flow.shape)
            unit = symbolic.units.get(i.dst.index)
            flow, h = rate(moved if unit is None else moved / unit, self.normal)
        self.join(
            Update(
                number,
                i,
                section,
                i.dst.index,
                symbolic.base(flow, began),
                symbolic.base(h, began),
                stale,
                self.forced.get(i.args[0], False),
            )
        )
        symbolic.load(i.dst.index)

    def apart(self, *updates: Update) -> bool:
        """Does none of them read a number that one of them moves?  Asked where a state moves by others of its numbers."""
        if any(u.stale for u in updates) or not any(u.state in moving(u.flow) for u in updates):
            return False
        ways: tuple[Callable[[UOp], bool], ...] = (
            seen_to_be_something,  # one number that is seen to move itself is enough for a no
            lambda x: not self.normal.is_zero(x),
        )
        for moves in ways:
            found = [numbers(self.program, u.state, u.flow, moves) for u in updates]
            known = [x for x in found if x is not None]
            read = frozenset(x for _, numbers_read in known for x in numbers_read)
            if len(known) < len(found) or any(moved & read for moved, _ in known):
                return False
        return True

    def join(self, u: Update) -> None:
        last = self.groups[-1] if self.groups else None
        independent = last is not None and all(
            v.section == u.section
            and v.h is u.h
            and v.state != u.state
            and (v.state not in moving(u.flow) and u.state not in moving(v.flow) or self.apart(u, v))
            for v in last.updates
        )
        if last is not None and independent:
            last.updates.append(u)
        else:
            self.groups.append(Group([u]))


def check_type(value: UOp, i: Instruction, where: str) -> None:
    if value.shape != i.type.shape or value.dtype is not i.type.dtype:
        raise VerifyError(
            f"{where} puts {value.dtype}{list(value.shape)} into {i.type}",
            fix="Write the type of the destination, or expand: MOVE T1:f64[3], expand, T0.",
        )
