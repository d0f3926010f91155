"""What does each register of a program hold, as an expression of the states?  The VM on symbols.

State Si before any update is the variable `Si@0`, after the first `Si@1`: a flow that still contains
`S0@0` when S0 is `S0@1` is stale, and can be seen to be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tinyphysics.errors import VerifyError
from tinyphysics.ir.dtype import DType
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.reduction import multiplied_out
from tinyphysics.ir.uop import Shape, UOp, substitute
from tinyphysics.rules.functions.random import MEMBER, NOW, SEED
from tinyphysics.structure import BRACKET, FORCE, Structure, damped, heated, structure_of, word_of
from tinyphysics.tpir.program.form import check_node
from tinyphysics.tpir.program.isa import (
    ISA,
    POISSON_TYPES,
    WORDS,
    Instruction,
    Operand,
    Param,
    Pointer,
    Program,
    Register,
    Type,
    Word,
)
from tinyphysics.util import one_of

UNKNOWN = "?"  # before the name of the register that a SOLVE is for
CLOCK = "clock"  # the variable for t0 + (n + c)*dt is named clock@c


def state_var(program: Program, index: int, version: int) -> UOp:
    t = program.states[index].type
    return UOp.var(f"S{index}@{version}", t.shape, t.dtype)


@dataclass(frozen=True)
class DeclaredState:
    """A state of a listing, as its structure sees it."""

    var: UOp
    role: str


def structure_at(program: Program, states: Sequence[UOp] | None = None) -> Structure:
    """How an energy moves the states of a program, under these names; a position without a momentum is in no pair."""
    own = [state_var(program, k, 0) for k in range(len(program.states))] if states is None else states
    pairs = [x for k, s in enumerate(program.states) if s.conjugate is not None for x in (s.conjugate, k)]
    alone = [k for k, s in enumerate(program.states) if k not in pairs and s.role != "position"]
    declared = [DeclaredState(own[k], program.states[k].role) for k in (*pairs, *alone)]
    found = structure_of(declared, program.bracket, tensor_at(program, own))
    if (bath := bath_in(program)) is not None:
        return heated(found, bath)
    return damped(found) if any(map(takes_energy, (*program.step, *program.final))) else found


def bath_in(program: Program) -> str | None:
    """The name of the bath whose lines a step has."""
    found = next((i for i in program.step if i.row.reader == "baths"), None)
    return None if found is None else str(found.args[1]) if "w" in found.row.form else found.op


def takes_energy(i: Instruction) -> bool:
    """Is it friction, of one step or of all of them?"""
    return i.op == "RELAX" or i.op == "PROPAGATE" and i.args[0] == Word("damped")


def tensor_at(program: Program, states: Sequence[UOp]) -> tuple[UOp, ...]:
    """What a program declares its bracket to be made of, as expressions of its states under these names."""
    if not program.bracket:
        return ()
    symbolic, out = Symbolic(program), []
    symbolic.env |= {Register("S", k): u for k, u in enumerate(states)}
    for number, section, i in program.numbered():
        if section == "energy":
            value = symbolic.value(i, f"step {number} `{i}`")
            assert value is not None
            symbolic.env[i.dst] = value
            out += [value] if isinstance(i.dst, Register) and i.dst.kind == "B" else []
    return tuple(out)


def check_like(u: UOp, like: Type, where: str) -> UOp:
    if u.shape != like.shape or u.dtype is not like.dtype:
        raise VerifyError(
            f"{where} starts at {u.dtype}{list(u.shape)}", fix=f"An unknown starts at its own type, {like}."
        )
    return u


def state_of(v: UOp) -> int | None:
    """The state that a variable is a version of."""
    name, at, _ = str(v.arg).partition("@")
    return int(name[1:]) if at and name.startswith("S") and name[1:].isdigit() else None


def version_of(v: UOp) -> int:
    """Of a variable that stands for a state."""
    return int(str(v.arg).partition("@")[2])


def clocks(u: UOp) -> list[float]:
    """The times that an expression reads, in steps since the run began."""
    return sorted(float(str(v.arg).partition("@")[2]) for v in u.leaves if str(v.arg).startswith(CLOCK))


def at_clock(u: UOp, old: float, new: float) -> UOp:
    """u, read at another time."""
    return substitute([u], {UOp.var(f"{CLOCK}@{old!r}"): UOp.var(f"{CLOCK}@{new!r}")})[0]


ULP = 2.0**-53  # of a number, which is as much as rounding takes off


class Source(Protocol):
    """Who knows what operands stand for."""

    def read(self, x: Operand, like: Type, where: str) -> UOp: ...
    def time(self, i: Instruction, where: str) -> UOp: ...
    def address(self) -> tuple[UOp, ...]: ...
    def made(self, u: UOp, where: str) -> UOp: ...


@dataclass(frozen=True)
class Given:
    """The operands of an instruction, as its value reads them (tpir/program/values.py)."""

    source: Source
    instruction: Instruction
    where: str
    before: UOp | None = None

    @property
    def op(self) -> str:
        return self.instruction.op

    @property
    def args(self) -> tuple[Any, ...]:
        return self.instruction.args

    @property
    def dtype(self) -> DType:
        return self.instruction.type.dtype

    @property
    def shape(self) -> Shape:
        return self.instruction.type.shape

    @property
    def own(self) -> UOp:
        i = self.instruction
        return self.source.read(i.dst, i.type, self.where) if self.before is None else self.before

    def read(self, k: int, dtype: DType | None = None, shape: Shape | None = None) -> UOp:
        like = Type(self.dtype if dtype is None else dtype, self.shape if shape is None else shape)
        return self.source.read(self.args[k], like, self.where)

    def made(self, u: UOp) -> UOp:
        return self.source.made(u, self.where)

    def usage(self, op: str) -> str:
        return f"{op} {ISA[op].operands}"

    def time(self) -> UOp:
        return self.source.time(self.instruction, self.where)

    def address(self) -> tuple[UOp, ...]:
        return self.source.address()


@dataclass
class Symbolic:
    program: Program
    steps: int = 0  # done when the section began
    version: dict[int, int] = field(default_factory=dict)
    env: dict[Operand, UOp] = field(default_factory=dict)
    # (masses, way and order) of a state
    frames: dict[int, tuple[UOp, tuple[object, ...]]] = field(default_factory=dict)
    # where unknowns start whose UNTIL is still to come
    open: dict[Operand, UOp] = field(default_factory=dict)
    units: dict[int, UOp] = field(default_factory=dict)  # what a register holds for 1 of the user's, if not 1

    def __post_init__(self) -> None:
        for p in self.program.params:
            self.env[Param(p.name)] = UOp.var(f"${p.name}", p.type.shape, p.type.dtype)

    # --- states -------------------------------------------------------------------------------
    def load(self, index: int) -> None:
        self.version[index] = self.version.get(index, -1) + 1
        variable = state_var(self.program, index, self.version[index])
        self.env[Register("S", index)] = self.held(variable, index)

    def held(self, variable: UOp, index: int) -> UOp:
        """What the register of a state holds for a value of the user's."""
        if index in self.frames:
            masses, arg = self.frames[index]
            return UOp(Ops.JACOBI, variable.dtype, variable.shape, (variable, masses), arg)
        unit = self.units.get(index)
        return variable if unit is None else variable * unit

    def current(self, index: int) -> UOp:
        return self.env[Register("S", index)]

    def base(self, u: UOp, began: dict[int, int]) -> UOp:
        """u with every state of this section written as version 0, and older ones as -1, -2, ..."""
        table = {
            v: state_var(self.program, k, min(version_of(v) - began.get(k, 0), 0))
            for v in u.leaves
            if (k := state_of(v)) is not None
        }
        return substitute([u], table)[0]

    # --- operands -----------------------------------------------------------------------------
    def read(self, x: Operand, like: Type, where: str) -> UOp:
        if isinstance(x, float):
            return UOp.const(x, like.dtype, like.shape)
        if isinstance(x, (Word, tuple, Pointer)) or x not in self.env:
            raise VerifyError(
                f"{where} reads `{x}`, which nothing has written",
                fix="Registers are written before they are read; `init` runs first, then `step`.",
            )
        return self.env[x]

    # --- what a machine knows and a proof names -----------------------------------------------
    def time(self, i: Instruction, where: str) -> UOp:
        assert isinstance(i.args[0], float)
        if len(i.args) > 1 and i.args[2] not in [Word(w) for w in WORDS]:
            raise VerifyError(f"{where} asks for the word `{i.args[2]}`", fix=f"A word is {one_of(WORDS)}.")
        if i.args[1:] and not (isinstance(i.args[1], float) and abs(i.args[1]) <= abs(i.args[0]) * ULP):
            raise VerifyError(
                f"{where} reads a time of two words that is not that of the first",
                fix="The second word is what rounding left: 2**-53 of the first at most.",
            )
        if i.args[1:] and i.args[2] == Word("low"):  # in exact arithmetic the first word is all
            return UOp.const(0.0, i.type.dtype)
        return UOp.var(f"{CLOCK}@{i.args[0] + self.steps!r}", (), i.type.dtype)

    def address(self) -> tuple[UOp, ...]:
        return (*SEED, NOW, MEMBER)

    def made(self, u: UOp, where: str) -> UOp:
        check_node(u, where)
        # in exact arithmetic it is that
        return multiplied_out(u) if u.op is Ops.REDUCE and u.arg[0] == "dot" else u

    # --- instructions -------------------------------------------------------------------------
    def value(self, i: Instruction, where: str) -> UOp | None:
        """The expression that an instruction computes; None for updates and stores, which a reader must understand."""
        match i.row.kind:
            case "value":
                return self.becomes(i, where)
            case "open":
                self.open[i.dst] = check_like(self.read(i.args[0], i.type, where), i.type, where)
                return UOp.var(f"{UNKNOWN}{i.dst}", i.type.shape, i.type.dtype)
            case "close":
                return self.root(i, where)
        return None

    def becomes(self, i: Instruction, where: str, own: UOp | None = None) -> UOp:
        """What the destination is afterwards, of a state too; `own` is what it was, if not what it is now."""
        assert i.row.value is not None
        return i.row.value(Given(self, i, where, own))

    def root(self, i: Instruction, where: str) -> UOp:
        """What an unknown is when its rounds are over; whatever was computed of it on the way is forgotten."""
        *rest, rounds = i.args
        assert isinstance(rounds, tuple)
        if i.dst not in self.open or len(rounds) != 1 or not isinstance(rounds[0], int):
            raise VerifyError(
                f"{where} ends no SOLVE",
                fix="SOLVE T4:f64[2], start; ...; UNTIL T4:f64[2], residual, scale, (50,).",
            )
        start, (residual, *matrix, scale) = self.open.pop(i.dst), [self.read(x, i.type, where) for x in rest]
        name = f"{UNKNOWN}{i.dst}"
        out = UOp(Ops.SOLVE, i.type.dtype, i.type.shape, (start, scale, residual, *matrix), (name, rounds[0]))
        unknown = UOp.var(name, i.type.shape, i.type.dtype)
        for x in [r for r, u in self.env.items() if unknown in u.leaves]:
            del self.env[x]
        return self.rooted(check_node(out, where))

    def rooted(self, u: UOp) -> UOp:
        """A solution: how arrays are corrected on the way to it is no part of what it is."""
        return u.replace(u.src[:3]) if u.ndim > 1 else u

    def check_kinds(self, i: Instruction, where: str) -> None:
        """A flow is made of the right gradient, and moves its own state."""
        if i.op == "POISSON_J":
            self.check_poisson(i, where)
        if i.row.numbers == "by_flow":
            state, flow = i.dst, i.args[0]
            assert isinstance(state, Register)
            if not isinstance(flow, Register) or flow.kind != "F":
                raise VerifyError(f"{where} adds {flow} to a state", fix=f"{i.op} reads a flow register F.")
            if flow.index != state.index:
                ours, theirs = self.program.states[state.index], self.program.states[flow.index]
                raise VerifyError(
                    f"{where} adds the flow of {theirs.role} `{theirs.name}` to {ours.role} `{ours.name}`",
                    fix=f"S{state.index} moves by F{state.index}.",
                )

    def check_poisson(self, i: Instruction, where: str) -> None:
        flow, source, kind = i.dst, i.args[0], i.args[1] if len(i.args) > 1 else None
        assert isinstance(flow, Register)
        if not isinstance(kind, Word) or kind.text not in POISSON_TYPES:
            raise VerifyError(f"{where} has type `{kind}`", fix=f"The type is {one_of(POISSON_TYPES)}.")
        role = self.program.states[flow.index].role
        if kind.text in (BRACKET, FORCE) and role != "position":
            return
        if not isinstance(source, Register) or source.kind != "G":
            raise VerifyError(
                f"{where} reads {source}", fix="POISSON_J turns a gradient register G into a flow."
            )
        pair = self.program.conjugate(flow.index)
        wanted = word_of(role)
        if source.index != pair or kind.text != wanted:
            raise VerifyError(
                f"{where} makes the flow of {role} S{flow.index} from {source} by {kind.text}",
                fix=f"It is {wanted} of G{pair}, the derivative with respect to S{pair}.",
            )
