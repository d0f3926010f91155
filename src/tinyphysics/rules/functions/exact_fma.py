"""What is x*y + z with one rounding, on a machine that rounds the product and the sum?

A product is the sum of two numbers, and so is a sum. The three addends that are left become two, the smaller of them
rounded to odd: no later rounding can then go the wrong way (Boldo and Melquiond 2008, "Emulation of FMA and correctly rounded
sums"). That holds where no exponent leaves the range; elsewhere the operands are brought to numbers near 1, and the result is
rounded where subnormal numbers end.
"""

from __future__ import annotations

from tinyphysics.ir import Ops, UOp, f32, f64, i64

FACTOR = (
    400  # exponents of factors up to here, and of the addend up to twice this: nothing overflows or is lost
)
ADDEND = 800
FAR = 60  # an addend with so much larger an exponent than the product is the result
STICKY = -120  # and one with so much smaller an exponent is not more than a sign
BIAS, MANTISSA, FIELD = 1023, 52, 0x7FF
LEAST = -1022  # the exponent of the smallest normal number
LOW = 27  # bits of a factor that are split off: 26 are left, and products of such halves are exact


def single(x: UOp, y: UOp, z: UOp) -> UOp:
    """Of float32: the product is exact in float64, and the sum is rounded to odd there."""
    return to_odd(x.cast(f64) * y.cast(f64), z.cast(f64)).cast(f32)


def is_usual(x: UOp, y: UOp, z: UOp) -> UOp:
    """Is `usual` right?  Neither factor is 0, and no exponent is extreme."""
    a, b, c = exponent(x), exponent(y), exponent(z)
    near = (-FACTOR <= a) & (a <= FACTOR) & (-FACTOR <= b) & (b <= FACTOR)
    return near & (c <= ADDEND)


def usual(x: UOp, y: UOp, z: UOp) -> UOp:
    high, low = two_parts(x, y, z)
    return high + low


def always(x: UOp, y: UOp, z: UOp) -> UOp:
    """For all arguments: zeros, subnormal numbers, overflow, infinities, NaN."""
    plain = x.eq(0.0) | y.eq(0.0) | (exponent(x) > BIAS) | (exponent(y) > BIAS)
    return plain.where(x * y + z, (exponent(z) > BIAS).where(z, z.eq(0.0).where(x * y, scaled(x, y, z))))


def scaled(x: UOp, y: UOp, z: UOp) -> UOp:
    """Of finite numbers other than 0."""
    (a, ea), (b, eb), (c, ec) = map(significand, (x, y, z))
    # a product below 2**-1200 is far below every addend
    e = larger(ea + eb, -1200)
    above = ec - e
    high, low = two_parts(a, b, c * power(larger(smaller(above, FAR), STICKY)))
    near_one = high + low
    # what becomes subnormal is rounded once, at its own last bit, by a number with that last bit
    sign = bits(near_one) & -(1 << 63)
    grid = (bits(power(LEAST - e)) | sign).bitcast(f64)
    up, rest = two_sum(grid, high)
    rounded = (up + to_odd(rest, low)) - grid
    small = (bits(rounded) & ((1 << 63) - 1) | sign).bitcast(f64)
    subnormal = exponent(near_one) + e < LEAST
    there = near_one.eq(0.0).where(near_one, subnormal.where(small, near_one))
    half = e.alu(Ops.SAR, e.lift(1))
    return (above > FAR).where(z, there * power(half) * power(e - half))


def two_parts(x: UOp, y: UOp, z: UOp) -> tuple[UOp, UOp]:
    """x*y + z as two numbers whose rounded sum has the rounding of the exact one."""
    product, error = two_product(x, y)
    t, t_low = two_sum(z, error)
    v, v_low = two_sum(product, t)
    return v, to_odd(t_low, v_low)


def two_sum(a: UOp, b: UOp) -> tuple[UOp, UOp]:
    """(the rounded sum, what it lacks): Knuth's six operations."""
    s = a + b
    other = s - a
    return s, (a - (s - other)) + (b - other)


def two_product(a: UOp, b: UOp) -> tuple[UOp, UOp]:
    """(the rounded product, what it lacks), without a fused operation: Dekker's products of halves."""
    p = a * b
    (a1, a0), (b1, b0) = halves(a), halves(b)
    return p, (((a1 * b1 - p) + a1 * b0) + a0 * b1) + a0 * b0


def halves(a: UOp) -> tuple[UOp, UOp]:
    """The nearest number of 26 bits, and the rest, which has 26 too."""
    high = ((bits(a) + (1 << (LOW - 1))) & -(1 << LOW)).bitcast(f64)
    return high, a - high


def to_odd(a: UOp, b: UOp) -> UOp:
    """a + b; if it is not exact, that neighbour whose last bit is 1."""
    s, rest = two_sum(a, b)
    whole = bits(s)
    away = (bits(rest) ^ whole).alu(
        Ops.SAR, whole.lift(63)
    ) | 1  # 1 if the exact sum is farther from 0, else -1
    inexact = (rest < 0.0) | (0.0 < rest)  # also False for what infinities leave
    return (whole + (inexact & (whole & 1).eq(0)).where(away, 0)).bitcast(f64)


def bits(x: UOp) -> UOp:
    return x.bitcast(i64)


def exponent(x: UOp) -> UOp:
    """Of a normal number; less than all of them for 0 and subnormal ones, more for what is not finite."""
    return ((bits(x) >> MANTISSA) & FIELD) - BIAS


def power(e: UOp) -> UOp:
    """2**e, of a normal number."""
    return ((e + BIAS) << MANTISSA).bitcast(f64)


def significand(x: UOp) -> tuple[UOp, UOp]:
    """(m, e): x = m 2**e with 1 <= |m| < 2."""
    tiny = exponent(x) < LEAST
    whole = tiny.where(x * 2.0**54, x)
    ex = exponent(whole)
    m = (bits(whole) & ~(FIELD << MANTISSA) | (BIAS << MANTISSA)).bitcast(f64)
    return m, ex - tiny.where(ex.lift(54), 0)


def larger(e: UOp, least: int) -> UOp:
    return (e < least).where(least, e)


def smaller(e: UOp, most: int) -> UOp:
    return (e < most).where(e, most)
