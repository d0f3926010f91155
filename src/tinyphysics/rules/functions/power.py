"""How are powers and roots computed to two units in the last place?

x**y is exp(y log x) with the logarithm in two words, as y multiplies its error by up to 745. Whole and
half exponents that are constants need no logarithm: they are products, a root and a reciprocal, in two
words where one would not do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tinyphysics.ir import Ops, UOp, f32, f64, u32
from tinyphysics.rules.digits.floats import (
    DOUBLE,
    bits,
    estrin,
    flipped,
    format_of,
    infinity,
    magnitude,
    nan,
    normalised,
    polynomial,
    with_sign_of,
)
from tinyphysics.rules.functions.explog import decomposed, exp_sum

LARGEST_PRODUCT = 16  # constant exponents up to here, in halves, are multiplied out


@dataclass(frozen=True)
class Pair:
    """An unevaluated sum high + low; no low word stands for an exact (or exact enough) high one."""

    high: UOp
    low: UOp | None = None

    def __mul__(self, o: Pair) -> Pair:
        p = self.high * o.high
        error = self.high.fma(o.high, -p)
        if self.low is not None:
            error = self.low.fma(o.high, error)
        if o.low is not None:
            error = self.high.fma(o.low, error)
        return Pair(p, error)

    def rounded(self) -> UOp:
        """One float: the high word alone where it is 0 (and may be -0), or infinite beside a NaN."""
        if self.low is None:
            return self.high
        y = self.high + self.low
        return ((y < self.high) | (self.high < y)).where(y, self.high)


def reciprocal(x: UOp) -> Pair:
    r = 1.0 / x
    return Pair(r, (-x).fma(r, 1.0) * r)


def whole_power(x: Pair, n: int) -> Pair:
    """x**n for n >= 1 by repeated squaring, which passes no number further out than the result."""
    out: Pair | None = None
    while True:
        if n & 1:
            out = x if out is None else out * x
        n >>= 1
        if not n:
            assert out is not None
            return out
        x = x * x


def constant_power(x: UOp, y: float) -> UOp | None:
    """x**y as products, if y is a small multiple of 1/2.

    Bounds in ulp of what has one word: x**3 1.5, x**4 1.92, x**-2 1.92, x**1.5 and x**-0.5 1.5.
    """
    if y != y or abs(y) > LARGEST_PRODUCT or y * 2 != math.floor(y * 2):
        return None
    if y == math.floor(y):
        match int(y):
            case 0:
                return x.lift(1.0).expand(x.shape)  # also for NaN, as in C99
            case 1:
                return x
            case 2:
                return x * x
            case 3:
                return x * x * x
            case 4:
                return (x * x) * (x * x)
            case -1:
                return 1.0 / x
            case -2:
                return (1.0 / x) * (1.0 / x)  # 1/(x*x) leaves the range too early
        return whole_power(reciprocal(x) if y < 0 else Pair(x), abs(int(y))).rounded()
    x = x.eq(-infinity(x)).where(infinity(x), x + 0.0)  # C99: as +inf, and -0 as +0
    match y:
        case 0.5:
            return x.sqrt()
        case -0.5:
            return 1.0 / x.sqrt()
        case 1.5:
            return x * x.sqrt()
        case -1.5:
            return inverse_cube(x)
    base = reciprocal(x) if y < 0 else Pair(x)
    return (whole_power(base, int(abs(y))) * Pair(base.high.sqrt())).rounded()


# --- x**-1.5: the force of a pair is the sum of thousands of them ----------------------------------
def is_inverse_cube(u: UOp) -> bool:
    """Has it a fast path?"""
    return u.op is Ops.POW and u.dtype is f64 and u.src[1].op is Ops.CONST and u.src[1].arg == -1.5


def near_inverse_cube(x: UOp) -> UOp:
    """A root and a division in float32, which every machine rounds correctly, and does in a third of the time.

    Their product y has 24 bits, so that y*y is exact, and x y**2 = 1 - e with |e| < 2**-20: two terms of the series
    of (1 - e)**-1.5 are enough, and the error is below one ulp. Where float32 does not hold both x and 1/x to at least
    22 bits, one of them is infinite, and this is infinite or NaN.
    """
    a = x.cast(f32)
    y = (a.sqrt() * (1.0 / a)).cast(f64)
    u = y * y
    e = (-x).fma(u, 1.0)
    cube = y * u
    return (cube * e).fma(e.fma(1.875, 1.5), cube)


def too_far(x: UOp) -> UOp:
    """Is the fast path not for this x?"""
    y = near_inverse_cube(x)
    return (y - y).ne(0.0)


def inverse_cube(x: UOp) -> UOp:
    """x**-1.5 for any x, the bits of the fast path where that is allowed; the other way is within 1.96 ulp."""
    far = (1.0 / x.sqrt()) / x  # leaves the range where x**-1.5 does
    return too_far(x).where(far, near_inverse_cube(x)) if x.dtype is f64 else far


def near_power(x: UOp, y: UOp) -> UOp | None:
    """The fast path of x**y, if it has one."""
    return near_inverse_cube(x) if is_inverse_cube(x**y) else None


def log_pair(a: UOp) -> tuple[UOp, UOp]:
    """log a in two words, to about 2**-68 (float32: 2**-36) of itself, for finite a > 0."""
    F = format_of(a)
    k, m = decomposed(a)
    f = m - 1.0
    d = m + 1.0
    inverse = 1.0 / d
    s = f * inverse
    minus = -s
    s_low = minus.fma(m - (d - 1.0), minus.fma(d, f)) * inverse
    z = s * s
    z_low = (s + s).fma(s_low, s.fma(s, -z))
    first, second = F["two_thirds"]
    tail = z * polynomial(F["log_tail"], z)
    c = tail + first
    c_low = ((first - c) + tail) + second
    w = Pair(s, s_low) * Pair(z, z_low) * Pair(c, c_low)
    assert w.low is not None
    s2, s2_low = s + s, s_low + s_low
    whole = k * F["ln2_short"][0]  # exact
    top = whole + s2
    high = top + w.high
    low = ((whole - top) + s2) + ((top - high) + w.high)
    low = low + (k.fma(F["ln2_short"][1], s2_low) + w.low)
    total = high + low
    return total, (high - total) + low


def is_whole(a: UOp) -> UOp:
    """Whether a >= 0 is an integer; above 2**mantissa all floats are."""
    large = 2.0 ** format_of(a).mantissa
    return ((a + large) - large).eq(a) | (large <= a)


def power(x: UOp, y: UOp) -> UOp:
    """x**y with the special cases of C99."""
    if y.op is Ops.CONST and (short := constant_power(x, y.arg)) is not None:
        return short
    F = format_of(x)
    a, b = magnitude(x), magnitude(y)
    log_a, low = log_pair(a)
    log_a = (a < infinity(a)).where(log_a, a)
    log_a = a.eq(0.0).where(-infinity(a), log_a)
    h = y * log_a
    out = exp_sum(h, y.fma(low, y.fma(log_a, -h)))
    out = (a.eq(1.0) | y.eq(0.0)).where(x.lift(1.0), out)
    whole = is_whole(b)
    odd = whole & ~is_whole(b * 0.5)
    out = flipped(out, odd.where(bits(x) & F.sign, bits(x).lift(0)))
    return (((x < 0.0) & (-infinity(x) < x)) & ~whole).where(nan(x), out)


# --- roots -----------------------------------------------------------------------------------------
def refined(y: UOp, g: UOp, series: Sequence[float]) -> UOp:
    """y (1+g)**p for small g, from the series of ((1+g)**p - 1)/g."""
    return (y * g).fma(estrin(series, g), y)


def rsqrt(x: UOp) -> UOp:
    """1/sqrt x without a division: half the exponent by a shift, then two steps of Newton's kind."""
    F = format_of(x)
    shift = F.mantissa + (2 if F.mantissa % 2 == 0 else 1)
    a, tiny = normalised(x, shift)
    seed = 0x5FE6EB50C7B537A9 if F is DOUBLE else 0x5F375A86  # Lomont 2003: |a y**2 - 1| < 0.07
    y = (seed - (bits(a) >> 1)).bitcast(x.dtype)
    for terms in (4, 2) if F is DOUBLE else (3, 1):
        y = refined(y, (a * y).fma(y, -1.0), (-1 / 2, 3 / 8, -5 / 16, 35 / 128)[:terms])
    y = tiny.where(y * 2.0 ** (shift // 2), y)
    ends = (bits(x) ^ F.pattern(math.inf)).bitcast(x.dtype)  # 0 and infinity change places
    y = (x + x).eq(x).where(ends, y)
    return (x < 0.0).where(nan(x), y)


def cbrt(x: UOp) -> UOp:
    """a y**2 with y = a**(-1/3) from a third of the exponent, then one exact Newton step."""
    F = format_of(x)
    shift = F.mantissa + (2 if F is DOUBLE else 1)  # a multiple of 3
    a0 = magnitude(x)
    a, tiny = normalised(a0, shift)
    third = 0x55555556  # 2**32/3
    if F is DOUBLE:  # the seeds leave |a y**3 - 1| < 0.103
        y = ((0x553EE8FF - (((bits(a) >> 32) * third) >> 32)) << 32).bitcast(x.dtype)
    else:
        y = (0x54A1FA8C - a.bitcast(u32).alu(Ops.MULHI, third)).bitcast(x.dtype)
    for terms in (4, 1) if F is DOUBLE else (4,):
        y = refined(y, (a * y).fma(y * y, -1.0), (-1 / 3, 2 / 9, -14 / 81, 35 / 243)[:terms])
    y2 = y * y
    t = a * y2
    minus = -t
    t2 = t * t
    missing = t.fma(minus.fma(t, t2), minus.fma(t2, a))  # a - t**3
    t = missing.fma(y2 * (1 / 3), t)
    t = tiny.where(t * 2.0 ** (-shift // 3), t)
    return with_sign_of(x, (a0 < infinity(x)).where(t, a0))


def hypot(x: UOp, y: UOp) -> UOp:
    """sqrt(x**2 + y**2), scaled where a square would leave the range; infinite beside a NaN too."""
    F = format_of(x)
    a, b = magnitude(x), magnitude(y)
    steep = a < b
    high, low = steep.where(b, a), steep.where(a, b)
    edge, scale = 2.0 ** (F.bias // 2 - 1), 2.0 ** (F.bias // 2 + F.mantissa + 3)
    large, small = edge < high, high < 1 / edge
    one = x.lift(1.0)
    down = large.where(x.lift(1 / scale), small.where(x.lift(scale), one))
    up = large.where(x.lift(scale), small.where(x.lift(1 / scale), one))
    high, low = high * down, low * down
    out = high.fma(high, low * low).sqrt() * up
    return (a.eq(infinity(x)) | b.eq(infinity(x))).where(infinity(x), out)
