"""What does each register of a program hold, as an expression of the states?  The VM on symbols.

State Si before any update is the variable `Si@0`, after the first `Si@1`: a flow that still contains
`S0@0` when S0 is `S0@1` is stale, and can be seen to be.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tinyphysics.errors import VerifyError
from tinyphysics.ir.dtype import i64
from tinyphysics.ir.ops import ARITY, COMPARE, DRAWN, ELEMENTWISE, MOVEMENT, Ops
from tinyphysics.ir.uop import UOp, substitute
from tinyphysics.ir.value import CUSTOM
from tinyphysics.rules.calculus.partials import times
from tinyphysics.rules.functions.random import MEMBER, NOW, SEED, drawn
from tinyphysics.tpir.program.form import check_node
from tinyphysics.tpir.program.functions import FUNCTIONS, REDUCTIONS, slope
from tinyphysics.tpir.program.isa import (
    FRAMES,
    ISA,
    LISTED,
    POISSON_TYPES,
    WAYS,
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
from tinyphysics.util import did_you_mean, one_of, plural

MOVES = MOVEMENT | {Ops.RANGE}
KNOWN = {
    kind: {name: None for name, op in FUNCTIONS.items() if op in ops}
    for kind, ops in (("ELEM", ELEMENTWISE), ("MOVE", MOVES))
}  # functions, by the instruction that names them
UNKNOWN = "?"  # before the name of the register that a SOLVE is for
CLOCK = "clock"  # the variable for t0 + (n + c)*dt is named clock@c


def state_var(program: Program, index: int, version: int) -> UOp:
    t = program.states[index].type
    return UOp.var(f"S{index}@{version}", t.shape, t.dtype)


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


@dataclass
class Symbolic:
    program: Program
    steps: int = 0  # done when the section began
    version: dict[int, int] = field(default_factory=dict)
    env: dict[Operand, UOp] = field(default_factory=dict)
    frames: dict[int, tuple[UOp, tuple[object, ...]]] = field(
        default_factory=dict
    )  # (masses, way and order) of a state
    open: dict[Operand, UOp] = field(
        default_factory=dict
    )  # where unknowns start whose UNTIL is still to come
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

    # --- instructions -------------------------------------------------------------------------
    def value(self, i: Instruction, where: str) -> UOp | None:
        """The expression that an instruction computes; None for updates and stores."""
        like = i.type
        match i.op:
            case "ELEM" | "MOVE":
                return self.function(i, where)
            case "FMA":
                a, b, c = (self.read(x, like, where) for x in i.args)
                return check_node(UOp(Ops.FMA, like.dtype, like.shape, (a, b, c)), where)
            case "SUM" | "PAIRS" | "MAX" | "MIN":
                source = self.read(i.args[0], like, where)
                arg = (REDUCTIONS[i.op], *i.args[1:])
                return check_node(UOp(Ops.REDUCE, like.dtype, like.shape, (source,), arg), where)
            case "NEAR":
                return self.near(i, where)
            case "TREE":
                points, masses, square, error = i.args
                q = self.read(points, like, where)
                m = self.read(masses, Type(like.dtype, like.shape[:1]), where)
                sources = (q, m, self.read(square, Type(like.dtype), where))
                return check_node(UOp(Ops.TREE, like.dtype, like.shape, sources, (error,)), where)
            case "JACOBI" | "KEPLER" | "PULL":
                return self.orbits(i, where)
            case "SOLVE":
                self.open[i.dst] = check_like(self.read(i.args[0], like, where), like, where)
                return UOp.var(f"{UNKNOWN}{i.dst}", like.shape, like.dtype)
            case "UNTIL":
                return self.root(i, where)
            case "GRAD_INIT" | "SHIFT" | "FLOW":
                return self.read(i.args[0], like, where)
            case "SCALE":
                return self.scaled(self.read(i.dst, like, where), i, where)
            case "ACC_GRAD":
                return self.accumulate(i, where)
            case "POISSON_J":
                flow = self.read(i.args[0], like, where)
                return -flow if i.args[1] == Word("negate") else flow
            case "NOISE":
                kind, index, numbers = i.args
                assert isinstance(kind, Word) and isinstance(numbers, tuple)
                if kind.text not in DRAWN or len(numbers) != 2:
                    raise VerifyError(
                        f"{where} draws `{kind}` with {numbers}",
                        fix=f"The kind is {one_of(DRAWN)}, the numbers are (stream, count).",
                    )
                place = self.read(index, Type(i64, like.shape), where)
                address = (*SEED, NOW, MEMBER)
                return check_node(drawn(kind.text, numbers, like.dtype, place, address), where)
            case "TIME":
                assert isinstance(i.args[0], float)
                if len(i.args) > 1 and i.args[2] not in [Word(w) for w in WORDS]:
                    raise VerifyError(
                        f"{where} asks for the word `{i.args[2]}`", fix=f"A word is {one_of(WORDS)}."
                    )
                if i.args[1:] and not (
                    isinstance(i.args[1], float) and abs(i.args[1]) <= abs(i.args[0]) * ULP
                ):
                    raise VerifyError(
                        f"{where} reads a time of two words that is not that of the first",
                        fix="The second word is what rounding left: 2**-53 of the first at most.",
                    )
                if i.args[1:] and i.args[2] == Word("low"):  # in exact arithmetic the first word is all
                    return UOp.const(0.0, like.dtype)
                return UOp.var(f"{CLOCK}@{i.args[0] + self.steps!r}", (), like.dtype)
        return None

    def function(self, i: Instruction, where: str) -> UOp:
        name = i.args[0]
        src = list(i.args[1:])
        assert isinstance(name, Word)
        known = KNOWN[i.op]
        arg: object = None
        if src and isinstance(src[-1], tuple):
            *src, arg = src
        if i.op == "ELEM" and name.text.removeprefix("custom.") in CUSTOM:
            op, arg = Ops.CUSTOM, name.text.removeprefix("custom.")
        elif name.text in known:
            op = FUNCTIONS[name.text]
        else:
            raise VerifyError(
                f"{where} uses the unknown function `{name.text}`",
                fix=f"{did_you_mean(name.text, known)}{i.op} knows {', '.join(known)}.",
            )
        if name.text == "sq":
            src = src * 2
        if len(src) != ARITY.get(op, max(len(src), 1)):
            raise VerifyError(
                f"{where} gives `{name}` {plural(len(src), 'source')}",
                fix=f"It takes {ARITY.get(op, 'some')}: {i.op} {ISA[i.op].operands}.",
            )
        if op in (Ops.CONCAT, Ops.ELEMENT) and isinstance(arg, tuple):
            arg = arg[0]
        like = i.type
        if op in COMPARE:
            like = next(
                (
                    Type(self.env[x].dtype, self.env[x].shape)
                    for x in src
                    if not isinstance(x, float) and x in self.env
                ),
                Type(shape=like.shape),
            )
        if op is Ops.STACK:  # puts scalars together
            like = Type(i.type.dtype)
        nodes = tuple(self.read(x, like, where) for x in src)
        return check_node(UOp(op, i.type.dtype, i.type.shape, nodes, arg), where)

    def near(self, i: Instruction, where: str) -> UOp:
        what, points, *rest, number = i.args
        assert isinstance(what, Word) and isinstance(number, tuple)
        if what.text not in LISTED:
            raise VerifyError(f"{where} asks a list for `{what}`", fix=f"It gives {one_of(LISTED)}.")
        q = self.read(points, i.type, where)
        like = Type(q.dtype)
        sources = (q, *(self.read(x, like, where) for x in rest))
        return check_node(UOp(Ops.NEAR, i.type.dtype, i.type.shape, sources, (what.text, *number)), where)

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
        return check_node(out, where)

    def orbits(self, i: Instruction, where: str) -> UOp:
        like, bodies = i.type, Type(i.type.dtype, i.type.shape[:1])
        arg: tuple[object, ...] | None = None
        types: tuple[Type, ...]
        match i.op:
            case "JACOBI":
                way, *rest, order = i.args
                assert isinstance(way, Word) and isinstance(order, tuple)
                if way.text not in FRAMES:
                    raise VerifyError(f"{where} goes the way `{way}`", fix=f"The way is {one_of(FRAMES)}.")
                types, arg = (like, bodies), (way.text, *order)
            case "KEPLER":
                *rest, part = i.args
                assert isinstance(part, tuple)
                types, arg = (like, like, bodies, Type(like.dtype)), part
            case _:
                rest, types = list(i.args), (like, like, bodies)
        src = tuple(self.read(x, t, where) for x, t in zip(rest, types))
        return check_node(UOp(Ops[i.op], like.dtype, like.shape, src, arg), where)

    def scaled(self, u: UOp, i: Instruction, where: str) -> UOp:
        """u times the factor of a SCALE, or over it; the factor is one number, or one for each of u's."""
        way = i.args[0]
        if not isinstance(way, Word) or way.text not in WAYS:
            raise VerifyError(f"{where} goes the way `{way}`", fix=f"The way is {one_of(WAYS)}.")
        factor = self.read(i.args[1], Type(i.type.dtype), where)
        if factor.shape not in ((), i.type.shape):
            raise VerifyError(
                f"{where} has a factor of shape {factor.shape}",
                fix=f"It is one number, or of shape {i.type.shape}.",
            )
        return u * factor.expand(u.shape) if way.text == "times" else u / factor.expand(u.shape)

    def accumulate(self, i: Instruction, where: str) -> UOp:
        upstream, func, k, *src = i.args
        assert isinstance(func, Word) and isinstance(k, float)
        applied = self.function(Instruction("ELEM", (i.dst, func, *src), i.type), where)
        if k not in range(len(src)):
            raise VerifyError(f"{where} asks for source {k:g} of {len(src)}", fix="Sources count from 0.")
        d = slope(applied, int(k), func.text)
        old = self.read(i.dst, i.type, where)
        return old if d is None else check_node(old + times(self.read(upstream, i.type, where), d), where)

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
        if kind.text == "force" and role != "position":
            return
        if not isinstance(source, Register) or source.kind != "G":
            raise VerifyError(
                f"{where} reads {source}", fix="POISSON_J turns a gradient register G into a flow."
            )
        pair = self.program.conjugate(flow.index)
        wanted = {"position": "pass", "momentum": "negate"}.get(role)
        if source.index != pair or kind.text != wanted:
            raise VerifyError(
                f"{where} makes the flow of {role} S{flow.index} from {source} by {kind.text}",
                fix=f"It is {wanted} of G{pair}, the derivative with respect to S{pair}.",
            )
