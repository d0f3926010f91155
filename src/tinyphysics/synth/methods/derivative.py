"""What is the shortest form of a gradient?  Of whole arrays, or of their numbers where an energy picks them apart.

And of the gradient of a squared gradient, for force-gradient steps; and of the derivatives of both with respect to time.
"""

from __future__ import annotations

from collections.abc import Sequence

from tinyphysics.ir import Ops, UOp, elements, substitute, toposort
from tinyphysics.ir.ops import ELEMENTWISE, MINIMAL
from tinyphysics.ir.reduction import COMPONENTS
from tinyphysics.rules.calculus.jvp import jvp
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.rules.equality.normal import chooses
from tinyphysics.rules.identities.real import simplify

MOST_COMPONENTS = 64
# a few additions of zeros at the ends of a long axis cost less than giving up the loop along it
WORTH_A_LOOP = 1.5
MOST_WRITTEN = 1_000  # operations of an energy whose gradient is written number by number where it has a long axis of its own
MOST_FUNCTIONS = (
    16  # of single numbers in such a gradient: in pairs of float64 each of them is hundreds of operations
)
PIECES = frozenset({Ops.PAD, Ops.CONCAT, Ops.STACK, Ops.ELEMENT})  # what indexing leaves in a derivative


def operations(roots: Sequence[UOp]) -> int:
    return sum(u.size for u in toposort(roots) if u.op in ELEMENTWISE)


def functions(roots: Sequence[UOp]) -> int:
    return sum(u.op in ELEMENTWISE and u.op not in MINIMAL for u in toposort(roots))


def derivative(energy: UOp, states: Sequence[UOp]) -> list[UOp]:
    """The gradient with respect to each state, simplified.

    The gradient of an energy that uses q[0] and q[1] apart is, as an array, a sum of arrays padded with
    zeros; number by number the zeros disappear.
    """
    whole = simplify(gradient(energy, states))
    in_pieces = any(u.op in PIECES for u in toposort(whole))
    if not in_pieces or sum(s.size for s in states) > MOST_COMPONENTS or chooses(energy):
        return whole
    long = any(n > COMPONENTS for s in states for n in s.shape)
    if not long and sums_over_data(energy):
        return whole
    numbers = [elements(s) for s in states]
    ((scalar,),) = unroll([energy])
    parts = simplify(gradient(scalar, [x for group in numbers for x in group]))
    if long and (operations(whole) <= WORTH_A_LOOP * operations(parts) or functions(parts) > MOST_FUNCTIONS):
        return without_picked(energy, states) or whole
    return stacked(parts, states)


def stacked(parts: Sequence[UOp], states: Sequence[UOp]) -> list[UOp]:
    """One derivative for each number, as the arrays of the states."""
    items = iter(parts)
    own = [[next(items) for _ in range(s.size)] for s in states]
    return [UOp.stack(group, s.shape) if s.shape else group[0] for group, s in zip(own, states)]


def addends(u: UOp) -> list[UOp]:
    return [x for s in u.src for x in addends(s)] if u.op is Ops.ADD else [u]


def without_picked(energy: UOp, states: Sequence[UOp]) -> list[UOp] | None:
    """The gradient with only those terms written number by number that are shorter so; None where all or none are.

    A product of all numbers is, and a sum over all pairs beside it stays a loop.
    """
    numbers = [x for s in states for x in elements(s)]
    picked: list[UOp] = []
    rest: list[UOp] = []
    for term in addends(energy):
        whole = simplify(gradient(term, states))
        if not any(u.op in PIECES for u in toposort(whole)):
            rest.append(term)
            continue
        ((scalar,),) = unroll([term])
        parts = simplify(gradient(scalar, numbers))
        (picked if WORTH_A_LOOP * operations(parts) < operations(whole) else rest).append(term)
    if not picked or not rest:
        return None
    ((scalar,),) = unroll([UOp.sum_of(picked)])
    own = stacked(simplify(gradient(scalar, numbers)), states)
    return simplify([a + b for a, b in zip(gradient(UOp.sum_of(rest), states), own)])


def sums_over_data(energy: UOp) -> bool:
    """Has it an axis that is long enough for a loop, and too much along it to be written out?"""
    has_axis = any(n > COMPONENTS for u in toposort([energy]) for n in u.shape)
    return has_axis and operations([energy]) > MOST_WRITTEN


def force_gradient(
    slopes: Sequence[UOp], velocities: Sequence[UOp], q: Sequence[UOp], p: Sequence[UOp]
) -> list[UOp]:
    """V'' A g, where g = dV/dq and A is the Hessian of T: the gradient of g.A.g/2, one for each q.

    V'' is never formed: this is the derivative of g along A g, and A g that of dT/dp along g. T must be quadratic
    in p, so that no p is left.
    """
    names = [named(g, k) for k, g in enumerate(slopes)]
    along = simplify(jvp(velocities, p, [name for name, _ in names]))
    assert not any(u.leaves & frozenset(p) for u in along), "T is not quadratic in p"
    table = {name: g for _, rows in names for name, g in rows.items()}
    return substitute(simplify(jvp(slopes, q, along)), table)


def power(energy: UOp, time: UOp | None) -> UOp:
    """dH/dt at rest: what moves the momentum of explicit time."""
    assert time is not None
    return simplify(jvp([energy], [time], [UOp.const(1.0)]))[0]


def power_of_gradient(
    slopes: Sequence[UOp], velocities: Sequence[UOp], time: UOp | None, p: Sequence[UOp]
) -> UOp:
    """The same of g.A.g/2, whose gradient `force_gradient` gives, for an A without time."""
    assert time is not None
    along = jvp(velocities, p, slopes)
    changes = jvp(slopes, [time], [UOp.const(1.0)])
    return simplify([UOp.sum_of((a * b).sum() for a, b in zip(along, changes))])[0]


def named(g: UOp, k: int) -> tuple[UOp, dict[UOp, UOp]]:
    """A name for the slope g, and what it stands for: what is computed of g is made of its name, not of its parts.

    A force that the kick computes anyway is then read, not computed again in other words.
    """
    if g.op is not Ops.STACK:
        name = UOp.var(f"slope{k}", g.shape, g.dtype)
        return name, {name: g}
    parts = [UOp.var(f"slope{k}.{i}", (), g.dtype) for i in range(len(g.src))]
    return UOp.stack(parts, g.shape), dict(zip(parts, g.src))
