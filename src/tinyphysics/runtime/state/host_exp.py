"""exp on this machine with the same bits on every machine: sums and products of float64 alone, an error below 2 ulp."""

from __future__ import annotations

from math import factorial
from typing import Any

import numpy as np

LN2_HIGH, LN2_LOW = 0.6931471803691238, 1.9082149292705877e-10  # the first has 33 bits
TERMS = tuple(1.0 / factorial(k) for k in range(14, -1, -1))


def exp(x: Any) -> Any:
    """Of a number or an array; 0 below -708, and not for numbers above 700."""
    x = np.asarray(x, np.float64)
    k = np.floor(np.maximum(x, -745.0) * (1.0 / 0.6931471805599453) + 0.5)
    r = (np.maximum(x, -745.0) - k * LN2_HIGH) - k * LN2_LOW
    out = np.full_like(r, TERMS[0])
    for c in TERMS[1:]:
        out = out * r + c
    return np.where(x < -708.0, 0.0, np.ldexp(out, k.astype(np.int64)))
