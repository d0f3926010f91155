"""What are x*y + z, x/y and the root of x in float32, computed with whole numbers of 32 bits alone?

For machines whose own are not rounded once: shading languages promise a fused operation that may be a product and a sum, and
quotients and roots to some units in the last place. Whole numbers are the same on all of them, and no compiler may join or
reorder them. A number is a sign, a significand m of 24 bits and an exponent e, as m * 2**e; the result is two words of 32
bits, of which the last bit stands for all that was lost, and is rounded once.
"""

from __future__ import annotations

from tinyphysics.ir import Ops, UOp, f32, i32, u32

SIGN, FRACTION, HIDDEN, INFINITE = 1 << 31, (1 << 23) - 1, 1 << 23, 0x7F800000
NOT_A_NUMBER = 0x7FC00000
UNIT = 150  # the exponent field of a number whose m * 2**0 it is
DIGITS = 26  # of a quotient and of a root: two more than are kept
FAR = -600  # the exponent of zero as an addend: below everything
Number = tuple[UOp, UOp]  # m, e


def fused(x: UOp, y: UOp, z: UOp) -> UOp:
    """x*y + z with one rounding."""
    bx, by, bz = map(bits, (x, y, z))
    zero = is_zero(bx) | is_zero(by)
    plain = zero | ~(is_finite(bx) & is_finite(by) & is_finite(bz))
    (mx, ex), (my, ey), (mz, ez) = map(number, (bx, by, bz))
    high, low = mx.alu(Ops.MULHI, my), mx * my
    # both with the first bit in place 60 or 61 of 64
    product = (high << 14) | (low >> 18), low << 14
    addend = mz << 6, word(0)
    e_product, e_addend = ex + ey - 14, is_zero(bz).where(ez.lift(FAR), ez - 38)
    d = e_product - e_addend
    more = whole(-1) < d
    far = more.where(d, whole(0) - d)
    steps = (far < 63).where(far, whole(63)).cast(u32)
    a, b = pair_where(more, product, addend), pair_where(more, addend, product)
    b = shifted_right(b, steps)
    sign_product, sign_addend = (bx ^ by) & SIGN, bz & SIGN
    unlike = sign_product.ne(sign_addend)
    low_sum = a[1] + b[1]
    total = a[0] + b[0] + (low_sum < a[1]).where(word(1), word(0)), low_sum
    high_rest = a[0] - b[0] - (a[1] < b[1]).where(word(1), word(0))
    rest = high_rest, a[1] - b[1]
    negative = word(SIGN - 1) < high_rest
    turned = ~rest[0] + rest[1].eq(0).where(word(1), word(0)), word(0) - rest[1]
    found = pair_where(unlike, pair_where(negative, turned, rest), total)
    sign = (more ^ (unlike & negative)).where(sign_product, sign_addend)
    nothing = (found[0] | found[1]).eq(0)
    exact = nothing.where(word(0), packed(sign, more.where(e_product, e_addend), found)).bitcast(f32)
    # a machine may take a small z for 0, and its product may be infinite
    kept = is_finite(bx) & is_finite(by) & (zero & ~is_zero(bz) | ~is_finite(bz))
    return plain.where(kept.where(z, x * y + z), exact)


def quotient(x: UOp, y: UOp) -> UOp:
    """x/y with one rounding."""
    bx, by = bits(x), bits(y)
    plain = is_zero(bx) | is_zero(by) | ~(is_finite(bx) & is_finite(by))
    (mx, ex), (my, ey) = number(bx), number(by)
    short = mx < my
    rest, digits = short.where(mx << 1, mx), word(0)
    for _ in range(DIGITS):
        fits = ~(rest < my)
        digits = (digits << 1) | fits.where(word(1), word(0))
        rest = fits.where(rest - my, rest) << 1
    e = ex - ey - short.where(whole(1), whole(0)) - (DIGITS - 1)
    sign = (bx ^ by) & SIGN
    value = packed(sign, e - 32, (digits, any_of(rest)))
    # neither is a small number 0
    none, over = is_zero(bx) & ~is_zero(by), is_zero(by) & ~is_zero(bx) & is_finite(bx)
    value = (none & number_bits(by)).where(sign, over.where(sign | INFINITE, value))
    return (plain & ~(none & number_bits(by)) & ~over).where(x / y, value.bitcast(f32))


