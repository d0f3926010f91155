"""How far does an oscillator go in a time h?  The flow of a*p*p/2 + b*q*q/2 as a drift, a kick and the same drift.

With w = sqrt(a b) and x = w h, the flow is q cos x + p a sin(x)/w, p cos x - q b sin(x)/w. Half turns are taken out of it:
each is q -> -q, p -> -p. What is left, an angle of at most a quarter turn, is three shears, as a rotation of an image is:
a drift for tan(x/2)/w, a kick for sin(x)/w, and the drift again. So its determinant is 1 whatever is rounded, and an
oscillation neither grows nor dies. With a b < 0 the functions are hyperbolic, with a b = 0 the times are h/2 and h.
"""

from __future__ import annotations

import math

INF = math.inf


def angle(a: float, b: float, h: float) -> tuple[float, float, bool]:
    """(w, w h, is it a rotation?)."""
    square = a * b
    w = math.sqrt(abs(square))
    return w, w * h, square >= 0.0


def bad(a: float, b: float, h: float) -> bool:
    return not (math.isfinite(a * b) and math.isfinite(h) and math.isfinite(a * b * h))


def sign_of(a: float, b: float, h: float) -> float:
    """-1 if an odd number of half turns is nearest to the angle.

    >>> sign_of(1.0, 1.0, 3.0), sign_of(1.0, 1.0, 1.0), sign_of(1.0, -1.0, 3.0)
    (-1.0, 1.0, 1.0)
    """
    if bad(a, b, h):
        return math.nan
    w, x, turns = angle(a, b, h)
    return -1.0 if turns and math.cos(x) < 0.0 else 1.0


def kick_time(a: float, b: float, h: float) -> float:
    """sin(x)/w of the angle that is left: h where nothing oscillates."""
    if bad(a, b, h):
        return math.nan
    w, x, turns = angle(a, b, h)
    if not w:
        return h
    if turns:
        return sign_of(a, b, h) * math.sin(x) / w
    return math.sinh(x) / w if abs(x) < 700 else math.copysign(INF, x)


def drift_time(a: float, b: float, h: float) -> float:
    """tan(x/2)/w of the angle that is left."""
    if bad(a, b, h):
        return math.nan
    w, x, turns = angle(a, b, h)
    if not w:
        return h / 2
    return kick_time(a, b, h) / (1.0 + abs(math.cos(x))) if turns else math.tanh(x / 2) / w


def lag(a: float, b: float, h: float) -> float:
    """(1 - sin(x)/x)/b: what begins at rest at q has the mean q - lag*b*q from -h to h.

    >>> lag(1.0, 0.0, 3.0)
    1.5
    """
    if bad(a, b, h):
        return math.nan
    w, x, turns = angle(a, b, h)
    if abs(x) < 1e-4:
        return a * h * h / 6
    mean = math.sin(x) / x if turns else math.sinh(x) / x if abs(x) < 700 else INF
    return (1.0 - mean) / b
