"""What are the terms of an energy?  Their sizes are the scale beside which its errors are told."""

from __future__ import annotations

from collections.abc import Sequence

from tinyphysics.ir import Ops, UOp
from tinyphysics.rules.calculus.vjp import gradient

CANCELLED = 1e-8  # terms of H this much smaller than what they are made of have lost half of their digits


def addends(u: UOp) -> list[UOp]:
    """The terms of a sum, without their signs; a number in front of a sum is a number in front of each."""
    match u.op, u.src:
        case ((Ops.ADD | Ops.SUB), (a, b)):
            return addends(a) + addends(b)
        case Ops.NEG, (a,):
            return addends(a)
        case Ops.DIV, (a, b) if not b.leaves:
            return [x / b for x in addends(a)]
        case Ops.MUL, (a, b) if not a.leaves or not b.leaves:
            factor, rest = (a, b) if not a.leaves else (b, a)
            return [factor * x for x in addends(rest)]
    return [u]


def made_of(energy: UOp, states: Sequence[UOp]) -> UOp:
    """The size of sum |z dH/dz| over the states z: what the terms of H are made of, also where they cancel."""
    products = (abs(z * g) for z, g in zip(states, gradient(energy, list(states))))
    return UOp.sum_of(x.sum() if x.shape else x for x in products)
