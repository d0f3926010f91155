"""Random bits without a state: a function of (seed, stream, step, index), equal on every machine.

Philox4x32-10 of Salmon, Moraes, Dror & Shaw 2011 ("Parallel random numbers: as easy as 1, 2, 3"). Uniform
numbers are exact in the bits; normal ones use +, *, / and sqrt alone, no mathematics library, so that they
too have the same bits everywhere. On the host, that is; rules/functions/random.py says the same of kernels.
"""

from __future__ import annotations

import math
from typing import Any

from tinyphysics.errors import InputError

MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)  # golden ratio, sqrt(3) - 1
ROUNDS = 10
WORD = 0xFFFFFFFF

Words = tuple[Any, Any, Any, Any]  # four integers, or arrays of them with 64 bits each


def philox4x32(counter: Words, key: tuple[int, int], rounds: int = ROUNDS) -> Words:
    """Four words of 32 bits from a counter of four and a key of two.

    >>> [f"{w:08x}" for w in philox4x32((0, 0, 0, 0), (0, 0))]
    ['6627e8d5', 'e169c58d', 'bc57ac4c', '9b00dbd8']
    """
    a, b, c, d = counter
    k, l = key  # noqa: E741
    for _ in range(rounds):
        left, right = MULTIPLIERS[0] * a, MULTIPLIERS[1] * c
        a, b, c, d = right >> 32 ^ b ^ k, right & WORD, left >> 32 ^ d ^ l, left & WORD
        k, l = (k + WEYL[0]) & WORD, (l + WEYL[1]) & WORD  # noqa: E741
    return a, b, c, d


# bits; a counter and a key have 192 together. n is how many indices are drawn at once
LIMITS = {"seed": 64, "stream": 32, "step": 48, "index": 48, "n": 48}


def checked(**address: Any) -> None:
    for name, value in address.items():
        if not hasattr(value, "__index__") or isinstance(value, bool):
            raise InputError(f"{name}={value!r} is not a whole number", fix=f"Pass {name}=0, 1, 2, ...")
        if not 0 <= int(value) < 1 << LIMITS[name]:
            raise InputError(
                f"{name}={value} does not fit {LIMITS[name]} bits",
                fix=f"Pass {name} from 0 to 2**{LIMITS[name]} - 1.",
            )


def counter_words(stream: int, step: int, index: Any) -> tuple[Any, Any, Any, Any]:
    """Low words of index and step, their high halves side by side, the stream."""
    return index & WORD, step & WORD, index >> 32 << 16 | step >> 32, stream


def key_words(seed: int) -> tuple[int, int]:
    return seed & WORD, seed >> 32


def random_bits(seed: int, stream: int = 0, step: int = 0, index: int = 0) -> Words:
    """128 random bits as four words; another address, other bits."""
    checked(seed=seed, stream=stream, step=step, index=index)
    return philox4x32(counter_words(int(stream), int(step), int(index)), key_words(int(seed)))


def unit_interval(high: Any, low: Any) -> Any:
    """53 of 64 bits as a number in [0, 1): a multiple of 2**-53, so nothing is rounded."""
    return ((high >> 5) * 67108864.0 + (low >> 6)) * 2.0**-53


def uniform_pair(seed: int, stream: int = 0, step: int = 0, index: int = 0) -> tuple[float, float]:
    """Two independent numbers, uniform in [0, 1)."""
    a, b, c, d = random_bits(seed, stream, step, index)
    return unit_interval(a, b), unit_interval(c, d)


# --- normal numbers ---------------------------------------------------------------------------------
# the expressions below take floats and NumPy arrays alike, and round alike; `polynomial` takes symbols too
LN2 = 0.6931471805599453
TWO_PI = 6.283185307179586
ATANH = tuple(1 / k for k in range(1, 25, 2))  # of z**(k-1); z**2 < 0.0295, the next term is below 1e-19
SIN = tuple((-1) ** k / math.factorial(2 * k + 1) for k in range(9))  # of x**(2k); |x| <= pi/4
COS = tuple((-1) ** k / math.factorial(2 * k) for k in range(10))


def polynomial(coefficients: tuple[Any, ...], x: Any) -> Any:
    out = coefficients[-1]
    for c in coefficients[-2::-1]:
        out = out * x + c
    return out


def logarithm(mantissa: Any, exponent: Any) -> Any:
    """log(mantissa * 2**exponent), sqrt(1/2) <= mantissa < sqrt(2)."""
    z = (mantissa - 1.0) / (mantissa + 1.0)
    return exponent * LN2 + 2.0 * z * polynomial(ATANH, z * z)


def cos_sin_near_zero(turns: Any) -> tuple[Any, Any]:
    """Of an angle in whole turns, at most an eighth of one."""
    x = TWO_PI * turns
    return polynomial(COS, x * x), x * polynomial(SIN, x * x)


def cos_sin(turns: float) -> tuple[float, float]:
    """Cosine and sine of an angle in whole turns; quarters of a turn are exact.

    >>> cos_sin(0.25)
    (-0.0, 1.0)
    """
    quarter = math.floor(4.0 * turns + 0.5)
    c, s = cos_sin_near_zero(turns - 0.25 * quarter)
    return ((c, s), (-s, c), (-c, -s), (s, -c))[quarter % 4]


def normal_pair(seed: int, stream: int = 0, step: int = 0, index: int = 0) -> tuple[float, float]:
    """Two independent numbers, normal with mean 0 and variance 1 (Box & Muller 1958)."""
    u, v = uniform_pair(seed, stream, step, index)
    mantissa, exponent = math.frexp(1.0 - u)  # in (0, 1]: the logarithm is finite
    if mantissa < math.sqrt(0.5):
        mantissa, exponent = 2.0 * mantissa, exponent - 1
    radius = math.sqrt(-2.0 * logarithm(mantissa, exponent))
    c, s = cos_sin(v)
    return radius * c, radius * s
