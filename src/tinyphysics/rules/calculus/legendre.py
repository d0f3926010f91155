"""What is the energy H(q, p) of a Lagrangian L(q, v)?  Explicit where L is quadratic in v: L = v.M v/2 + b.v - V.

Then p = M v + b and H = (p - b).M^-1 (p - b)/2 + V, with M, b and V functions of positions, parameters and time. M is never
inverted: it is taken apart as L D L^T, so that H is a sum of squares, each over a number of its own. No row is exchanged for
another, which would be a choice and not smooth; a kinetic energy is positive, and then none need be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tinyphysics.ir.ops import ELEMENTWISE, Ops
from tinyphysics.ir.uop import UOp, elements, substitute, toposort
from tinyphysics.rules.calculus.degree import degrees
from tinyphysics.rules.calculus.jvp import jvp
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.rules.identities.real import simplify

MOST_COMPONENTS = 16  # of a mass matrix that is written out
Matrix = list[list[UOp]]


class NotExplicit(Exception):
    """Why there is no formula, and the node that is to blame."""

    def __init__(self, because: str, culprit: UOp | None = None) -> None:
        super().__init__(because)
        self.because, self.culprit = because, culprit


@dataclass(frozen=True, eq=False)
class Legendre:
    momenta: tuple[UOp, ...]  # dL/dv, of positions and velocities
    velocities: tuple[UOp, ...]  # of positions and momenta
    energy: UOp


def check_degree(L: UOp, v: Sequence[UOp]) -> None:
    found = degrees(L, frozenset(v))
    degree = found[L]
    if degree is None:
        culprit = next(u for u in toposort([L]) if found[u] is None)
        raise NotExplicit(f"{culprit} is not a polynomial of the velocities", culprit)
    if degree > 2:
        raise NotExplicit(f"the degree in the velocities may be {degree}")


def legendre(L: UOp, v: Sequence[UOp], p: Sequence[UOp]) -> Legendre:
    """The transform of a Lagrangian of degree 2 in its velocities, or a NotExplicit."""
    check_degree(L, v)
    slopes = simplify(gradient(L, v))
    at_rest = {x: UOp.const(0.0, x.dtype, x.shape) for x in v}
    *offsets, V = simplify(substitute([*slopes, -L], at_rest))
    apart = all(is_apart(s, x, v) for s, x in zip(slopes, v))
    energy = of_each(slopes, offsets, v, p) if apart else of_matrix(L, offsets, v, p)
    (energy,) = simplify([energy + V])
    if energy.leaves & frozenset(v):
        raise NotExplicit("the mass matrix could not be shown to be free of velocities")
    return Legendre(tuple(slopes), tuple(simplify(gradient(energy, list(p)))), energy)


def is_apart(slope: UOp, x: UOp, v: Sequence[UOp]) -> bool:
    """Is each number of dL/dv a function of its own velocity alone?  Seen from operations on whole arrays."""
    moving = frozenset(v)
    above = [u for u in toposort([slope]) if u.leaves & moving]
    return all(u is x or u.op in ELEMENTWISE and u.shape == x.shape for u in above)


def of_each(slopes: Sequence[UOp], offsets: Sequence[UOp], v: Sequence[UOp], p: Sequence[UOp]) -> UOp:
    """One mass for each number of v."""
    ones = [UOp.const(1.0, x.dtype, x.shape) for x in v]
    masses = simplify(jvp(slopes, v, ones))
    if any(map(is_zero, masses)):
        raise NotExplicit("a velocity enters without its square, so that its momentum says nothing about it")
    return UOp.sum_of(((y - b) * (y - b) / (2.0 * m)).sum() for y, b, m in zip(p, offsets, masses))


def of_matrix(L: UOp, offsets: Sequence[UOp], v: Sequence[UOp], p: Sequence[UOp]) -> UOp:
    numbers = [e for x in v for e in elements(x)]
    if len(numbers) > MOST_COMPONENTS:
        raise NotExplicit(
            f"the mass matrix of {len(numbers)} x {len(numbers)} is too large to be written out"
        )
    ((scalar,),) = unroll([L])
    M = [simplify(gradient(g, numbers)) for g in gradient(scalar, numbers)]
    right = [y - b for x, c in zip(p, offsets) for y, b in zip(elements(x), unroll([c])[0])]
    squares, pivots = solved(M, right)
    return UOp.sum_of(y * y / (2.0 * d) for y, d in zip(squares, pivots))


def solved(M: Matrix, right: Sequence[UOp]) -> tuple[list[UOp], list[UOp]]:
    """(y, d) with right.M^-1 right = the sum of y*y/d."""
    n = len(M)
    M, y, pivots = [list(row) for row in M], list(right), []
    for k in range(n):
        d = M[k][k]
        if is_zero(d):
            raise NotExplicit("a velocity does not enter the kinetic energy on its own")
        pivots.append(d)
        for r in range(k + 1, n):
            if is_zero(M[r][k]):
                continue
            factor = M[r][k] / d
            y[r] = y[r] - factor * y[k]
            for c in range(r, n):
                if not is_zero(M[c][k]):
                    M[r][c] = M[c][r] = simplify([M[r][c] - factor * M[c][k]])[0]
    return y, pivots


def is_zero(u: UOp) -> bool:
    return u.op is Ops.CONST and u.arg == 0
