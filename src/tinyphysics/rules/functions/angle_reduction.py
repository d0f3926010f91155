"""How is a large angle in two words brought into one turn, the same on every machine?

The angles up to FARTHEST, which is all that a run usually meets, stay what they are: then nothing is computed. Beyond,
each word's fraction of a turn comes from the bits of 1/(2 pi) that matter to it (rules/functions/trig.py), to 2**-128 of
a turn.
"""

from __future__ import annotations

import math

from tinyphysics.ir import UOp
from tinyphysics.ir.angle_reduction import FARTHEST
from tinyphysics.rules.digits.double_double import Pair, chosen, fast_two_sum, number, plus, times, two_sum
from tinyphysics.rules.digits.double_double_functions import PI, by_pi
from tinyphysics.rules.digits.floats import magnitude
from tinyphysics.rules.functions.trig import signed_parts, turns


def too_large(x: UOp) -> UOp:
    """Where a turn must be taken off; false for NaN, which is handed through."""
    return FARTHEST < magnitude(x)


def signed(x: UOp) -> tuple[UOp, UOp]:
    """x/(2 pi) modulo 1 as two words after the point; 0 where x is not far."""
    far = too_large(x)
    high, low = turns(far.where(x, 2.0 * FARTHEST))
    zero = high.lift(0)
    minus = x < 0.0
    borrow = low.ne(0).where(high.lift(1), zero)
    high, low = minus.where(-high - borrow, high), minus.where(-low, low)
    return far.where(high, zero), far.where(low, zero)


def far_turn(high: UOp, low: UOp) -> Pair:
    a, b = signed(high)
    c, d = signed(low)
    s = b + d
    top = s.lift(1 << 63)  # unsigned comparison by signed
    carry = ((s ^ top) < (b ^ top)).where(s.lift(1), s.lift(0))
    first, second, third, fourth = signed_parts(a + c + carry, s, high)
    part = plus(two_sum(first, second), fast_two_sum(third, fourth))
    whole = 2.0 * (low * float(1 / (2 * PI))).rint()  # half turns, of a low word that is not far
    near = chosen(too_large(low), number(0, low), by_pi(Pair(low), whole))
    angle = plus(times(part, number(2 * PI, high)), near)
    finite = (high - high).eq(0.0)
    return Pair(finite.where(angle.high, high.lift(math.nan)), finite.where(angle.rest, 0.0))


def turn(x: UOp, y: UOp) -> UOp:
    return too_large(x).where(far_turn(x, y).high, x)


def turn_low(x: UOp, y: UOp) -> UOp:
    return too_large(x).where(far_turn(x, y).rest, y)
