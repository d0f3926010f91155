"""How is the flow of an oscillator computed, and applied?  Its times once, from an angle in two words; then three shears.

w = sqrt(a b) and w h are rounded, and an angle of a million turns would lose the digits that count: so what is lost is
kept in a second word, and sine and cosine see both.
"""

from __future__ import annotations

import math
from fractions import Fraction

from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp
from tinyphysics.rules.digits.floats import magnitude, polynomial
from tinyphysics.rules.formulas.oscillators import Oscillator

SHORT = 1.0  # the square of an angle up to which a series gives what a difference would lose
TERMS = 9  # of it: the next one is below 2**-60 of the first
# (x - sin x)/x**3, in x**2
SERIES = [float(Fraction((-1) ** k, math.factorial(2 * k + 3))) for k in range(TERMS)]


def two_words(a: UOp, b: UOp, h: UOp) -> tuple[UOp, UOp, UOp]:
    """(w, w h, what is lost of w h) with w = sqrt(|a b|)."""
    square = a * b
    turns = 0.0 <= square
    size = turns.where(square, -square)
    lost = a.fma(b, -square)
    w = size.sqrt()
    low = (w.fma(-w, size) + turns.where(lost, -lost)) / w.eq(0.0).where(w.lift(1.0), w + w)
    x = w * h
    return w, x, w.fma(h, -x) + low * h


def turned_by(u: UOp) -> UOp:
    """The angle that sine and cosine see in one of the four."""
    a, b, h = u.src
    return (0.0 <= a * b).where(two_words(a, b, h)[1], 0.0)


def arcs(a: UOp, b: UOp, h: UOp) -> dict[Ops, UOp]:
    """What ir/harmonic.py says, in other operations."""
    w, x, rest = two_words(a, b, h)
    square, still = a * b, w.eq(0.0)
    turns, over = 0.0 <= square, still.where(w.lift(1.0), w)
    angle, low = turns.where(x, 0.0), turns.where(rest, 0.0)  # of a growth they may be anything
    sin0, cos0, second = angle.sin(), angle.cos(), low * low * -0.5
    sin, cos = low.fma(cos0, sin0.fma(second, sin0)), low.fma(-sin0, cos0.fma(second, cos0))
    flips = cos < 0.0
    turned, left = flips.where(-sin, sin), flips.where(-cos, cos)
    growth = turns.where(0.0, magnitude(x)).expm1()
    sinh = growth.fma(0.5, 0.5 * (growth / (growth + 1.0)))
    back = h < 0.0
    kick = turns.where(turned, back.where(-sinh, sinh)) / over
    half = growth / (growth + 2.0)
    drift = turns.where(turned / (left + 1.0), back.where(-half, half)) / over
    z = square * h * h
    far = z.lift(SHORT) < magnitude(z)
    mean = turns.where(sin, back.where(-sinh, sinh)) / far.where(x, 1.0)
    lag = far.where((1.0 - mean) / far.where(b, 1.0), a * h * h * polynomial(SERIES, z))
    one = w.lift(1.0)
    sign = (z - z).eq(0.0).where(flips.where(-one, one), w.lift(math.nan))
    return {
        Ops.HARMONIC_SIGN: sign,
        Ops.HARMONIC_DRIFT: still.where(h * 0.5, drift),
        Ops.HARMONIC_KICK: still.where(h, kick),
        Ops.HARMONIC_LAG: lag,
    }


def expand(u: UOp) -> UOp:
    """One of the four, in the minimal operators and functions that become them."""
    return arcs(*u.src)[u.op]


# --- what is done with them ------------------------------------------------------------------------------
def arc(what: Ops, o: Oscillator, h: UOp) -> UOp:
    return UOp(what, o.a.dtype, o.a.shape, (o.a, o.b, h.expand(o.a.shape)))


def turned(q: UOp, p: UOp, o: Oscillator, h: UOp) -> tuple[UOp, UOp]:
    """Where the flow of an oscillator takes a pair in a time h, from coefficients that no state enters."""
    sign, drift, kick = (
        arc(what, o, h) for what in (Ops.HARMONIC_SIGN, Ops.HARMONIC_DRIFT, Ops.HARMONIC_KICK)
    )
    q, p = about(q, sign, o.b, o.f), about(p, sign, o.a, o.g)
    q = moved(q, drift * o.a, p, None if o.g is None else drift * o.g)
    p = moved(p, -(kick * o.b), q, None if o.f is None else -(kick * o.f))
    return moved(q, drift * o.a, p, None if o.g is None else drift * o.g), p


def about(x: UOp, sign: UOp, curvature: UOp, slope: UOp | None) -> UOp:
    """x with its sign, about the place where curvature*x + slope vanishes: only what has such a place turns."""
    if slope is None:
        return sign * x
    return sign.fma(x, (sign < 0.0).where((slope * -2.0) / curvature, 0.0))


def moved(x: UOp, by: UOp, other: UOp, constant: UOp | None) -> UOp:
    return by.fma(other, x) if constant is None else x + by.fma(other, constant)


def averaged(q: UOp, o: Oscillator, h: UOp) -> UOp:
    """The mean over the time from -h to h of what begins at q at rest."""
    lag = arc(Ops.HARMONIC_LAG, o, h)
    slope = o.b * q if o.f is None else o.b * q + o.f
    return q - lag * slope
