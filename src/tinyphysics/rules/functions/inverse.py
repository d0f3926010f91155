"""How are asin, acos, atan and atan2 computed?  One polynomial each, and identities for large arguments."""

from __future__ import annotations

from tinyphysics.ir import UOp
from tinyphysics.rules.digits.floats import (
    bits,
    flipped,
    format_of,
    magnitude,
    polynomial,
    with_sign_of,
)


def asin_terms(x: UOp) -> tuple[UOp, UOp, UOp]:
    """(|x| > 1/2, t, t z P(z)), with asin t = t + t z P(z); t = |x|, or sqrt((1-|x|)/2) if that is large.

    1 - |x| is exact there, so the ends of the interval lose nothing; beyond them the root is NaN.
    """
    a = magnitude(x)
    large = 0.5 < a
    z = large.where((1.0 - a) * 0.5, a * a)
    t = large.where(z.sqrt(), a)
    return large, t, (t * z) * polynomial(format_of(x)["asin"], z)


def asin(x: UOp) -> UOp:
    """asin |x| = pi/2 - 2 asin sqrt((1-|x|)/2)."""
    high, low, _ = format_of(x)["half_pi"]
    large, t, tail = asin_terms(x)
    t2 = t + t
    return with_sign_of(x, large.where((high - t2) + (low - (tail + tail)), t + tail))


def acos(x: UOp) -> UOp:
    """pi/2 - asin x in the middle; 2 asin sqrt((1-|x|)/2) on the right, pi minus that on the left."""
    F = format_of(x)
    high, low, _ = F["half_pi"]
    large, t, tail = asin_terms(x)
    sign = bits(x) & F.sign
    middle = high - (flipped(t, sign) - (low - flipped(tail, sign)))
    right = (t + tail) * 2.0
    left = 2.0 * high - (right - 2.0 * low)
    return large.where((x < 0.0).where(left, right), middle)


def atan_unit(t: UOp) -> UOp:
    """atan t for 0 <= t <= 1."""
    z = t * t
    return (t * z).fma(polynomial(format_of(t)["atan"], z), t)


def atan(x: UOp) -> UOp:
    high, low, _ = format_of(x)["half_pi"]
    a = magnitude(x)
    large = 1.0 < a
    r = atan_unit(large.where(1.0 / a, a))
    return with_sign_of(x, large.where(high - (r - low), r))


def atan2(y: UOp, x: UOp) -> UOp:
    """The angle of (x, y): atan of the smaller over the larger, put into its octant.

    0/0 stands for 0 and inf/inf for 1, as C99 wants; the sign of x counts even if x is -0.
    """
    F = format_of(x)
    high, low, _ = F["half_pi"]
    a, b = magnitude(y), magnitude(x)
    steep = b < a
    top, bottom = steep.where(b, a), steep.where(a, b)
    even = bottom.eq(0.0).where(bottom, x.lift(1.0))
    ratio = top.eq(bottom).where(even, top / bottom)
    sign = bits(x) & F.sign
    left = bits(x) < 0
    # |angle| = pi/2 -+ r if steep, else r or pi - r
    r = flipped(atan_unit(ratio), steep.where(sign ^ F.sign, sign))
    zero = x.lift(0.0)
    base = steep.where(x.lift(high), left.where(x.lift(2.0 * high), zero))
    rest = steep.where(x.lift(low), left.where(x.lift(2.0 * low), zero))
    return with_sign_of(y, base + (r + rest))
