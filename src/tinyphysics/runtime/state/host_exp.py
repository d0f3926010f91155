"""exp on this machine with the same bits on every machine: sums and products of float64 alone, an error below 2 ulp."""

from __future__ import annotations

from math import factorial, floor, ldexp
from typing import Any

import numpy as np

LN2_HIGH, LN2_LOW = 0.6931471803691238, 1.9082149292705877e-10  # the first has 33 bits
TERMS = tuple(1.0 / factorial(k) for k in range(14, -1, -1))
FEW = 24  # numbers that are sooner computed one by one


def exp(x: Any) -> Any:
    """Of a number or an array; 0 below -708, and not for numbers above 700."""
    x = np.asarray(x, np.float64)
    if x.size <= FEW:
        return np.array([exp_of(one) for one in x.ravel().tolist()]).reshape(x.shape)
    k = np.floor(np.maximum(x, -745.0) * (1.0 / 0.6931471805599453) + 0.5)
    r = (np.maximum(x, -745.0) - k * LN2_HIGH) - k * LN2_LOW
    out = np.full_like(r, TERMS[0])
    for c in TERMS[1:]:
        out = out * r + c
    return np.where(x < -708.0, 0.0, np.ldexp(out, k.astype(np.int64)))


def exp_of(x: float) -> float:
    """The same of one number, with the same sums and products in the same order."""
    if not x >= -708.0:
        return x if x != x else 0.0
    k = floor(x * (1.0 / 0.6931471805599453) + 0.5)
    r = (x - k * LN2_HIGH) - k * LN2_LOW
    out = TERMS[0]
    for c in TERMS[1:]:
        out = out * r + c
    return ldexp(out, k)
