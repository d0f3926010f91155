"""Double-double numbers that know how far off they may be: coefficients of many members at once."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from tinyphysics.device.linear.double_double import DD, ROUNDING, of_fraction

KNOWN = 2.0**-96  # relative error up to which a coefficient counts as known
SMALLEST, LARGEST = 2.0**-450, 2.0**450  # beyond, products of words may leave the range of floats


class Bounded:
    """A DD, and a bound of its error."""

    __slots__ = ("off", "value")

    def __init__(self, value: DD, off: Any = 0.0) -> None:
        self.value, self.off = value, off

    @staticmethod
    def of(x: Fraction) -> Bounded:
        high, low = of_fraction(x)
        exact = x.denominator & (x.denominator - 1) == 0 and low == 0.0  # a float
        return Bounded(DD(high, low), 0.0 if exact else abs(high) * ROUNDING)

    def __add__(self, other: Bounded) -> Bounded:
        s = self.value + other.value
        return Bounded(s, self.off + other.off + np.abs(s.high) * ROUNDING)

    def __mul__(self, other: Bounded) -> Bounded:
        a, b = self.value, other.value
        p = a * b
        off = np.abs(a.high) * other.off + np.abs(b.high) * self.off + self.off * other.off
        return Bounded(p, 2.0 * off + np.abs(p.high) * ROUNDING)

    def inverse(self) -> Bounded:
        r = DD(1.0) / self.value
        return Bounded(r, 2.0 * self.off * r.high**2 + np.abs(r.high) * ROUNDING)

    def root(self) -> Bounded:
        r = self.value.sqrt()
        return Bounded(r, self.off / r.high + r.high * ROUNDING)

    @property
    def known(self) -> Any:
        """Where it is known to nearly all of its digits, and so is not 0."""
        size = np.abs(self.value.high)
        return (self.off <= KNOWN * size) & (size >= SMALLEST) & (size <= LARGEST)
