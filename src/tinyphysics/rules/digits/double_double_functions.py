"""How are sin, exp, log and the others computed in pairs of float64?

Each is reduced to a small argument, where the terms of a Taylor series that matter for the second word are added as
pairs and the rest as float64; or it is the float64 function, corrected by one step of Newton's on its inverse. The
expressions are float64 operations and float64 functions, so every backend computes the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from tinyphysics.ir import UOp
from tinyphysics.rules.digits.double_double import (
    Pair,
    chosen,
    finite_or,
    joined,
    magnitude,
    minus,
    negative,
    number,
    over,
    plus,
    root,
    scaled,
    times,
    two_product,
    two_sum,
    words,
)
from tinyphysics.rules.digits.floats import DOUBLE, bits, flipped, power_of_two, with_sign_of

LN2 = Fraction("0.693147180559945309417232121458176568075500134360255254120680009493393622")
PI = Fraction("3.14159265358979323846264338327950288419716939937510582097494459230781640629")

# The largest error in units of 2**-104 of the value, a little above what tools/wide_ulp.py finds against mpmath.
# fmt: off
BOUNDS: dict[str, float] = {
    "add":   1.0,
    "mul":   1.0,
    "div":   1.5,
    "sqrt":  1.0,
    "sin":   1.0,
    "cos":   1.0,
    "tan":   1.5,
    "asin":  1.0,
    "acos":  1.0,
    "atan":  1.0,
    "atan2": 1.0,
    "exp":   1.0,
    "expm1": 1.0,
    "log":   1.0,
    "log1p": 1.0,
    "pow":   1.0,
    "rsqrt": 2.0,
    "cbrt":  1.0,
    "sinh":  1.5,
    "cosh":  1.0,
    "tanh":  1.5,
    "erf":   1.5,
    "hypot": 1.0,
}
# fmt: on


def series(x: Pair, c: Sequence[Fraction], wide: int) -> Pair:
    """c[0] + c[1] x + ...: the first `wide` terms as pairs, the others as float64; each is smaller than the one before."""
    tail = x.high.lift(float(c[-1]))
    for a in reversed(c[wide:-1]):
        tail = x.high.fma(tail, float(a))
    out = Pair(tail)
    for a in reversed(c[:wide]):
        out = joined(number(a, x.high), times(x, out))
    return out


# --- exp -------------------------------------------------------------------------------------------
HALVINGS = 4
EXP = [Fraction(1, math.factorial(n)) for n in range(1, 16)]


def expm1_small(r: Pair) -> Pair:
    """e**r - 1 for |r| up to 0.4: of r/16, then (1 + p)**2 - 1 = 2 p + p**2 four times."""
    s = scaled(r, 0.5**HALVINGS)
    p = times(s, series(s, EXP, 8))
    for _ in range(HALVINGS):
        p = joined(scaled(p, 2.0), times(p, p))
    return p


def without_ln2(x: Pair, offset: int) -> tuple[Pair, UOp]:
    """(r, k + offset) with x = k ln2 + r; the integer's high bits are not cleared."""
    magic = DOUBLE.magic + offset
    kd = x.high.fma(float(1 / LN2), magic)
    k = kd - magic
    short = Fraction(int(LN2 * 2**32), 2**32)  # k times it is exact
    rest = number(LN2 - short, x.high)
    return minus(plus(x, Pair(k * -float(short))), times(rest, Pair(k))), bits(kd)


def two_factors(x: UOp, i: UOp) -> tuple[UOp, UOp, UOp]:
    """2**k as a product, and the inverse of its second factor; i = k + 2 bias."""
    half = i >> 1
    rest = i - half
    return power_of_two(x, half), power_of_two(x, rest), power_of_two(x, 2 * DOUBLE.bias - rest)


FAR = 1000.0  # e**x has long left the range


def exp(x: Pair, factor: float = 1.0) -> Pair:
    """factor * e**x, with factor a power of two."""
    r, i = without_ln2(x, 2 * DOUBLE.bias)
    first, second, _ = two_factors(x.high, i)
    one = number(1, x.high)
    y = scaled(scaled(joined(one, expm1_small(r)), first), second * factor if factor != 1.0 else second)
    high = (x.high < -FAR).where(0.0, y.high)
    return finite_or(Pair((FAR < x.high).where(math.inf, high), y.low))


