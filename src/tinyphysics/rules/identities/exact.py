"""Which rewrites hold for every float, bit for bit?  These may be applied anywhere, at any time.

Not here, because they are wrong: x*0 -> 0 (NaN, inf, -0.0) and x+0.0 -> x (-0.0). See real.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from fractions import Fraction
from operator import truediv

from tinyphysics.ir.dtype import bool_
from tinyphysics.ir.ops import ELEMENTWISE, Ops
from tinyphysics.ir.pattern import PatternMatcher, UPat
from tinyphysics.ir.uop import UOp
from tinyphysics.ir.value import RING, scalar

x, y, z = (UPat.var(name) for name in "xyz")
c = UPat.const("c")


# May an operation on constants be rounded to a constant?  Not where the program will have more digits than float64.
ROUNDED: ContextVar[bool] = ContextVar("ROUNDED", default=True)
RATIONAL: dict[Ops, Callable[..., Fraction]] = RING | {Ops.DIV: truediv, Ops.FMA: lambda a, b, c: a * b + c}
NEVER_ROUNDED = (Ops.ABS, Ops.SIGN, Ops.FLOOR, Ops.RINT, Ops.MIN, Ops.MAX, Ops.WHERE, Ops.CAST, Ops.BITCAST)


@contextmanager
def unrounded() -> Iterator[None]:
    """Rules make no constant that is not the exact value of what it stands for: 1/3 stays a quotient."""
    before = ROUNDED.set(False)
    try:
        yield
    finally:
        ROUNDED.reset(before)


def is_exact(u: UOp, value: float) -> bool:
    """Is a float the value of an operation on constants, with no digit lost?"""
    if not u.dtype.is_float or u.op in NEVER_ROUNDED:
        return True
    numbers = [s.arg for s in u.src]
    if u.op not in RATIONAL or not all(map(math.isfinite, (*numbers, value))):
        return False
    return bool(RATIONAL[u.op](*map(Fraction, numbers)) == Fraction(value))


def is_power_of_two(u: UOp) -> bool:
    return u.dtype.is_float and math.isfinite(u.arg) and abs(math.frexp(u.arg)[0]) == 0.5


def fold(u: UOp) -> UOp | None:
    """An operation on constants is the constant that it computes."""
    for s in u.src:
        if s.op is not Ops.CONST:
            return None
    if u.op is Ops.CUSTOM or u.op is Ops.RANDOM:
        return None
    value = scalar(u.op, u.dtype, [s.dtype for s in u.src])(*(s.arg for s in u.src))
    return UOp.const(value, u.dtype, u.shape) if ROUNDED.get() or is_exact(u, value) else None


def divide_by_power_of_two(x: UOp, c: UOp) -> UOp | None:
    if not is_power_of_two(c):
        return None
    inverse = UOp.const(1.0 / c.arg, c.dtype, c.shape)
    # both forms round the same real number, if the reciprocal is one: that of a subnormal overflows
    return x * inverse if is_power_of_two(inverse) else None


def merge_movement(u: UOp) -> UOp | None:
    inner = u.src[0]
    if u.op is inner.op and u.op in (Ops.RESHAPE, Ops.EXPAND):
        source = inner.src[0]
        return source if source.shape == u.shape else UOp(u.op, u.dtype, u.shape, (source,))
    if u.op is Ops.EXPAND and inner.op is Ops.RESHAPE and inner.src[0].shape == ():
        return inner.src[0].expand(u.shape)
    if u.op is inner.op is Ops.PERMUTE:
        return inner.src[0].permute(tuple(inner.arg[a] for a in u.arg))
    if u.op is inner.op is Ops.FLIP and u.arg == inner.arg:
        return inner.src[0]
    return None


def move_constant(u: UOp) -> UOp | None:
    inner = u.src[0]
    return UOp.const(inner.arg, u.dtype, u.shape) if inner.op is Ops.CONST else None


def element_of(u: UOp) -> UOp | None:
    inner = u.src[0]
    if inner.op is Ops.STACK:
        item: UOp = inner.src[u.arg]
        return item
    if inner.op is Ops.RESHAPE:
        return inner.src[0].element(u.arg)
    return None


REARRANGE = (Ops.RESHAPE, Ops.EXPAND, Ops.PERMUTE, Ops.FLIP, Ops.ROLL, Ops.SLICE, Ops.ELEMENT)

# fmt: off
exact = PatternMatcher([
    (UPat(ELEMENTWISE, name="u"),            fold),
    (x * 1.0,                                lambda x: x),
    (x * -1.0,                               lambda x: -x),
    (x / 1.0,                                lambda x: x),
    (x - 0.0,                                lambda x: x),
    (x + -0.0,                               lambda x: x),
    (x ** 1.0,                               lambda x: x),
    (-(-x),                                  lambda x: x),
    (x + (-y),                               lambda x, y: x - y),
    (x - (-y),                               lambda x, y: x + y),
    ((-x) * (-y),                            lambda x, y: x * y),
    (x / c,                                  divide_by_power_of_two),
    (abs(abs(x)),                            lambda x: abs(x)),
    (abs(-x),                                lambda x: abs(x) if x.dtype.kind != "u" else None),
    (z.where(x, x),                          lambda x, z: x),
    (UPat(Ops.CONST, bool_, name="z").where(x, y), lambda x, y, z: x if z.arg else y),
    (UPat(REARRANGE, name="u"),              merge_movement),
    (UPat(REARRANGE, name="u"),              move_constant),
    (UPat(Ops.ELEMENT, name="u"),            element_of),
])
# fmt: on
