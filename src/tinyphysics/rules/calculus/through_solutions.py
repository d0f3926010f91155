"""How do expressions change that hold solutions of equations?  Residuals stay zero where the unknowns are found.

A SOLVE with the residuals r(x, θ) has the tangent -(dr/dx)⁻¹ (dr/dθ) θ', and pulls a cotangent w back to θ by
-(dr/dθ)ᵀ (dr/dx)⁻ᵀ w. Where the search begins and how it goes on do not matter. Meanwhile solutions are variables, in the
order in which they depend on each other; in what is returned they are themselves again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp, elements, substitute, toposort
from tinyphysics.rules.calculus.jvp import jvp
from tinyphysics.rules.calculus.linear import solved
from tinyphysics.rules.calculus.solve import unknown_of
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.rules.calculus.vjp import vjp


@dataclass(frozen=True, eq=False)
class Solution:
    """One of them, as a variable."""

    node: UOp  # with the solutions before it in place
    name: UOp
    residual: UOp  # of `name`, and of the variables of those before it

    @cached_property
    def matrix(self) -> list[list[UOp]]:
        """dr/dx."""
        n = self.name.size
        units = [UOp.stack([UOp.const(float(j == k)) for j in range(n)], self.name.shape) for k in range(n)]
        columns = [unroll(jvp([self.residual], [self.name], [unit]))[0] for unit in units]
        return [[columns[k][i] for k in range(n)] for i in range(n)]

    def along(self, way: UOp) -> UOp:
        """How the unknowns move where residuals move so."""
        found = solved(self.matrix, [[-x] for x in unroll([way])[0]])
        return UOp.stack([x for (x,) in found], self.name.shape)

    def multipliers(self, w: UOp) -> UOp:
        n = range(self.name.size)
        found = solved([[self.matrix[k][i] for k in n] for i in n], [[-x] for x in unroll([w])[0]])
        return UOp.stack([x for (x,) in found], self.residual.shape)


def opened(roots: Sequence[UOp], inputs: Sequence[UOp]) -> tuple[list[UOp], list[Solution]]:
    """The roots with a variable for each solution, and these in their order.

    An array of which single numbers move is put together of them.
    """
    found: list[Solution] = []
    arrays = {u.src[0] for u in inputs if u.op is Ops.ELEMENT}
    parts = {v: UOp.stack(elements(v), v.shape) for v in arrays}
    table: dict[UOp, UOp] = {}
    for u in (u for u in toposort(roots) if u.op is Ops.SOLVE):
        name = UOp.var(f"?solution {len(found)}", u.shape, u.dtype)
        (residual,) = substitute(substitute([u.src[2]], {unknown_of(u): name, **table}), parts)
        found.append(Solution(u, name, residual))
        table[u] = name
    return substitute(substitute(list(roots), table), parts), found


def closed(values: Sequence[UOp], found: Sequence[Solution]) -> list[UOp]:
    return substitute(list(values), {s.name: s.node for s in found})


def pushed(outputs: Sequence[UOp], inputs: Sequence[UOp], tangents: Sequence[UOp]) -> list[UOp]:
    """jvp of outputs that may hold solutions."""
    roots, found = opened(outputs, inputs)
    names, ways = list(inputs), list(tangents)
    for s in found:
        (way,) = jvp([s.residual], names, ways)
        names, ways = [*names, s.name], [*ways, s.along(way)]
    return closed(jvp(roots, names, ways), found)


def pulled(outputs: Sequence[UOp], cotangents: Sequence[UOp], inputs: Sequence[UOp]) -> list[UOp]:
    """vjp of outputs that may hold solutions."""
    roots, found = opened(outputs, inputs)
    names = [*inputs, *(s.name for s in found)]
    bars = vjp(roots, cotangents, names)
    for k, s in reversed(list(enumerate(found))):
        at = len(inputs) + k
        more = vjp([s.residual], [s.multipliers(bars[at])], names[:at])
        bars = [x + y for x, y in zip(bars, more)]
    return closed(bars[: len(inputs)], found)
