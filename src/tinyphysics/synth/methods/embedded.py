"""How does a step that estimates its own error choose its length?  Attempts, each a map of all that a run has to remember.

An attempt begins where the last step ends. If its error is small enough it is the next step, and what is kept of it says
where the solution is within; if not, a step of no length is kept, and the next attempt is shorter. As with series
(synth/methods/taylor.py) a member that has reached the time that is asked for changes no more, so that nobody's steps
depend on who looks when, or on who else runs.

Everything here is done with lists of values, side by side: the numbers of a small system, or whole arrays, which become
loops. Arrays keep only the end of a step; its slopes are computed again for whoever looks within.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tinyphysics.flows.attempt import Attempt
from tinyphysics.flows.implicit import ImplicitFlow
from tinyphysics.flows.map import Assignments, Map
from tinyphysics.ir import UOp, elements, f64
from tinyphysics.ir.dtype import i64
from tinyphysics.rules.calculus.unroll import rolled
from tinyphysics.step import Step, Term
from tinyphysics.synth.methods.rates import ArrayRates, Rates
from tinyphysics.synth.methods.taylor import (
    CLOCK,
    JET,
    LOW,
    ONE,
    STALLED,
    UNTIL,
    assigned,
    larger,
    later,
    own_steps,
    tree,
    two_sum,
)
from tinyphysics.system import System

KEPT = ".kept"  # after the name of a state: rows of numbers that the curve through a step is made of
MOVE = f"{KEPT}0"  # of arrays, the first of these rows is a state of its own: the move of a step
CLOCKS = 6  # time in two words, the length of the step, steps done, the length of the next attempt, attempts
SAFETY = 0.85  # of the length at which the error would be the tolerance; powers of two by straight lines add up to 0.07
SHORTER = 0.2  # of an attempt that was no step, at least
BLIND = 0.25  # of an attempt whose error is not a number
FIRST = 0.01  # of the time in which the state would double
UNKNOWN = 2.0**-20  # the first attempt where that is no number
ROUNDED = 2.0**-50  # of the largest number of a state: smaller errors are of rounding
TINY = 2.0**-900  # a size that is not zero, a time that is nothing

NOTHING, LOST = UOp.const(0.0, f64), UOp.const(math.nan, f64)
Numbers = list[UOp]
AnyRates = Rates | ArrayRates
Remade = Callable[[Numbers, UOp, UOp], list[Numbers]]  # all rows, of (x, t, h) of a step


@dataclass(frozen=True, eq=False)
class Here:
    """Where an attempt begins: the state in two words, the time, how long it is to be, and what is known of the last step."""

    x: Numbers
    low: Numbers
    t: UOp
    h: UOp
    kept: list[Numbers]
    last: UOp  # the length of the last step, 0 if the last attempt was none
    again: UOp  # was there an attempt from here already?
    going: UOp


@dataclass(frozen=True, eq=False)
class Tried:
    """What came of it: rows of numbers to keep, the first of them the move; and the error in parts of what is allowed."""

    kept: list[Numbers]
    otherwise: list[Numbers]  # what is kept if it is no step
    error: UOp
    equations: ImplicitFlow | None = None  # that the rest rests on


@dataclass(frozen=True, eq=False)
class Curve:
    """The way within a step as a function of the part of it that is gone, and its coefficients in powers of that."""

    at: Callable[[UOp], Numbers]
    coefficients: list[Numbers]


@dataclass(frozen=True, eq=False)
class Embedded:
    """A method: `attempt` of what is known here, `first` what is kept before any, `curve` of (x, t, h, kept)."""

    rows: int
    power: int  # of the step, in its error
    longer: float  # at most, from a step to the next
    attempt: Callable[[Here], Tried]
    first: Callable[[Numbers], list[Numbers]]  # of the rates at the beginning
    curve: Callable[[Numbers, UOp, UOp, list[Numbers]], Curve]
    degree: int
    evaluations: int  # of the rates, in an attempt
    carried: int = 0  # rows that the next attempt needs
    remade: Remade | None = None
    # the curve is the polynomial through the beginning and the ends of steps of these parts of the length, if it is one
    through: tuple[float, ...] = ()


@dataclass(frozen=True)
class Tolerance:
    """The error that a number may have after a step: a part of itself, and something more."""

    relative: float
    absolute: float | None = None  # None: rounding, of the largest number

    def scale(self, *states: Numbers) -> Numbers:
        """One over what is allowed, at the largest of each number in these states."""
        sizes = [tree([abs(x) for x in group], larger) for group in zip(*states)]
        more = UOp.const(self.absolute or 0.0, f64)
        if self.absolute is None:
            more = larger(largest(sizes) * ROUNDED, UOp.const(TINY))
        return [1.0 / size.fma(self.relative, more) for size in sizes]


@dataclass(frozen=True, eq=False)
class Problem:
    """What a step is made for."""

    name: str
    system: System
    terms: Sequence[Term]
    rates: Sequence[UOp]
    tolerance: Tolerance
    arrays: bool = False  # whole ones, or number by number

    @property
    def slopes(self) -> AnyRates:
        return (ArrayRates if self.arrays else Rates)(self.system, self.rates)


def largest(items: Sequence[UOp]) -> UOp:
    """Of all numbers in these values."""
    return tree([u.max() if u.shape else u for u in items], larger)


def squares(items: Sequence[UOp], scale: Sequence[UOp]) -> UOp:
    """The sum of all squares, in parts of what is allowed."""
    parts = [a * b for a, b in zip(items, scale)]
    if any(u.shape for u in parts):
        return UOp.sum_of([(u * u).sum() for u in parts])
    total = parts[0] * parts[0]
    for u in parts[1:]:
        total = u.fma(u, total)
    return total


def mean(items: Sequence[UOp], scale: Sequence[UOp]) -> UOp:
    """The root of the mean square, in parts of what is allowed."""
    return (squares(items, scale) * (1.0 / sum(u.size for u in items))).sqrt()


def combined(weights: dict[int, float], rows: dict[int, Numbers]) -> Numbers:
    """A sum of rows with these weights."""
    out: Numbers = []
    for k, w in weights.items():
        out = [u * w for u in rows[k]] if not out else [u.fma(w, total) for u, total in zip(rows[k], out)]
    return out


class Layout(ABC):
    """All that a run remembers: states, error words, rows that are kept of a step, clocks; all as lists of values."""

    x: Numbers  # states, where the last step began
    rest: Numbers  # their error words
    rows: list[Numbers]  # kept of the step

    def __init__(self, own: Sequence[UOp]) -> None:
        self.own = list(own)
        self.lows = [UOp.var(f"{v.arg}{LOW}", v.shape, v.dtype) for v in own]
        self.clock = UOp.var(CLOCK, (CLOCKS,))
        self.high, self.low, self.h, self.count, self.trial, self.tries = elements(self.clock)
        self.left = (UNTIL - self.high) - self.low
        self.going = self.h < self.left

    def clocks(self, values: Sequence[UOp]) -> tuple[UOp, UOp]:
        return self.clock, UOp.stack(list(values), (CLOCKS,))

    @property
    @abstractmethod
    def added(self) -> tuple[UOp, ...]:
        """States of the step that are not the user's."""

    @abstractmethod
    def moved(self, new: Sequence[UOp], error: Sequence[UOp]) -> list[tuple[UOp, UOp]]:
        """New states and error words, unless the run has arrived."""

    @abstractmethod
    def keep(self, rows: list[Numbers]) -> list[tuple[UOp, UOp]]:
        """What is kept of a step."""

    @abstractmethod
    def show(self, seen: Numbers, coefficients: list[Numbers]) -> list[tuple[UOp, UOp]]:
        """The states at a time, and the step in powers of time."""


