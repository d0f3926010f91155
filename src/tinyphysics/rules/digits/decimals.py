"""Decimal numbers of any length, with the functions that formulas ask for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import Any

GUARD = 10  # digits beyond those that are asked for


@contextmanager
def digits(count: int) -> Iterator[Decimals]:
    """Numbers of so many digits, whatever their size."""
    with localcontext(Context(prec=count + GUARD, Emax=MAX_EMAX, Emin=MIN_EMIN)):
        yield Decimals(count)


class Decimals:
    """Numbers (rules/formulas/free_body.py) of so many digits."""

    def __init__(self, count: int) -> None:
        self.count, self.pi = count, pi(count + GUARD)
        self.rounds = 12 + (4 * count).bit_length()
        self.small = Decimal(10) ** (-(count + GUARD) // 2)

    def of(self, x: Fraction | float) -> Decimal:
        exact = Fraction(x)
        return Decimal(exact.numerator) / Decimal(exact.denominator)

    def root(self, x: Any) -> Any:
        return x.sqrt()

    def exp(self, x: Any) -> Any:
        return x.exp()

    def choose(self, condition: Any, a: Any, b: Any) -> Any:
        return a if condition else b

    def half(self, x: Any) -> Any:
        return x / 2

    def wave(self, x: Decimal) -> tuple[Decimal, Decimal]:
        """Cosine and sine."""
        x = (x - (x / (2 * self.pi)).to_integral_value() * (2 * self.pi)) / 256
        less, s, term, k = Decimal(0), Decimal(0), x, 1  # 1 - cos doubles without a loss
        while term and term.adjusted() > -self.count - GUARD:
            s += term
            term = term * x / (k + 1)
            less += term
            term = -term * x / (k + 2)
            k += 2
        for _ in range(8):
            s, less = 2 * s * (1 - less), 2 * s * s
        return 1 - less, s


@lru_cache(maxsize=16)
def pi(count: int) -> Decimal:
    """By the arithmetic-geometric mean (Salamin, Brent 1976)."""
    with localcontext(Context(prec=count + GUARD, Emax=MAX_EMAX, Emin=MIN_EMIN)):
        a, b, t, p = Decimal(1), Decimal(1) / Decimal(2).sqrt(), Decimal("0.25"), 1
        for _ in range(count.bit_length() + 2):
            new = (a + b) / 2
            a, b, t, p = new, (a * b).sqrt(), t - p * (a - new) ** 2, 2 * p
        return (a + b) ** 2 / (4 * t)
