"""Intervals hold every value there is."""

import math

import numpy as np
import pytest
import tinyphysics as tp
from tinyphysics.rules.equality.ranges import range_of
from tinyphysics.ir import UOp

q, mu = UOp.var("q", (3,)), UOp.var("mu")
KNOWN = {mu: (0.5, 2.0)}
NONE = (-math.inf, math.inf)


@pytest.mark.parametrize(
    "u, low, high",
    [
        (mu / tp.norm(q), 0.0, math.inf),
        (-mu / tp.norm(q), -math.inf, 0.0),
        (1 / (mu + q @ q), 0.0, 2.0),
        (3 - mu * tp.cos(q[0]), 1.0, 5.0),
        (tp.sqrt(q @ q + 4), 2.0, math.inf),
        ((q @ q) ** -1.5, 0.0, math.inf),
        (q[0] ** 3, *NONE),
        (q[0] ** 4, 0.0, math.inf),
        (q[0] * q[1], *NONE),
        (abs(q[0]) - 1, -1.0, math.inf),
        (tp.tanh(q[0]) + 1, 0.0, 2.0),
        (tp.exp(-(q @ q)), 0.0, 1.0),
        (1 / (1 - mu), *NONE),
        (tp.where(q[0] < 0, mu, 3.0), 0.5, 3.0),
        (tp.maximum(q[0], 0.0), 0.0, math.inf),
        (tp.erf(q[0]), -1.0, 1.0),
        (mu**-2.0, 0.25, 4.0),
        (mu**-1.0, 0.5, 2.0),
    ],
)
def test_what_is_known_of_an_expression(u, low, high):
    assert range_of(u, KNOWN) == pytest.approx((low, high))


def test_every_value_lies_in_it():
    rng, x = np.random.default_rng(1), UOp.var("x")
    for f in (
        lambda x: x**2 - x,
        lambda x: np.cos(x) / (1 + x**2),
        lambda x: 1 / (x - 3),
        lambda x: np.exp(x) * np.sin(x),
    ):
        low, high = range_of(f(x), {x: (-2.0, 2.5)})
        values = f(rng.uniform(-2.0, 2.5, 1000))
        assert low <= values.min() and values.max() <= high
