"""How is a linear system with coefficients that depend on time stepped?  By the exponential of one matrix for each step.

With z' = A(t) z + b(t) a step is z -> exp(W) z, where W is the Magnus series up to order 4 or 6, with A at two or three
Gauss nodes (Blanes, Casas & Ros 2000). W is J times a symmetric matrix as A is, so the step is symplectic. For one degree
of freedom exp(W) is written as kick, drift, kick, which shows it; for more it acts on z by its Taylor series, to the last
digit while the series of Magnus itself converges: where the norm of A, integrated over a step, is below pi.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice

from tinyphysics.facts import Fact
from tinyphysics.flows.shears import Shear, ShearFlow
from tinyphysics.ir import Ops, UOp, elements, substitute
from tinyphysics.rules.calculus.unroll import rolled
from tinyphysics.rules.identities.real import simplify
from tinyphysics.step import DT, Claims, Step, Term, Weight
from tinyphysics.system import System

CONVERGES = math.pi  # the largest integral of the norm of A over a step (Moan & Niesen 2008)
DIGITS = 40
TERMS = {"float32": 10}  # of cosh and sinh as series of the square of W: pi**20/21! < 1e-9
MOST_TERMS = 18  # in other precisions: pi**36/37! < 1e-25
POWERS = 32  # of exp(W): pi**32/32! < 1e-19
ZERO = UOp.const(0.0)


def root(n: int, over: int) -> Weight:
    """sqrt(n)/over, with more digits than float64 has."""
    scale = 10**DIGITS
    exact = Fraction(math.isqrt(n * scale * scale), scale * over)
    return Weight(math.sqrt(n) / over, exact)


HALF = Weight(0.5, Fraction(1, 2))
# of Gauss-Legendre quadrature in a step, by the order that they give
NODES: dict[int, tuple[Weight, ...]] = {
    4: (HALF - root(3, 6), HALF + root(3, 6)),
    6: (HALF - root(15, 10), HALF, HALF + root(15, 10)),
}
WEIGHTS: dict[int, tuple[float, ...]] = {4: (1 / 2, 1 / 2), 6: (5 / 18, 8 / 18, 5 / 18)}


# --- matrices of numbers that no state changes --------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class Affine:
    """z -> matrix z + vector, with expressions as entries; zeros stay zeros."""

    matrix: tuple[tuple[UOp, ...], ...]
    vector: tuple[UOp, ...]

    def __add__(self, other: Affine) -> Affine:
        rows = tuple(tuple(map(plus, a, b)) for a, b in zip(self.matrix, other.matrix))
        return Affine(rows, tuple(map(plus, self.vector, other.vector)))

    def __mul__(self, factor: UOp | float) -> Affine:
        rows = tuple(tuple(times(factor, x) for x in row) for row in self.matrix)
        return Affine(rows, tuple(times(factor, x) for x in self.vector))

    def after(self, z: Sequence[UOp]) -> list[UOp]:
        """matrix z, without the vector."""
        return [total([times(a, x) for a, x in zip(row, z)]) for row in self.matrix]

    def commutator(self, other: Affine) -> Affine:
        columns = list(zip(*other.matrix)), list(zip(*self.matrix))
        n = range(len(self.vector))
        rows = tuple(
            tuple(
                minus(
                    total([times(a, b) for a, b in zip(self.matrix[i], columns[0][k])]),
                    total([times(a, b) for a, b in zip(other.matrix[i], columns[1][k])]),
                )
                for k in n
            )
            for i in n
        )
        return Affine(rows, tuple(map(minus, self.after(other.vector), other.after(self.vector))))


def is_zero(x: UOp | float) -> bool:
    return x == 0.0 if not isinstance(x, UOp) else x.op is Ops.CONST and x.arg == 0


def plus(a: UOp, b: UOp) -> UOp:
    return b if is_zero(a) else a if is_zero(b) else a + b


def minus(a: UOp, b: UOp) -> UOp:
    return a if is_zero(b) else -b if is_zero(a) else a - b


def times(a: UOp | float, b: UOp) -> UOp:
    return ZERO if is_zero(a) or is_zero(b) else b * a if isinstance(a, UOp) else a * b


def total(items: Sequence[UOp]) -> UOp:
    kept = [x for x in items if not is_zero(x)]
    return UOp.sum_of(kept) if kept else ZERO


def generator(system: System, quadratic: Fact) -> Affine:
    """A and b of z' = A z + b, for all positions, then all momenta."""
    rows, linear = quadratic.hessian, quadratic.linear
    numbers = iter(range(len(linear)))
    places = {u: list(islice(numbers, u.size)) for u in (*system.q, *system.p)}
    moved = {state: (own, word) for state, own, word in system.structure.flow(places)}
    by = [(k, word) for u in places for own, word in [moved[u]] for k in own]

    def acted(word: str, x: UOp) -> UOp:
        return minus(ZERO, x) if word == "negate" else x

    matrix = tuple(tuple(acted(word, x) for x in rows[k]) for k, word in by)
    return Affine(matrix, tuple(acted(word, linear[k]) for k, word in by))


