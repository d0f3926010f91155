"""How are exp, log and the functions made of them computed, from the smallest float to the largest?

exp: x = k ln2 + r, e**r by a polynomial, and 2**k as two factors, so that the one rounding into infinity
or into the subnormal numbers is the last multiplication. log: x = 2**k m with m in [1/sqrt2, sqrt2), and
log m = 2 atanh((m-1)/(m+1)), summed as in fdlibm (Sun Microsystems 1993) to lose nothing near 1.
"""

from __future__ import annotations

import math

from tinyphysics.ir import UOp
from tinyphysics.rules.digits.floats import (
    Format,
    bits,
    estrin,
    format_of,
    infinity,
    magnitude,
    nan,
    normalised,
    polynomial,
    power_of_two,
    with_sign_of,
)


def far_out(F: Format) -> float:
    """An |x| where e**x has long left the range, and k + 2 bias is still a sum of two exponents."""
    return F.pick(1000.0, 150.0)


# --- exp -------------------------------------------------------------------------------------------
def reduced(x: UOp, offset: int) -> tuple[UOp, UOp]:
    """(r, k + offset) with x = k ln2 + r; the integer's high bits are not cleared."""
    F = format_of(x)
    magic = F.magic + offset
    kd = x.fma(F["log2_e"][0], magic)
    k = kd - magic
    return k.fma(-F["ln2"][1], k.fma(-F["ln2"][0], x)), bits(kd)


def exp_unit(r: UOp) -> UOp:
    """e**r for |r| <= ln2/2."""
    return (r * r).fma(estrin(format_of(r)["exp"], r), r) + 1.0


def expm1_unit(r: UOp) -> UOp:
    return (r * r).fma(estrin(format_of(r)["expm1"], r), r)


def two_factors(x: UOp, i: UOp) -> tuple[UOp, UOp, UOp]:
    """2**k as a product, and the inverse of its second factor; i = k + 2 bias."""
    half = i >> 1
    rest = i - half
    return power_of_two(x, half), power_of_two(x, rest), power_of_two(x, 2 * format_of(x).bias - rest)


def exp_sum(h: UOp, low: UOp | None = None, factor: float = 1.0) -> UOp:
    """factor * e**(h + low), with |low| far below 1 and factor a power of two."""
    F = format_of(h)
    r, i = reduced(h, 2 * F.bias)
    first, second, _ = two_factors(h, i)
    if low is not None:
        r = r + low
    if factor != 1.0:
        second = second * factor
    y = exp_unit(r) * first * second
    y = (h < -far_out(F)).where(h.lift(0.0), y)
    return (far_out(F) < h).where(infinity(h), y)


def exp(x: UOp) -> UOp:
    return exp_sum(x)


def expm1_parts(x: UOp) -> tuple[UOp, UOp]:
    """(e**x - 1 over a power of two, that power), for |x| up to far_out."""
    r, i = reduced(x, 2 * format_of(x).bias)
    first, second, inverse = two_factors(x, i)
    return first.fma(expm1_unit(r), first - inverse), second


def expm1(x: UOp) -> UOp:
    F = format_of(x)
    y, scale = expm1_parts(x)
    y = (x < -far_out(F)).where(x.lift(-1.0), y * scale)
    return with_sign_of(x, (far_out(F) < x).where(infinity(x), y))


def sinh(x: UOp) -> UOp:
    """h + h/(2h+1) with h = (e**|x| - 1)/2; the second term is 1/2, and lost, where h may be infinite."""
    F = format_of(x)
    a = magnitude(x)
    y, scale = expm1_parts(a)
    h = y * (scale * 0.5)
    near = h + h / (h + h + 1.0)
    y = (a < 40.0).where(near, h)
    return with_sign_of(x, (far_out(F) < a).where(infinity(x), y))


def cosh(x: UOp) -> UOp:
    h = exp_sum(magnitude(x), factor=0.5)
    return h + 0.25 / h


def tanh(x: UOp) -> UOp:
    """E/(E+2) with E = e**(2|x|) - 1, which is 1 from 20 on (float32: 10)."""
    F = format_of(x)
    a, end = magnitude(x), F.pick(20.0, 10.0)
    a = (end < a).where(x.lift(end), a)
    r, i = reduced(a + a, F.bias)
    scale = power_of_two(x, i)
    E = scale.fma(expm1_unit(r), scale - 1.0)
    return with_sign_of(x, E / (E + 2.0))


# --- log -------------------------------------------------------------------------------------------
def decomposed(x: UOp) -> tuple[UOp, UOp]:
    """(k, m) with x = 2**k m and m in [1/sqrt2, sqrt2), for finite x > 0; nonsense for other x."""
    F = format_of(x)
    shift = F.mantissa + 2
    x, tiny = normalised(x, shift)
    low = F.pattern(math.sqrt(0.5))
    t = bits(x) + (F.pattern(1.0) - low)
    m = ((t & ((1 << F.mantissa) - 1)) + low).bitcast(x.dtype)
    base = 2.0**F.mantissa  # its low bits become an integer again when it is subtracted
    offset = base + F.bias
    k = ((t >> F.mantissa) | F.pattern(base)).bitcast(x.dtype)
    return k - tiny.where(x.lift(offset + shift), x.lift(offset)), m


def log_sum(k: UOp, f: UOp) -> UOp:
    """k ln2 + log(1 + f), for f from 1/sqrt2 - 1 to sqrt2 - 1."""
    F = format_of(f)
    s = f / (f + 2.0)
    z = s * s
    half = (f * 0.5) * f
    tail = s.fma(z.fma(polynomial(F["log"], z), half), k * F["ln2"][1])
    return k.fma(F["ln2"][0], f - (half - tail))


def log_ends(x: UOp, y: UOp) -> UOp:
    """y, or what a logarithm is where x is 0, negative, infinite or NaN."""
    y = (x < infinity(x)).where(y, x)
    y = (x < 0.0).where(nan(x), y)
    return x.eq(0.0).where(-infinity(x), y)


def log(x: UOp) -> UOp:
    k, m = decomposed(x)
    return log_ends(x, log_sum(k, m - 1.0))


def log1p(x: UOp) -> UOp:
    """log(u) with u = 1 + x rounded, what the rounding lost being put back into f."""
    F = format_of(x)
    u = x + 1.0
    lost = (1.0 < x).where(1.0 - (u - x), x - (u - 1.0))
    k, m = decomposed(u)
    unit = bits(m) - bits(u) + F.pattern(1.0)  # the bits of 2**-k
    f = lost.fma(unit.bitcast(x.dtype), m - 1.0)
    # where x is this large nothing is lost, and 2**-k may not be a number
    y = log_sum(k, (2.0 ** (F.mantissa + 8) < x).where(m - 1.0, f))
    return with_sign_of(x, log_ends(u, y))


# --- erf -------------------------------------------------------------------------------------------
def erf(x: UOp) -> UOp:
    """x + x P(x**2) up to 1, then 1 - exp(P(|x| - 1)), which is 1 from 5.95 on (float32: 4)."""
    F = format_of(x)
    a, end = magnitude(x), F.pick(5.95, 4.0)
    near = a.fma(polynomial(F["erf"], a * a), a)
    t = (end < a).where(x.lift(end), a) - 1.0
    r, i = reduced(polynomial(F["erf_far"], t), F.bias)
    far = (-exp_unit(r)).fma(power_of_two(x, i), 1.0)
    return with_sign_of(x, (a < 1.0).where(near, far))
