"""Which angle of one turn is a large one?  With all the digits of pi that it takes, as two float64."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

FARTHEST = 2.0**29  # up to here an angle is left as it is: its whole half turns are counted exactly
BITS = 1300  # of pi after the point: the largest float, and two words more


def arctan_of_inverse(n: int) -> int:
    """2**BITS * atan(1/n), to a few units."""
    term = total = (1 << BITS) // n
    k = 1
    while term:
        term //= -n * n
        k += 2
        total += term // k
    return total


@lru_cache(maxsize=1)
def turn() -> Fraction:
    """2 pi (Machin 1706)."""
    return Fraction(8 * (4 * arctan_of_inverse(5) - arctan_of_inverse(239)), 1 << BITS)


def within(high: float, low: float) -> tuple[float, float]:
    """high + low less whole turns, in two words; as it is up to FARTHEST."""
    if not math.isfinite(high) or not math.isfinite(low) or abs(high) <= FARTHEST:
        return high, low
    x = Fraction(high) + Fraction(low)
    x -= round(x / turn()) * turn()
    first = float(x)
    return first, float(x - Fraction(first))
