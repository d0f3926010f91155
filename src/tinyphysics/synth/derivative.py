"""What is the shortest form of a gradient?  Of whole arrays, or of their numbers where an energy picks them apart."""
from __future__ import annotations

from collections.abc import Sequence

from tinyphysics.ir import Ops, UOp, elements, toposort
from tinyphysics.rules.real import simplify
from tinyphysics.rules.unroll import unroll
from tinyphysics.rules.vjp import gradient

MOST_COMPONENTS = 64
PIECES = frozenset({Ops.PAD, Ops.CONCAT, Ops.STACK, Ops.ELEMENT})  # what indexing leaves in a derivative


def derivative(energy: UOp, states: Sequence[UOp]) -> list[UOp]:
    """The gradient with respect to each state, simplified.

    The gradient of an energy that uses q[0] and q[1] apart is, as an array, a sum of arrays padded with
    zeros; number by number the zeros disappear.
    """
    whole = simplify(gradient(energy, states))
    numbers = [elements(s) for s in states]
    in_pieces = any(u.op in PIECES for u in toposort(whole))
    if not in_pieces or sum(map(len, numbers)) > MOST_COMPONENTS:
        return whole
    ((scalar,),) = unroll([energy])
    parts = simplify(gradient(scalar, [x for group in numbers for x in group]))
    out = []
    for s, group in zip(states, numbers):
        out.append(UOp.stack(parts[: len(group)], s.shape) if s.shape else parts[0])
        parts = parts[len(group) :]
    return out
