"""What is the derivative of each element-wise operation?  One row per op, shared by vjp and jvp."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tinyphysics.errors import TraceError
from tinyphysics.ir.ops import HARMONIC, Ops
from tinyphysics.ir.uop import UOp, as_uop
from tinyphysics.rules.calculus.oscillator_slopes import of_oscillator
from tinyphysics.rules.identities.exact import ROUNDED, fold
from tinyphysics.util import Site, plural

Partials = tuple[UOp | None, ...]  # None: the derivative is zero everywhere

TWO_OVER_ROOT_PI = 2 / math.sqrt(math.pi)


def one(u: UOp) -> UOp:
    return UOp.const(1.0, u.dtype, u.shape)


def zero(u: UOp) -> UOp:
    return UOp.const(0.0, u.dtype, u.shape)


def third(u: UOp) -> UOp:
    return as_uop(1 / 3, u.dtype) if ROUNDED.get() else as_uop(1.0, u.dtype) / 3.0


def two_over_root_pi(u: UOp) -> UOp:
    return as_uop(TWO_OVER_ROOT_PI, u.dtype) if ROUNDED.get() else 2.0 / as_uop(-1.0, u.dtype).acos().sqrt()


def power(u: UOp) -> Partials:
    x, n = u.src
    if n.op is Ops.CONST:  # one less is a constant too: the next derivative stops at x**0
        less = fold(n - 1.0)
        return (n * x ** (n - 1.0 if less is None else less) if n.arg != 0 else None), None
    # x**n * log x has a limit of 0 at x = 0 for n > 0; for x < 0 the power itself is not real
    slope = (x.eq(0.0)).where(zero(u), u * x.log())
    return n * x ** (n - 1.0), slope


def atan2(u: UOp) -> Partials:
    y, x = u.src
    square = x * x + y * y
    return x / square, -(y / square)


def smaller(u: UOp) -> Partials:
    a, b = u.src
    first = a <= b  # on a tie the first argument takes the derivative
    return first.where(one(u), zero(u)), first.where(zero(u), one(u))


def larger(u: UOp) -> Partials:
    a, b = u.src
    first = b <= a
    return first.where(one(u), zero(u)), first.where(zero(u), one(u))


def choose(u: UOp) -> Partials:
    condition = u.src[0]
    return None, condition.where(one(u), zero(u)), condition.where(zero(u), one(u))


# fmt: off
PARTIALS: dict[Ops, Callable[[UOp], Partials]] = {
    Ops.NEG:    lambda u: (-one(u),),
    Ops.ABS:    lambda u: (u.src[0].sign(),),
    Ops.SIGN:   lambda u: (None,),
    Ops.FLOOR:  lambda u: (None,),
    Ops.RINT:   lambda u: (None,),
    Ops.IMAGE:  lambda u: (one(u), -one(u), -one(u)),  # the number of periods does not move, the box may
    Ops.SQRT:   lambda u: (0.5 / u,),
    Ops.RSQRT:  lambda u: (-0.5 * (u / u.src[0]),),
    Ops.CBRT:   lambda u: (third(u) / (u * u),),
    Ops.SIN:    lambda u: (u.src[0].cos(),),
    Ops.COS:    lambda u: (-u.src[0].sin(),),
    Ops.TAN:    lambda u: (one(u) + u * u,),
    Ops.ASIN:   lambda u: (one(u) / (one(u) - u.src[0] * u.src[0]).sqrt(),),
    Ops.ACOS:   lambda u: (-(one(u) / (one(u) - u.src[0] * u.src[0]).sqrt()),),
    Ops.ATAN:   lambda u: (one(u) / (one(u) + u.src[0] * u.src[0]),),
    Ops.SINH:   lambda u: (u.src[0].cosh(),),
    Ops.COSH:   lambda u: (u.src[0].sinh(),),
    Ops.TANH:   lambda u: (one(u) - u * u,),
    Ops.EXP:    lambda u: (u,),
    Ops.EXPM1:  lambda u: (u + one(u),),
    Ops.LOG:    lambda u: (one(u) / u.src[0],),
    Ops.LOG1P:  lambda u: (one(u) / (one(u) + u.src[0]),),
    Ops.ERF:    lambda u: (two_over_root_pi(u) * (-(u.src[0] * u.src[0])).exp(),),
    Ops.CAST:   lambda u: (one(u) if u.dtype.is_float and u.src[0].dtype.is_float else None,),
    Ops.ADD:    lambda u: (one(u), one(u)),
    Ops.SUB:    lambda u: (one(u), -one(u)),
    Ops.MUL:    lambda u: (u.src[1], u.src[0]),
    Ops.DIV:    lambda u: (one(u) / u.src[1], -(u / u.src[1])),
    Ops.POW:    power,
    Ops.ATAN2:  atan2,
    Ops.HYPOT:  lambda u: (u.src[0] / u, u.src[1] / u),
    Ops.ANGLE:   lambda u: (one(u), None),
    Ops.ANGLE_LOW: lambda u: (None, one(u)),
    Ops.MIN:    smaller,
    Ops.MAX:    larger,
    Ops.FMA:    lambda u: (u.src[1], u.src[0], one(u)),
    Ops.WHERE:  choose,
    **dict.fromkeys(HARMONIC, of_oscillator),
}
# fmt: on

CUSTOM_PARTIALS: dict[str, Callable[..., Any]] = {}  # a tuple of nodes or numbers, if the user is right
CUSTOM_SITES: dict[str, Site] = {}  # the lines where users' operations are defined


def partials(u: UOp) -> Partials:
    """The derivative of u with respect to each of its sources."""
    if u.op is Ops.CUSTOM:
        if u.arg not in CUSTOM_PARTIALS:
            raise TraceError(
                f"the operation `{u.arg}` has no derivative rule",
                site=CUSTOM_SITES.get(str(u.arg)),
                fix=f"Register it: tp.op({u.arg!r}, definition, derivative=lambda x: (...,)).",
            )
        found = CUSTOM_PARTIALS[u.arg](*u.src)
        if not isinstance(found, (tuple, list)) or len(found) != len(u.src):
            raise TraceError(
                f"the derivative rule of `{u.arg}` does not return {plural(len(u.src), 'partial derivative')}",
                site=CUSTOM_SITES.get(str(u.arg)),
                fix="Return a tuple with one for each argument: derivative=lambda x: (...,).",
            )
        return tuple(as_uop(d, u.dtype) for d in found)
    if u.op in (Ops.KEPLER_SLOW, Ops.WHERE_RARELY):  # both are made by rules/formulas/kepler.py alone
        raise TraceError(
            "a Kepler orbit has no derivative rule yet",
            fix="Use a splitting method of kicks and drifts instead.",
        )
    if not u.dtype.is_float or u.op not in PARTIALS:  # integers, bits and comparisons are locally constant
        return (None,) * len(u.src)
    return PARTIALS[u.op](u)


def times(g: UOp, d: UOp) -> UOp:
    """g*d, and g/b where d is 1/b: a reciprocal would round twice."""
    if d.op is Ops.DIV and d.src[0].op is Ops.CONST and d.src[0].arg == 1:
        return g / d.src[1]
    return g * d
