"""How is a solution followed by its Taylor series?  One adaptive step as a map of all that a run has to remember.

The series of a step is kept: the next step adds it up at the length that was chosen from it, and so does whoever looks at
a time within. A member that has reached the time that is asked for changes no more, so that nobody's steps depend on who
looks when, or on who else runs.

The order follows from the tolerance and the length from the last two coefficients: Jorba and Zou 2005.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from tinyphysics.flows.attempt import Attempt
from tinyphysics.flows.map import Assignments, Map
from tinyphysics.flows.series import TaylorSeries
from tinyphysics.ir import UOp, elements, f64, graph_rewrite
from tinyphysics.ir.dtype import i64
from tinyphysics.rules.calculus.jet import order_for, solution, with_powers
from tinyphysics.rules.calculus.series import QUAD, SeriesPlan, TooLong, plan_of
from tinyphysics.rules.calculus.unroll import rolled, unroll
from tinyphysics.rules.identities.exact import exact
from tinyphysics.step import Step, SubFlow, Term, Weight
from tinyphysics.system import Parameter, State, System

UNTIL = UOp.var("until")  # the time that a run is asked to reach: a parameter of its own
CLOCK = "run.clock"  # time in two words, the length of the step that is next, steps done
JET, LOW = ".jet", ".low"  # after the name of a state
TOLERANCE = {"float64": 2.0**-52, "dd": 2.0**-104}  # by precision: what a step loses to rounding
# from term to term they fall by e**-that; the shorter steps have a third less of pairs
DECAY = {"float64": 2.0, "dd": 2.5}
ONE = 2.0**52  # an exponent more, in the bits of a float64 taken as a whole number
OVERSHOOT = 0.9  # a power of two by a straight line between its whole exponents is up to 1.06 of it
STALLED = 2.0**-80  # of the time: a step that is shorter gets nowhere
# products of a step that is written out: more compile slowly, and leave the instruction cache
WRITTEN = 8_000
LINEAR = 4_000  # operations of a step that are no products
BASES = 3  # coefficients that the last ones are compared with: a state may begin at zero


def taylor_step(
    name: str, system: System, terms: Sequence[Term], rates: Sequence[UOp], tolerance: float
) -> Step:
    """Written out, or in loops over coefficients where that is long and can be done."""
    series = TaylorSeries(tuple(s.var for s in system.states), tuple(rates), order_for(tolerance))
    if system.time is None and for_loops(series):
        return Step(name, system.states, system.parameters, None, tuple(terms), (), (), (series,), (), 1)
    return written_out(name, system, terms, rates, tolerance)


def for_loops(series: TaylorSeries) -> bool:
    """Is a step long when it is written out, and are there loops for all that it does?"""
    try:
        plan = loop_plan(series)
    except TooLong:
        return False
    return length_of(plan) > WRITTEN or linear_length(plan) > LINEAR


def loop_plan(series: TaylorSeries) -> SeriesPlan:
    own = [e for v in series.states for e in elements(v)]
    return plan_of(own, scalar_rates(series.states, series.rates), series.order)


def length_of(plan: SeriesPlan) -> int:
    """Products of a step."""
    return sum(len(s.out) for level in plan.sums for s in level) * QUAD * plan.order**2 // 2


OF_A_NUMBER = 4  # operations of each order: two sums of a series, and two choices between old and new


def linear_length(plan: SeriesPlan) -> int:
    """Operations of a step, written out, that are no products of series: in loops they are written once for all orders."""
    return plan.order * (sum(map(len, plan.linear)) + OF_A_NUMBER * len(plan.states))


def loop_parts(plan: SeriesPlan) -> tuple[list[UOp], UOp, list[UOp], UOp]:
    """What a step in loops does besides its series: (state and error word of the next, a state in between, time, length)."""
    order = plan.order
    c, low, h = [UOp.var(f"c{k}") for k in range(order + 1)], UOp.var("low"), UOp.var("h")
    increment = polynomial(c[1:], h, low)
    rows = [
        {k: UOp.var(f"X{k}.{i}") for k in (*range(BASES), order - 1, order)} for i in range(len(plan.states))
    ]
    return (
        [*two_sum(c[0], increment)],
        c[0] + increment,
        [*later(UOp.var("high"), low, h)],
        length(rows, order, UOp.var("now"), False),
    )


def written_out(
    name: str, system: System, terms: Sequence[Term], rates: Sequence[UOp], tolerance: float
) -> Step:
    """A step as one expression; `rates` are the derivatives of the states, in their order."""
    order = order_for(tolerance)
    own = [s.var for s in system.states]
    jets = [UOp.var(f"{v.arg}{JET}", (order, *v.shape), v.dtype) for v in own]
    lows = [UOp.var(f"{v.arg}{LOW}", v.shape, v.dtype) for v in own]
    clock = UOp.var(CLOCK, (4,))
    high, low, h, count = elements(clock)
    left = (UNTIL - high) - low
    going = h < left
    x, rest = ([e for v in group for e in elements(v)] for group in (own, lows))
    known = table(own, jets, order)
    new, error = zip(*(two_sum(a, polynomial(row, h, b)) for a, b, row in zip(x, rest, known)))
    time = later(high, low, h)
    flat = scalar_rates(own, rates)
    timed = None if system.time is None else (system.time, time[0])
    rows, series = solution(x, flat, new, order, timed)
    following = length(rows, order, time[0], system.time is not None)
    body = [
        *assigned(own, new, x, going),
        *assigned(lows, error, rest, going),
        *jets_assigned(own, jets, rows, known, going, order),
        *assigned([clock], (*time, following, count + 1.0), elements(clock), going),
    ]
    lost = UOp.const(math.nan, f64)
    seen = [(left <= h).where(a + polynomial(row, left, b), lost) for a, b, row in zip(x, rest, known)]
    weights = tuple(Weight(value, exact) for value, exact in series.weights.items())
    attempt, final = Attempt(going, Map(tuple(body))), zip(own, rolled(seen, own))
    return own_steps(name, system, (*lows, *jets, clock), terms, attempt, tuple(final), coefficients=weights)


def own_steps(
    name: str,
    system: System,
    added: Sequence[UOp],
    terms: Sequence[Term],
    attempt: Attempt,
    shown: Assignments,
    init: tuple[SubFlow, ...] = (),
    evaluations: int = 1,
    coefficients: tuple[float, ...] = (),
) -> Step:
    """A step that goes on until the time that is asked for; `added` is what a run remembers besides its states."""
    states = (*system.states, *(State(str(v.arg), v, "auxiliary") for v in added))
    parameters = (*system.parameters, Parameter("until", UNTIL))
    final = (Map(shown),)
    return Step(
        *(name, states, parameters, system.time, tuple(terms), ()),
        *(init, (attempt,), final),
        evaluations,
        coefficients=coefficients,
    )


def table(own: Sequence[UOp], jets: Sequence[UOp], depth: int) -> list[list[UOp]]:
    """Of every number the coefficients that are kept, from the first on."""
    return [
        [elements(jet)[k * v.size + i] for k in range(depth)]
        for v, jet in zip(own, jets)
        for i in range(v.size)
    ]


def scalar_rates(states: Sequence[UOp], rates: Sequence[UOp]) -> list[UOp]:
    """The derivative of each number, roots and quotients as powers where that makes series shorter."""
    flat = graph_rewrite([u for group in unroll(rates) for u in group], exact)
    return with_powers(flat, frozenset(states))


def two_sum(a: UOp, b: UOp) -> tuple[UOp, UOp]:
    """A sum and what its rounding lost."""
    s = a + b
    back = s - a
    return s, (a - (s - back)) + (b - back)


def later(high: UOp, low: UOp, h: UOp) -> tuple[UOp, UOp]:
    """A time in two words, h later."""
    a, lost = two_sum(h, low)
    s, rest = two_sum(high, a)
    return s, rest + lost


def polynomial(row: Sequence[UOp], h: UOp, start: UOp) -> UOp:
    """start + c1 h + c2 h**2 + ..., the odd and the even powers side by side."""
    square = h * h
    sums = []
    for part in (row[0::2], row[1::2]):
        total = part[-1]
        for c in reversed(part[:-1]):
            total = total.fma(square, c)
        sums.append(total)
    return (sums[1].fma(h, sums[0])).fma(h, start)


def larger(a: UOp, b: UOp) -> UOp:
    return (a < b).where(b, a)


def tree(items: Sequence[UOp], join: Callable[[UOp, UOp], UOp]) -> UOp:
    """Of two halves: no chain is long."""
    if len(items) == 1:
        return items[0]
    return join(tree(items[: len(items) // 2], join), tree(items[len(items) // 2 :], join))


def length(
    rows: Sequence[Sequence[UOp]] | Sequence[Mapping[int, UOp]],
    order: int,
    now: UOp,
    timed: bool,
    decay: float = DECAY["float64"],
) -> UOp:
    """The step after which the last terms are as small as the tolerance; not a number if the solution ends here.

    Logarithms and powers of two are those of a straight line between whole exponents: a step of 2 % more or less is as good.
    """
    norms = {k: tree([abs(row[k]) for row in rows], larger) for k in (*range(BASES), order - 1, order)}
    logs = {k: u.bitcast(i64).cast(f64) for k, u in norms.items()}  # ONE times log2, and 1023 of them
    shrinking = []
    for base in range(BASES):
        a, b = ((logs[top] - logs[base]) * (1.0 / (top - base)) for top in (order - 1, order))
        shrinking.append(larger(a, b))
    slowest = shrinking[0]
    for u in shrinking[1:]:
        slowest = (u < slowest).where(u, slowest)
    factor = math.log2(OVERSHOOT) - (decay + 0.7 / (order - 1)) / math.log(2)
    h = ((1023 + factor) * ONE - slowest).cast(i64).bitcast(f64)
    if timed:  # so that the rates see the time itself, not a rounded one: the next one is a float64
        round_ = (now + h) - now
        h = (0.5 * h < round_).where(round_, h)
    whole = tree([row[0] for row in rows], lambda a, b: a + b)  # finite if all are, or nearly out of range
    there = (whole - whole).eq(0.0) & (abs(now) * STALLED < h)
    return there.where(h, UOp.const(math.nan, f64))


def cut(flat: Sequence[UOp], variables: Sequence[UOp]) -> list[list[UOp]]:
    out, at = [], 0
    for v in variables:
        out.append(list(flat[at : at + v.size]))
        at += v.size
    return out


def assigned(
    variables: Sequence[UOp], new: Sequence[UOp], old: Sequence[UOp], going: UOp
) -> list[tuple[UOp, UOp]]:
    values = [going.where(a, b) for a, b in zip(new, old)]
    return list(zip(variables, rolled(values, variables)))


def jets_assigned(
    own: Sequence[UOp],
    jets: Sequence[UOp],
    rows: Sequence[Sequence[UOp]],
    known: Sequence[Sequence[UOp]],
    going: UOp,
    order: int,
) -> list[tuple[UOp, UOp]]:
    new, old = (
        cut([u for row in zip(*table) for u in row], [UOp.var("all", (len(rows),))] * order)
        for table in ([row[1:] for row in rows], known)
    )
    out, at = [], 0
    for v, jet in zip(own, jets):
        mine = slice(at, at + v.size)
        values = [going.where(a, b) for k in range(order) for a, b in zip(new[k][mine], old[k][mine])]
        out.append((jet, UOp.stack(values, jet.shape)))
        at += v.size
    return out
