"""How does a momentum forget at several rates at once?  A generalised Langevin bath: it and some numbers beside it.

(p, s)' = -A (p, s) + noise, for each number of a momentum, in units in which its variance is m k_BT. The solution after h is
c (p, s) + S ξ with c = e^(-hA) and S Sᵀ = C - c C cᵀ = ∫ e^(-tA) (AC + CAᵀ) e^(-tAᵀ) dt (Ceriotti, Bussi & Parrinello 2010).
C = 1 is the canonical one. The integral is a series for h/2^6, which loses no digits where the entries of S are small, and
is doubled six times: D(2h) = D(h) + c D(h) cᵀ, sums of matrices that are not negative.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import factorial

from tinyphysics.ir import UOp
from tinyphysics.step import Weight

GLE = "gle"
DOUBLED = 6  # times
TERMS = 13  # of the series
LONGEST = 2.0**DOUBLED / 4  # of h times the norm of A: beyond it the series has errors
Rows = tuple[tuple[Fraction, ...], ...]


def product(a: Rows, b: Rows) -> Rows:
    return tuple(tuple(sum((x * y for x, y in zip(row, col)), Fraction(0)) for col in zip(*b)) for row in a)


def transposed(a: Rows) -> Rows:
    return tuple(zip(*a))


def plus(a: Rows, b: Rows) -> Rows:
    return tuple(tuple(x + y for x, y in zip(r, s)) for r, s in zip(a, b))


def unit(n: int) -> Rows:
    return tuple(tuple(Fraction(int(i == j)) for j in range(n)) for i in range(n))


def noise_of(A: Rows, C: Rows) -> Rows:
    """AC + CAᵀ: the noise of a short time."""
    return plus(product(A, C), product(C, transposed(A)))


def series(A: Rows, C: Rows) -> tuple[list[Rows], list[Rows]]:
    """Of c and of D/h the coefficients of powers of h."""
    decays, noises = [unit(len(A))], [noise_of(A, C)]
    for _ in range(TERMS):
        decays.append(product(A, decays[-1]))
        last = noises[-1]
        noises.append(plus(product(A, last), product(last, transposed(A))))
    c = [scaled(x, Fraction((-1) ** k, factorial(k))) for k, x in enumerate(decays)]
    D = [scaled(x, Fraction((-1) ** k, factorial(k + 1))) for k, x in enumerate(noises)]
    return c, D


def scaled(a: Rows, by: Fraction) -> Rows:
    return tuple(tuple(x * by for x in row) for row in a)


def coefficients(A: Rows, C: Rows) -> list[Weight]:
    """The numbers that the formula holds, for programs with more digits."""
    return [Weight(float(x), x) for m in (*series(A, C)[0], *series(A, C)[1]) for row in m for x in row]


def array(a: Rows) -> UOp:
    return UOp.stack([UOp.const(float(x)) for row in a for x in row], (len(a), len(a)))


def times(a: UOp, b: UOp) -> UOp:
    n = a.shape[0]
    return (a.reshape(n, n, 1).expand((n, n, n)) * b.reshape(1, n, n).expand((n, n, n))).sum(1)


def matrices(A: Rows, C: Rows, weight: float, dt: UOp) -> tuple[UOp, UOp]:
    """e^(-hA) and C - e^(-hA) C e^(-hAᵀ)."""
    n = len(A)
    h = (float(weight) * 2.0**-DOUBLED * dt).expand((n, n))
    found = []
    for terms in series(A, C):
        total = array(terms[-1])
        for term in reversed(terms[:-1]):
            total = array(term) + h * total
        found.append(total)
    c, D = found[0], h * found[1]
    for _ in range(DOUBLED):
        D = D + times(times(c, D), c.permute((1, 0)))
        c = times(c, c)
    return c, D


def root_of(D: UOp) -> list[list[UOp]]:
    """The lower triangle S with S Sᵀ = D; a row that gets no noise is zero."""
    n = D.shape[0]
    S: list[list[UOp]] = []
    for i in range(n):
        row: list[UOp] = []
        for j in range(i):
            rest = D[i, j] - UOp.sum_of(row[k] * S[j][k] for k in range(j)) if j else D[i, j]
            some = S[j][j] > 0.0
            row.append(some.where(rest / some.where(S[j][j], 1.0), 0.0))
        left = D[i, i] - UOp.sum_of(x * x for x in row) if row else D[i, i]
        row.append((left > 0.0).where(left, 0.0).sqrt())
        S.append(row)
    return S


def remembered(
    own: Sequence[UOp], kT: UOp, inverse: UOp, A: Rows, C: Rows, weight: float, drawn: Sequence[UOp], dt: UOp
) -> list[UOp]:
    """New values of a momentum and of the numbers beside it, from as many random numbers."""
    c, D = matrices(A, C, weight, dt)
    S = root_of(D)
    shape = own[0].shape
    width = (kT.expand(shape) / inverse.expand(shape)).sqrt()
    out = []
    for i in range(len(own)):
        mean = UOp.sum_of(c[i, j].expand(shape) * x for j, x in enumerate(own))
        out.append(mean + width * UOp.sum_of(S[i][j].expand(shape) * drawn[j] for j in range(i + 1)))
    return out
