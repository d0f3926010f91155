"""Does the order of a list of neighbours change a bit of a force?  Not if every pair adds a whole number of units.

A list is as old as the run lets it be, and another history has another list. What a force makes of it is the same to
the last bit if what a pair adds is the same whichever of the two comes first, and if it is added without rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tinyphysics.ir.ops import ELEMENTWISE, MOVEMENT, Ops
from tinyphysics.ir.reduction import pairs_of
from tinyphysics.ir.uop import UOp, toposort
from tinyphysics.tpir.precision.antisymmetric import parity
from tinyphysics.tpir.precision.state_flows import flows
from tinyphysics.tpir.program.isa import Program

Form = dict[tuple[UOp, str], float]  # of sums over a table of pairs, by rows or by columns: their factors


@dataclass(frozen=True)
class ListSums:
    """The most sums over neighbours that are added to each other; or why a list may change a bit."""

    sums: int = 0
    trouble: str = ""


def list_sums(program: Program) -> ListSums:
    """What is known of all forces of a program."""
    sums = 0
    for flow in flows(program):
        found = order_free(flow.value, {})
        if found.trouble:
            return found
        sums = max(sums, found.sums)
    return ListSums(sums)


def order_free(u: UOp, memo: dict[UOp, ListSums]) -> ListSums:
    if u not in memo:
        memo[u] = looked_at(u, memo)
    return memo[u]


def looked_at(u: UOp, memo: dict[UOp, ListSums]) -> ListSums:
    if not any(x.op is Ops.NEIGHBOURS for x in toposort([u])):
        return ListSums()
    if u.op is Ops.GATHER and u.src[1].op is Ops.NEIGHBOURS and u.src[1].arg[0] == "inverse":
        return balanced(u.src[0])
    if u.op in ELEMENTWISE or u.op in MOVEMENT:
        parts = [order_free(s, memo) for s in u.src]
        return next((p for p in parts if p.trouble), ListSums(max((p.sums for p in parts), default=0)))
    return ListSums(trouble=f"a {u.op.value} of what is in its order")


def balanced(u: UOp) -> ListSums:
    """Is a sum of sums the same whichever particle of each pair comes first?"""
    form = linear(u)
    if form is None:
        return ListSums(trouble="what is made of the sums is not a sum of them")
    factors = {abs(c) for c in form.values()}
    if len(factors) != 1 or math.frexp(factors.pop())[0] != 0.5:
        return ListSums(trouble="its sums are weighed by numbers that are no power of two")
    for table, _ in form:
        sign = parity(table)
        if sign is None:
            return ListSums(
                trouble="what a pair adds is not shown to be the same to the last bit if the two change places"
            )
        if form.get((table, "columns"), 0.0) != sign * form.get((table, "rows"), 0.0):
            return ListSums(trouble="it takes the sum over one half of the pairs alone")
    return ListSums(len(form))


def linear(u: UOp) -> Form | None:
    """u as a sum of sums over neighbours with numbers in front; None if it is anything else."""
    match u.op, u.src:
        case Ops.REDUCE, (table,) if is_listed(u):
            return {(table, pairs_of(u)): 1.0}
        case Ops.NEG, (a,):
            return times(linear(a), -1.0)
        case Ops.ADD, (a, b):
            return plus(linear(a), linear(b))
        case Ops.SUB, (a, b):
            return plus(linear(a), times(linear(b), -1.0))
        case Ops.MUL, (a, b) if a.op is Ops.CONST:
            return times(linear(b), float(a.arg))
        case Ops.MUL, (a, b) if b.op is Ops.CONST:
            return times(linear(a), float(b.arg))
        case Ops.FMA, (a, b, c) if a.op is Ops.CONST or b.op is Ops.CONST:
            factor, rest = (a, b) if a.op is Ops.CONST else (b, a)
            return plus(times(linear(rest), float(factor.arg)), linear(c))
    return None


def is_listed(u: UOp) -> bool:
    """Is it a sum over neighbours, of a table whose first two axes are those of pairs?"""
    return u.arg[0] == "pairs" and len(u.arg[2]) > 2 and u.arg[2][:2] == (0, 1)


def times(form: Form | None, factor: float) -> Form | None:
    return None if form is None else {key: c * factor for key, c in form.items()}


def plus(a: Form | None, b: Form | None) -> Form | None:
    if a is None or b is None:
        return None
    return {key: a.get(key, 0.0) + b.get(key, 0.0) for key in {**a, **b}}
