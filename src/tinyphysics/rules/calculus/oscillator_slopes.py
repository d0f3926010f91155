"""How do the times of an oscillator's flow change with its coefficients and with the time it goes on for?

But for half turns the flow is a drift for d = tan(x/2)/w, a kick for k = sin(x)/w and the drift again, with x = w h and
w**2 = m = a b. Their derivatives follow from each other: with L = (h - k)/m, dk/dm = (L - h k d)/2 and dd/dm = dd/dh L/2.
Where x is small, L is a series. The number of half turns is constant between its jumps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp
from tinyphysics.rules.digits.floats import magnitude, polynomial

SHORT = 1.0  # the square of an angle up to which series give what differences would lose
TERMS = 10
# (x - sin x)/x**3, in x**2, and its derivative by x**2
SERIES = [float(Fraction((-1) ** k, math.factorial(2 * k + 3))) for k in range(TERMS)]
SLOPES = [float((k + 1) * Fraction((-1) ** (k + 1), math.factorial(2 * k + 5))) for k in range(TERMS)]

Slopes = tuple[UOp | None, ...]


def beside(u: UOp, op: Ops) -> UOp:
    return UOp(op, u.dtype, u.shape, u.src)


def quotient(is_safe: UOp, top: UOp, below: UOp) -> UOp:
    """top/below where that is asked for; elsewhere anything finite."""
    return top / is_safe.where(below, below.lift(1.0).expand(below.shape))


def series(c: Sequence[float], x: UOp) -> UOp:
    return polynomial(c, x)


def of_oscillator(u: UOp) -> Slopes:
    """By (a, b, h), for each of the four."""
    if u.op is Ops.HARMONIC_SIGN:
        return None, None, None
    a, b, h = u.src
    m = a * b
    z = m * h * h
    far = z.lift(SHORT).expand(z.shape) < magnitude(z)
    kick, drift = beside(u, Ops.HARMONIC_KICK), beside(u, Ops.HARMONIC_DRIFT)
    lack = far.where(quotient(far, h - kick, m), h * h * h * series(SERIES, z))
    product = kick * drift
    cosine = 1.0 - m * product
    by_m = 0.5 * (lack - h * product)
    if u.op is Ops.HARMONIC_KICK:
        return b * by_m, a * by_m, cosine
    if u.op is Ops.HARMONIC_DRIFT:
        grows = z < z.lift(-SHORT).expand(z.shape)  # 1 - tanh(x/2)**2 would lose its digits
        by_h = grows.where(quotient(grows, drift, kick), 0.5 * (1.0 + m * drift * drift))
        each = 0.5 * (by_h * lack)
        return b * each, a * each, by_h
    sign = beside(u, Ops.HARMONIC_SIGN)
    near, steep = series(SERIES, z), series(SLOPES, z)
    square = h * h
    later = quotient(far, quotient(far, sign * kick, h) - sign * cosine, h)
    return (
        far.where(-quotient(far, sign * by_m, h), square * (near + z * steep)),
        far.where(
            -quotient(far, u + quotient(far, sign * (a * by_m), h), b), a * a * square * square * steep
        ),
        far.where(quotient(far, later, b), 2.0 * (a * h * (near + z * steep))),
    )
