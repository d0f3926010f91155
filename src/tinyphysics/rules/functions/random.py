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
from tinyphysics.philox import ATANH, COS, LN2, MULTIPLIERS, ROUNDS, SIN, TWO_PI, WEYL, polynomial
from tinyphysics.rules.digits.floats import bits, format_of
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
def unit_interval(high: UOp, low: UOp, like: UOp) -> UOp:
    """In [0, 1): a multiple of 2**-53 from two words, or of 2**-24 from the first of them."""
    if like.dtype is f32:
        return (high >> 8).cast(f32) * 2.0**-24
    return ((high >> 5).cast(f64) * 67108864.0 + (low >> 6).cast(f64)) * 2.0**-53


def logarithm(x: UOp) -> UOp:
    """log x of a normal number, by x = 2**k m with m in [1/sqrt2, sqrt2)."""
    F, count = format_of(x), TERMS[x.dtype][0]
    low = F.pattern(math.sqrt(0.5))
    t = bits(x) + (F.pattern(1.0) - low)
    m = ((t & ((1 << F.mantissa) - 1)) + low).bitcast(x.dtype)
    base = 2.0**F.mantissa  # its low bits become an integer again when it is subtracted
    k = ((t >> F.mantissa) | F.pattern(base)).bitcast(x.dtype) - (base + F.bias)
    z = (m - 1.0) / (m + 1.0)
    series: UOp = polynomial(ATANH[:count], z * z)
    return k * LN2 + 2.0 * z * series


def cosine(turns: UOp) -> UOp:
    """Of an angle in whole turns, from 0 to 1."""
    _, sines, cosines = TERMS[turns.dtype]
    quarter = (4.0 * turns + 0.5).cast(u32)
    x = TWO_PI * (turns - 0.25 * quarter.cast(turns.dtype))
    square = x * x
    odd = (quarter & 1).ne(0)
    value = odd.where(x * polynomial(SIN[:sines], square), polynomial(COS[:cosines], square))
    return ((quarter + 1) & 2).ne(0).where(-value, value)


def uniform(u: UOp) -> UOp:
    a, b, _, _ = words(u)
    return unit_interval(a, b, u)


def normal(u: UOp) -> UOp:
    """The first of the pair of Box & Muller 1958."""
    a, b, c, d = words(u)
    if u.dtype is f32:  # 1 - u to the precision of float32, and never 0
        rest = (~a).cast(f32) * 2.0**-32 + 2.0**-33
    else:
        rest = 1.0 - unit_interval(a, b, u)
    return (-2.0 * logarithm(rest)).sqrt() * cosine(unit_interval(c, d, u))


def random(u: UOp) -> UOp:
    """A draw in the minimal operator set."""
    return uniform(u) if u.arg[0] == "uniform" else normal(u)
