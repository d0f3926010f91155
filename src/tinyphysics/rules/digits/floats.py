"""What does a function need to know about float64 and float32 to be written once for both?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tinyphysics.ir import DType, UOp, f32, f64, i32, i64
from tinyphysics.ir.dtype import bitcast
from tinyphysics.rules.digits import coefficients


@dataclass(frozen=True)
class Format:
    """A binary format, the integers of its width, and the numbers fitted for it."""

    dtype: DType
    integer: DType
    mantissa: int  # bits stored after the point
    bias: int
    table: dict[str, tuple[float, ...]]

    @property
    def sign(self) -> int:
        return 1 << (self.dtype.bits - 1)

    @property
    def magic(self) -> float:
        """Added to a small number, it leaves the nearest integer in the low bits."""
        return 1.5 * 2.0**self.mantissa

    @property
    def smallest(self) -> float:
        """The smallest normal number."""
        return 2.0 ** (1 - self.bias)

    def pattern(self, x: float) -> int:
        """The bits of a constant."""
        return int(bitcast(x, self.dtype, self.integer))

    def __getitem__(self, name: str) -> tuple[float, ...]:
        return self.table[name]

    def pick(self, double: float, single: float) -> float:
        """A number that differs between the formats and is not a rounding of one real number."""
        return double if self.dtype is f64 else single


DOUBLE = Format(f64, i64, 52, 1023, coefficients.F64)
SINGLE = Format(f32, i32, 23, 127, coefficients.F32)


def format_of(x: UOp) -> Format:
    return DOUBLE if x.dtype is f64 else SINGLE


# --- bits ------------------------------------------------------------------------------------------
def bits(x: UOp) -> UOp:
    return x.bitcast(format_of(x).integer)


def magnitude(x: UOp) -> UOp:
    """|x|, also of -0.0 and NaN."""
    F = format_of(x)
    return (bits(x) & (F.sign - 1)).bitcast(x.dtype)


def with_sign_of(x: UOp, y: UOp) -> UOp:
    """y, which is >= 0 or has the sign of x already, given that sign: right at -0.0, where sums are not."""
    F = format_of(x)
    return (bits(y) | (bits(x) & F.sign)).bitcast(x.dtype)


def flipped(x: UOp, sign: UOp) -> UOp:
    """x with its sign bit changed where the integer `sign` has its top bit set; the rest must be 0."""
    return (bits(x) ^ sign).bitcast(x.dtype)


def power_of_two(x: UOp, field: UOp) -> UOp:
    """2**(field - bias) in the dtype of x; bits of the field above the exponent's are ignored."""
    return (field << format_of(x).mantissa).bitcast(x.dtype)


def normalised(x: UOp, shift: int) -> tuple[UOp, UOp]:
    """x, times 2**shift where it is subnormal, and the condition for that."""
    tiny = x < format_of(x).smallest
    return tiny.where(x * 2.0**shift, x), tiny


def infinity(x: UOp) -> UOp:
    return x.lift(math.inf)


def nan(x: UOp) -> UOp:
    return x.lift(math.nan)


# --- polynomials -----------------------------------------------------------------------------------
def estrin(c: Sequence[float], x: UOp) -> UOp:
    """Sum of c[i] x**i in a tree: the shortest chain of dependent operations."""
    terms: list[UOp] = [x.lift(a) for a in c]
    while len(terms) > 1:
        pairs = [x.fma(b, a) for a, b in zip(terms[0::2], terms[1::2])]
        terms = pairs + terms[len(pairs) * 2 :]
        x = x * x
    return terms[0]


def polynomial(c: Sequence[float], x: UOp) -> UOp:
    """Estrin, the lowest coefficient by Horner: its rounding error is the one that shows."""
    return x.fma(estrin(c[1:], x), c[0])