class NumberLayout(Layout):
    """Number by number, with the coefficients of a step for whoever looks."""

    def __init__(self, own: Sequence[UOp], method: Embedded) -> None:
        super().__init__(own)
        self.kept = [UOp.var(f"{v.arg}{KEPT}", (method.rows, *v.shape), v.dtype) for v in own]
        self.jets = [UOp.var(f"{v.arg}{JET}", (method.degree, *v.shape), v.dtype) for v in own]
        self.x, self.rest = ([e for v in group for e in elements(v)] for group in (self.own, self.lows))
        self.rows = [
            [elements(k)[r * v.size + i] for v, k in zip(own, self.kept) for i in range(v.size)]
            for r in range(method.rows)
        ]

    @property
    def added(self) -> tuple[UOp, ...]:
        return (*self.lows, *self.kept, *self.jets, self.clock)

    def moved(self, new: Sequence[UOp], error: Sequence[UOp]) -> list[tuple[UOp, UOp]]:
        words = assigned(self.lows, error, self.rest, self.going)
        return [*assigned(self.own, new, self.x, self.going), *words]

    def keep(self, rows: list[Numbers]) -> list[tuple[UOp, UOp]]:
        return self.as_rows(self.kept, rows)

    def show(self, seen: Numbers, coefficients: list[Numbers]) -> list[tuple[UOp, UOp]]:
        return [*zip(self.own, rolled(seen, self.own)), *self.as_rows(self.jets, coefficients)]

    def as_rows(self, variables: Sequence[UOp], rows: list[Numbers]) -> list[tuple[UOp, UOp]]:
        """Rows of all numbers, to variables that have a row of their own numbers for each."""
        out, at = [], 0
        for v, to in zip(self.own, variables):
            out.append((to, UOp.stack([u for row in rows for u in row[at : at + v.size]], to.shape)))
            at += v.size
        return out


