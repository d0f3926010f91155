"""How is a solution followed by its Taylor series with twice the digits?  In pairs of float64, as far as they are needed.

The step is that of synth/methods/taylor.py. The terms of a series become smaller from one order to the next, and of those
that are below a rounding of float64 a float64 has digits enough: the later orders, which have three quarters of the
products, are computed in one word. States are kept in two, so that they need no error words beside these.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tinyphysics.flows.attempt import Attempt
from tinyphysics.flows.map import Map
from tinyphysics.ir import Ops, UOp, elements, f64, toposort
from tinyphysics.rules.calculus.custom import inline
from tinyphysics.rules.calculus.jet import order_for, products_of, solution, weight_of
from tinyphysics.rules.calculus.unroll import rolled
from tinyphysics.rules.digits.double_double import Pair, minus, number, plus, times, two_product, two_sum
from tinyphysics.rules.functions.widen import Wide, one
from tinyphysics.step import Step, Term
from tinyphysics.synth.methods.taylor import (
    CLOCK,
    DECAY,
    JET,
    LOW,
    UNTIL,
    assigned,
    cut,
    jets_assigned,
    later,
    length,
    own_steps,
    scalar_rates,
    table,
)
from tinyphysics.system import System

ROUNDING = 2.0**-52
SPARE = 3  # orders in pairs beyond those that need them
OF_A_PRODUCT = 12  # operations of one more product in a sum of them
LINEAR = frozenset({Ops.ADD, Ops.SUB, Ops.NEG, Ops.ELEMENT, Ops.VAR, Ops.CONST})
Row = list[Pair]


def orders_in_pairs(tolerance: float, order: int) -> int:
    """The last order whose coefficients have two words: a rounding of the later terms is within the tolerance."""
    return min(order, max(0, math.ceil(math.log(ROUNDING / tolerance) / DECAY["dd"])) + SPARE)


def estimate(system: System, rates: Sequence[UOp], tolerance: float) -> int:
    """Operations of a step, less what is not in its sums of products of pairs."""
    moving = frozenset(s.var for s in system.states)
    sums = [
        u for u in toposort(scalar_rates([s.var for s in system.states], rates)) if has_products(u, moving)
    ]
    return len(sums) * orders_in_pairs(tolerance, order_for(tolerance, DECAY["dd"])) ** 2 // 2 * OF_A_PRODUCT


def has_products(u: UOp, moving: frozenset[UOp]) -> bool:
    """Are its coefficients sums of products, and not linear in those of its operands?"""
    moves = [bool(s.leaves & moving) for s in u.src]
    if u.op in LINEAR or not any(moves):
        return False
    return all(moves) if u.op is Ops.MUL else moves[-1] or u.op is not Ops.DIV


def wide_taylor_step(
    name: str, system: System, terms: Sequence[Term], rates: Sequence[UOp], tolerance: float
) -> Step:
    """A step as one expression; `rates` are the derivatives of the states, in their order."""
    order = order_for(tolerance, DECAY["dd"])
    wide = orders_in_pairs(tolerance, order)
    own = [s.var for s in system.states]
    lows = [UOp.var(f"{v.arg}{LOW}", v.shape, v.dtype) for v in own]
    jets = [UOp.var(f"{v.arg}{JET}", (order, *v.shape), v.dtype) for v in own]
    rests = [UOp.var(f"{v.arg}{JET}{LOW}", (wide, *v.shape), v.dtype) for v in own]
    clock = UOp.var(CLOCK, (4,))
    high, low, h, count = elements(clock)
    going = h < (UNTIL - high) - low
    x, rest = ([e for v in group for e in elements(v)] for group in (own, lows))
    known, errors = (table(own, group, depth) for group, depth in ((jets, order), (rests, wide)))
    series = [list(map(Pair, a, (*b, *[None] * (len(a) - len(b))))) for a, b in zip(known, errors)]
    new = [added(Pair(a, b), row, Pair(h), wide) for a, b, row in zip(x, rest, series)]
    time = later(high, low, h)
    rows = coefficients(x, scalar_rates(own, rates), new, order, wide, system.time, Pair(*time))
    firsts = [[c.high for c in row] for row in rows]
    following = length(firsts, order, time[0], False, DECAY["dd"])
    seconds = [[c.rest for c in row[: wide + 1]] for row in rows]
    body = [
        *assigned(own, [c.high for c in new], x, going),
        *assigned(lows, [c.rest for c in new], rest, going),
        *jets_assigned(own, jets, firsts, known, going, order),
        *jets_assigned(own, rests, seconds, errors, going, wide),
        *assigned([clock], (*time, following, count + 1.0), elements(clock), going),
    ]
    left = minus(Pair(UNTIL), Pair(high, low))
    there = (UNTIL - high) - low <= h
    seen = [added(Pair(a, b), row, left, wide) for a, b, row in zip(x, rest, series)]
    shown = [
        [there.where(c.high, UOp.const(math.nan, f64)) for c in seen],
        [there.where(c.rest, 0.0) for c in seen],
    ]
    final = tuple(x for group, words in zip((own, lows), shown) for x in zip(group, rolled(words, group)))
    attempt = Attempt(going, Map(tuple(body)))
    return own_steps(name, system, (*lows, *jets, *rests, clock), terms, attempt, final)


def added(start: Pair, row: Row, h: Pair, wide: int) -> Pair:
    """start + c1 h + c2 h**2 + ...: what is small in one word, the rest in two."""
    total = row[-1]
    for k in reversed(range(len(row) - 1)):
        total = plus(times(total, h), row[k]) if k < wide else Pair(total.high.fma(h.high, row[k].high))
    return plus(start, times(total, h))


def coefficients(
    states: Sequence[UOp],
    rates: Sequence[UOp],
    start: Sequence[Pair],
    order: int,
    wide: int,
    time: UOp | None,
    now: Pair,
) -> list[Row]:
    """The coefficients 0 to `order` of each state along the solution, up to `wide` in pairs."""
    begin = {UOp.var(f"@start{k}"): x for k, x in enumerate(start)}
    clock = UOp.var("@now")
    rows, _ = solution(
        states, rates, list(begin), order, None if time is None else (time, clock), opened=False
    )
    rows = cut(inline([c for row in rows for c in row]), [UOp.var("all", (order + 1,))] * len(rows))
    words: dict[UOp, Wide] = {**begin, clock: now}
    for u in toposort([c for row in rows for c in row[: wide + 1]]):
        if u not in words and u.op is not Ops.STACK:
            words[u] = in_pairs(u, words)
    short = {u: w.high if isinstance(w, Pair) else w for u, w in words.items()}
    for u in toposort([c for row in rows for c in row]):
        if u not in short and u.op is not Ops.STACK:
            short[u] = in_one_word(u, short)
    return [[pair(words[c]) if k <= wide else Pair(short[c]) for k, c in enumerate(row)] for row in rows]


def in_pairs(u: UOp, words: Mapping[UOp, Wide]) -> Wide:
    if (x := weight_of(u)) is not None:
        return number(x, u)
    if (found := products_of(u)) is None:
        return one(u, [words[s] for s in u.src])
    products, start = found
    return dot(
        [(pair(words[a]), pair(words[b])) for a, b in products], None if start is None else pair(words[start])
    )


def in_one_word(u: UOp, short: Mapping[UOp, UOp]) -> UOp:
    if (x := weight_of(u)) is not None:
        return UOp.const(x.numerator / x.denominator, f64)
    if (found := products_of(u)) is None:
        return u.replace(tuple(short[s] for s in u.src))
    products, start = found
    total = None if start is None else short[start]
    for a, b in products:
        total = short[a] * short[b] if total is None else short[a].fma(short[b], total)
    assert total is not None
    return total


def dot(products: Sequence[tuple[Pair, Pair]], start: Pair | None) -> Pair:
    """A sum of products: of the high words without error, of the errors and the rest in float64 (Ogita, Rump and Oishi 2005).

    Right to some roundings of a pair, relative to the sum of the absolute values; in less than half of the operations
    that it takes to round every addition.
    """
    total, rest = (None, None) if start is None else (start.high, start.low)
    for a, b in products:
        p = two_product(a.high, b.high)
        off = p.rest if b.low is None else a.high.fma(b.low, p.rest)
        off = off if a.low is None else a.low.fma(b.high, off)
        if total is None:
            total, rest = p.high, off
            continue
        s = two_sum(total, p.high)
        off = s.rest + off
        total, rest = s.high, off if rest is None else rest + off
    assert total is not None
    return Pair(total) if rest is None else two_sum(total, rest)


def pair(x: Wide) -> Pair:
    assert isinstance(x, Pair)
    return x
