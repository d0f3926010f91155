"""What is a step of a length that was chosen before, and what is the curve within it?  Maps, with adjoints.

A run that chose its own steps is differentiated at the steps that it took: their lengths are numbers, which nothing moves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from tinyphysics.flows.adjoint import adjoint_step
from tinyphysics.flows.cotangents import Cotangents, Total, bar_of, is_zero, rest_of
from tinyphysics.flows.map import Map
from tinyphysics.ir import UOp, elements, f64, graph_rewrite
from tinyphysics.rules.calculus.jet import Series, solution, with_powers
from tinyphysics.rules.calculus.unroll import rolled, unroll
from tinyphysics.rules.calculus.vjp import vjp
from tinyphysics.rules.identities.exact import exact
from tinyphysics.rules.identities.real import simplify
from tinyphysics.step import Step, SubFlow
from tinyphysics.structure import COTANGENT
from tinyphysics.synth.methods.embedded import NOTHING, AnyRates, Embedded, Here, Problem
from tinyphysics.synth.methods.rates import ArrayRates
from tinyphysics.synth.methods.taylor import polynomial, scalar_rates
from tinyphysics.system import Parameter, State, System

# parameters of its own; no name of a user's has a space
LENGTH, WHEN, PART = UOp.var("step length"), UOp.var("step begins"), UOp.var("step part")
YES, NO = UOp.const(1.0).eq(UOp.const(1.0)), UOp.const(1.0).eq(UOp.const(0.0))
Adjoint = Callable[[Sequence[UOp]], Step]  # by parameters; cotangents are states, the others stay as they are


@dataclass(frozen=True, eq=False)
class OfGivenLength:
    """A step from WHEN to WHEN + LENGTH, and the state after PART of it; what goes on is the first.

    Without a curve of its own that is the step of a part of the length, or lies between the ends of some: a program of its
    own would hold all of these steps.
    """

    step: Step
    pull_step: Adjoint
    curve: Step | None = None
    pull_curve: Adjoint | None = None
    through: tuple[float, ...] = ()  # parts of the length that the curve passes through, beside its beginning

    def steps_to(self, part: Any) -> list[tuple[Any, Any]]:
        """(weight, part) of the steps that a curve without a program consists of; 1 - their sum weighs the beginning."""
        if not self.through:
            return [(1.0, part)]
        places = (0.0, *self.through)
        own = [math.prod((part - b) / (a - b) for b in places if b != a) for a in self.through]
        return list(zip(own, self.through))


def as_step(name: str, system: System, body: SubFlow) -> Step:
    more = tuple(Parameter(str(v.arg), v) for v in (LENGTH, WHEN, PART))
    states, parameters = system.states, (*system.parameters, *more)
    return Step(name, states, parameters, None, (), (), (), (body,), (), 1)


# --- pairs, and what is solved for ------------------------------------------------------------------
def embedded_of_given_length(p: Problem, f: AnyRates, method: Embedded) -> OfGivenLength:
    """As an attempt that is known to be a step, from the state alone."""
    x = f.own if isinstance(f, ArrayRates) else f.x
    none = [UOp.const(0.0, u.dtype, u.shape) for u in x]
    here = Here(x, none, WHEN, LENGTH, method.first(f.at(x, WHEN)), NOTHING, NO, YES)
    tried = method.attempt(here)

    def made(name: str, moves: Sequence[UOp]) -> Step:
        ends = [a + b for a, b in zip(x, moves)]
        new = ends if isinstance(f, ArrayRates) else rolled(ends, f.own)
        body: SubFlow = Map(tuple(zip(f.own, new)))
        if tried.equations is not None:
            body = replace(tried.equations, moves=body)
        return as_step(name, p.system, body)

    step = made(f"{p.name}_step", tried.kept[0])
    if method.through:
        return OfGivenLength(step, lambda by: adjoint_step(step, by, False), through=method.through)
    curve = made(f"{p.name}_curve", method.curve(x, WHEN, LENGTH, tried.kept).at(PART))
    return OfGivenLength(
        step, lambda by: adjoint_step(step, by, False), curve, lambda by: adjoint_step(curve, by, False)
    )


# --- series -----------------------------------------------------------------------------------------
def taylor_of_given_length(name: str, system: System, rates: Sequence[UOp], order: int) -> OfGivenLength:
    """The curve is the step of a part of the length."""
    own = [s.var for s in system.states]
    x = [e for v in own for e in elements(v)]
    flat = scalar_rates(own, rates)
    timed = None if system.time is None else (system.time, WHEN)
    rows, _ = solution(x, flat, x, order, timed)

    new = [a + polynomial(row[1:], LENGTH, UOp.const(0.0, f64)) for a, row in zip(x, rows)]
    step = as_step(f"{name}_step", system, Map(tuple(zip(own, rolled(new, own)))))
    return OfGivenLength(step, lambda by: taylor_adjoint(step, system, rates, flat, order, by))


def taylor_adjoint(
    step: Step,
    system: System,
    rates: Sequence[UOp],
    flat: Sequence[UOp],
    order: int,
    by: Sequence[UOp],
) -> Step:
    """The adjoint of a sum of n terms is a series of n terms, too.

    With J(s) the slope of h*f along the solution, the derivative of the sum is M0 + ... + Mn, (k + 1) M(k+1) the k-th
    coefficient of J M. Back from w: a(k) = w + the sum over m > k of J(m-1-k)^T a(m)/m; with b(i) = a(n-i)/(n-i) that is
    w + the (i-1)-th coefficient of J^T b, and a(0) is the answer. A parameter has the (n-1)-th of (df/dc)^T b.
    """
    own = [s.var for s in system.states]
    x = [e for v in own for e in elements(v)]
    duals = [UOp.var(f"{v.arg} dual", v.shape, v.dtype) for v in own]
    b = [e for v in duals for e in elements(v)]
    pulled = simplify(vjp(rates, duals, [*own, *by]))
    groups = unroll(pulled)
    moving = frozenset((*own, *duals))
    slopes = with_powers(graph_rewrite([u for group in groups for u in group], exact), moving)
    rates_h, slopes_h = [LENGTH * u for u in flat], [LENGTH * u for u in slopes]
    rows: dict[UOp, list[UOp | None]] = {e: [] for e in b}
    rows |= {e: [e] for e in x}
    if system.time is not None:
        rows[system.time] = [WHEN, LENGTH]
    series = Series(rows, dict(zip(x, rates_h)))
    for k in range(order - 1):
        new = [series.times(series(u, k), Fraction(1, k + 1)) for u in rates_h]
        for e, value in zip(x, new):
            rows[e].append(value)
    bars = [bar_of(v) for v in own]
    w = [e for v in bars for e in elements(v)]

    def so_far(k: int, i: int) -> UOp:
        more = None if i == 0 else series(slopes_h[k], i - 1)
        return w[k] if more is None else w[k] + more

    for i in range(order):
        new = [series.times(so_far(k, i), Fraction(1, order - i)) for k in range(len(b))]
        for e, value in zip(b, new):
            rows[e].append(value)
    back = rolled([so_far(k, order) for k in range(len(b))], own)
    at, totals = len(b), []
    for v in by:
        found = [series(u, order - 1) for u in slopes_h[at : at + v.size]]
        at += v.size
        values = [UOp.const(0.0, f64) if u is None else u for u in found]
        if not all(is_zero(u) for u in values):
            totals.append(Total(bar_of(v), rolled(values, [v])[0]))
    sums = [u for v in by for u in (bar_of(v), rest_of(bar_of(v)))]
    states = tuple(State(str(v.arg), v, COTANGENT) for v in (*bars, *sums))
    first: tuple[SubFlow, ...] = (Cotangents((), tuple(totals)),) if totals else ()
    return replace(
        step,
        name=f"{step.name}_adjoint",
        states=(*step.states, *states),
        body=(*first, Map(tuple(zip(bars, back)))),
    )
