"""What is the integral of an expression along one variable, from one value to another?  Where it has a closed form here.

Polynomials in the variable, whatever its coefficients are, and multiples of sin, cos and exp of a multiple of it and a rest.
The difference of two powers is written as a product with the length, so that no digits cancel where that is short.
"""

from __future__ import annotations

import math

from tinyphysics.ir import Ops, UOp, substitute, toposort
from tinyphysics.rules.calculus.degree import degrees
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.rules.equality.normal import Normal
from tinyphysics.rules.identities.real import simplify

MOST_DEGREES = 8
ALONG = UOp.var("along")
WAVES = (Ops.SIN, Ops.COS, Ops.EXP)


def slope(u: UOp, x: UOp) -> UOp:
    return simplify(gradient(u, [x]))[0]


def line_integral(u: UOp, x: UOp, length: UOp) -> UOp | None:
    """From x to x + length; None where no closed form is found."""
    if x not in u.leaves and not holds(u, x):
        return u * length
    if u.op in (Ops.ADD, Ops.SUB):
        parts = [line_integral(s, x, length) for s in u.src]
        if None not in parts:
            a, b = parts
            assert a is not None and b is not None
            return a + b if u.op is Ops.ADD else a - b
        return None
    if u.op is Ops.NEG:
        inner = line_integral(u.src[0], x, length)
        return None if inner is None else -inner
    if (found := of_polynomial(u, x, length)) is not None:
        return found
    if u.op in (Ops.MUL, Ops.DIV):
        a, b = u.src
        if not holds(b, x):
            inner = line_integral(a, x, length)
            return None if inner is None else UOp(u.op, u.dtype, u.shape, (inner, b))
        if u.op is Ops.MUL and not holds(a, x):
            inner = line_integral(b, x, length)
            return None if inner is None else a * inner
        return None
    return of_wave(u, x, length) if u.op in WAVES else None


def holds(u: UOp, x: UOp) -> bool:
    return any(v is x for v in toposort([u]))


def of_polynomial(u: UOp, x: UOp, length: UOp) -> UOp | None:
    (named,) = substitute([u], {x: ALONG})
    degree = degrees(named, frozenset({ALONG}))[named]
    if degree is None or degree > MOST_DEGREES:
        return None
    normal, derived, coefficients = Normal(), u, []
    for k in range(MOST_DEGREES + 1):
        (at_zero,) = simplify(substitute([derived], {x: UOp.const(0.0)}))
        coefficients.append(at_zero / float(math.factorial(k)))
        derived = slope(derived, x)
        if normal.is_zero(derived):
            break
    else:
        return None
    end, terms = x + length, []
    for k, c in enumerate(coefficients):
        powers = UOp.sum_of(product([end] * j + [x] * (k - j)) for j in range(k + 1))
        terms.append(c * powers / float(k + 1))
    (mean,) = simplify([UOp.sum_of(terms)])
    return mean * length


def product(factors: list[UOp]) -> UOp:
    out = UOp.const(1.0)
    for f in factors:
        out = out * f
    return out


def of_wave(u: UOp, x: UOp, length: UOp) -> UOp | None:
    (inner,) = u.src
    rate = slope(inner, x)
    if holds(rate, x) or Normal().is_zero(rate):
        return None
    (end,) = substitute([inner], {x: x + length})
    if u.op is Ops.SIN:
        return (inner.cos() - end.cos()) / rate
    return (end.sin() - inner.sin()) / rate if u.op is Ops.COS else (end.exp() - inner.exp()) / rate
