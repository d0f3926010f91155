"""What are the terms of an energy?  Their sizes are the scale beside which its errors are told, and they may have poles."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from tinyphysics.errors import TinyPhysicsError
from tinyphysics.ir import Ops, UOp, toposort
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.rules.equality.poles import hidden_pole
from tinyphysics.rules.equality.ranges import ranges_of
from tinyphysics.system import System

CANCELLED = 1e-8  # terms of H this much smaller than what they are made of have lost half of their digits


def addends(u: UOp) -> list[UOp]:
    """The terms of a sum, without their signs; a number in front of a sum is a number in front of each."""
    match u.op, u.src:
        case ((Ops.ADD | Ops.SUB), (a, b)):
            return addends(a) + addends(b)
        case Ops.NEG, (a,):
            return addends(a)
        case Ops.DIV, (a, b) if not b.leaves:
            return [x / b for x in addends(a)]
        case Ops.MUL, (a, b) if not a.leaves or not b.leaves:
            factor, rest = (a, b) if not a.leaves else (b, a)
            return [factor * x for x in addends(rest)]
    return [u]


def made_of(energy: UOp, states: Sequence[UOp]) -> UOp:
    """The size of sum |z dH/dz| over the states z: what the terms of H are made of, also where they cancel."""
    products = (abs(z * g) for z, g in zip(states, gradient(energy, list(states))))
    return UOp.sum_of(x.sum() if x.shape else x for x in products)


def bending(energy: UOp, states: Sequence[UOp]) -> UOp | None:
    """The size of sum |z H'' z| over the states z; None where H has no second derivative.

    At a minimum H and its slopes are zero, and what roundings of z do to H is of second order: eps**2 times this.
    """
    own = list(states)
    try:
        slopes = gradient(energy, own)
        along = UOp.sum_of(x.sum() if x.shape else x for x in (z * g for z, g in zip(own, slopes)))
        turns = gradient(along, own)
    except TinyPhysicsError:
        return None
    products = (abs(z * (t - g)) for z, t, g in zip(own, turns, slopes))
    return UOp.sum_of(x.sum() if x.shape else x for x in products)


def vanishing(H: UOp, q: frozenset[UOp]) -> list[tuple[UOp, UOp]]:
    """(addend, what is zero at its pole): denominators, bases of negative powers, arguments of logarithms that move."""
    found: dict[UOp, UOp] = {}
    for x in addends(H):
        for u in toposort([x]):
            zero = None
            if u.op is Ops.DIV:
                zero = u.src[1]
            elif u.op in (Ops.RSQRT, Ops.LOG):
                zero = u.src[0]
            elif u.op is Ops.POW and u.src[1].op is Ops.CONST and float(u.src[1].arg) < 0:
                zero = u.src[0]
            if zero is not None and zero.leaves & q:
                found.setdefault(zero, x)
    return [(x, zero) for zero, x in found.items()]


@lru_cache(maxsize=256)
def poles_of(system: System) -> tuple[tuple[UOp, UOp], ...]:
    """The poles of an energy that moves: none where it is not looked for any.

    A term that is not shown to be infinite there is none: q/|q| jumps, and goes on.
    """
    H = system.energy
    if H is None or system.time is not None or any(u.op is Ops.NEIGHBOURS for u in toposort([H])):
        return ()
    q = frozenset(system.q)
    found = vanishing(H, q)
    ranges = ranges_of([zero for _, zero in found], {})
    found = [(x, zero) for x, zero in found if ranges[zero][0] <= 0.0 <= ranges[zero][1]]
    jumping = {x for x in dict.fromkeys(x for x, _ in found) if hidden_pole([x], q) is not None}
    return tuple((x, zero) for x, zero in found if x not in jumping)
