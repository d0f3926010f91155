"""Powers and exponentials of small matrices in whole numbers, with as many bits as it takes and a bound of the error.

An entry is a whole number of 2**-bits. Rounding, the remainder of the series and what squaring makes of both are added
up as the work is done, so that the bound holds whatever the matrix is: definite, defective, or growing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

WANTED = 160  # bits after the point that a result is right to: units may differ by many orders
PRIME = (1 << 61) - 1
SWEEPS = 40  # of a balance
MOST_BITS = 1 << 14  # then it is not worth the time
Rows = list[list[int]]
Matrix = Sequence[Sequence[Fraction]]


class Lost(ArithmeticError):
    """Too few bits to go on with."""


class TooMany(ArithmeticError):
    """A result that would need more bits than there is time for."""


@dataclass(frozen=True)
class Fixed:
    """A matrix of whole multiples of 2**-bits; each entry is wrong by no more than `error` of them."""

    rows: Rows
    bits: int
    error: int

    def fraction(self, i: int, j: int) -> Fraction:
        return Fraction(self.rows[i][j], 1 << self.bits)


def rounded(x: Fraction, bits: int) -> int:
    return ((x.numerator << (bits + 1)) // x.denominator + 1) >> 1


def product(a: Rows, b: Rows, bits: int) -> Rows:
    """a*b with one rounding for each entry, of half a unit."""
    half, columns = 1 << (bits - 1), list(zip(*b))
    kept = [[(k, x) for k, x in enumerate(row) if x] for row in a]
    return [[(sum(x * c[k] for k, x in row) + half) >> bits for c in columns] for row in kept]


def norm(a: Rows) -> int:
    """The largest sum of |entries| of a row."""
    return max(sum(map(abs, row)) for row in a)


def times(a: Fixed, b: Fixed) -> Fixed:
    """The product, and by how much an entry may be wrong: row sums bound what an error is multiplied by."""
    n, bits = len(a.rows), a.bits
    grown = a.error * norm(transposed(b.rows)) + b.error * norm(a.rows) + n * a.error * b.error
    error = (grown >> bits) + 2
    if error.bit_length() > bits:
        raise Lost("nothing is known of a product any more")
    return Fixed(product(a.rows, b.rows, bits), bits, error)


def transposed(a: Rows) -> Rows:
    return [list(column) for column in zip(*a)]


def identity(n: int, bits: int) -> Fixed:
    return Fixed([[(i == j) << bits for j in range(n)] for i in range(n)], bits, 0)


def sheared(a: Matrix, h: Fraction) -> list[list[Fraction]]:
    """1 + h a, which is exp(h a) of an a whose square is 0."""
    return [[h * x + (i == j) for j, x in enumerate(row)] for i, row in enumerate(a)]


def power_with(factors: Sequence[Matrix], n: int, bits: int) -> Fixed:
    base = out = identity(len(factors[0]), bits)
    for a in factors:
        base = times(Fixed([[rounded(x, bits) for x in row] for row in a], bits, 1), base)
    while n:
        if n & 1:
            out = times(base, out)
        n >>= 1
        if n:
            base = times(base, base)
    return out


def exponential_with(a: Matrix, t: Fraction, bits: int) -> Fixed:
    size = max(max((sum(abs(x) for x in row) for row in a), default=Fraction(0)) * abs(t), Fraction(1, 2**60))
    halvings = max(0, (size * 16).__ceil__().bit_length())  # then the norm is below 1/16
    step = t / 2**halvings
    n = len(a)
    x = Fixed([[rounded(c * step, bits) for c in row] for row in a], bits, 1)
    out, term = identity(n, bits), identity(n, bits)
    terms = bits // 4 + 3  # (1/16)**k/k! is below 2**-4k
    for k in range(1, terms + 1):
        term = times(x, term)  # x has many zeros; both are made of x, so that their order does not matter
        term = Fixed([[(2 * c + k) // (2 * k) for c in row] for row in term.rows], bits, term.error // k + 2)
        out = Fixed(
            [[p + q for p, q in zip(u, v)] for u, v in zip(out.rows, term.rows)], bits, out.error + term.error
        )
        if not any(map(any, term.rows)) and k > 1:
            break
    # the rest of the series is less than its first term left out, twice
    out = Fixed(out.rows, bits, out.error + 2)
    for _ in range(halvings):
        out = times(out, out)
    return out


def is_nilpotent(a: Matrix) -> bool:
    """Is a power of it 0, as far as a prime can tell?"""
    common = math.lcm(*(x.denominator for row in a for x in row))
    p = [[int(x * common) % PRIME for x in row] for row in a]
    for _ in range(len(a).bit_length()):
        columns = list(zip(*p))
        p = [[sum(x * c[k] for k, x in enumerate(row) if x) % PRIME for c in columns] for row in p]
    return not any(map(any, p))


def finite_series(a: Matrix, t: Fraction) -> list[list[Fraction]] | None:
    """exp(t*a) of an a of which a power is 0: exact. None of others."""
    n = len(a)
    term = [[Fraction(i == j) for j in range(n)] for i in range(n)]
    out = [row[:] for row in term]
    if not is_nilpotent(a):
        return None
    for k in range(1, n + 1):
        columns = list(zip(*a))
        term = [
            [sum((x * c[j] for j, x in enumerate(row) if x), Fraction(0)) * t / k for c in columns]
            for row in term
        ]
        if not any(map(any, term)):
            return out
        out = [[x + y for x, y in zip(u, v)] for u, v in zip(out, term)]
    return None


def balance(a: Matrix) -> list[int]:
    """Exponents e with 2**e[i] a[i][j] 2**-e[j] of rows and columns of one size: units in which products stay small.

    Of what leads round in a circle alone: a column that nothing answers to may have any unit.
    """
    n, e = len(a), [0] * len(a)
    size = [
        [
            abs(x).numerator.bit_length() - x.denominator.bit_length() if x and i != j else None
            for j, x in enumerate(row)
        ]
        for i, row in enumerate(a)
    ]
    for _ in range(SWEEPS):
        moved = False
        for i in range(n):
            row = [s + e[i] - e[j] for j, s in enumerate(size[i]) if s is not None]
            column = [size[j][i] + e[j] - e[i] for j in range(n) if size[j][i] is not None]  # type: ignore[operator]
            if row and column and abs(off := (max(column) - max(row)) // 2) > 0:
                e[i] += off
                moved = True
        if not moved:
            break
    return e


def scaled(a: Matrix, e: Sequence[int]) -> list[list[Fraction]]:
    return [
        [x * Fraction(2) ** (e[i] - e[j]) if x else x for j, x in enumerate(row)] for i, row in enumerate(a)
    ]


def unscaled(m: Fixed, e: Sequence[int]) -> Fixed:
    """In the units of before: exact, since they are powers of 2."""
    most = max(e) - min(e)
    rows = [[x << (e[j] - e[i] + most) for j, x in enumerate(row)] for i, row in enumerate(m.rows)]
    return Fixed(rows, m.bits + most, m.error << (2 * most))


def precise(make: Callable[[int], Fixed], wanted: int) -> Fixed:
    """With more bits until the result is right to as many after the point as are wanted."""
    bits = 2 * wanted
    while bits <= MOST_BITS:
        try:
            out = make(bits)
        except Lost:
            bits *= 2
            continue
        missing = out.error.bit_length() - (out.bits - wanted)
        if missing <= 0:
            return out
        bits += missing + 8 + bits // 4  # what is missing may have grown on the way
    raise TooMany(f"more than {MOST_BITS} bits")


def power(factors: Sequence[Matrix], n: int, wanted: int = WANTED) -> Fixed:
    """The n-th power of a product, its factors in the order in which they act; every entry right to 2**-wanted."""
    size = len(factors[0])
    e = balance(
        [[sum((abs(f[i][j]) for f in factors), Fraction(0)) for j in range(size)] for i in range(size)]
    )
    balanced = [scaled(f, e) for f in factors]
    return precise(lambda bits: unscaled(power_with(balanced, n, bits), e), wanted)


def exponential(a: Matrix, t: Fraction, wanted: int = WANTED) -> Fixed:
    """exp(t*a), every entry right to 2**-wanted.

    >>> e = exponential([[Fraction(0), Fraction(1)], [Fraction(-1), Fraction(0)]], Fraction(1))
    >>> round(float(e.fraction(0, 0)), 12)
    0.540302305868
    """
    whole = finite_series(a, t)
    if whole is not None:
        bits = wanted + 1
        return Fixed([[rounded(x, bits) for x in row] for row in whole], bits, 1)
    e = balance(a)
    balanced = scaled(a, e)
    return precise(lambda bits: unscaled(exponential_with(balanced, t, bits), e), wanted)
