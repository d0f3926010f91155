"""How does a step go along g(q) = 0?  By RATTLE, number by number: the equations that are solved, and what they move.

With G = dg/dq, A = d²T/dp² and d_j = G_j A G_jᵀ, a drift of the time h is

    q' = q + h T'(p) - A Gᵀ(x/d),    p' = p - Gᵀ(x/d)/h,    with x so that g(q') = 0,

and p' is known up to Gᵀ at q', which the x of the next drift absorbs. Where one looks, that part is taken off:

    p' = p - Gᵀ(y/d),    with y so that G T'(p') = 0.

Both x and y are in units of g, or of its rate. On g(q) = 0 the drift keeps dq∧dp for every x: d(Gᵀλ)∧dq = dλ∧dg vanishes
there. It is its own adjoint, since p' and -h lead back with the same x (Andersen 1983, J. Comput. Phys. 52, 24; Leimkuhler &
Skeel 1994, J. Comput. Phys. 112, 117).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from tinyphysics.ir import Ops, UOp, elements, substitute
from tinyphysics.rules.calculus.jvp import jvp
from tinyphysics.rules.calculus.linear import ZERO, Rows, is_number, times
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.rules.calculus.vjp import gradient, vjp
from tinyphysics.rules.identities.real import simplify

Numbers = list[UOp]
WRITTEN = 16  # numbers that are held, up to which equations are written out, and compared one by one


@dataclass(frozen=True, eq=False)
class Constraints:
    """Positions, momenta, functions that stay zero, and a kinetic energy that is quadratic in the momenta."""

    positions: tuple[UOp, ...]
    momenta: tuple[UOp, ...]
    functions: tuple[UOp, ...]
    kinetic: UOp

    @cached_property
    def q(self) -> Numbers:
        return [e for s in self.positions for e in elements(s)]

    @cached_property
    def p(self) -> Numbers:
        return [e for s in self.momenta for e in elements(s)]

    @cached_property
    def g(self) -> Numbers:
        return simplify([u for group in unroll(self.functions) for u in group])

    @cached_property
    def G(self) -> Rows:
        return jacobian(self.g, self.q)

    @cached_property
    def v(self) -> Numbers:
        """T'(p)."""
        return simplify(gradient(unroll([self.kinetic])[0][0], self.p))

    @cached_property
    def A(self) -> Rows:
        return jacobian(self.v, self.p)

    @cached_property
    def AG(self) -> Rows:
        """A G_jᵀ, for each j."""
        return [[dot(row, self.A[k]) for k in range(len(self.q))] for row in self.G]

    @cached_property
    def d(self) -> Numbers:
        return simplify([dot(row, moved) for row, moved in zip(self.G, self.AG)])

    @property
    def count(self) -> int:
        return len(self.g)

    def at(self, functions: Sequence[UOp], q: Sequence[UOp]) -> Numbers:
        return substitute(list(functions), dict(zip(self.q, q)))

    def impulse(self, x: Sequence[UOp]) -> Numbers:
        """x/d."""
        return [a / b for a, b in zip(x, self.d)]

    def push(self, rows: Rows, impulse: Sequence[UOp]) -> Numbers:
        """The sum of rows, each times its number."""
        return [total([times(row[k], c) for row, c in zip(rows, impulse)]) for k in range(len(self.q))]

    def ahead(self, h: UOp) -> Numbers:
        """The positions without constraints."""
        return [q + h * v for q, v in zip(self.q, self.v)]

    def drift(self, x: Sequence[UOp], h: UOp) -> tuple[Numbers, Numbers]:
        """Positions and momenta a time h later."""
        c = self.impulse(x)
        there = [less(a, b) for a, b in zip(self.ahead(h), self.push(self.AG, c))]
        return there, [less(p, b / h) for p, b in zip(self.p, self.push(self.G, c))]

    def along(self, y: Sequence[UOp]) -> Numbers:
        """Momenta without a part along Gᵀ."""
        return [less(p, b) for p, b in zip(self.p, self.push(self.G, self.impulse(y)))]

    def rates(self, p: Sequence[UOp]) -> Numbers:
        """G T'(p)."""
        v = substitute(self.v, dict(zip(self.p, p)))
        return [dot(row, v) for row in self.G]


def less(a: UOp, b: UOp) -> UOp:
    return a if is_number(b, 0.0) else a - b


def total(items: Sequence[UOp]) -> UOp:
    kept = [x for x in items if not is_number(x, 0.0)]
    return UOp.sum_of(kept) if kept else ZERO


def dot(a: Sequence[UOp], b: Sequence[UOp]) -> UOp:
    return total([times(x, y) for x, y in zip(a, b)])


def jacobian(functions: Sequence[UOp], by: Sequence[UOp]) -> Rows:
    flat, n = simplify([d for f in functions for d in gradient(f, list(by))]), len(by)
    return [flat[k * n : (k + 1) * n] for k in range(len(functions))]


# --- of whole arrays ----------------------------------------------------------------------------------
def in_a_row(functions: Sequence[UOp]) -> UOp:
    """All numbers of some constraints, one constraint after the other."""
    rows = tuple(g if g.ndim == 1 else g.reshape(g.size) for g in functions)
    return (
        rows[0] if len(rows) == 1 else UOp(Ops.CONCAT, rows[0].dtype, (sum(g.size for g in rows),), rows, 0)
    )


@dataclass(frozen=True, eq=False)
class ArrayConstraints:
    """Constraints in one row, of one array of positions, such as the links of a chain: nothing is written out.

    A drift is q' = q + h T'(p) - A Gᵀk, p' = p - Gᵀk/h, with k so that g(q') = 0; momenta along the constraints are
    p' = p - Gᵀk with k so that G T'(p') = 0.
    """

    q: UOp
    p: UOp
    g: UOp
    kinetic: UOp

    @cached_property
    def v(self) -> UOp:
        return simplify(gradient(self.kinetic, [self.p]))[0]

    def pushed(self, k: UOp) -> UOp:
        """Gᵀk."""
        return simplify(vjp([self.g], [k], [self.q]))[0]

    def moved(self, w: UOp) -> UOp:
        """A w."""
        return simplify(jvp([self.v], [self.p], [w]))[0]

    def slope(self, w: UOp) -> UOp:
        """G w."""
        return simplify(jvp([self.g], [self.q], [w]))[0]

    def ahead(self, h: UOp) -> UOp:
        return self.q + h * self.v

    def drift(self, k: UOp, h: UOp) -> tuple[UOp, UOp]:
        push = self.pushed(k)
        return self.ahead(h) - self.moved(push), self.p - push / h

    def along(self, k: UOp) -> UOp:
        return self.p - self.pushed(k)

    def rates(self, p: UOp) -> UOp:
        return self.slope(substitute([self.v], {self.p: p})[0])

    def held(self, q: UOp) -> UOp:
        return substitute([self.g], {self.q: q})[0]
