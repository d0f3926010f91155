"""Is the scale of a solution one over the size of the states?  Else its rounds may end anywhere, far from the root.

Shown of quotients c / max(|...|, ...) whose denominator holds the states, number by number; c is a positive constant.
"""

from __future__ import annotations

from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp, toposort
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.tpir.proof.units import moving


def is_over_size(scale: UOp) -> bool:
    return all(map(one_over, unroll([scale])[0]))


def one_over(u: UOp) -> bool:
    if u.op is not Ops.DIV or u.src[0].op is not Ops.CONST or not u.src[0].arg > 0:
        return False
    size = u.src[1]
    return size.op is Ops.MAX and bool(moving(size)) and any(x.op is Ops.ABS for x in toposort([size]))