def expm1(x: Pair) -> Pair:
    r, i = without_ln2(x, 2 * DOUBLE.bias)
    first, second, inverse = two_factors(x.high, i)
    y = scaled(plus(scaled(expm1_small(r), first), two_sum(first, -inverse)), second)
    far = (x.high < -FAR).where(-1.0, (FAR < x.high).where(math.inf, y.high))
    y = finite_or(Pair(far, (abs(x.high) < FAR).where(y.rest, 0.0)))
    return chosen(x.high.eq(0.0), x, y)


def sinh(x: Pair) -> Pair:
    """(E + E/(E + 1))/2 with E = e**|x| - 1; the second term is 1, and lost, where E may be infinite."""
    a = magnitude(x)
    E = expm1(a)
    near = scaled(plus(E, over(E, plus(E, number(1, x.high)))), 0.5)
    y = chosen(a.high < 80.0, near, exp(a, 0.5))
    return chosen(x.high < 0.0, negative(y), chosen(x.high.eq(0.0), x, y))


def cosh(x: Pair) -> Pair:
    h = exp(magnitude(x), 0.5)
    y = plus(h, over(number(Fraction(1, 4), x.high), h))
    return chosen(h.high < 2.0**120, y, h)


def tanh(x: Pair) -> Pair:
    """E/(E + 2) with E = e**(2|x|) - 1, which is 1 from 40 on."""
    a = magnitude(x)
    E = expm1(scaled(chosen(40.0 < a.high, number(40, x.high), a), 2.0))
    y = over(E, plus(E, number(2, x.high)))
    return chosen(x.high < 0.0, negative(y), chosen(x.high.eq(0.0), x, y))


# --- log -------------------------------------------------------------------------------------------
def log_from(x: Pair, less_one: Pair | None, start: UOp, near_start: UOp) -> Pair:
    """log x by one step of Newton's from float64: x = 2**k m, and log m = y + log(1 + (m - e**y)/e**y).

    `start` is about log x; where k is 0, `near_start` is log x to a relative 2**-51 and `less_one`, if given, is x - 1.
    """
    magic = DOUBLE.magic + 2 * DOUBLE.bias
    kd = start.fma(-float(1 / LN2), magic)  # of -k
    k = magic - kd
    first, second, _ = two_factors(x.high, bits(kd))
    m = scaled(scaled(x, first), second)
    f = plus(m, number(-1, x.high))
    y = k.fma(-words(LN2)[1], k.fma(-words(LN2)[0], start))
    here = k.eq(0.0)
    y = here.where(near_start, y)
    if less_one is not None:
        f = chosen(here, less_one, f)
    E = expm1_small(Pair(y))
    z = over(minus(f, E), joined(number(1, x.high), E))
    # log(1 + z) to the third order: z is below 2**-40
    z = plus(z, Pair((z.high * z.high) * z.high.fma(1.0 / 3.0, -0.5)))
    short = Fraction(int(LN2 * 2**32), 2**32)
    whole = plus(Pair(k * float(short)), times(number(LN2 - short, x.high), Pair(k)))
    return plus(whole, plus(Pair(y), z))


def log(x: Pair) -> Pair:
    tiny = x.high < 2.0**-900  # its reciprocal may be infinite, and its second word subnormal
    ordinary = (0.0 < x.high) & (x.high < math.inf)
    safe = chosen(ordinary, chosen(tiny, scaled(x, 2.0**120), x), number(1, x.high))
    start = safe.high.log()
    y = log_from(safe, None, start, start)
    y = chosen(tiny, minus(y, number(120 * LN2, x.high)), y)
    return chosen(ordinary, y, Pair(x.high.log()))


def log1p(x: Pair) -> Pair:
    ordinary = (-1.0 < x.high) & (x.high < math.inf)
    safe = chosen(ordinary, x, number(0, x.high))
    one_more = plus(number(1, x.high), safe)
    ordinary = ordinary & (0.0 < one_more.high)
    one_more = chosen(ordinary, one_more, number(1, x.high))
    y = log_from(one_more, safe, one_more.high.log(), safe.high.log1p())
    return chosen(ordinary & x.high.ne(0.0), y, Pair(x.high.log1p()))


# --- sin, cos, tan ---------------------------------------------------------------------------------
SIN = [Fraction((-1) ** n, math.factorial(2 * n + 1)) for n in range(1, 18)]


