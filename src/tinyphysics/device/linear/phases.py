"""Sines and cosines of many phases at once, to 30 digits: frequencies times the times of all frames.

A phase is reduced by whole 512ths of a turn; the sine and cosine of those are in a table, and what is left has a short
series. Only +, - and * of floats are used, element by element: a phase has the same bits whatever is computed beside it.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from tinyphysics.device.linear.double_double import DD, of_fraction, two_sum
from tinyphysics.device.linear.double_double import halves as halves_of

PARTS = 512  # of a turn, whose sines are in a table
BLOCK = 2048  # phases that are computed together, so that what is between stays in a cache
BITS = 256  # of the numbers that the table is made of
# pi*2**256, rounded down
PI = 0x3243F6A8885A308D313198A2E03707344A4093822299F31D0082EFA98EC4E6C89

Words = tuple[Any, Any, Any, Any]  # high and low, and the two halves of the digits of high


def words(high: Any, low: Any) -> Words:
    return high, low, *halves_of(high)


def product(a: Words, b: Words) -> tuple[Any, Any]:
    """Of numbers of two words each."""
    p = a[0] * b[0]
    e = a[2] * b[2]
    e -= p
    e += a[2] * b[3]
    e += a[3] * b[2]
    e += a[3] * b[3]
    e += a[0] * b[1]
    e += a[1] * b[0]
    s = p + e
    e -= s - p
    return s, e


def total(a: tuple[Any, Any], b: tuple[Any, Any]) -> tuple[Any, Any]:
    """A sum, right relative to the larger of the two."""
    s, e = two_sum(a[0], b[0])
    e += a[1] + b[1]
    t = s + e
    e -= t - s
    return t, e


def total_of_unequal(a: tuple[Any, Any], b: tuple[Any, Any]) -> tuple[Any, Any]:
    """The same where a is known to be the larger."""
    s = a[0] + b[0]
    e = b[0] - (s - a[0])
    e += a[1] + b[1]
    t = s + e
    e -= t - s
    return t, e


def difference(a: tuple[Any, Any], b: tuple[Any, Any]) -> tuple[Any, Any]:
    return total(a, (-b[0], -b[1]))


def two_floats(x: int) -> tuple[float, float]:
    """x/2**256 in two words."""
    high = float(x)  # an int is rounded to the nearest float
    return high * 2.0**-BITS, float(x - int(high)) * 2.0**-BITS


@lru_cache(maxsize=1)
def words_of_a_part() -> tuple[Words, Words, float]:
    """2 pi/512 as three floats, each of what the others leave."""
    part = Fraction(2 * PI, PARTS << BITS)
    first = float(part)
    second = float(part - Fraction(first))
    third = float(part - Fraction(first) - Fraction(second))
    return words(first, 0.0), words(second, 0.0), third


@lru_cache(maxsize=1)
def table() -> Any:
    """(6, 512): two words each of sin, cos and 1 - cos of every part of a turn."""
    one, x = 1 << BITS, 2 * PI // PARTS
    series, term, k = [0, 0, 0, 0], one, 0
    while term:
        series[k % 4] += term
        k += 1
        term = (term * x >> BITS) // k
    c, s = series[0] - series[2], series[1] - series[3]
    turned = [(0, one)]
    for _ in range(PARTS // 8):  # from one part to the next, up to an eighth of a turn
        a, b = turned[-1]
        turned.append((a * c + b * s >> BITS, b * c - a * s >> BITS))
    eighth = np.array([[*two_floats(a), *two_floats(b), *two_floats(one - b)] for a, b in turned]).T
    quarter, j = np.divmod(np.arange(PARTS), PARTS // 4)
    beyond = j > PARTS // 8
    near = eighth[:4, np.where(beyond, PARTS // 4 - j, j)]
    sine, cosine = np.where(beyond, near[2:], near[:2]), np.where(beyond, near[:2], near[2:])
    sine, cosine = (
        np.choose(quarter, (sine, cosine, -sine, -cosine)),
        np.choose(quarter, (cosine, -sine, -cosine, sine)),
    )
    less = np.array(difference((1.0, 0.0), (cosine[0], cosine[1])))
    small = np.minimum(np.arange(PARTS), PARTS - np.arange(PARTS))
    less = np.where(small <= PARTS // 8, eighth[4:, np.minimum(small, PARTS // 8)], less)
    out = np.concatenate([sine, cosine, less])
    out.flags.writeable = False
    return out


# of the sine: 1 - z/6 + z**2/120 - ..., of 1 - cos: z/2 - z**2/24 + ...; of the last terms one word is enough
SIXTH, ONE_OF_120, ONE_OF_24 = (of_fraction(Fraction(1, k)) for k in (-6, 120, -24))
SINES = (-1.0 / 5040, 1.0 / 362880, -1.0 / 39916800, 1.0 / 6227020800)
COSINES = (1.0 / 720, -1.0 / 40320, 1.0 / 3628800, -1.0 / 479001600)


def last_terms(z: Any, c: tuple[float, ...]) -> Any:
    """z*(c0 + z*(c1 + ...)), in floats."""
    out = z * c[3]
    for x in c[2::-1]:
        out += x
        out *= z
    return out


def reduced(x: tuple[Any, Any]) -> tuple[Any, Words]:
    """(which part of a turn, what is left), of phases below 2**45."""
    part, second, third = words_of_a_part()
    count = np.rint(x[0] * (1.0 / part[0]))
    k = words(count, 0.0)
    p = count * part[0]
    e = ((k[2] * part[2] - p) + k[2] * part[3] + k[3] * part[2]) + k[3] * part[3]
    p1 = count * second[0]
    e1 = ((k[2] * second[2] - p1) + k[2] * second[3] + k[3] * second[2]) + k[3] * second[3]
    low, rest = two_sum(x[1], -e)
    low, more = two_sum(low, -p1)
    high, low = two_sum(x[0] - p, low)  # the difference is exact: they are close
    rest += more
    rest -= e1
    rest -= count * third
    low += rest
    s = high + low
    low -= s - high
    return count, words(s, low)


def waves(x: tuple[Any, Any]) -> tuple[tuple[Any, Any], ...]:
    """(sin, cos, 1 - cos) of phases below 2**45 in size, in two words each."""
    count, r = reduced(x)
    at = count.astype(np.int64) & (PARTS - 1)
    sin_high, sin_low, cos_high, cos_low, less_high, less_low = (np.take(row, at) for row in table())
    z = words(*product(r, r))
    # of what is left: sin r = r + r*z*(-1/6 + z*(1/120 + ...)) and 1 - cos r = z/2 + z*z*(-1/24 + ...)
    inner = total_of_unequal(ONE_OF_120, (last_terms(z[0], SINES), 0.0))
    inner = total_of_unequal(SIXTH, product(z, words(*inner)))
    inner = product(r, words(*product(z, words(*inner))))
    s = words(*total_of_unequal(r[:2], inner))
    inner = total_of_unequal(ONE_OF_24, (last_terms(z[0], COSINES), 0.0))
    inner = product(z, words(*product(z, words(*inner))))
    less = words(*total_of_unequal((z[0] * 0.5, z[1] * 0.5), inner))
    # of the sum with what is in the table
    S, C = words(sin_high, sin_low), words(cos_high, cos_low)
    away = total(product(less, C), product(s, S))
    sine = total(S[:2], difference(product(s, C), product(less, S)))
    return sine, difference(C[:2], away), total((less_high, less_low), away)


def circle(x: DD) -> tuple[DD, DD, DD]:
    """(sin, cos, 1 - cos) of phases of any shape, each below 2**45."""
    shape, out = x.shape, np.empty((6, x.high.size))
    high, low = x.high.reshape(-1), x.low.reshape(-1)
    for k in range(0, len(high), BLOCK):
        here = slice(k, k + BLOCK)
        for row, word in zip(out, (w for pair in waves((high[here], low[here])) for w in pair)):
            row[here] = word
    s0, s1, c0, c1, l0, l1 = (row.reshape(shape) for row in out)
    return DD(s0, s1), DD(c0, c1), DD(l0, l1)
