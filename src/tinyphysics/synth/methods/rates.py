"""What are the derivatives of a system at other states, number by number or as arrays?  And what are their derivatives?"""

from __future__ import annotations

from collections.abc import Sequence

from tinyphysics.ir import UOp, elements, graph_rewrite, substitute
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.rules.identities.denominators import one_division
from tinyphysics.rules.identities.exact import exact
from tinyphysics.rules.identities.fuse import fuse, short_dots
from tinyphysics.rules.identities.invariant import reciprocals
from tinyphysics.rules.identities.pair_roots import pair_roots
from tinyphysics.rules.identities.quotients import shared_quotients
from tinyphysics.rules.identities.real import pairwise, products, simplify
from tinyphysics.system import System


class Rates:
    """dx/dt of every number, states in their order."""

    def __init__(self, system: System, rates: Sequence[UOp]) -> None:
        self.own = [s.var for s in system.states]
        self.time = system.time
        self.x = [e for v in self.own for e in elements(v)]
        self.plain = graph_rewrite([u for group in unroll(rates) for u in group], exact)
        written = system.energy is None  # by a user, to be run: operations in the order of the expression
        self.flat = (
            graph_rewrite(self.plain, products) if written else decided(self.plain, frozenset(self.own))
        )

    def at(self, x: Sequence[UOp], t: UOp) -> list[UOp]:
        return self.moved(self.flat, x, t)

    def moved(self, roots: Sequence[UOp], x: Sequence[UOp], t: UOp) -> list[UOp]:
        table = dict(zip(self.x, x))
        if self.time is not None:
            table[self.time] = t
        return substitute(roots, table)

    def jacobian(self, x: Sequence[UOp], t: UOp) -> list[list[UOp]]:
        """A row for each rate, a column for each number."""
        rows = [simplify([u for group in unroll(gradient(f, self.x)) for u in group]) for f in self.plain]
        n = len(self.x)
        flat = self.moved(decided([u for row in rows for u in row], frozenset(self.own)), x, t)
        return [flat[k * n : (k + 1) * n] for k in range(n)]


class ArrayRates:
    """dx/dt of every state, as whole arrays."""

    def __init__(self, system: System, rates: Sequence[UOp]) -> None:
        self.own = [s.var for s in system.states]
        self.time = system.time
        plain = graph_rewrite([u.expand(v.shape) for u, v in zip(rates, self.own)], exact)
        written = system.energy is None  # by a user, to be run: operations in the order of the expression
        self.whole = graph_rewrite(plain, products) if written else decided(plain, frozenset(self.own))

    def at(self, x: Sequence[UOp], t: UOp) -> list[UOp]:
        table = dict(zip(self.own, x))
        if self.time is not None:
            table[self.time] = t
        return substitute(self.whole, table)


def decided(roots: Sequence[UOp], states: frozenset[UOp]) -> list[UOp]:
    """Products fused and divisions made fewer, as tpir/program/lower.py does it for steps of one length."""
    short = one_division(shared_quotients(graph_rewrite(roots, pairwise)))
    return fuse(short_dots(pair_roots(reciprocals(short, states))))
