"""How does a step that estimates its own error choose its length?  Attempts, each a map of all that a run has to remember.

An attempt begins where the last step ends. If its error is small enough it is the next step, and what is kept of it says where
the solution is within; if not, a step of no length is kept, and the next attempt is shorter. As with series (synth/taylor.py)
a member that has reached the time that is asked for changes no more, so that nobody's steps depend on who looks when, or on
who else runs.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tinyphysics.ir import UOp, elements, f64
from tinyphysics.ir.dtype import i64
from tinyphysics.step import Assign, Part, Solve, Step, Term
from tinyphysics.synth.rates import Rates
from tinyphysics.synth.taylor import (
    CLOCK, JET, LOW, ONE, STALLED, UNTIL, assigned, cut, larger, later, shaped, tree, two_sum,
)  # fmt: skip
from tinyphysics.system import Parameter, State, System

KEPT = ".kept"  # after the name of a state: rows of numbers that the curve through a step is made of
CLOCKS = 6  # time in two words, the length of the step, steps done, the length of the next attempt, attempts
SAFETY = 0.85  # of the length at which the error would be the tolerance; powers of two by straight lines add up to 0.07
SHORTER = 0.2  # of an attempt that was no step, at least
BLIND = 0.25  # of an attempt whose error is not a number
FIRST = 0.01  # of the time in which the state would double
UNKNOWN = 2.0**-20  # the first attempt where that is no number
ROUNDED = 2.0**-50  # of the largest number of a state: smaller errors are of rounding
TINY = 2.0**-900  # a size that is not zero, a time that is nothing

Numbers = list[UOp]


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
    equations: Solve | None = None  # that the rest rests on


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


@dataclass(frozen=True)
class Tolerance:
    """The error that a number may have after a step: a part of itself, and something more."""

    relative: float
    absolute: float | None = None  # None: rounding, of the largest number

    def scale(self, *states: Numbers) -> Numbers:
        """One over what is allowed, at the largest of each number in these states."""
        sizes = [tree([abs(x) for x in group], larger) for group in zip(*states)]
        more = (larger(tree(sizes, larger) * ROUNDED, UOp.const(TINY)) if self.absolute is None else
                UOp.const(self.absolute, f64))  # fmt: skip
        return [1.0 / size.fma(self.relative, more) for size in sizes]


def squares(items: Sequence[UOp], scale: Sequence[UOp]) -> UOp:
    parts = [a * b for a, b in zip(items, scale)]
    total = parts[0] * parts[0]
    for u in parts[1:]:
        total = u.fma(u, total)
    return total


def mean(items: Sequence[UOp], scale: Sequence[UOp]) -> UOp:
    """The root of the mean square, in parts of what is allowed."""
    return (squares(items, scale) * (1.0 / len(items))).sqrt()


def combined(weights: dict[int, float], rows: dict[int, Numbers]) -> Numbers:
    """A sum of rows with these weights."""
    out: Numbers = []
    for k, w in weights.items():
        out = [u * w for u in rows[k]] if not out else [u.fma(w, total) for u, total in zip(rows[k], out)]
    return out


def embedded_step(name: str, system: System, terms: Sequence[Term], rates: Rates, method: Embedded) -> Step:
    own = rates.own
    lows = [UOp.var(f"{v.arg}{LOW}", v.shape, v.dtype) for v in own]
    kept = [UOp.var(f"{v.arg}{KEPT}", (method.rows, *v.shape), v.dtype) for v in own]
    jets = [UOp.var(f"{v.arg}{JET}", (method.degree, *v.shape), v.dtype) for v in own]
    clock = UOp.var(CLOCK, (CLOCKS,))
    high, low, h, count, trial, tries = elements(clock)
    left = (UNTIL - high) - low
    going = h < left
    x, rest = ([e for v in group for e in elements(v)] for group in (own, lows))
    known = [[elements(k)[r * v.size + i] for v, k in zip(own, kept) for i in range(v.size)] for r in range(method.rows)]
    new, error = zip(*(two_sum(a, move + b) for a, move, b in zip(x, known[0], rest)))
    time = later(high, low, h)
    again = h.eq(0.0) & (0.0 < tries)
    tried = method.attempt(Here(list(new), list(error), time[0], trial, known, h, again, going))
    good = tried.error <= 1.0
    following = trial * factor(tried.error, method, again)
    if system.time is not None:  # so that the rates see the time itself, not a rounded one: the next one is a float64
        begins = good.where(time[0] + trial, time[0])
        round_ = (begins + following) - begins
        following = (0.5 * following < round_).where(round_, following)
    possible = (abs(time[0]) * STALLED < following) & (TINY < following)
    done = good.where(trial, possible.where(UOp.const(0.0, f64), UOp.const(math.nan, f64)))
    after = (*time, done, good.where(count + 1.0, count), following, tries + 1.0)
    rows = [[good.where(a, b) for a, b in zip(*pair)] for pair in zip(tried.kept, tried.otherwise)]
    moves = (
        *assigned(own, new, x, going), *assigned(lows, error, rest, going), *rows_assigned(own, kept, rows, known, going),
        Assign(clock, UOp.stack([going.where(a, b) for a, b in zip(after, elements(clock))], (CLOCKS,))),
    )  # fmt: skip
    body: tuple[Part, ...] = moves if tried.equations is None else (with_moves(tried.equations, moves),)
    slopes = rates.at(x, high)
    begun = [Assign(k, UOp.stack([row[i] for row in method.first(slopes) for i in part], k.shape))
             for k, part in zip(kept, cut_places(own))]  # fmt: skip
    begun.append(Assign(clock, UOp.stack([high, low, h, count, first_length(x, slopes), tries], (CLOCKS,))))
    curve = method.curve(x, high, h, known)
    part = (0.0 < h).where(left / h, UOp.const(0.0, f64))
    lost = UOp.const(math.nan, f64)
    seen = [(left <= h).where(a + (b + c), lost) for a, b, c in zip(x, rest, curve.at(part))]
    final = [Assign(v, shaped(values, v)) for v, values in zip(own, cut(seen, own))]
    final += [Assign(j, UOp.stack([row[i] for row in in_time(curve.coefficients, h) for i in part_], j.shape))
              for j, part_ in zip(jets, cut_places(own))]  # fmt: skip
    states = (*system.states, *(State(str(v.arg), v, "auxiliary") for v in (*lows, *kept, *jets, clock)))
    return Step(name, states, (*system.parameters, Parameter("until", UNTIL)), system.time, tuple(terms), (), tuple(begun), body,
                tuple(final), 1, going=going)  # fmt: skip


def factor(error: UOp, method: Embedded, again: UOp) -> UOp:
    """By how much the next attempt is longer: logarithms and powers of two are those of straight lines (synth/taylor.py)."""
    log = error.bitcast(i64).cast(f64) * (1.0 / ONE) - 1023.0
    power = log * (-1.0 / method.power) + math.log2(SAFETY)
    most = again.where(UOp.const(0.0, f64), UOp.const(math.log2(method.longer), f64))
    power = (most < power).where(most, power)
    power = larger(power, UOp.const(math.log2(SHORTER), f64))
    found = ((power + 1023.0) * ONE).cast(i64).bitcast(f64)
    return (error < math.inf).where(found, UOp.const(BLIND, f64))


def first_length(x: Numbers, slopes: Numbers) -> UOp:
    """A part of the time in which the largest number would double: too long is found out, too short grows."""
    h = FIRST * tree([abs(u) for u in x], larger) / tree([abs(u) for u in slopes], larger)
    return ((TINY < h) & (h < math.inf)).where(h, UOp.const(UNKNOWN, f64))


def in_time(coefficients: list[Numbers], h: UOp) -> list[Numbers]:
    """Of powers of the time instead of the part of a step."""
    out, scale = [], UOp.const(1.0, f64)
    for row in coefficients:
        scale = scale / h
        out.append([u * scale for u in row])
    return out


def cut_places(variables: Sequence[UOp]) -> list[range]:
    out, at = [], 0
    for v in variables:
        out.append(range(at, at + v.size))
        at += v.size
    return out


def rows_assigned(
    own: Sequence[UOp], kept: Sequence[UOp], new: list[Numbers], old: list[Numbers], going: UOp
) -> list[Assign]:
    return [Assign(k, UOp.stack([going.where(a[i], b[i]) for a, b in zip(new, old) for i in part], k.shape))
            for k, part in zip(kept, cut_places(own))]  # fmt: skip


def with_moves(equations: Solve, moves: tuple[Assign, ...]) -> Solve:
    return Solve(equations.unknown, equations.start, equations.residual, equations.scale, moves, None, equations.rounds)
