"""How are numbers of twice the digits added, multiplied and compared?  Each is two float64 whose sum is meant.

high is the float64 nearest to the number, low what is left of it: about 106 bits. The algorithms and their bounds are
those of Joldes, Muller and Popescu 2017 (ACM Trans. Math. Softw. 44, 15), with u = 2**-53: a sum is right to 3 u**2
of itself whatever cancels, a product to 5 u**2, a quotient to 10 u**2, a root to 4 u**2, wherever no word underflows.
Everything here is float64 arithmetic in which (s - a) - b is what was lost: no rule of real numbers may touch it.
What overflows is NaN, not infinity: there is no second word for it.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

from tinyphysics.ir import Ops, UOp, f64
from tinyphysics.ir.dtype import DType
from tinyphysics.rules.identities.exact import is_power_of_two


class Pair(NamedTuple):
    """high + low; a low of None is a float64 and no more, so that nothing is computed for it."""

    high: UOp
    low: UOp | None = None

    @property
    def rest(self) -> UOp:
        return self.high.lift(0.0).expand(self.high.shape) if self.low is None else self.low


def words(x: Fraction | int) -> tuple[float, float]:
    """The two words of a number.

    >>> words(Fraction(1, 3))
    (0.3333333333333333, 1.850371707708594e-17)
    """
    high = float(x)
    return high, float(x - Fraction(high)) if math.isfinite(high) else 0.0


def number(x: Fraction | int, like: UOp) -> Pair:
    """A constant in the shape of a node."""
    high, low = words(x)
    return Pair(
        UOp.const(high, like.dtype, like.shape), UOp.const(low, like.dtype, like.shape) if low else None
    )


# --- without error ---------------------------------------------------------------------------------
def two_sum(a: UOp, b: UOp) -> Pair:
    """a + b, exactly (Knuth 1969)."""
    s = a + b
    t = s - a
    return Pair(s, (a - (s - t)) + (b - t))


def fast_two_sum(a: UOp, b: UOp) -> Pair:
    """a + b, exactly, where b is not the larger one (Dekker 1971)."""
    s = a + b
    return Pair(s, b - (s - a))


def two_product(a: UOp, b: UOp) -> Pair:
    """a * b, exactly but for an error word that underflows."""
    p = a * b
    return Pair(p, a.fma(b, -p))


# --- arithmetic ------------------------------------------------------------------------------------
def negative(x: Pair) -> Pair:
    return Pair(-x.high, None if x.low is None else -x.low)


def scaled(x: Pair, factor: UOp | float) -> Pair:
    """x times a power of two: nothing is rounded."""
    return Pair(x.high * factor, None if x.low is None else x.low * factor)


def plus(x: Pair, y: Pair) -> Pair:
    if x.high is y.high and x.low is y.low:
        return scaled(x, 2.0)
    if x.low is None and y.low is None:
        return two_sum(x.high, y.high)
    s = two_sum(x.high, y.high)
    if x.low is None or y.low is None:
        return fast_two_sum(s.high, (y.rest if x.low is None else x.rest) + s.rest)
    t = two_sum(x.low, y.low)
    v = fast_two_sum(s.high, s.rest + t.high)
    return fast_two_sum(v.high, t.rest + v.rest)


def minus(x: Pair, y: Pair) -> Pair:
    return plus(x, negative(y))


def joined(x: Pair, y: Pair) -> Pair:
    """x + y, where |y| is known to be at most |x|/2, or of the same sign and not larger: in half the operations."""
    s = fast_two_sum(x.high, y.high)
    lows = [u for u in (x.low, y.low) if u is not None]
    rest = s.rest if not lows else s.rest + (lows[0] if len(lows) == 1 else lows[0] + lows[1])
    return fast_two_sum(s.high, rest) if lows else s


def times(x: Pair, y: Pair) -> Pair:
    for a, b in ((x, y), (y, x)):
        if a.low is None and a.high.op is Ops.CONST and is_power_of_two(a.high):
            return scaled(b, a.high)
    p = two_product(x.high, y.high)
    if x.low is None and y.low is None:
        return p
    if x.low is None or y.low is None:
        a, b = (x, y) if y.low is None else (y, x)
        return fast_two_sum(p.high, a.rest.fma(b.high, p.rest))
    cross = x.low.fma(y.high, x.high.fma(y.low, x.low * y.low))
    return fast_two_sum(p.high, p.rest + cross)


def over(x: Pair, y: Pair) -> Pair:
    """The quotient of the high words, corrected by what it leaves of x."""
    if y.low is None and y.high.op is Ops.CONST and is_power_of_two(y.high):
        inverse = UOp.const(1.0 / y.high.arg, y.high.dtype, y.high.shape)
        if is_power_of_two(inverse):
            return scaled(x, inverse)
    q = x.high / y.high
    p = times(y, Pair(q))
    left = (x.high - p.high) - p.rest if x.low is None else (x.high - p.high) + (x.low - p.rest)
    return fast_two_sum(q, left / y.high)


def root(x: Pair) -> Pair:
    """sqrt; of 0 and of infinity there is no second word."""
    s = x.high.sqrt()
    left = (-s).fma(s, x.high)
    left = left if x.low is None else left + x.low
    low = left / (s + s)
    ordinary = (0.0 < s) & (s < math.inf)
    r = fast_two_sum(s, ordinary.where(low, 0.0))
    return Pair(ordinary.where(r.high, s), ordinary.where(r.rest, 0.0))


def multiply_add(a: Pair, b: Pair, c: Pair) -> Pair:
    return plus(times(a, b), c)


def time_words(n: UOp, c: UOp, e: UOp, dt: UOp, t0: UOp) -> Pair:
    """t0 + (n + c + e)*dt after n whole steps."""
    return plus(times(plus(two_sum(n, c), Pair(e)), Pair(dt)), Pair(t0))


# --- comparing and choosing ------------------------------------------------------------------------
def less(x: Pair, y: Pair) -> UOp:
    if x.low is None and y.low is None:
        return x.high < y.high
    return (x.high < y.high) | (x.high.eq(y.high) & (x.rest < y.rest))


def less_or_equal(x: Pair, y: Pair) -> UOp:
    if x.low is None and y.low is None:
        return x.high <= y.high
    return (x.high < y.high) | (x.high.eq(y.high) & (x.rest <= y.rest))


def equal(x: Pair, y: Pair) -> UOp:
    if x.low is None and y.low is None:
        return x.high.eq(y.high)
    return x.high.eq(y.high) & x.rest.eq(y.rest)


def chosen(condition: UOp, x: Pair, y: Pair) -> Pair:
    low = None if x.low is None and y.low is None else condition.where(x.rest, y.rest)
    return Pair(condition.where(x.high, y.high), low)


def smaller(x: Pair, y: Pair) -> Pair:
    """A NaN on either side wins, as in NumPy."""
    return chosen(less(x, y) | x.high.ne(x.high), x, y)


def larger(x: Pair, y: Pair) -> Pair:
    return chosen(less(y, x) | x.high.ne(x.high), x, y)


def magnitude(x: Pair) -> Pair:
    return Pair(abs(x.high), None if x.low is None else (x.high < 0.0).where(-x.low, x.low))


def finite_or(x: Pair) -> Pair:
    """x, whose low word means nothing where the high one is 0, infinite or NaN."""
    ordinary = (x.high - x.high).eq(0.0) & x.high.ne(0.0)
    return Pair(x.high, ordinary.where(x.rest, 0.0))


# --- whole numbers ---------------------------------------------------------------------------------
def floor(x: Pair) -> Pair:
    high = x.high.floor()
    if x.low is None:
        return Pair(high)
    below = high.eq(x.high).where(x.low.floor(), 0.0)  # a fraction is in one of the words
    return fast_two_sum(high, below)


def rint(x: Pair) -> Pair:
    """To the nearest whole number, ties to even; a tie of the high word is decided by the low one."""
    high = x.high.rint()
    if x.low is None:
        return Pair(high)
    way = x.high - high
    up = (way.eq(0.5) & (0.0 < x.low)).where(1.0, (way.eq(-0.5) & (x.low < 0.0)).where(-1.0, 0.0))
    return fast_two_sum(high, way.eq(0.0).where(x.low.rint(), up))


def cast(x: Pair, dtype: DType) -> UOp:
    """As a condition or a whole number, towards zero."""
    if x.low is None or not dtype.is_int:
        return x.high.cast(dtype)
    down = (0.0 < x.high).where(x.low.floor(), -((-x.low).floor()))
    return x.high.cast(dtype) + x.high.floor().eq(x.high).where(down, 0.0).cast(dtype)


def from_whole(u: UOp) -> Pair:
    """A whole number or a condition as a pair: no index or count is beyond what a float64 holds."""
    return Pair(u.cast(f64))
