"""A program whose states are pairs of float32 numbers: a word, and an error word with what the first could not hold.

An update is a TwoSum, exact whatever is larger, of an increment h*F in float32. Differences of states use both words. What
no state enters is computed in float64, once; where it is added to a state or weighs one, both of its words are.

A flow is read by its first word: the second is below the rounding of the increment, and measured, it changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tinyphysics.errors import PlanError
from tinyphysics.ir.dtype import f32, f64, round_f32
from tinyphysics.tpir.precision.linear import Reach, in_full, sources
from tinyphysics.tpir.precision.rewriter import LOW, Choices, Rewriter, with_error_words
from tinyphysics.tpir.program.isa import (
    Instruction,
    Operand,
    Param,
    Pointer,
    Program,
    Register,
    Type,
    Word,
)


@dataclass(frozen=True)
class TwoWords:
    """A number of one or two words."""

    high: Operand
    low: Operand | None = None
    normal: bool = True  # is the low word less than the last digit of the high one?


class Compensated(Rewriter):
    name = "compensated"

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.reach = Reach(program)
        # what stands for a register of the float64 program, if a state enters
        self.values: dict[Operand, TwoWords] = {}
        self.given: dict[tuple[Operand, tuple[int, ...]], TwoWords] = {}  # what no state enters, in float32
        self.computed_once: dict[tuple[object, ...], Operand] = {}
        self.wanted = in_full(program, self.reach)
        for k, s in enumerate(program.states):
            self.values[Register("S", k)] = TwoWords(Register("S", 2 * k), Register("S", 2 * k + 1))
            self.types |= {Register("S", n): Type(f32, s.type.shape) for n in (2 * k, 2 * k + 1)}

    # --- writing ------------------------------------------------------------------------------
    def emit(self, op: str, type_: Type, *operands: Operand, note: str = "") -> None:
        self.put(Instruction(op, operands, type_, note))

    def single(self, shape: Sequence[int], name: str, *operands: Operand) -> Operand:
        return self.elem(Type(f32, tuple(shape)), name, *operands)

    def fma(self, shape: Sequence[int], *operands: Operand) -> Operand:
        return self.new("FMA", Type(f32, tuple(shape)), *operands)

    # --- words --------------------------------------------------------------------------------
    def words(self, x: Operand, shape: tuple[int, ...]) -> TwoWords:
        """An operand in float32; what no state enters is split where it is computed, once."""
        if x in self.values:
            return self.values[x]
        if isinstance(x, float):
            rest = x - round_f32(x)
            return TwoWords(x, rest if rest else None)
        own = self.types.get(x)
        if own is None or own.dtype is not f64:
            return TwoWords(x)
        if (x, shape) not in self.given:
            where = "init" if isinstance(x, Param) else self.home[x]
            wide, short = Type(f64, own.shape), Type(f32, own.shape)
            high = self.new("ELEM", short, Word("cast"), x, section=where)
            back = self.new("ELEM", wide, Word("cast"), high, section=where)
            left = self.new("ELEM", wide, Word("sub"), x, back, section=where)
            low = self.new("ELEM", short, Word("cast"), left, section=where)
            if own.shape != shape:
                high, low = (
                    self.new("MOVE", Type(f32, shape), Word("expand"), w, section=where) for w in (high, low)
                )
            self.given[x, shape] = TwoWords(high, low)
        return self.given[x, shape]

    def one(self, x: Operand, shape: tuple[int, ...]) -> Operand:
        """An operand as one float32 number."""
        return self.rounded(self.words(x, shape), shape) if x in self.values else self.words(x, shape).high

    def rounded(self, v: TwoWords, shape: tuple[int, ...]) -> Operand:
        return v.high if v.low is None or v.normal else self.single(shape, "add", v.high, v.low)

    def two_sum(self, shape: tuple[int, ...], a: Operand, b: Operand) -> tuple[Operand, Operand]:
        """(the sum, its error), exactly, whichever is larger (Knuth)."""
        s = self.single(shape, "add", a, b)
        z = self.single(shape, "sub", s, a)
        return s, self.single(
            shape,
            "add",
            self.single(shape, "sub", a, self.single(shape, "sub", s, z)),
            self.single(shape, "sub", b, z),
        )

    def both(self, shape: tuple[int, ...], *parts: Operand | None) -> Operand | None:
        """The sum of what is there."""
        out: Operand | None = None
        for p in parts:
            out = p if out is None else out if p is None else self.single(shape, "add", out, p)
        return out

    def negative(self, v: TwoWords, shape: tuple[int, ...]) -> TwoWords:
        high, *low = (
            -x if isinstance(x, float) else self.single(shape, "neg", x)
            for x in (v.high, v.low)
            if x is not None
        )
        return TwoWords(high, low[0] if low else None, v.normal)

    def product(self, shape: tuple[int, ...], a: TwoWords, b: TwoWords) -> TwoWords:
        """Of two numbers, with the error of the product of their first words."""
        high = self.single(shape, "mul", a.high, b.high)
        low = self.fma(shape, a.high, b.high, self.single(shape, "neg", high))
        for x, y in ((a.low, b.high), (a.high, b.low)):
            if x is not None and y is not None:
                low = self.fma(shape, x, y, low)
        return TwoWords(high, low, normal=False)

    def total(self, shape: tuple[int, ...], a: TwoWords, b: TwoWords) -> TwoWords:
        """The sum of two numbers in two words: normal if one of them is of one word."""
        if a.low is None:
            a, b = b, a
        if b.low is None or a.low is None:
            return TwoWords(*self.two_sum(shape, a.high, self.both(shape, b.high, a.low) or 0.0))
        high, rest = self.two_sum(shape, a.high, b.high)
        return TwoWords(high, self.both(shape, rest, self.single(shape, "add", a.low, b.low)), normal=False)

    def moved(self, shape: tuple[int, ...], s: TwoWords, flow: Operand, h: Operand) -> TwoWords:
        """s + h*flow: the increment in float32, with what is left of s, and then exactly."""
        return TwoWords(
            *self.two_sum(shape, s.high, self.fma(shape, h, flow, 0.0 if s.low is None else s.low))
        )

    def increment(self, flow: Operand, h: Operand, shape: tuple[int, ...]) -> tuple[Operand, Operand]:
        """Two factors of h*flow. If the flow is a vector times a number, h goes into the number: fewer products."""
        x, minus = flow, False
        while True:
            i, before = self.definitions.get(x, (None, -1))
            if i is not None and i.row.numbers in ("gradient", "flow"):
                x, minus = i.args[0], minus ^ (Word("negate") in i.args)
            elif i is not None and i.op == "ELEM" and i.args[0] == Word("neg"):
                x, minus = i.args[1], not minus
            else:
                break
        if (
            i is None
            or i.op != "ELEM"
            or i.args[0] != Word("mul")
            or before != self.writes
            or x in self.reach.wide
        ):
            return self.one(h, shape), self.one(flow, shape)
        for vector, number in (i.args[1:], i.args[:0:-1]):
            spread, _ = self.definitions.get(number, (None, 0))
            if spread is not None and spread.op == "MOVE" and spread.args[0] == Word("expand"):
                small = self.weighed(spread.args[1], h, minus)
                if small is not None:
                    return self.new("MOVE", Type(f32, shape), Word("expand"), small), self.one(vector, shape)
        return self.one(h, shape), self.one(flow, shape)

    def weighed(self, x: Operand, h: Operand, minus: bool) -> Operand | None:
        """h*x, or -h*x; if x is a quotient over a number that no state enters, h goes into that."""
        shape = self.types[self.values[x].high].shape if x in self.values else None
        if shape is None or h in self.types and self.types[h].shape not in ((), shape):
            return None
        if minus:
            h = self.free("neg", h)
        i, _ = self.definitions.get(x, (None, 0))
        if i is not None and i.op == "ELEM" and i.args[0] == Word("div") and self.reach.free(i.args[1]):
            return self.single(
                shape, "div", self.one(self.free("mul", h, i.args[1]), shape), self.one(i.args[2], shape)
            )
        return self.single(shape, "mul", self.one(h, shape), self.one(x, shape))

    def free(self, name: str, *args: Operand) -> Operand:
        """Of what no state enters, in float64, where all of it is known; once."""
        key = (name, *args)
        if key not in self.computed_once:
            homes = [self.home.get(x, "init") for x in args if isinstance(x, Register)]
            shape = max((self.types[x].shape for x in args if x in self.types), key=len, default=())
            where = next((s for s in homes if s != "init"), "init")
            wide = [
                self.new("MOVE", Type(f64, shape), Word("expand"), x, section=where)
                if x in self.types and self.types[x].shape != shape
                else x
                for x in args
            ]
            self.computed_once[key] = self.new("ELEM", Type(f64, shape), Word(name), *wide, section=where)
        return self.computed_once[key]

    # --- instructions -------------------------------------------------------------------------
    def gradient(self, i: Instruction) -> None:
        self.values[i.dst] = self.words(i.args[0], i.type.shape)

    def flow(self, i: Instruction) -> None:
        shape = i.type.shape
        flow = self.words(i.args[0], shape)
        self.values[i.dst] = self.negative(flow, shape) if i.args[1] == Word("negate") else flow

    def added_to(self, i: Instruction) -> None:
        """A cotangent grows by a product: the increment in float32, with what is left of it, and then exactly."""
        up, name, k, *factors = i.args
        if name != Word("mul") or i.dst not in self.values:
            self.refuse(i)
        shape = i.type.shape
        assert isinstance(k, float)
        other = self.one(factors[1 - int(k)], shape)
        self.values[i.dst] = self.moved(shape, self.values[i.dst], self.one(up, shape), other)

    def by_flow(self, i: Instruction) -> None:
        shape = i.type.shape
        self.write(i, self.moved(shape, self.values[i.dst], *self.increment(i.args[0], i.args[1], shape)))

    def by_value(self, i: Instruction) -> None:
        self.write(i, self.words(i.args[0], i.type.shape))

    def scaled(self, i: Instruction) -> None:
        shape = i.type.shape
        factor = i.args[1] if i.args[0] == Word("times") else self.free("div", 1.0, i.args[1])
        self.write(i, self.product(shape, self.values[i.dst], self.words(factor, shape)))

    def number(self, i: Instruction) -> None:
        if not self.once(i):
            self.values[i.dst] = self.computed(i)

    def unless_moving(self, i: Instruction) -> None:
        if not self.once(i):
            self.refuse(i)

    def once(self, i: Instruction) -> bool:
        """Is it float64, because no state enters?"""
        if not all(self.reach.free(x) for x in sources(i)):
            return False
        if isinstance(i.dst, Register) and i.dst.kind in "SGF":  # a gradient that no state enters
            self.values[i.dst] = self.words(self.new(i.op, i.type, *i.args, note=i.note), i.type.shape)
        else:
            self.emit(i.op, i.type, *i.operands, note=i.note)
        return True

    def listed(self, i: Instruction) -> None:
        """What a list of neighbours says: it is made of first words, as of points that have moved by less than a digit."""
        what, points, *rest, numbers = i.args
        others = [self.in_own_shape(x).high for x in rest]
        type_ = Type(f32, i.type.shape) if i.type.dtype.is_float else i.type
        made = self.new(i.op, type_, what, self.values[points].high, *others, numbers, note=i.note)
        self.values[i.dst] = TwoWords(made)

    def memory(self, i: Instruction) -> None:
        register, pointer = (i.dst, i.args[0]) if i.op == "LOAD" else (i.args[0], i.dst)
        assert isinstance(pointer, Pointer)
        v = self.values[register]
        for name, word in ((pointer.name, v.high), (f"{pointer.name}{LOW}", v.low)):
            assert isinstance(word, Register)
            t = self.types[word]
            if i.op == "LOAD":
                self.emit("LOAD", t, word, Pointer(name))
            else:
                self.emit("STORE", i.type, Pointer(name), word)

    def write(self, i: Instruction, v: TwoWords) -> None:
        """A state becomes a value; both words are known before the first is written."""
        assert isinstance(i.dst, Register)
        shape = i.type.shape
        if v.low is None or not v.normal:
            v = TwoWords(*self.two_sum(shape, v.high, 0.0 if v.low is None else v.low))
        self.keep_old(i.dst)
        for word, new in ((0, v.high), (1, v.low)):
            assert new is not None
            self.emit("MAP", Type(f32, shape), Register("S", 2 * i.dst.index + word), new, note=i.note)
        self.writes += 1

    def keep_old(self, state: Register) -> None:
        """What stands for a register that holds the old state, and is read once more, must be a copy of it."""
        old = self.values[state]
        body = self.program.section(self.section)[self.position + 1 :]
        later = {x for i in body for x in i.args}
        for x, v in self.values.items():
            if v == old and x != state and x in later:
                high, low = (
                    self.new("MOVE", self.types[w], Word("reshape"), w)
                    for w in (v.high, v.low)
                    if w is not None
                )
                self.values[x] = TwoWords(high, low)

    def computed(self, i: Instruction) -> TwoWords:
        shape, two = i.type.shape, i.dst in self.wanted
        if i.op == "FMA":
            return self.fused(i, shape, two)
        if i.row.numbers == "moved":
            return self.rearranged(i)
        if i.row.numbers == "summed":
            return self.reduced(i)
        if i.op == "FOURIER":
            parts = [self.one(x, shape) for x in i.args[:2]]
            return TwoWords(self.new(i.op, Type(f32, shape), *parts, i.args[2], note=i.note))
        if i.op == "MESH":
            parts = [self.one(x, ()) for x in i.args[1:3]]
            return TwoWords(self.new(i.op, Type(f32, shape), i.args[0], *parts, i.args[3], note=i.note))
        if i.op == "ELLIPTIC":  # of one word, as transforms are
            n = len(shape)
            of_nodes = [self.one(x, shape if k in (0, n + 2) else ()) for k, x in enumerate(i.args[:-2])]
            return TwoWords(self.new(i.op, Type(f32, shape), *of_nodes, *i.args[-2:], note=i.note))
        name = str(i.args[0])
        args = i.args[1:]
        match name:
            case "bitcast":
                raise PlanError(
                    'precision="compensated" cannot be combined with reading the bits of a state',
                    fix="Leave precision= out.",
                )
            case "neg":
                return self.negative(self.words(args[0], shape), shape)
            case "add" | "sub":
                return self.added(i, shape, two)
            case "mul" if two and i.dst in self.reach.wide:
                return self.product(shape, *(self.words(x, shape) for x in args))
            case "div" if two and i.dst in self.reach.wide:
                return self.product(
                    shape, self.words(args[0], shape), self.words(self.free("div", 1.0, args[1]), shape)
                )
            case "where" if two:
                return self.chosen(shape, args)
            case "image":
                return self.image(shape, *(self.words(x, shape) for x in args))
        like = shape if i.type.dtype.is_float else self.shape_of(args)
        numbers = [self.one(x, like) if isinstance(x, (Register, Param, float)) else x for x in args]
        type_ = Type(f32, shape) if i.type.dtype.is_float else i.type
        return TwoWords(self.new("ELEM", type_, Word(name), *numbers, note=i.note))

    def shape_of(self, args: Sequence[Operand]) -> tuple[int, ...]:
        """Of what a comparison compares."""
        for x in args:
            register = self.values[x].high if x in self.values else x
            if register in self.types:
                return self.types[register].shape
        return ()

    def added(self, i: Instruction, shape: tuple[int, ...], two: bool) -> TwoWords:
        name, x, y = i.args
        a, b = self.words(x, shape), self.words(y, shape)
        if two:
            return self.total(shape, a, self.negative(b, shape) if name == Word("sub") else b)
        exact = all(z in self.reach.wide or self.reach.free(z) for z in (x, y))  # what is left of them counts
        if not exact:
            a, b = TwoWords(self.rounded(a, shape)), TwoWords(self.rounded(b, shape))
        high = self.single(shape, str(name), a.high, b.high)
        low = a.low
        if b.low is not None:
            low = self.single(shape, str(name), 0.0 if low is None else low, b.low)
        return TwoWords(high if low is None else self.single(shape, "add", high, low))

    def fused(self, i: Instruction, shape: tuple[int, ...], two: bool) -> TwoWords:
        a, b, c = (self.words(x, shape) for x in i.args)
        if two:
            if self.reach.weighed(i.args[0], i.args[1]):
                return self.total(shape, self.product(shape, a, b), c)
            return self.moved(shape, c, self.rounded(a, shape), self.rounded(b, shape))
        if len(list(self.reach.addends(i))) < 2:
            return TwoWords(self.fma(shape, *(self.rounded(v, shape) for v in (a, b, c))))
        high = self.fma(shape, a.high, b.high, c.high)
        low = self.both(shape, c.low)
        for x, y in ((a.low, b.high), (a.high, b.low)):
            if x is not None and y is not None:
                low = self.single(shape, "mul", x, y) if low is None else self.fma(shape, x, y, low)
        return TwoWords(high if low is None else self.single(shape, "add", high, low))

    def image(self, shape: tuple[int, ...], a: TwoWords, b: TwoWords, periods: TwoWords) -> TwoWords:
        """(a - periods) - b, of which little may be left."""
        near, error = self.two_sum(shape, a.high, self.negative(TwoWords(periods.high), shape).high)
        rest = self.both(shape, error, a.low)
        for v in (periods.low, b.low):
            if v is not None:
                rest = (
                    self.single(shape, "sub", rest, v) if rest is not None else self.single(shape, "neg", v)
                )
        high = self.single(shape, "sub", near, b.high)
        return TwoWords(high if rest is None else self.single(shape, "add", high, rest))

    def chosen(self, shape: tuple[int, ...], args: Sequence[Operand]) -> TwoWords:
        condition = self.words(args[0], shape).high
        a, b = (self.words(x, shape) for x in args[1:])
        high = self.single(shape, "where", condition, a.high, b.high)
        low = self.single(shape, "where", condition, a.low or 0.0, b.low or 0.0)
        return TwoWords(high, low, a.normal and b.normal)

    def rearranged(self, i: Instruction) -> TwoWords:
        """The same in every word; an index and a constant have one."""
        numbers = [x for x in i.args[1:] if isinstance(x, (Register, Param, float))]
        rest = [x for x in i.args[1:] if x not in numbers]
        values = [self.in_own_shape(x) for x in numbers]
        whole = i.args[0] == Word("gather")
        words = values[:1] if whole else values
        type_ = Type(f32, i.type.shape) if i.type.dtype.is_float else i.type

        def arranged(pick: Callable[[TwoWords], Operand]) -> Operand:
            first = [pick(v) for v in words]
            return self.new(
                "MOVE", type_, i.args[0], *first, *(v.high for v in values[len(words) :]), *rest, note=i.note
            )

        high = arranged(lambda v: v.high)
        if all(v.low is None for v in words):
            return TwoWords(high)
        return TwoWords(high, arranged(self.low_of), all(v.normal for v in words))

    def in_own_shape(self, x: Operand) -> TwoWords:
        if x in self.values:
            return self.values[x]
        return self.words(x, self.types[x].shape if x in self.types else ())

    def low_of(self, v: TwoWords) -> Operand:
        """The low word, which may have to be made of nothing."""
        if v.low is not None:
            return v.low
        shape = self.types[v.high].shape if v.high in self.types else ()
        return self.new("MOVE", Type(f32, shape), Word("expand"), 0.0) if shape else 0.0

    def reduced(self, i: Instruction) -> TwoWords:
        """Sums word by word, and of the sums the sum; the largest of some numbers is that of their first words."""
        if i.op == "DOT":  # lowering writes none in this precision
            self.refuse(i)
        v = self.in_own_shape(i.args[0])
        type_ = Type(f32, i.type.shape)
        if v.low is None or i.op in ("MAX", "MIN"):
            own = v.high if v.normal else self.rounded(v, self.types[v.high].shape)
            return TwoWords(self.new(i.op, type_, own, *i.args[1:], note=i.note))
        high, low = (self.new(i.op, type_, x, *i.args[1:], note=i.note) for x in (v.high, v.low))
        if i.dst in self.wanted:
            return TwoWords(*self.two_sum(i.type.shape, high, low))
        return TwoWords(self.single(i.type.shape, "add", high, low))


def without_unread(program: Program) -> Program:
    """Without what nothing reads: of many numbers that no state enters, one word is enough."""
    read: set[Operand] = set()
    sections: dict[str, tuple[Instruction, ...]] = {}
    for section in ("final", "step", "init"):
        kept = []
        for i in reversed(program.section(section)):
            if not isinstance(i.dst, Register) or i.dst.kind != "T" or i.dst in read:
                kept.append(i)
                read |= set(i.args)
        sections[section] = tuple(reversed(kept))
    return replace(program, init=sections["init"], step=sections["step"], final=sections["final"])


# fmt: off
Compensated.rules = {
    "kept": Compensated.memory, "listed": Compensated.listed,
    "gradient": Compensated.gradient, "flow": Compensated.flow,
    "by_flow": Compensated.by_flow, "by_sum": Compensated.by_value, "by_value": Compensated.by_value,
    "units": Compensated.scaled, "added": Compensated.added_to,
    "plain": Compensated.number, "summed": Compensated.number, "moved": Compensated.number,
    **dict.fromkeys(("clock", "drawn", "tree", "line", "orbit", "turn", "solved", "whole", "watched"),
                    Compensated.unless_moving),
}
# fmt: on


def compensated(program: Program, _: Choices) -> Program:
    states = with_error_words(program, f32)
    return without_unread(Compensated(program).rewritten(claims=(), states=states, energy=(), math="exact"))
