"""Of which one exponential is a product of exponentials?  The series of Baker, Campbell and Hausdorff, exactly.

    exp(A) exp(B) = exp(A + B + [A, B]/2 + [A, [A, B]]/12 + ...)

Products are multiplied out as noncommutative polynomials up to a weight and the logarithm is taken there; its
coordinates in the Lyndon basis are the terms of the series.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from tinyphysics.synth.coefficients.lie import TWO, Alphabet, Poly, add, coordinates, letter, modulo, multiply

HALF = Fraction(1, 2)


def cut(alphabet: Alphabet, p: Poly, weight: int) -> Poly:
    return {w: c for w, c in p.items() if alphabet.weight(w) <= weight}


def exponential(alphabet: Alphabet, x: Poly, weight: int) -> Poly:
    """1 + x + x**2/2 + ..., for an x without a constant."""
    out: Poly = {(): Fraction(1)}
    power: Poly = {(): Fraction(1)}
    for k in range(1, weight + 1):
        power = {w: c / k for w, c in cut(alphabet, multiply(power, x), weight).items()}
        out = add(out, power)
    return out


def logarithm(alphabet: Alphabet, s: Poly, weight: int) -> Poly:
    """Of a polynomial that begins with 1."""
    x = add(s, {(): Fraction(1)}, -1)
    out: Poly = {}
    power: Poly = {(): Fraction(1)}
    for k in range(1, weight + 1):
        power = cut(alphabet, multiply(power, x), weight)
        out = add(out, power, Fraction(-((-1) ** k), k))
    return out


def log_product(alphabet: Alphabet, exponents: Sequence[Poly], weight: int) -> Poly:
    """log(exp(x1) exp(x2) ...) up to a weight, in the Lyndon basis, without what vanishes.

    >>> halves = [{(0,): HALF}, letter(1), {(0,): HALF}]
    >>> {"".join("TV"[k] for k in w): str(c) for w, c in log_product(TWO, halves, 3).items()}
    {'T': '1', 'V': '1', 'TTV': '-1/24', 'TVV': '1/12'}
    """
    product: Poly = {(): Fraction(1)}
    for x in exponents:
        product = cut(alphabet, multiply(product, exponential(alphabet, x, weight)), weight)
    found = coordinates(logarithm(alphabet, product, weight))
    out: Poly = {}
    for n in range(1, weight + 1):
        out |= modulo(alphabet, {w: c for w, c in found.items() if alphabet.weight(w) == n})
    return out


def bch(weight: int) -> Poly:
    """log(exp(A) exp(B)).

    >>> [str(c) for c in bch(4).values()]
    ['1', '1', '1/2', '1/12', '1/12', '1/24']
    """
    return log_product(TWO, [letter(0), letter(1)], weight)


def symmetric_bch(weight: int) -> Poly:
    """log(exp(A/2) exp(B) exp(A/2)): odd weights only."""
    return log_product(TWO, [{(0,): HALF}, letter(1), {(0,): HALF}], weight)
