"""What is short about the derivative of a sum over pairs?  It is a sum over pairs again, and of the same roots.

The derivative of a sum over i < j is masked: what is no pair is zero. A sum along any other axis keeps that mask, so that it
comes out, and sums along i or j are sums over pairs as they were before.
"""

from __future__ import annotations

from collections.abc import Sequence

from tinyphysics.ir.ops import Ops
from tinyphysics.ir.pattern import PatternMatcher, UPat
from tinyphysics.ir.reduction import COMPONENTS
from tinyphysics.ir.rewrite import graph_rewrite
from tinyphysics.ir.uop import UOp, toposort
from tinyphysics.rules.identities.real import real, simplify

x, y = UPat.var("x"), UPat.var("y")


def sum_inside(u: UOp, x: UOp) -> UOp | None:
    """sum(triu(x)) along axes that are none of the pair's is triu(sum(x))."""
    kind, axes = u.arg[:2]
    if kind != "sum" or any(a in axes for a in x.arg[:2]):
        return None
    a, b = (k - sum(other < k for other in axes) for k in x.arg[:2])
    return x.src[0].sum(axes).triu(a, b, *x.arg[2:])


def triangle_sliced(u: UOp, x: UOp) -> UOp | None:
    """A part along other axes than those of the pair."""
    whole = all(u.arg[k] == (0, x.shape[k], 1) for k in x.arg[:2])
    return u.replace((x.src[0],)).triu(*x.arg) if whole else None


def triangle_narrowed(u: UOp, x: UOp) -> UOp | None:
    """Axes of length 1 left out, none of which is the pair's."""
    places, at = {}, 0
    for k, n in enumerate(x.shape):
        if at < len(u.shape) and u.shape[at] == n:
            places[k], at = at, at + 1
        elif n != 1:
            return None
    if at < len(u.shape) or any(k not in places for k in x.arg[:2]):
        return None
    return u.replace((x.src[0],)).triu(*(places[k] for k in x.arg[:2]), *x.arg[2:])


def by_inverse_cube(x: UOp, y: UOp) -> UOp:
    """x/(y*y*sqrt y) by 1/(y*sqrt y), which the sum itself has: products instead of one more root and division."""
    cube = UOp.const(1.0, y.dtype, y.shape) / (y * y.sqrt())
    root = cube * y
    return x * (cube * (root * root))


# fmt: off
outside = PatternMatcher([
    (UPat(Ops.REDUCE, name="u", src=(UPat(Ops.TRIU, name="x"),)), sum_inside),
    (UPat(Ops.SLICE, name="u", src=(UPat(Ops.TRIU, name="x"),)),  triangle_sliced),
    (UPat(Ops.RESHAPE, name="u", src=(UPat(Ops.TRIU, name="x"),)), triangle_narrowed),
])
powers = PatternMatcher([
    (x / ((y * y) * y.sqrt()), by_inverse_cube),
    (x / (y.sqrt() * (y * y)), by_inverse_cube),
    (x / (y * (y * y.sqrt())), by_inverse_cube),
])
# fmt: on


def slopes_of_pairs(roots: Sequence[UOp]) -> list[UOp]:
    """Short forms of derivatives of sums over pairs, equal to the originals as real functions."""
    short = simplify(graph_rewrite(roots, real + outside))
    long = any(u.op is Ops.TRIU and u.shape[u.arg[0]] > COMPONENTS for u in toposort(short))
    return graph_rewrite(short, powers) if long else short
