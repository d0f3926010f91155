"""How are equations of arrays solved with the matrix of their residuals, or with its transpose?  By products with it alone.

Those are products of forward mode and of reverse mode, so that nothing of the matrix is written down. BiCGStab makes
corrections, round by round, until they stop shrinking.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tinyphysics.flows.solvers.krylov import StabilizedGradients
from tinyphysics.flows.solvers.solver import TINY, Arrays, Slopes, largest, stacked, unstacked
from tinyphysics.ir import Ops, UOp
from tinyphysics.rules.calculus.jvp import jvp
from tinyphysics.rules.calculus.vjp import vjp
from tinyphysics.rules.identities.real import simplify

ROUNDS = 50


@dataclass(frozen=True, eq=False)
class Products(Slopes):
    """By how much products with the matrix of some residuals differ from what they are of."""

    unknown: UOp
    residual: UOp
    transposed: bool

    def product(self, v: UOp) -> UOp:
        way = vjp if self.transposed else jvp
        ends = ([v], [self.unknown]) if self.transposed else ([self.unknown], [v])
        (out,) = simplify(way([self.residual], *ends))
        return out

    def along(self, v: Sequence[UOp | None]) -> Arrays:
        own = [x for x in v if x is not None]
        assert len(own) == len(v), "all of them at once"
        return [a - x for a, x in zip(unstacked(self.product(stacked(own))), own)]


def solve_by_products(unknown: UOp, residual: UOp, right: UOp, name: str, transposed: bool) -> UOp:
    """x with M x = right, where M is d residual/d unknown or its transpose; x is arrays of one shape along its first axis."""
    f = Products((), (), (), unknown, residual, transposed)
    x = UOp.var(f"?{name}", right.shape, right.dtype)
    one = UOp.const(1.0, right.dtype)
    solver = StabilizedGradients(f, (one,) * right.shape[0], name=f"?{name} within ")
    left = f.product(x) - right
    correction = stacked(solver.correction(-one, unstacked(left)))
    scale = (1.0 / largest(unstacked(right)).maximum(TINY)).expand(right.shape)
    return UOp(Ops.SOLVE, right.dtype, right.shape, (right, scale, left, correction), (x.arg, ROUNDS))
