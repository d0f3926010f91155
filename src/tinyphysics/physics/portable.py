"""Which functions on arrays have the same bits on every machine?  These: they use +, *, / and sqrt alone.

NumPy's sin and power do not: they follow the processor and the library. Initial conditions are made with
the functions of this file, so that a seed or a mode number means one state.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinyphysics.philox import cos_sin_near_zero


def cos_sin(turns: Any) -> tuple[Any, Any]:
    """Cosine and sine of angles in whole turns: tinyphysics.philox.cos_sin on arrays, to the bit."""
    turns = np.asarray(turns, float)
    quarter = np.floor(4.0 * turns + 0.5)
    c, s = cos_sin_near_zero(turns - 0.25 * quarter)
    which = np.mod(quarter, 4.0).astype(int)
    return np.choose(which, (c, -s, -c, s)), np.choose(which, (s, c, -s, -c))


def sine(turns: Any) -> Any:
    return cos_sin(turns)[1]


def cosine(turns: Any) -> Any:
    return cos_sin(turns)[0]


def cube_root(x: Any) -> Any:
    """For x >= 0, by Newton's method: six steps double the digits past 53 bits from any mantissa."""
    mantissa, exponent = np.frexp(np.asarray(x, float))
    whole = -(-exponent // 3)
    m = np.ldexp(mantissa, exponent - 3 * whole)  # 1/8 <= m < 1, or 0
    y = 0.4 + 0.6 * m
    for _ in range(6):
        y = (2.0 * y + m / (y * y)) / 3.0
    return np.where(m > 0, np.ldexp(y, whole), 0.0)


def mean_of(x: Any, weight: Any) -> Any:
    """Weighted means of the columns; each sum is rounded once, so the order of rows does not matter."""
    total = math.fsum(weight) or 1.0  # of no rows: zeros
    return np.array([math.fsum(weight * column) for column in x.T]) / total
