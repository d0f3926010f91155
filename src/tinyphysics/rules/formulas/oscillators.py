"""Is an energy a sum of oscillators, one for each pair of numbers?  Then its flow is known in closed form.

H = sum of a*p*p/2 + g*p + b*q*q/2 + f*q, where no state enters a, b, f and g: b is what the slope in q does along a
direction of ones, f the slope at q = 0, and that b*q + f is the slope is shown. What is not shown is not one.
"""

from __future__ import annotations

from dataclasses import dataclass

from tinyphysics.ir.ops import CHOSEN, Ops
from tinyphysics.ir.uop import UOp, elements, substitute, toposort
from tinyphysics.rules.calculus.jvp import jvp
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.rules.equality.normal import MOST_COMPONENTS, Normal, chooses
from tinyphysics.rules.identities.real import simplify


@dataclass(frozen=True, eq=False)
class Oscillator:
    """The energy of a pair of states, number by number: a*p*p/2 + g*p + b*q*q/2 + f*q, where no state enters these."""

    a: UOp
    b: UOp
    g: UOp | None = None
    f: UOp | None = None


# what indexing leaves in a derivative
PIECES = frozenset({Ops.PAD, Ops.CONCAT, Ops.STACK, Ops.ELEMENT}) | CHOSEN
Affine = tuple[UOp, UOp]  # (curvature, slope at the origin)


def affine(slope: UOp, x: UOp, states: frozenset[UOp], normal: Normal) -> Affine | None:
    """(c, d) with slope = c*x + d, number by number, where no state enters c and d; None if that is not shown."""
    if (
        any(u.op in PIECES for u in toposort([slope]))
        and 1 <= x.size <= MOST_COMPONENTS
        and x.shape
        and not chooses(slope)
    ):
        return by_numbers(slope, x, states, normal)
    ones, zeros = (UOp.const(v, x.dtype, x.shape) for v in (1.0, 0.0))
    (c,) = simplify(jvp([slope], [x], [ones]))
    (d,) = simplify(substitute([slope], {x: zeros}))
    if (c.leaves | d.leaves) & states or not normal.same(slope, c * x + d):
        return None
    return c, d


def by_numbers(slope: UOp, x: UOp, states: frozenset[UOp], normal: Normal) -> Affine | None:
    curvatures, slopes = [], []
    for own, u in zip(elements(x), unroll([slope])[0]):
        (c,), (d,) = simplify(gradient(u, [own])), simplify(substitute([u], {own: UOp.const(0.0, x.dtype)}))
        if (c.leaves | d.leaves) & states or not normal.same(u, c * own + d):
            return None
        curvatures.append(c)
        slopes.append(d)
    return stacked(curvatures, x), stacked(slopes, x)


def stacked(numbers: list[UOp], like: UOp) -> UOp:
    """One number everywhere is that number, expanded: it is computed once."""
    if all(u is numbers[0] for u in numbers):
        return numbers[0].expand(like.shape)
    return UOp.stack(numbers, like.shape)


def oscillators(energy: UOp, pairs: list[tuple[UOp, UOp]], normal: Normal) -> list[Oscillator] | None:
    """One for each pair, or None."""
    states = frozenset(x for pair in pairs for x in pair)
    out = []
    for q, p in pairs:
        dq, dp = simplify(gradient(energy, [q, p]))
        position, momentum = affine(dq, q, states, normal), affine(dp, p, states, normal)
        if position is None or momentum is None:
            return None
        (b, f), (a, g) = position, momentum
        out.append(Oscillator(a, b, None if vanishes(g, normal) else g, None if vanishes(f, normal) else f))
    return out


def vanishes(u: UOp, normal: Normal) -> bool:
    return (
        not normal.form(u)
        or u.size <= MOST_COMPONENTS
        and not chooses(u)
        and not any(normal.form(x) for x in unroll([u])[0])
    )
