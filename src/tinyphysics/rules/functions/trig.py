"""How are sin, cos and tan computed without a library, the same on every machine?

Up to `limit` the argument is reduced by three words of pi with fused multiply-adds: fma(k, -pi0, x) is
exact, and the third word keeps the neighbours of k*pi accurate. It touches only the linear term of the
sine, so it is off the critical path. Beyond the limit, `turns` takes x/(2 pi) modulo 1 in integers from
the bits of 1/(2 pi) that matter (Payne and Hanek 1983): slow, rare, accurate up to the largest float.
"""

from __future__ import annotations

from collections.abc import Callable

from tinyphysics.ir import UOp
from tinyphysics.rules.digits.coefficients import INVERSE_TURN
from tinyphysics.rules.digits.floats import Format, bits, flipped, format_of, magnitude, polynomial

Sine = Callable[[UOp, UOp, UOp], UOp]  # of r, r without its last correction, and a sign


def limit(F: Format) -> float:
    """The largest |x| of the fast path: k stays exact, and the rounding of x/pi keeps r near pi/2."""
    return F.pick(2.0**30, 2.0**16)


def too_large(x: UOp) -> UOp:
    """Where the fast path must not be used; false for NaN, which it hands through."""
    return limit(format_of(x)) < magnitude(x)


# --- the fast path ---------------------------------------------------------------------------------
def near_sin(x: UOp) -> UOp:
    return by_pi(x, *nearest(x), sine)


def near_cos(x: UOp) -> UOp:
    return by_pi(x, *nearest_half(x), unbiased_sine)


def nearest(x: UOp) -> tuple[UOp, UOp]:
    """The whole number of pi next to x, and its parity."""
    F = format_of(x)
    kd = x.fma(F["inverse_pi"][0], F.magic)
    return kd - F.magic, bits(kd)


def nearest_half(x: UOp) -> tuple[UOp, UOp]:
    """n + 1/2 of pi next to x, and the parity of n + 1: cos(x) is -sin(x - (n + 1/2) pi), with its sign."""
    F = format_of(x)
    magic = F.magic + 1.0
    kd = x.fma(F["inverse_pi"][0], -0.5) + magic
    return (kd - magic) + 0.5, bits(kd)


def by_pi(x: UOp, k: UOp, parity: UOp, of: Sine) -> UOp:
    F = format_of(x)
    pi = F["pi"]
    r = k.fma(-pi[1], k.fma(-pi[0], x))
    return of(k.fma(-pi[2], r), r, parity << (F.dtype.bits - 1))


def sine(r: UOp, head: UOp, sign: UOp) -> UOp:
    """sin r = r + r u P(u), u = r**2, up to pi/2; `head` is r without its last correction, enough for u.

    Estrin's tree with the two lowest coefficients by Horner. Where the sine is almost 1, the roundings of
    u, r u and P could lead one float above 1; u is made larger by a fraction of its last place there, just
    enough to prevent that (tools/ulp.py --peak tries every r near pi/2) and too little to spoil cos 0 = 1.
    """
    F = format_of(r)
    c = F["sin"]
    u = head.fma(head, F.pick(0.6875 * 2.0**-52, 0.375 * 2.0**-23))
    r = flipped(r, sign)
    # fma(r, u, 0) is r*u, but +0 for r = -0: then -0 + P*(+0) stays -0, as P < 0
    return r.fma(u, 0.0).fma(u.fma(polynomial(c[1:], u), c[0]), r)


def unbiased_sine(r: UOp, head: UOp, sign: UOp) -> UOp:
    """The same, with the rounding error of u carried into r u: then no result passes 1, and u need not be made larger.

    That would make cosines of small angles too small by 0.3 ulp on average, and a body that turns by them loses its angular
    momentum in proportion to time.
    """
    F = format_of(r)
    c = F["sin"]
    u = head * head
    lost = head.fma(head, -u)
    r = flipped(r, sign)
    return r.fma(u, r.fma(lost, 0.0)).fma(u.fma(polynomial(c[1:], u), c[0]), r)


def near_tan(x: UOp) -> UOp:
    F = format_of(x)
    kd = x.fma(F["inverse_half_pi"][0], F.magic)
    k = kd - F.magic
    a, b, c = F["half_pi"]
    return tangent(k.fma(-c, k.fma(-b, k.fma(-a, x))), bits(kd) << (F.dtype.bits - 1))


def tangent(r: UOp, odd: UOp) -> UOp:
    """tan of r plus a whole number of right angles; its parity is the top bit of `odd`."""
    F = format_of(r)
    u = r * r
    s = r.fma(u, 0.0).fma(polynomial(F["sin_quarter"], u), r)
    c = (u * u).fma(polynomial(F["cos_quarter"], u), u.fma(-0.5, 1.0))
    swap = odd < 0
    return flipped(swap.where(c, s) / swap.where(s, c), odd)


