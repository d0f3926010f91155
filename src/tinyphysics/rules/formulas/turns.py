"""How does a body turn about one of its axes?  Columns of its states by an angle, each two of them by three shears.

cos x a + sin x b and cos x b - sin x a, written as three shears, keep their determinant whatever is rounded: a turn by the
same angle a million times neither grows nor shrinks. Beyond a quarter of a turn both change their sign first, so that
tan(x/2) is never large.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tinyphysics.ir import Ops, UOp, elements, graph_rewrite, substitute, toposort
from tinyphysics.ir.vectors import columns, from_columns
from tinyphysics.rules.calculus.column import column
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.rules.identities.exact import exact
from tinyphysics.rules.identities.real import simplify
from tinyphysics.turning import Turning

MOST_NUMBERS = 96  # of the momenta of a system that is looked at number by number
Arc = tuple[UOp, UOp, UOp]  # is the sign changed?  The sine and the tangent of the half, after that


def arc(sin: UOp, cos: UOp) -> Arc:
    flips = cos < 0.0
    s, c = flips.where(-sin, sin), flips.where(-cos, cos)
    return flips, s, s / (c + 1.0)


def by_shears(a: UOp, b: UOp, by: Arc) -> tuple[UOp, UOp]:
    flips, s, t = by
    u = t.fma(b, a)
    low = (-s).fma(u, b)
    high = t.fma(low, u)
    return flips.where(-high, high), flips.where(-low, low)


def turned(kind: Turning, momentum: UOp, carried: UOp | None, axis: int, angle: UOp) -> dict[UOp, UOp]:
    """What the states of a body become; of a rotor, `angle` is half of that by which the body turns."""
    sin, cos = angle.sin(), angle.cos()
    own = other = arc(sin, cos)
    if kind.half:
        own = arc(2.0 * (sin * cos), (-2.0 * sin).fma(sin, UOp.const(1.0, sin.dtype, sin.shape)))
    out = {momentum: swapped(momentum, kind.swaps(False, axis), own)}
    if carried is not None:
        out[carried] = swapped(carried, kind.swaps(True, axis), other)
    return out


def swapped(u: UOp, pairs: Sequence[tuple[int, int]], by: Arc) -> UOp:
    """An array with some of its columns turned into each other."""
    own = columns(u)
    if own[0].shape != by[1].shape:  # three rows for each body
        flips, s, t = (x.reshape(*x.shape, 1).expand(own[0].shape) for x in by)
        by = flips, s, t
    for a, b in pairs:
        own[a], own[b] = by_shears(own[a], own[b], by)
    return from_columns(own)


def angle_in(value: UOp) -> UOp | None:
    """The angle that a turn was made with."""
    found = {u.src[0]: None for u in toposort([value]) if u.op is Ops.SIN}
    held = {u.src[0]: None for u in toposort([value]) if u.op is Ops.COS}
    alike = [x for x in found if x in held]
    return alike[0] if len(alike) == 1 else None


def speeds(slopes: Mapping[UOp, UOp], axis: int) -> dict[UOp, UOp] | None:
    """How fast bodies turn about one of their axes, for the derivatives of an energy by their momenta.

    None unless that depends on the momenta about the same axis alone, and on nothing else that moves: then it stays what
    it is while they turn, and the turn is exact.
    """
    out = {}
    momenta = list(slopes)
    few = sum(L.size for L in momenta) <= MOST_NUMBERS
    names = {L: [UOp.var(f"{L.arg}:{k}", L.shape[:-1]) for k in range(3)] for L in momenta}
    allowed = {names[L][axis] for L in momenta}
    others = {u for L in momenta for u in (L, *names[L])} - allowed
    for L, slope in slopes.items():
        (own,) = graph_rewrite([column(slope, axis)], exact)
        found = simplify([column(slope, axis, names)])
        if few:
            numbers = {x: component(names[L], k) for L in momenta for k, x in enumerate(elements(L))}
            (flat,) = unroll([own])
            flat = simplify(flat)
            own = own if own.shape else flat[0]
            found = simplify(substitute(flat, numbers))
        if any(u.leaves & others for u in found):
            return None
        out[L] = own
    return out


def component(names: Sequence[UOp], k: int) -> UOp:
    """A number of an array, in the name of its column."""
    name = names[k % 3]
    return elements(name)[k // 3] if name.shape else name