class ArrayLayout(Layout):
    """Whole arrays, each row that the next attempt needs a state of its own."""

    def __init__(self, own: Sequence[UOp], method: Embedded) -> None:
        super().__init__(own)
        self.x, self.rest = self.own, self.lows
        self.rows = [
            [UOp.var(f"{v.arg}{KEPT}{r}", v.shape, v.dtype) for v in own] for r in range(method.carried)
        ]

    @property
    def added(self) -> tuple[UOp, ...]:
        return (*self.lows, *(v for row in self.rows for v in row), self.clock)

    def moved(self, new: Sequence[UOp], error: Sequence[UOp]) -> list[tuple[UOp, UOp]]:
        pairs = [*zip(self.x, new), *zip(self.rest, error)]
        return [(v, self.going.where(u, v)) for v, u in pairs]

    def keep(self, rows: list[Numbers]) -> list[tuple[UOp, UOp]]:
        pairs = [pair for to, row in zip(self.rows, rows) for pair in zip(to, row)]
        return [(v, u.expand(v.shape)) for v, u in pairs]

    def show(self, seen: Numbers, coefficients: list[Numbers]) -> list[tuple[UOp, UOp]]:
        return list(zip(self.own, seen))


def embedded_step(p: Problem, rates: AnyRates, method: Embedded) -> Step:
    x = (ArrayLayout if isinstance(rates, ArrayRates) else NumberLayout)(rates.own, method)
    attempt = Attempt(x.going, tried(x, method, p.system.time is not None))
    init = (Map(begun(x, rates, method)),)
    return own_steps(p.name, p.system, x.added, p.terms, attempt, shown(x, method), init, method.evaluations)


def begun(x: Layout, rates: AnyRates, method: Embedded) -> Assignments:
    slopes = rates.at(x.x, x.high)
    first = first_length(x.x, slopes)
    return (*x.keep(method.first(slopes)), x.clocks([x.high, x.low, x.h, x.count, first, x.tries]))


def tried(x: Layout, method: Embedded, timed: bool) -> Map | ImplicitFlow:
    """To the end of the last step, and an attempt from there."""
    new, error = zip(*(two_sum(a, move + b) for a, move, b in zip(x.x, x.rows[0], x.rest)))
    time = later(x.high, x.low, x.h)
    again = x.h.eq(0.0) & (0.0 < x.tries)
    found = method.attempt(Here(list(new), list(error), time[0], x.trial, x.rows, x.h, again, x.going))
    good = found.error <= 1.0
    following = x.trial * factor(found.error, method, again)
    if timed:  # so that the rates see the time itself, not a rounded one: the next one is a float64
        begins = good.where(time[0] + x.trial, time[0])
        rounded = (begins + following) - begins
        shorter = good | (rounded < x.trial)  # 2.6 ulp, rounded to the 3 that failed, would fail for ever
        following = ((0.5 * following < rounded) & shorter).where(rounded, following)
    possible = (abs(time[0]) * STALLED < following) & (TINY < following)
    length = good.where(x.trial, possible.where(NOTHING, LOST))
    after = (*time, length, good.where(x.count + 1.0, x.count), following, x.tries + 1.0)
    rows = [
        [x.going.where(good.where(a, b), old) for a, b, old in zip(*row)]
        for row in zip(found.kept, found.otherwise, x.rows)
    ]
    values = (
        *x.moved(new, error),
        *x.keep(rows),
        x.clocks([x.going.where(a, b) for a, b in zip(after, elements(x.clock))]),
    )
    moves = Map(values)
    return moves if found.equations is None else replace(found.equations, moves=moves)


def shown(x: Layout, method: Embedded) -> Assignments:
    """The state at the time that is asked for, and the coefficients of the step in powers of time."""
    rows = x.rows if len(x.rows) == method.rows or method.remade is None else method.remade(x.x, x.high, x.h)
    curve = method.curve(x.x, x.high, x.h, rows)
    part = (0.0 < x.h).where(x.left / x.h, NOTHING)
    seen = [(x.left <= x.h).where(a + (b + c), LOST) for a, b, c in zip(x.x, x.rest, curve.at(part))]
    coefficients, scale = [], UOp.const(1.0, f64)
    for row in curve.coefficients:
        scale = scale / x.h
        coefficients.append([u * scale for u in row])
    return tuple(x.show(seen, coefficients))


def factor(error: UOp, method: Embedded, again: UOp) -> UOp:
    """By how much the next attempt is longer; logarithms and powers are the straight lines of synth/methods/taylor.py."""
    log = error.bitcast(i64).cast(f64) * (1.0 / ONE) - 1023.0
    power = log * (-1.0 / method.power) + math.log2(SAFETY)
    most = again.where(NOTHING, UOp.const(math.log2(method.longer), f64))
    power = (most < power).where(most, power)
    power = larger(power, UOp.const(math.log2(SHORTER), f64))
    found = ((power + 1023.0) * ONE).cast(i64).bitcast(f64)
    return (error < math.inf).where(found, UOp.const(BLIND, f64))


def first_length(x: Numbers, slopes: Numbers) -> UOp:
    """A part of the time in which the largest number would double: too long is found out, too short grows."""
    h = FIRST * largest([abs(u) for u in x]) / largest([abs(u) for u in slopes])
    return ((TINY < h) & (h < math.inf)).where(h, UOp.const(UNKNOWN, f64))
