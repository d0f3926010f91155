"""How does a program draw?  Philox4x32-10 in integers, and what uniform and normal numbers are made of its words.

The address of a number is (seed, stream, step, index), as in tinyphysics.philox, and float64 numbers have the bits
that it gives them there: no fused multiply-add, and its own polynomials. The index counts the numbers of one draw,
member after member, so that a member draws the same however many run beside it. float32 numbers use 32-bit
operations and the leading bits of the same words: what is drawn is the float64 number to float32 precision.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tinyphysics.ir import DType, Ops, UOp, f32, f64, i64, u32
from tinyphysics.ir.drawn import ADDRESS as ADDRESS
from tinyphysics.ir.drawn import MEMBER as MEMBER
from tinyphysics.ir.drawn import NOW as NOW
from tinyphysics.ir.drawn import SEED as SEED
from tinyphysics.ir.drawn import draws as draws
from tinyphysics.ir.ops import INSIDE
from tinyphysics.philox import ATANH, COS, LN2, MULTIPLIERS, ROUNDS, SIN, TWO_PI, WEYL, polynomial
from tinyphysics.rules.digits.floats import DOUBLE, bits, flipped, format_of
from tinyphysics.util import prod

TERMS = {f64: (len(ATANH), len(SIN), len(COS)), f32: (5, 5, 6)}  # of the series: the next is below a rounding


def draw(kind: str, stream: int, shape: tuple[int, ...]) -> UOp:
    """The numbers of a draw, in the user's graph."""
    index = UOp.range(prod(shape)).reshape(shape) if shape else UOp.const(0, i64)
    return drawn(kind, (stream, prod(shape)), f64, index, (*SEED, NOW, MEMBER))


def drawn(kind: str, numbers: tuple[Any, ...], dtype: DType, index: UOp, address: Sequence[UOp]) -> UOp:
    """Random numbers; `numbers` are the stream and how many of it each member draws, `address` is two words of the
    seed, the step and the member."""
    src = tuple(x.expand(index.shape) for x in address)
    return UOp(Ops.RANDOM, dtype, index.shape, (*src, index), (kind, *numbers))


# --- integers --------------------------------------------------------------------------------------
def word(x: UOp) -> UOp:
    """The low 32 bits."""
    return x.cast(u32)


def words(u: UOp) -> tuple[UOp, UOp, UOp, UOp]:
    """The four words at the address of a draw."""
    low, high, step, member, own = u.src
    _, stream, count = u.arg
    index = member * member.lift(count) + own
    above = ((index >> 32) << 16) | (step >> 32)
    return philox4x32((word(index), word(step), word(above), word(index.lift(stream))), (low, high))


def philox4x32(counter: tuple[UOp, UOp, UOp, UOp], key: tuple[UOp, UOp]) -> tuple[UOp, UOp, UOp, UOp]:
    """Four words of 32 bits from a counter of four and a key of two (Salmon, Moraes, Dror & Shaw 2011)."""
    a, b, c, d = counter
    for n in range(ROUNDS):
        k, m = (x + x.lift(n * w % 2**32) for x, w in zip(key, WEYL))
        left, right = a.lift(MULTIPLIERS[0]), c.lift(MULTIPLIERS[1])
        a, b, c, d = (c.alu(Ops.MULHI, right) ^ b ^ k, c * right, a.alu(Ops.MULHI, left) ^ d ^ m, a * left)
    return a, b, c, d


# --- numbers ---------------------------------------------------------------------------------------
# Words become floats by their bits, since conversions are slow on GPUs: with the exponent of x in front of it, a word
# is x plus so many units in the last place of x, and x is taken off again. Nothing of that is rounded.
def counted(count: UOp, base: float) -> UOp:
    """base + count units in its last place, below the next power of two."""
    return (count.cast(i64) | DOUBLE.pattern(base)).bitcast(f64)


def fraction(high: UOp, low: UOp, like: UOp, first: float = 0.0) -> UOp:
    """first + a multiple of 2**-53 in [0, 1) from two words, or of 2**-24 from the first of them."""
    if like.dtype is f32:
        return (high >> 8).cast(f32) * 2.0**-24 + first
    top = counted(high >> 5, 2.0**25) - (2.0**25 - first)
    return top + (counted(low >> 6, 0.5) - 0.5)


def fraction_left(high: UOp, low: UOp, like: UOp) -> UOp:
    """1 - the fraction, in (0, 1]; as float32 to its precision, and never 0."""
    if like.dtype is f32:
        return (~high).cast(f32) * 2.0**-32 + 2.0**-33
    return ((2.0**25 + 1.0) - counted(high >> 5, 2.0**25)) - (counted(low >> 6, 0.5) - 0.5)


def twice_logarithm(x: UOp) -> UOp:
    """-2 log x of a normal number, by x = 2**k m with m in [1/sqrt2, sqrt2): -2 is a factor that rounds nothing."""
    F, count = format_of(x), TERMS[x.dtype][0]
    low = F.pattern(math.sqrt(0.5))
    t = bits(x) + (F.pattern(1.0) - low)
    m = ((t & ((1 << F.mantissa) - 1)) + low).bitcast(x.dtype)
    base = 2.0**F.mantissa  # its low bits become an integer again when it is subtracted
    k = ((t >> F.mantissa) | F.pattern(base)).bitcast(x.dtype) - (base + F.bias)
    z = UOp(Ops.DIV, x.dtype, x.shape, (m - 1.0, m + 1.0), INSIDE)
    series: UOp = polynomial(tuple(-4.0 * c for c in ATANH[:count]), z * z)
    return k * (-2.0 * LN2) + z * series


def cosine(high: UOp, low: UOp, like: UOp) -> UOp:
    """Of an angle in whole turns, the fraction of two words: quarters by integers, and one polynomial of what is left."""
    _, sines, cosines = TERMS[like.dtype]
    F = format_of(like)
    ahead = high + (1 << 29)  # by an eighth of a turn; its two highest bits count quarters
    quarter = ahead >> 30
    x = TWO_PI * fraction(ahead & ((1 << 30) - 1), low, like, first=-0.125)
    odd = (quarter & 1).ne(0)
    series = [
        odd.where(x.lift(s), x.lift(c)) for s, c in zip((*SIN[:sines], 0.0), COS[:cosines], strict=True)
    ]
    value = odd.where(x, x.lift(1.0)) * polynomial(tuple(series), x * x)
    return flipped(value, ((quarter + 1) & 2).cast(F.integer) << (F.dtype.bits - 2))


def uniform(u: UOp) -> UOp:
    a, b, _, _ = words(u)
    return fraction(a, b, u)


def normal(u: UOp) -> UOp:
    """The first of the pair of Box & Muller 1958."""
    a, b, c, d = words(u)
    square = twice_logarithm(fraction_left(a, b, u))
    return UOp(Ops.SQRT, u.dtype, u.shape, (square,), INSIDE) * cosine(c, d, u)


def random(u: UOp) -> UOp:
    """A draw in the minimal operator set."""
    return uniform(u) if u.arg[0] == "uniform" else normal(u)
