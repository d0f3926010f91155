"""How does a momentum turn about a magnetic field?  By Cayley's transform of half the angle, which keeps its length.

v + (v + v x t) x s with s = 2 t/(1 + t.t) turns v about t by 2 atan|t| (Boris 1970). With |t| = tan(angle/2) the angle is the
true one; with |t| = angle/2 it is short by angle**3/12. Each vector product is added by two fma a number,
and the one division is 1/(1 + t.t).
"""

from __future__ import annotations

from tinyphysics.ir import UOp
from tinyphysics.ir.vectors import columns, from_columns

SMALL = 2.0**-40  # a square of an angle below which tan x/x is 1 + x**2/3 to the last bit
WAYS = ("cayley", "exact")


def square(t: UOp) -> UOp:
    """t.t along the last axis; of a plane t is one number."""
    x, *rest = columns(t)
    out = x * x
    for u in rest:
        out = u.fma(u, out)
    return out


def row_of(t: UOp, v: UOp) -> UOp:
    """|t|**2 for each row of v."""
    return square(t) if v.shape[-1] == 3 else t * t


def lengthened(x2: UOp) -> UOp:
    """tan(x)/x for the square of x."""
    small = x2 < SMALL
    x = small.where(UOp.const(1.0, x2.dtype, x2.shape), x2).sqrt()
    return small.where(x2 * (1.0 / 3.0) + 1.0, x.tan() / x)


def scaled(t: UOp, by: UOp, v: UOp) -> UOp:
    """t times one number for each row."""
    return from_columns([x * by for x in columns(t)]) if v.shape[-1] == 3 else t * by


def one_and_square(t: UOp, v: UOp) -> UOp:
    """1 + |t|**2 for each row of v."""
    parts = columns(t) if v.shape[-1] == 3 else [t]
    out = UOp.const(1.0, parts[0].dtype, parts[0].shape)
    for u in parts:
        out = u.fma(u, out)
    return out


def plus_across(v: UOp, a: UOp, t: UOp) -> UOp:
    """v + a x t, each number by fma; in a plane t is one number, along the axis that is not there."""
    if v.shape[-1] == 2:
        (x, y), (p, q) = columns(v), columns(a)
        return from_columns([q.fma(t, x), p.fma(-t, y)])
    own, by, about = columns(v), columns(a), columns(t)
    turns = ((0, 1, 2), (1, 2, 0), (2, 0, 1))
    return from_columns([by[j].fma(about[k], by[k].fma(-about[j], own[i])) for i, j, k in turns])


def gyrated(v: UOp, t: UOp, way: str = "cayley") -> UOp:
    """v turned about t: by 2 atan|t|, or exactly by 2|t|."""
    if way == "exact":
        t = scaled(t, lengthened(row_of(t, v)), v)
    below = one_and_square(t, v)
    half = UOp.const(1.0, below.dtype, below.shape) / below
    s = scaled(t, half + half, v)
    return plus_across(v, plus_across(v, v, t), s)
