"""Double-double numbers in arrays: an unevaluated sum of two floats, about 32 digits.

Only +, -, *, / and the square root of floats are used, each correctly rounded on every machine, and matrix products
whose terms and sums are exact: the bits of a result depend on nothing but the numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

SPLIT = 134217729.0  # 2**27 + 1, Veltkamp
ROUNDING = 2.0**-102  # of a product or a sum, generously
BITS = 106


def two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """a + b rounded, and what rounding left over (Knuth)."""
    s = a + b
    z = s - a
    return s, (a - (s - z)) + (b - z)


def quick_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """The same where |a| >= |b| (Dekker)."""
    s = a + b
    return s, b - (s - a)


def halves(a: Any) -> tuple[Any, Any]:
    t = SPLIT * a
    high = t - (t - a)
    return high, a - high


def two_product(a: Any, b: Any) -> tuple[Any, Any]:
    """a*b rounded, and what rounding left over (Veltkamp, Dekker)."""
    p = a * b
    ah, al = halves(a)
    bh, bl = halves(b)
    return p, ((ah * bh - p) + ah * bl + al * bh) + al * bl


class DD:
    """high + low; as many of them as the arrays have elements."""

    __slots__ = ("high", "low")
    __array_ufunc__ = None  # a float array on the left leaves the operation to this class

    def __init__(self, high: Any, low: Any = None) -> None:
        self.high = np.asarray(high, np.float64)
        self.low = np.zeros_like(self.high) if low is None else np.asarray(low, np.float64)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.high.shape

    def __len__(self) -> int:
        return len(self.high)

    def __getitem__(self, k: Any) -> DD:
        return DD(self.high[k], self.low[k])

    def __setitem__(self, k: Any, x: Any) -> None:
        x = as_dd(x)
        self.high[k], self.low[k] = x.high, x.low

    def __neg__(self) -> DD:
        return DD(-self.high, -self.low)

    def __add__(self, other: Any) -> DD:
        o = as_dd(other)
        s, e = two_sum(self.high, o.high)
        t, f = two_sum(self.low, o.low)
        s, e = quick_sum(s, e + t)
        return DD(*quick_sum(s, e + f))

    def __sub__(self, other: Any) -> DD:
        return self + -as_dd(other)

    def __rsub__(self, other: Any) -> DD:
        return as_dd(other) - self

    def __mul__(self, other: Any) -> DD:
        o = as_dd(other)
        p, e = two_product(self.high, o.high)
        return DD(*quick_sum(p, e + (self.high * o.low + self.low * o.high)))

    __radd__, __rmul__ = __add__, __mul__

    def __truediv__(self, other: Any) -> DD:
        o = as_dd(other)
        q = self.high / o.high
        rest = self - o * DD(q)
        q2 = rest.high / o.high
        rest = rest - o * DD(q2)
        return DD(*quick_sum(q, q2)) + DD(rest.high / o.high)

    def __rtruediv__(self, other: Any) -> DD:
        return as_dd(other) / self

    def sqrt(self) -> DD:
        """Of numbers that are not negative; Newton's step from the float's root."""
        zero = self.high == 0.0
        x = np.where(zero, 1.0, self.high)
        r = np.sqrt(x)
        rest = DD(x, self.low) - DD(*two_product(r, r))
        out = DD(*quick_sum(r, (rest.high + rest.low) / (2.0 * r)))
        return DD(np.where(zero, 0.0, out.high), np.where(zero, 0.0, out.low))

    def abs(self) -> DD:
        return where(self.high < 0.0, -self, self)

    def T(self) -> DD:
        return DD(self.high.T.copy(), self.low.T.copy())

    def scaled(self, power: float) -> DD:
        """Times a power of two: exact."""
        return DD(self.high * power, self.low * power)

    def rounded(self) -> Any:
        return self.high + self.low


def as_dd(x: Any) -> DD:
    return x if isinstance(x, DD) else DD(x)


def where(condition: Any, a: DD, b: DD) -> DD:
    return DD(np.where(condition, a.high, b.high), np.where(condition, a.low, b.low))


def of_fraction(x: Fraction | int) -> tuple[float, float]:
    """The two floats of a rational number; infinite where it is out of range."""
    top, below = x.numerator, x.denominator
    if not top:
        return 0.0, 0.0
    try:
        high = top / below  # int/int is correctly rounded
    except OverflowError:
        return (float("inf") if x > 0 else float("-inf")), 0.0
    a, b = high.as_integer_ratio()
    return high, (top * b - a * below) / (below * b)


def of_fractions(rows: Sequence[Any]) -> DD:
    """An array of rational numbers, nested or not."""
    a = np.array(rows, object)
    numbers = a.reshape(-1)
    high, low = np.zeros((2, len(numbers)))
    for k in np.flatnonzero(numbers).tolist():  # most are 0, where there are many
        high[k], low[k] = of_fraction(numbers[k])
    return DD(high.reshape(a.shape), low.reshape(a.shape))


# --- products of matrices -------------------------------------------------------------------------------
def exponents(a: Any, axis: int) -> Any:
    """A power of two above every |element| along an axis."""
    largest = np.abs(a).max(axis=axis, keepdims=True) if a.size else np.zeros(1)
    _, e = np.frexp(np.where((largest > 0.0) & np.isfinite(largest), largest, 1.0))
    return e


def slices(x: DD, axis: int, width: int, count: int) -> list[Any]:
    """Parts of x that have `width` bits each below the largest element along the axis; their sum is x, nearly."""
    high, low, e = x.high, x.low, exponents(x.high, axis)
    out = []
    for k in range(count):
        magic = np.ldexp(
            1.5, e - (k + 1) * width + 52
        )  # adding it rounds to a multiple of 2**(e - (k + 1)*width)
        part = (high + magic) - magic
        out.append(part)
        high, low = two_sum(high - part, low)  # the difference is exact
    return out


CACHED = 1 << 15  # numbers of a result that are added up at once, so that they stay in a cache


def with_float(high: Any, low: Any, x: Any) -> tuple[Any, Any]:
    """The two words of high + low + x, with the bits of DD's addition, which has less to do where x has one word."""
    s, e = two_sum(high, x)
    return quick_sum(s, e + low)