def by_pi(x: Pair, k: UOp) -> Pair:
    """x - k pi, for k up to 2**30: right to 2**-128, and to 3 u**2 of itself where k is 0."""
    first, second = words(PI)
    third = float(PI - Fraction(first) - Fraction(second))
    p, q = two_product(k, k.lift(first)), two_product(k, k.lift(second))
    r = plus(plus(two_sum(x.high, -p.high), Pair(-p.rest)), two_sum(x.rest, -q.high))
    return plus(r, Pair(-k.fma(third, q.rest)))


def sine(r: Pair, sign: UOp) -> Pair:
    """sin r = r + r u P(u), u = r**2, up to a little more than pi/2."""
    u = times(r, r)
    y = plus(r, times(times(r, u), series(u, SIN, 10)))
    return Pair(flipped(y.high, sign), flipped(y.rest, sign))


def near_turn(x: Pair) -> Pair:
    """x, or for large x the same angle in one turn: rules/functions/angle_reduction.py."""
    return Pair(x.high.turn(x.rest), x.high.turn_low(x.rest))


def sin(x: Pair) -> Pair:
    y = near_turn(x)
    kd = y.high.fma(float(1 / PI), DOUBLE.magic)
    return chosen(x.high.eq(0.0), x, sine(by_pi(y, kd - DOUBLE.magic), bits(kd) << 63))


def cos(x: Pair) -> Pair:
    """-sin(x - (n + 1/2) pi), with the sign in the parity of n + 1."""
    y = near_turn(x)
    magic = DOUBLE.magic + 1.0
    kd = y.high.fma(float(1 / PI), -0.5) + magic
    return sine(by_pi(y, (kd - magic) + 0.5), bits(kd) << 63)


def tan(x: Pair) -> Pair:
    return chosen(x.high.eq(0.0), x, over(sin(x), cos(x)))


# --- their inverses --------------------------------------------------------------------------------
def turned(y: Pair, x: Pair, angle: UOp) -> Pair:
    """The angle of (x, y), from one that is right to float64: the rest is the sine of the difference over its cosine."""
    s, c = sin(Pair(angle)), cos(Pair(angle))
    rest = over(minus(times(y, c), times(x, s)), plus(times(x, c), times(y, s)))
    return plus(Pair(angle), rest)


def in_range(x: Pair, y: Pair) -> tuple[Pair, Pair, UOp]:
    """Both times a power of two, so that no square overflows or loses its second word; and the inverse of that power."""
    m = abs(x.high).maximum(abs(y.high))
    large, small = 2.0**300 < m, m < 2.0**-300
    factor = large.where(2.0**-700, small.where(2.0**700, 1.0))
    return scaled(x, factor), scaled(y, factor), large.where(2.0**700, small.where(2.0**-700, 1.0))


def atan2(y: Pair, x: Pair) -> Pair:
    angle = y.high.atan2(x.high)
    b, a, _ = in_range(y, x)
    ordinary = ((x.high - x.high) + (y.high - y.high)).eq(0.0) & y.high.ne(0.0)
    b, a = chosen(ordinary, b, number(0, x.high)), chosen(ordinary, a, number(1, x.high))
    out = turned(b, a, ordinary.where(angle, 0.0))
    exact = (angle.eq(math.pi) | angle.eq(-math.pi)) & y.high.eq(0.0)  # the other words of pi are known
    first, second = words(PI)
    side = exact.where(with_sign_of(angle, angle.lift(second)), 0.0)
    out = chosen((abs(angle) < 2.0**-100) & ordinary, over(y, x), out)  # it is y/x, which scaling might lose
    return chosen(ordinary, out, Pair(angle, side))


def atan(x: Pair) -> Pair:
    return atan2(x, number(1, x.high))


def asin(x: Pair) -> Pair:
    one = number(1, x.high)
    across = root(times(plus(one, x), minus(one, x)))
    return chosen(abs(x.high) <= 1.0, atan2(x, across), Pair(x.high.asin()))


def acos(x: Pair) -> Pair:
    one = number(1, x.high)
    across = root(times(plus(one, x), minus(one, x)))
    return chosen(abs(x.high) <= 1.0, atan2(across, x), Pair(x.high.acos()))


# --- powers ----------------------------------------------------------------------------------------
LARGEST_PRODUCT = 64