# --- the slow path ---------------------------------------------------------------------------------
def window(pos: UOp, count: int) -> list[UOp]:
    """`count` words from bit `pos` on of 1/(2 pi), with half a word of zeros put before it.

    A select network instead of a look-up: the words move down by 8, 4, 2 and 1 places (float32 has
    the smaller exponents: 2 and 1) as the bits of pos say, then by the bits within a word.
    """
    width = pos.dtype.bits
    steps = [8, 4, 2, 1] if width == 64 else [2, 1]
    length = 1280 + width // 2  # of the bit string
    words = [pos.lift(INVERSE_TURN >> (length - (i + 1) * width)) for i in range(2 * steps[0] + count)]
    for step in steps:
        far = (pos & step * width).ne(0)
        words = [far.where(b, a) for a, b in zip(words, words[step:])]
    shift = pos & (width - 1)
    rest = shift ^ (width - 1)  # and one place more: a shift by the whole width has no meaning
    return [(a << shift) | ((b >> 1) >> rest) for a, b in zip(words, words[1:])]


def turns(x: UOp) -> tuple[UOp, UOp]:
    """|x|/(2 pi) modulo 1, as two words after the point; x must be above the limit.

    With x = m 2**e, the bits of 1/(2 pi) before e only add whole turns. Three words of the rest leave an
    error below m 2**-192 (2**-96 in float32), while no float comes nearer to a multiple of pi/2 than
    2**-62 (2**-31). The product is taken in half words, mod 1, without its two lowest ones.
    """
    F = format_of(x)
    half = F.dtype.bits // 2
    mask = (1 << half) - 1
    b = bits(x) & (F.sign - 1)
    m = (b & ((1 << F.mantissa) - 1)) | (1 << F.mantissa)
    m0, m1 = m & mask, m >> half
    v = [
        h
        for w in reversed(window((b >> F.mantissa) - (F.bias + F.mantissa - half), 3))
        for h in (w & mask, w >> half)
    ]
    low, high = [m0 * h for h in v], [m1 * h for h in v]
    columns: list[UOp] = []
    for p in range(2, 6):
        column = (low[p] & mask) + (low[p - 1] >> half) + (high[p - 1] & mask) + (high[p - 2] >> half)
        columns.append(column + (columns[-1] >> half) if columns else column)
    c2, c3, c4, c5 = columns
    return (c5 << half) | (c4 & mask), (c3 << half) | (c2 & mask)


def signed_parts(high: UOp, low: UOp, like: UOp) -> list[UOp]:
    """Two words after the point, read as a signed number in [-1/2, 1/2): floats like this one, of half a word each."""
    F = format_of(like)
    half = F.dtype.bits // 2
    mask, offset = (1 << half) - 1, 1 << (half - 1)  # the offset makes the signed top part unsigned
    parts = [(high >> half) ^ offset, high & mask, low >> half, low & mask]
    units = [2.0 ** (F.mantissa - half * i) for i in range(1, 5)]
    floats = [(part | F.pattern(unit)).bitcast(like.dtype) for part, unit in zip(parts, units)]
    return [floats[0] - (units[0] + 0.5), *(x - unit for x, unit in zip(floats[1:], units[1:]))]


def angle(x: UOp, high: UOp, low: UOp, shift: int, period: tuple[float, ...]) -> UOp:
    """The two words, `shift` bits further left and read as a signed fraction, times a period of pi.

    In [-period/2, period/2), correct to a little more than half an ulp; NaN where x is not finite.
    """
    a, b, c, d = signed_parts((high << shift) | (low >> (x.dtype.bits - shift)), low << shift, x)
    top = a + b
    rest = ((a - top) + b) + (c + d)
    f = top + rest
    tail = (top - f) + rest
    r = f * period[0]
    tail = f.fma(period[0], -r) + f.fma(period[1], tail * period[0])
    return (r + tail) + (x - x)


def far_sin(x: UOp) -> UOp:
    F = format_of(x)
    high, low = turns(x)
    return far(x, high, low, bits(x) & F.sign, sine)


def far_cos(x: UOp) -> UOp:
    """sin of a quarter turn more, of |x|."""
    high, low = turns(x)
    return far(x, high + (1 << (x.dtype.bits - 2)), low, bits(x).lift(0), unbiased_sine)


def far(x: UOp, high: UOp, low: UOp, sign: UOp, of: Sine) -> UOp:
    """sin of the turns, which is odd about every half turn."""
    F = format_of(x)
    r = angle(x, high, low, 1, F["pi"])
    return of(r, r, ((high + (1 << (F.dtype.bits - 2))) & F.sign) ^ sign)


def far_tan(x: UOp) -> UOp:
    F = format_of(x)
    high, low = turns(x)
    odd = ((high + (1 << (F.dtype.bits - 3))) << 1) & F.sign
    return flipped(tangent(angle(x, high, low, 2, F["half_pi"]), odd), bits(x) & F.sign)


# --- both ------------------------------------------------------------------------------------------
def sin(x: UOp) -> UOp:
    return too_large(x).where(far_sin(x), near_sin(x))


def cos(x: UOp) -> UOp:
    return too_large(x).where(far_cos(x), near_cos(x))


def tan(x: UOp) -> UOp:
    return too_large(x).where(far_tan(x), near_tan(x))