class Sliced:
    """A matrix ready to be multiplied with others: exact products of slices (Ozaki et al. 2012).

    Every sum of products is a whole number of one unit below 2**53, so that no order of adding rounds. A result is right
    relative to the largest numbers of its row and column.
    """

    def __init__(self, a: DD) -> None:
        self.shape, inner = a.shape, a.shape[-1]
        self.width = (
            53 - max(inner - 1, 1).bit_length()
        ) // 2 - 1  # a part is rounded to nearest: one bit for its sign
        self.parts = slices(a, 1, self.width, -(-(BITS + 4) // self.width))

    def __matmul__(self, b: DD) -> DD:
        return self.times(b)

    def times(self, b: DD, bits: int = BITS + 4) -> DD:
        """The product, to so many bits below the largest numbers of its row and column."""
        count = min(len(self.parts), -(-bits // self.width))
        right = slices(b, 0, self.width, count)
        there = [bool(p.any()) for p in right]
        return self.summed(right, there, count)

    def summed(self, right: Sequence[Any], there: Sequence[bool], count: int, gram: bool = False) -> DD:
        """The sum of the products of slices; of a gram matrix half of them are the others' transposes."""
        high, low = np.zeros((2, self.shape[0], right[0].shape[1]))
        left = [bool(p.any()) for p in self.parts]
        some = max(1, CACHED // max(high.shape[1], 1))
        for total in range(count - 1, -1, -1):  # from the smallest on
            kept: dict[int, Any] = {}
            for i in range(total + 1):
                j = total - i
                if not (left[i] and there[j]):  # all products are 0
                    continue
                product = kept.pop(j).T if gram and j in kept else self.parts[i] @ right[j]
                if gram and i < j:
                    kept[i] = product
                for begin in range(0, self.shape[0], some):
                    rows = slice(begin, begin + some)
                    high[rows], low[rows] = with_float(high[rows], low[rows], product[rows])
        return DD(high, low)


def gram(x: DD) -> DD:
    """x^T x, with the bits of matmul(x.T(), x) and about half of its products."""
    one = Sliced(x.T())
    right = [p.T for p in one.parts]
    return one.summed(right, [bool(p.any()) for p in right], len(right), True)


def matmul(a: DD, b: DD) -> DD:
    return Sliced(a) @ b


def dot(a: DD, b: DD) -> DD:
    """a @ b, one column after the other: right relative to the largest of the terms of each sum."""
    out = DD(np.zeros((a.shape[0], b.shape[1])))
    for k in range(a.shape[1]):
        out = out + a[:, k, None] * b[None, k]
    return out


# --- angles ---------------------------------------------------------------------------------------------
TWO_PI = (
    6.283185307179586,
    2.4492935982947064e-16,
    -5.989539619436679e-33,
)  # three words, each of what the others leave
TERMS = 14  # of a sine or cosine below pi/8


def turns(x: DD) -> DD:
    """x less whole turns, from -pi to pi; right to what x is right to while it is below 2**50."""
    k = np.rint(x.high / TWO_PI[0])
    for word in TWO_PI:
        x = x - DD(*two_product(k, np.float64(word)))
    again = np.rint(x.high / TWO_PI[0])
    for word in TWO_PI:
        x = x - DD(*two_product(again, np.float64(word)))
    return x


def inverse_factorials(k: int) -> DD:
    out = Fraction(1)
    for i in range(2, k + 1):
        out /= i
    return DD(*of_fraction(out))


SINES = [inverse_factorials(2 * k + 1) for k in range(TERMS)]
COSINES = [inverse_factorials(2 * k) for k in range(1, TERMS + 1)]


def circle(x: DD) -> tuple[DD, DD, DD]:
    """(sin, cos, 1 - cos) of angles from -pi to pi, by the series of an eighth and three doublings of the angle."""
    y = x.scaled(0.125)
    z = -(y * y)
    s, c = SINES[-1] + DD(np.zeros(x.shape)), COSINES[-1] + DD(np.zeros(x.shape))
    for a, b in zip(SINES[-2::-1], COSINES[-2::-1]):
        s, c = s * z + a, c * z + b
    s, less = s * y, -(c * z)  # 1 - cos doubles without a loss
    for _ in range(3):
        s, less = (s * (DD(1.0) - less)).scaled(2.0), (s * s).scaled(2.0)
    return s, DD(1.0) - less, less


INVERSES = [DD(0.0), *(DD(*of_fraction(Fraction(1, k))) for k in range(1, 12))]


def expm1(x: DD) -> DD:
    """e**x - 1: the series of x less whole ln 2, over 512, squared nine times."""
    log2 = DD(0.6931471805599453, 2.3190468138462996e-17)
    k = np.where(np.abs(x.high) < 0.5, 0.0, np.rint(np.clip(x.high, -1100.0, 1100.0) / 0.6931471805599453))
    y = (x - log2 * DD(k)).scaled(2.0**-9)
    out = DD(np.zeros(x.shape))
    for i in range(11, 0, -1):
        out = (out + 1.0) * (y * INVERSES[i])  # of e**y - 1, which squares without a loss
    for _ in range(9):
        out = out.scaled(2.0) + out * out
    first = np.floor(k / 2)
    with np.errstate(over="ignore", invalid="ignore"):
        grown = (
            (out + 1.0)
            .scaled(np.ldexp(1.0, first.astype(int)))
            .scaled(np.ldexp(1.0, (k - first).astype(int)))
        )
        return where(k == 0.0, out, grown - 1.0)


def hyperbola(x: DD) -> tuple[DD, DD, DD]:
    """(sinh, cosh, 1 - cosh) of numbers that are not negative; infinite beyond 709."""
    with np.errstate(over="ignore", invalid="ignore"):
        e = expm1(x)
        inverse = e / (e + 1.0)  # 1 - e**-x
        more = (e * inverse).scaled(0.5)
        return (e + inverse).scaled(0.5), more + 1.0, -more


def angle(s: DD, c: DD) -> DD:
    """The angle whose sine and cosine these are, from 0 to pi/2.

    Newton from a start of 24 bits, the same whatever mathematical library the machine has.
    """
    x = DD(np.arctan2(s.high, c.high).astype(np.float32).astype(np.float64))
    for _ in range(3):
        sine, cosine, _ = circle(x)
        x = x + (s * cosine - c * sine)
    return x


def area(s: DD) -> DD:
    """The number whose hyperbolic sine this is, if it is not negative."""
    x = DD(np.arcsinh(s.high).astype(np.float32).astype(np.float64))
    for _ in range(3):
        sine, cosine, _ = hyperbola(x)
        x = x + (s - sine) / cosine
    return x