def at_nodes(system: System, a: Affine, order: int) -> list[Affine]:
    """The generator at the nodes of a step."""
    out = []
    for c in NODES[order]:
        at = {} if system.time is None else {system.time: system.time + c * DT}
        flat = substitute([*(x for row in a.matrix for x in row), *a.vector], at)
        n = len(a.vector)
        out.append(Affine(tuple(tuple(flat[i * n : (i + 1) * n]) for i in range(n)), tuple(flat[n * n :])))
    return out


def series(nodes: Sequence[Affine]) -> Affine:
    """W/dt: the Magnus series of two nodes or three, to order 4 or 6."""
    if len(nodes) == 2:
        one, two = nodes
        return (one + two) * 0.5 + two.commutator(one) * root(3, 12) * DT
    one, two, three = nodes
    a1 = two
    a2 = (three + one * -1.0) * root(15, 3)
    a3 = (three + two * -2.0 + one) * Weight(10 / 3, Fraction(10, 3))
    c1 = a1.commutator(a2) * DT
    c2 = a1.commutator(a3 * 2.0 + c1) * Weight(-1 / 60, Fraction(-1, 60)) * DT
    left = a1 * -20.0 + a3 * -1.0 + c1
    return (
        a1
        + a3 * Weight(1 / 12, Fraction(1, 12))
        + left.commutator(a2 + c2) * Weight(1 / 240, Fraction(1, 240)) * DT
    )


# --- the exponential ----------------------------------------------------------------------------------------
def polynomial(x: UOp, first: int, terms: int) -> UOp:
    """The sum of x**j/(2j + first)!: for first = 1 it is sinh(w)/w of x = w*w, for 2 it is (cosh(w) - 1)/x."""
    out = UOp.const(1 / math.factorial(2 * terms + first))
    for j in reversed(range(terms)):
        out = out * x + 1 / math.factorial(2 * j + first)
    return out


def one_degree(system: System, w: Affine, terms: int) -> tuple[ShearFlow, ...]:
    """exp(W) for one degree of freedom as kick, drift, kick: with b the entry that moves q by p.

    W*W is d times the identity, so exp(W) = (1 + d k) + s W, and what b(t) adds is s w + k W w.
    """
    (a, b), (c, _) = w.matrix
    q, p = system.q[0], system.p[0]
    d = (DT * DT) * plus(times(a, a), times(b, c))
    s, k = polynomial(d, 1, terms), polynomial(d, 2, terms)
    side = times(a, UOp.const(1.0) / b)  # a/b, which is zero where time is not in A
    kicks = [
        plus(times(DT * k, plus(c, times(a, side))), sign * times(s, side) if not is_zero(side) else ZERO) / s
        for sign in (1.0, -1.0)
    ]
    drift = s * b
    u, v = w.vector
    pushed = plus(times(s, u), times(DT * k, plus(times(a, u), times(b, v))))
    kicked = plus(times(s, v), minus(times(DT * k, times(c, u)), times(DT * k, times(a, v))))

    def kick(slope: UOp, constant: UOp) -> ShearFlow:
        return ShearFlow((Shear(p, simplify([-plus(slope / DT * q, constant)])[0], "negate", 1.0),))

    move = simplify([plus(drift * p, pushed)])[0]
    first, last = kicks
    return (
        kick(first, ZERO),
        ShearFlow((Shear(q, move, "pass", 1.0),)),
        kick(last, minus(kicked, times(last, pushed))),
    )


def any_degrees(system: System, w: Affine) -> tuple[ShearFlow, ...]:
    """(exp(W) - 1) z/dt by its Taylor series: every product is of the matrix and a vector."""
    z = [e for u in (*system.q, *system.p) for e in elements(u)]
    term = [plus(x, y) for x, y in zip(w.after(z), w.vector)]
    out = term
    for n in range(2, POWERS + 1):
        term = [times(DT * (1 / n), x) for x in w.after(term)]
        out = [plus(x, y) for x, y in zip(out, term)]
    states, shears = (*system.q, *system.p), []
    for u, value in zip(states, rolled(out, states)):
        moves = any(u is x for x in system.q)
        shears.append(Shear(u, value if moves else -value, "pass" if moves else "negate", 1.0))
    return (ShearFlow(tuple(shears)),)


def magnus_step(
    name: str, system: System, quadratic: Fact, order: int, claims: Claims, precision: str = "float64"
) -> Step:
    assert system.energy is not None
    w = series(at_nodes(system, generator(system, quadratic), order))
    shown = len(w.vector) == 2 and not is_zero(w.matrix[0][1])
    terms, nodes = (Term("H", system.energy),), NODES[order]
    body = one_degree(system, w, TERMS.get(precision, MOST_TERMS)) if shown else any_degrees(system, w)
    given = claims if shown else ()
    return Step.of(system, name, terms, given, len(nodes), body=body, coefficients=nodes)