def whole_power(x: Pair, n: int) -> Pair:
    """x**n by products, n > 0."""
    if n == 1:
        return x
    half = whole_power(x, n // 2)
    square = times(half, half)
    return square if n % 2 == 0 else times(square, x)


def power(x: Pair, y: Pair) -> Pair:
    """Products and roots where the exponent is such a number, else exp(y log |x|) with the sign and ends of float64's."""
    n = float(y.high.arg) if y.low is None and not y.high.src and isinstance(y.high.arg, float) else math.nan
    if (2.0 * n).is_integer() and 1 <= abs(n) <= LARGEST_PRODUCT:
        whole, half = divmod(abs(n), 1.0)
        out = whole_power(x, int(whole))
        out = times(out, root(x)) if half else out
        return over(number(1, x.high), out) if n < 0 else out
    if n == 0.5:
        return root(x)
    if n == -0.5:
        return over(number(1, x.high), root(x))
    plain = x.high**y.high
    ordinary = (
        (0.0 < abs(plain))
        & (abs(plain) < math.inf)
        & ((x.high - x.high) + (y.high - y.high)).eq(0.0)
        & x.high.ne(0.0)
    )
    a = chosen(ordinary, magnitude(x), number(1, x.high))
    out = exp(times(y, log(a)))
    out = chosen(plain < 0.0, negative(out), out)
    broken = (x.high < 0.0) & y.rest.floor().ne(y.rest)
    return chosen(broken, Pair(plain.lift(math.nan).expand(plain.shape)), chosen(ordinary, out, Pair(plain)))


def rsqrt(x: Pair) -> Pair:
    ordinary = (0.0 < x.high) & (x.high < math.inf)
    return chosen(ordinary, over(number(1, x.high), root(x)), Pair(x.high.rsqrt()))


def cbrt(x: Pair) -> Pair:
    """y + (x - y**3)/(3 y**2), from float64's y."""
    tiny = abs(x.high) < 2.0**-900
    a = chosen(tiny, scaled(x, 2.0**300), x)
    y = a.high.cbrt()
    square = two_product(y, y)
    left = minus(a, times(square, Pair(y)))
    out = plus(Pair(y), over(left, times(square, number(3, y))))
    out = chosen(tiny, scaled(out, 2.0**-100), out)
    ordinary = (x.high - x.high).eq(0.0) & x.high.ne(0.0)
    return chosen(ordinary, out, Pair(x.high.cbrt()))


def hypot(x: Pair, y: Pair) -> Pair:
    a, b, back = in_range(x, y)
    out = scaled(root(plus(times(a, a), times(b, b))), back)
    ordinary = ((x.high - x.high) + (y.high - y.high)).eq(0.0)
    return chosen(ordinary, finite_or(out), Pair(x.high.hypot(y.high)))


# --- erf -------------------------------------------------------------------------------------------
ERF = [Fraction((-1) ** n, math.factorial(n) * (2 * n + 1)) for n in range(25)]
SPACING = Fraction(23, 64)  # of the trapezoidal rule: leaves e**-(pi/h)**2 = 2**-110, and as much after NODES
NODES = 24


def erf(x: Pair) -> Pair:
    """Its series up to 3/4; then 1 - erfc by the trapezoidal rule (Chiarella and Reichel 1968), which is 1 from 8.7 on."""
    a = magnitude(x)
    far = 8.7 < a.high
    u = times(a, a)
    two_over_root_pi = over(number(2, x.high), root(number(PI, x.high)))
    near = times(times(a, series(u, ERF, 16)), two_over_root_pi)
    b = chosen((a.high < 0.75) | far, number(1, x.high), a)
    square = times(b, b)
    one = number(1, x.high)
    total = over(one, square)
    for n in range(1, NODES + 1):
        place = (n * SPACING) ** 2
        weight = exp(number(-place, x.high))
        total = plus(total, over(scaled(weight, 2.0), plus(square, number(place, x.high))))
    beside = over(number(2, x.high), expm1(times(b, number(2 / SPACING * PI, x.high))))
    factor = times(exp(negative(square)), number(SPACING / PI, x.high))
    outside = minus(times(factor, times(b, total)), beside)
    y = chosen(a.high < 0.75, near, minus(one, outside))
    y = chosen(far, one, y)
    y = chosen(x.high < 0.0, negative(y), y)
    return chosen(x.high.eq(0.0) | x.high.ne(x.high), x, y)
