"""Is what was solved for a drift along many constraints?  Compared as whole arrays: their size does not matter.

The equations are those of ArrayConstraints in rules/formulas/constraints.py. Residuals may have a factor that is one over a
size: it is no zero, and does not hold the unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp, component, substitute, toposort
from tinyphysics.rules.equality.normal import Normal
from tinyphysics.rules.formulas.constraints import ArrayConstraints
from tinyphysics.tpir.proof.array_stages import is_array_over_size
from tinyphysics.tpir.proof.solutions import one_over
from tinyphysics.tpir.proof.units import DT


class ChainEquations:
    """The unknown multipliers as one array, their residuals without a factor, and what the states become."""

    def __init__(self, c: ArrayConstraints, values: Mapping[UOp, UOp], root: UOp) -> None:
        self.solved = root.shape == (1, *c.g.shape) and is_array_over_size(root.src[1])
        self.k = UOp.var("multipliers", c.g.shape, root.dtype)
        unknown = UOp.var(str(root.arg[0]), root.shape, root.dtype)
        new = substitute([root.src[2], *values.values()], {root: unknown})
        table: dict[UOp, UOp] = {component(unknown, 0, 0): self.k}
        for u in toposort(new):
            if u.op is Ops.RESHAPE and u.src[0] is unknown:
                table[u] = self.k if u.shape == self.k.shape else self.k.reshape(u.shape)
        residual, *rest = substitute(new, table)
        self.new = dict(zip(values, rest))
        self.residual = without_factor(residual.reshape(c.g.shape), self.k)


def without_factor(u: UOp, k: UOp) -> UOp:
    """An array of residuals without a factor that is one over a size."""
    while u.op is Ops.RESHAPE and u.src[0].size == u.size:
        u = u.src[0]
    if u.op is Ops.MUL:
        for own, other in (u.src, u.src[::-1]):
            factor = other.src[0] if other.op is Ops.EXPAND else other
            if k not in factor.leaves and one_over(factor):
                return own
    return u


def chain_drift(c: ArrayConstraints, values: Mapping[UOp, UOp], root: UOp, normal: Normal) -> Fraction | None:
    """For how much of dt states move along the constraints; None if that is not shown."""
    e = ChainEquations(c, values, root)
    if not e.solved or set(e.new) != {c.q, c.p}:
        return None
    (free,) = substitute([e.new[c.q]], {e.k: UOp.const(0.0, e.k.dtype, e.k.shape)})
    weight = normal.ratio(free - c.q, DT * c.v)
    if weight is None:
        return None
    there, momenta = c.drift(e.k, DT * UOp.const(float(weight)))
    shown = normal.same(e.new[c.q], there) and normal.same(e.new[c.p], momenta)
    return weight if shown and normal.same(e.residual, c.held(e.new[c.q])) else None


def chain_along(c: ArrayConstraints, values: Mapping[UOp, UOp], root: UOp, normal: Normal) -> bool:
    """Are momenta left without their part across the constraints?"""
    e = ChainEquations(c, values, root)
    wanted = c.along(e.k)
    return (
        e.solved
        and set(e.new) == {c.p}
        and normal.same(e.new[c.p], wanted)
        and normal.same(e.residual, c.rates(wanted))
    )
