"""Normal forms that multiply no sums out: what they show is so, and what differs is not shown."""

from __future__ import annotations

from fractions import Fraction

import pytest

from tinyphysics.ir import UOp
from tinyphysics.rules.equality.closed_sums import multiple

x, y, z, w = (UOp.var(name) for name in "xyzw")
S, T = x + 2.0 * y + z * w, y * y + 3.0 * x + 1.0


@pytest.mark.parametrize(
    "u, v, r",
    [
        (S * T, T * S, 1),
        (2.0 * (S * (T * x)), (S * x) * T, 2),
        ((x * S) * (T / (w * w)), x * (T * S) / (w * w), 1),
        (((S * S + T * T) ** -3.0) * S, S / (T * T + S * S) ** 3.0, 1),
        (1.0 / (x * S), (1.0 / S) * (1.0 / x), 1),
        ((2.0 * S) ** -2.0 * T, T / (S * S), Fraction(1, 4)),
        (S.sqrt() * T * x, x * (T * S.sqrt()), 1),
    ],
)
def test_products_of_sums_are_products_of_their_names(u, v, r):
    assert multiple(u, v) == r


@pytest.mark.parametrize(
    "u, v",
    [
        (S * T, S * (T + 1e-6 * x)),
        (S * T, S * S),
        ((x * x * S).sqrt(), x * S.sqrt()),  # |x|
        (((-1.0) * S * T).sqrt(), (S * T).sqrt()),
        ((S * S + T * T) ** -3.0, (S * S + T * T) ** -3.5),
        (S * T + x, S * T - x),
    ],
)
def test_what_is_no_multiple_is_not_shown_to_be_one(u, v):
    assert multiple(u, v) is None


def test_arrays_are_compared_number_by_number():
    a, b = UOp.stack([S * T, x * S * T]), UOp.stack([T * S, T * (S * x)])
    assert multiple(3.0 * a, b) == 3 and multiple(a, UOp.stack([S * T, 2.0 * x * S * T])) is None
