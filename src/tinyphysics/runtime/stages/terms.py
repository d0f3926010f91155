"""What are the terms of an energy?  Their sizes are the scale beside which its errors are told."""

from __future__ import annotations

from tinyphysics.ir import Ops, UOp


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
