"""Random numbers for initial conditions, whole arrays at a time: the bits of tinyphysics.philox, by NumPy.

Row i is the address (seed, stream, step, i): it does not depend on how many rows are drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tinyphysics.philox import checked, counter_words, key_words, logarithm, philox4x32, unit_interval
from tinyphysics.physics.portable import cos_sin


def words(count: int, seed: int, stream: int = 0, step: int = 0) -> tuple[Any, ...]:
    """Four arrays of 32-bit words, each in 64 bits, so that products are whole."""
    checked(seed=seed, stream=stream, step=step, n=count)
    counter = counter_words(int(stream), int(step), np.arange(count, dtype=np.int64))
    a, b, c, d = (np.broadcast_to(np.asarray(w, np.uint64), (count,)) for w in counter)
    return philox4x32((a, b, c, d), key_words(int(seed)))


def uniform(count: int, seed: int, stream: int = 0, step: int = 0) -> Any:
    """(count, 2) numbers, uniform in [0, 1)."""
    a, b, c, d = (w.astype(np.int64) for w in words(count, seed, stream, step))
    return np.stack([unit_interval(a, b), unit_interval(c, d)], axis=1)


def normal(count: int, seed: int, stream: int = 0, step: int = 0) -> Any:
    """(count, 2) numbers, normal with mean 0 and variance 1."""
    u, v = uniform(count, seed, stream, step).T
    mantissa, exponent = np.frexp(1.0 - u)
    small = mantissa < np.sqrt(0.5)
    log = logarithm(np.where(small, 2.0 * mantissa, mantissa), exponent - small)
    return np.stack(cos_sin(v), axis=1) * np.sqrt(-2.0 * log)[:, None]


def accepted(count: int, seed: int, stream: int, test: Callable[[Any, Any], Any]) -> tuple[Any, Any]:
    """For each row the first pair of uniform numbers that passes the test; attempt k is step k."""
    out, waiting, step = np.empty((count, 2)), np.arange(count), 0
    while len(waiting):
        pair = uniform(count, seed, stream, step)[waiting]
        good = test(*pair.T)
        out[waiting[good]] = pair[good]
        waiting, step = waiting[~good], step + 1
    return out[:, 0], out[:, 1]


def directions(count: int, seed: int, stream: int = 0) -> Any:
    """(count, 3) unit vectors, uniform on the sphere: Marsaglia 1972, points in a disc lifted to it."""

    def squared(u: Any, v: Any) -> Any:
        return (2.0 * u - 1.0) ** 2 + (2.0 * v - 1.0) ** 2

    u, v = accepted(count, seed, stream, lambda u, v: squared(u, v) < 1.0)
    s = squared(u, v)
    root = 2.0 * np.sqrt(1.0 - s)
    return np.stack([(2.0 * u - 1.0) * root, (2.0 * v - 1.0) * root, 1.0 - 2.0 * s], axis=1)