def root(x: UOp) -> UOp:
    """The square root of x with one rounding."""
    bx = bits(x)
    plain = is_zero(bx) | ~is_finite(bx) | (word(SIGN - 1) < bx)
    m, e = number(bx)
    even = (e & 1).eq(0)
    # an even exponent, and one of the first two bits of a word is 1
    m, e = even.where(m << 1, m) << 7, even.where(e - 1, e) - 7
    rest, digits = word(0), word(0)
    for k in range(DIGITS):
        two = (m >> (30 - 2 * k)) & 3 if k < 16 else word(0)
        rest = (rest << 2) | two
        trial = (digits << 2) | 1
        fits = ~(rest < trial)
        rest = fits.where(rest - trial, rest)
        digits = (digits << 1) | fits.where(word(1), word(0))
    # of 32 bits and 20 zeros behind them
    half = (e - 20).alu(Ops.SAR, whole(1))
    value = packed(word(0), half - 32, (digits, any_of(rest)))
    below = (word(SIGN - 1) < bx) & ~is_zero(bx)
    value = below.where(word(NOT_A_NUMBER), value)
    return (plain & ~below).where(x.sqrt(), value.bitcast(f32))


# --- numbers as whole numbers -----------------------------------------------------------------------
def bits(x: UOp) -> UOp:
    return x.bitcast(u32)


def word(n: int) -> UOp:
    return UOp.const(n, u32)


def whole(n: int) -> UOp:
    return UOp.const(n, i32)


def is_zero(b: UOp) -> UOp:
    return (b << 1).eq(0)


def is_finite(b: UOp) -> UOp:
    return (b & INFINITE).ne(INFINITE)


def number_bits(b: UOp) -> UOp:
    """Is it a number, or infinite?"""
    return ~(word(INFINITE) < (b & (SIGN - 1)))


def any_of(b: UOp) -> UOp:
    return b.eq(0).where(word(0), word(1))


def number(b: UOp) -> Number:
    """Of a finite number: its first bit is in place 23, except for zero."""
    field, fraction = (b >> 23) & 255, b & FRACTION
    small = field.eq(0)
    missing = (word(23) - first_bit(fraction | 1)) & 31
    m = small.where(fraction << missing, fraction | HIDDEN)
    e = small.where(whole(1) - missing.cast(i32), field.cast(i32)) - UNIT
    return m, e


def first_bit(b: UOp) -> UOp:
    """The place of the first bit that is 1: the exponent of a number of at most 16 bits, as a float."""
    long = word(0xFFFF) < b
    short = long.where(b >> 16, b).cast(f32).bitcast(u32)
    return (short >> 23) - 127 + long.where(word(16), word(0))


def pair_where(condition: UOp, a: tuple[UOp, UOp], b: tuple[UOp, UOp]) -> tuple[UOp, UOp]:
    return condition.where(a[0], b[0]), condition.where(a[1], b[1])


def shifted_right(a: tuple[UOp, UOp], n: UOp) -> tuple[UOp, UOp]:
    """Two words by less than 64 places; the last bit stands for what was lost."""
    (high, low), many, k = a, word(31) < n, n & 31
    other = word(31) - k
    low_out, high_out = (low << 1) << other, (high << 1) << other
    out = pair_where(many, (word(0), high >> k), (high >> k, (low >> k) | high_out))
    lost = many.where(low | high_out, low_out)
    return out[0], out[1] | any_of(lost)


def packed(sign: UOp, e: UOp, a: tuple[UOp, UOp]) -> UOp:
    """Two words times 2**e, which are not zero, rounded to float32: its bits."""
    high, low = a
    empty = high.eq(0)
    n = word(31) - first_bit(empty.where(low, high) | empty.where(low.eq(0).where(word(1), word(0)), word(0)))
    high = empty.where(low, high)
    low = empty.where(word(0), low)
    other = word(31) - n
    high, low = (high << n) | ((low >> 1) >> other), low << n
    field = e - n.cast(i32) - empty.where(whole(32), whole(0)) + (63 + 127)
    under = whole(1) - field
    places = (under < 0).where(whole(0), (under < 63).where(under, whole(63))).cast(u32)
    high, low = shifted_right((high, low), places)
    m, behind = high >> 8, (high & 127) | low
    up = (high & 128).ne(0) & (behind.ne(0) | (m & 1).ne(0))
    least = (field < 1).where(whole(1), field)
    rounded = ((least - 1).cast(u32) << 23) + m + up.where(word(1), word(0))
    return sign | (whole(254) < field).where(word(INFINITE), rounded)
