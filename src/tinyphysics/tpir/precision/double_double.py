"""How does a float64 program run with twice the digits?  The same instructions, each as several on pairs of float64.

A step is derived, fused and verified as ever, and made wide last: every register becomes two, a state gets an error
word, and each instruction is replaced by what rules/functions/widen.py makes of it. So the program is an ordinary one, which
every backend runs; nothing that simplifies real numbers comes after.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from tinyphysics.errors import PlanError
from tinyphysics.ir import UOp, f64, graph_rewrite
from tinyphysics.rules.digits.double_double import Pair, multiply_add, number, two_sum, words
from tinyphysics.rules.functions.widen import Wide, widen
from tinyphysics.rules.identities.exact import exact
from tinyphysics.structure import COTANGENT
from tinyphysics.tpir.precision.rewriter import LOW, Choices, Rewriter, with_error_words
from tinyphysics.tpir.program.isa import (
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
from tinyphysics.tpir.program.lower import ProgramBuilder
from tinyphysics.tpir.program.symbolic import Symbolic

UNITS = "states in other units are"
SHORT = 2.0**30  # a coefficient that is a multiple of its inverse is that number: 1/2, -1, 3/4
Words = tuple[Operand, Operand | None]  # where the two words of a number are; None: it has one
Form = tuple[object, ...]  # an instruction without the numbers of its registers
# the registers of the first instruction of that form, and its words
Expansion = tuple[list[Operand], list[UOp]]


class PairBuilder(ProgramBuilder):
    """Instructions for pairs; a register of the float64 program is a variable of that name."""

    def __init__(self, program: Program, weights: Mapping[float, Fraction]) -> None:
        super().__init__((), {})
        self.program, self.weights = program, weights
        self.symbolic = Symbolic(program)
        self.words: dict[Operand, Words] = {}
        # dt, and what is computed from it and numbers alone
        self.steps: dict[Operand, None] = {Param("dt"): None}
        self.times: dict[Operand, None] = {}
        # stages repeat each other: most lines are like an earlier one
        self.expanded: dict[Form, Expansion] = {}
        for p in program.params:
            self.words[Param(p.name)] = (Param(p.name), None)

    def moves(self, u: UOp) -> bool:
        return True  # what is computed once is in `init` already

    # --- numbers ------------------------------------------------------------------------------
    def value(self, x: Operand, like: Type, words: Words | None = None) -> Wide:
        """What stands for an operand: variables that name the registers of its words, or of those that are given."""
        high, low = self.words[x] if words is None else words
        names = [UOp.var(f"{x}{end}", like.shape, like.dtype) for end in ("", LOW)]
        self.current[names[0]] = high
        if not like.dtype.is_float:
            return names[0]
        if low is None:
            return Pair(names[0])
        self.current[names[1]] = low
        return Pair(*names)

    def constants(self, i: Instruction) -> dict[UOp, Wide]:
        """The coefficients of the method, with the digits that a float64 has lost: they make steps of dt, and later times."""
        given = registers(i)
        if not any(x in self.steps for x in given):
            return {}
        if any(x not in self.steps and x not in self.times for x in given):
            return {}
        known: dict[UOp, Wide] = {}
        for x in i.args:
            if isinstance(x, float):
                u = UOp.const(x, f64, i.type.shape)
                known[u] = number(self.coefficient(x), u)
        return known

    def coefficient(self, x: float) -> Fraction:
        meant = self.weights.get(x, Fraction(x))
        if meant == Fraction(x) and not (x * SHORT).is_integer():
            raise PlanError(
                f"the coefficient {x!r} of the method `{self.program.name}` is known only as a float64",
                fix='Choose a method whose weights have more digits, or precision="float64".',
            )
        return meant

    def expression(self, i: Instruction) -> Wide:
        """What an instruction computes, from the words of its operands."""
        self.current.clear()
        u = self.symbolic.value(i, f"`{i}`")
        assert u is not None
        known: dict[UOp, Wide] = self.constants(i)
        for x in i.sources:
            if x in self.words:
                v = self.symbolic.env[x]
                known[v] = self.value(x, Type(v.dtype, v.shape))
        return widen([u], known)[0]

    def expansion(self, i: Instruction) -> list[UOp]:
        """The words of what an instruction computes, with its operands in place; lines of one form are expanded once."""
        form = self.form(i)
        if form is None:
            return expanded(self.expression(i))
        sources = list(dict.fromkeys(registers(i)))
        if form not in self.expanded:
            self.expanded[form] = sources, expanded(self.expression(i))
        first, roots = self.expanded[form]
        self.current.clear()
        for x, own in zip(first, sources):
            v = self.symbolic.env[x]
            self.value(x, Type(v.dtype, v.shape), self.words[own])
        return roots

    def form(self, i: Instruction) -> Form | None:
        """What the expansion of an instruction depends on; None if on more than its operands."""
        if i.op not in ("ELEM", "FMA", "MOVE") or self.constants(i):
            return None
        sources = list(dict.fromkeys(registers(i)))
        kinds = [
            (self.symbolic.env[x].dtype, self.symbolic.env[x].shape, self.words[x][1] is None)
            for x in sources
        ]
        args = [
            sources.index(x) if isinstance(x, (Register, Param)) else repr(x) if isinstance(x, float) else x
            for x in i.args
        ]
        return (i.op, i.type, tuple(args), tuple(kinds))

    def keep(self, dst: Register, parts: Sequence[UOp], section: str, note: str) -> None:
        """The words of a value in registers, computed by ordinary instructions."""
        found = self.placed(parts, section, note)
        self.words[dst] = (found[0], found[1] if len(found) > 1 else None)
        self.symbolic.env[dst] = UOp.var(f"{dst}", parts[0].shape, parts[0].dtype)

    def placed(self, roots: Sequence[UOp], section: str, note: str) -> list[Operand]:
        """Where the roots are; arrays and what is read as a register are in one."""
        body = self.sections[section]
        begun = len(body)
        out: list[Operand] = []
        for u in roots:
            x = self.operand(u, section)
            if isinstance(x, float):  # a register has a type and a shape, a number has none
                x = self.temporary()
                self.emit(section, "MOVE", x, Word("expand"), float(u.arg), u=u)
            elif isinstance(x, Register) and x.kind == "S":  # its value now, whatever becomes of the state
                x, state = self.temporary(), x
                self.emit(section, "MOVE", x, Word("reshape"), state, u=u)
            out.append(x)
        if len(body) > begun and note:
            body[-1] = replace(body[-1], note=note)
        return out

    # --- states -------------------------------------------------------------------------------
    def load(self, state: Register, type_: Type) -> None:
        high, low = (Register("S", 2 * state.index + k) for k in range(2))
        name = self.program.states[state.index].name
        like = UOp.var(str(state), type_.shape, type_.dtype)
        self.emit("init", "LOAD", high, Pointer(name), u=like)
        self.emit("init", "LOAD", low, Pointer(f"{name}{LOW}"), u=like)
        self.words[state] = (high, low)
        self.symbolic.env[state] = like

    def update(self, i: Instruction, section: str) -> None:
        """A state moves: both words are computed before either is written."""
        self.current.clear()
        if i.row.numbers == "by_flow":
            own, flow = (self.value(x, i.type) for x in i.operands[:2])
            h = self.factor(i.args[1], i.type)
            assert isinstance(own, Pair) and isinstance(flow, Pair)
            new = multiply_add(flow, h, own)
        else:
            given = i.args[0]
            source: Pair | UOp
            if isinstance(given, float):
                source = Pair(UOp.const(given, f64, i.type.shape))
            else:
                source = self.value(given, i.type)
            assert isinstance(source, Pair)
            new = source
        high, low = self.words[i.dst]
        assert isinstance(high, Register) and isinstance(low, Register)
        words = self.placed(graph_rewrite([new.high, new.rest], exact), section, i.note)
        for register, word in zip((high, low), words):
            self.emit(section, "MAP", register, word, u=self.symbolic.env[i.dst])

    def factor(self, h: Operand, like: Type) -> Pair:
        if isinstance(h, float):
            return Pair(UOp.const(h, f64, like.shape))
        found = self.value(h, Type(f64))
        assert isinstance(found, Pair)
        return Pair(*(None if w is None else w.expand(like.shape) for w in found))  # type: ignore[arg-type]


def expanded(value: Wide) -> list[UOp]:
    """The words of a value, simplified."""
    parts = [value] if isinstance(value, UOp) else [w for w in value if w is not None]
    return graph_rewrite(parts, exact)


def registers(i: Instruction) -> list[Operand]:
    """What an instruction reads."""
    return [x for x in i.args if isinstance(x, (Register, Param))]


def clock_pair(c: float, e: float = 0.0) -> Pair:
    """The time after c + e steps more, as variables that a Builder knows."""
    return Pair(*(UOp.var(f"@{c!r},{e!r},{word}") for word in WORDS))


class DoubleDouble(Rewriter):
    """Every line as several, which the builder writes."""

    name = "dd"

    def __init__(self, program: Program, weights: Mapping[float, Fraction]) -> None:
        super().__init__(program)
        self.builder = PairBuilder(program, weights)
        self.made = self.builder.sections

    def memory(self, i: Instruction) -> None:
        b = self.builder
        if isinstance(i.dst, Register):
            b.load(i.dst, i.type)
            return
        high, low = b.words[i.args[0]]
        assert isinstance(i.dst, Pointer) and low is not None
        b.emit(self.section, "STORE", i.dst, high)
        b.emit(self.section, "STORE", Pointer(f"{i.dst.name}{LOW}"), low)

    def update(self, i: Instruction) -> None:
        self.builder.update(i, self.section)

    def shift(self, i: Instruction) -> None:
        """A cotangent becomes what was added up; other states move so in units of their own alone."""
        assert isinstance(i.dst, Register)
        is_cotangent = self.program.states[i.dst.index].role == COTANGENT
        self.update(i) if is_cotangent else self.refuse(i)

    def clock(self, i: Instruction) -> None:
        b = self.builder
        assert isinstance(i.dst, Register) and isinstance(i.args[0], float)
        c, e = words(b.coefficient(i.args[0]))
        b.current.clear()
        b.keep(i.dst, expanded(clock_pair(c, e)), self.section, i.note)
        b.times[i.dst] = None

    def of_first_words(self, i: Instruction) -> None:
        """Forces see both words of a point, and 53 random bits are one."""
        b, (what, *given, numbers) = self.builder, i.args
        firsts = [x if isinstance(x, float) else b.words[x][0] for x in given]
        made = b.temporary()
        self.made[self.section].append(replace(i, operands=(made, what, *firsts, numbers)))
        b.words[i.dst] = (made, None)
        b.symbolic.env[i.dst] = UOp.var(f"{i.dst}", i.type.shape, i.type.dtype)

    def number(self, i: Instruction) -> None:
        b = self.builder
        assert isinstance(i.dst, Register)
        b.keep(i.dst, b.expansion(i), self.section, i.note)
        if registers(i) and all(x in b.steps for x in registers(i)):
            b.steps[i.dst] = None

    def solution(self, i: Instruction) -> None:
        """The unknown in float64, and then what is missing of it, by the residuals of pairs: two solutions of float64.

        The second begins at zero; its numbers are parts of what rounding leaves of the first, and so is their scale.
        """
        if len(i.type.shape) > 1:
            self.refuse(i)
        body = self.program.section(self.section)[self.position + 1 :]
        end = next(k for k, line in enumerate(body) if line.row.kind == "close")
        if any(line.row.kind == "open" for line in body[:end]):
            self.refuse(i)
        self.beyond = self.position + 1 + end + 1
        last, b, t = body[end], self.builder, i.type
        whole = i.dst
        assert isinstance(whole, Register)
        near: dict[Operand, Operand] = {whole: b.temporary()}

        def first(x: Operand) -> Operand:
            return near[x] if x in near else b.words[x][0] if x in b.words else x

        def write(line: Instruction, dst: Operand, *args: Operand) -> None:
            self.made[self.section].append(replace(line, operands=(dst, *args)))

        write(i, near[i.dst], first(i.args[0]))
        for line in body[:end]:
            near[line.dst] = b.temporary()
            write(line, near[line.dst], *map(first, line.args))
        write(last, near[i.dst], *map(first, last.args))
        found, rest = near.pop(i.dst), b.temporary()
        near.clear()
        one, other = (UOp.var(f"{i.dst}{end}", t.shape, t.dtype) for end in (" found", " rest"))

        def together() -> None:
            b.current.clear()
            b.current[one], b.current[other] = found, rest
            b.keep(whole, expanded(Pair(*two_sum(one, other))), self.section, i.note)

        write(i, rest, 0.0)
        together()
        for line in body[:end]:
            self.number(line)
        *residual_and_matrix, scale, rounds = last.args
        shorter = b.temporary()
        write(replace(last, op="ELEM"), shorter, Word("mul"), first(scale), 2.0**53)
        write(last, rest, *map(first, residual_and_matrix), shorter, rounds)
        together()

    def refuse(self, i: Instruction) -> None:
        what = {
            "tree": "sums with a tree code are",
            "line": "equations along a line are",
            "units": UNITS,
            "by_sum": UNITS,
            "solved": "equations of whole arrays are",
        }
        raise PlanError(
            f'{what.get(i.row.numbers, f"`{i.op}` is")} not supported with precision="dd" yet',
            fix='Choose precision="float64".',
        )

    def number_of_its_own(self, i: Instruction) -> None:
        self.refuse(i) if i.row.kind == "update" else self.number(i)


# fmt: off
DoubleDouble.rules = {
    "kept": DoubleDouble.memory, "by_flow": DoubleDouble.update, "by_value": DoubleDouble.update,
    "by_sum": DoubleDouble.shift, "clock": DoubleDouble.clock,
    "listed": DoubleDouble.of_first_words, "drawn": DoubleDouble.of_first_words,
    **dict.fromkeys(("plain", "moved", "summed", "gradient", "added", "flow"), DoubleDouble.number),
    **dict.fromkeys(("orbit", "turn"), DoubleDouble.number_of_its_own), "solved": DoubleDouble.solution,
}
# fmt: on


def in_double_double(program: Program, choices: Choices) -> Program:
    """A float64 program in pairs of float64."""
    states = with_error_words(program)
    return DoubleDouble(program, choices.weights).rewritten(claims=(), states=states, energy=())
