"""What does an array expression say about each of its numbers?  Small fixed sizes, element by element."""
from __future__ import annotations

from collections.abc import Sequence

from tinyphysics.ir.ops import ELEMENTWISE, Ops
from tinyphysics.ir.reduction import along, fold, trees
from tinyphysics.ir.uop import UOp, elements, toposort
from tinyphysics.ir.value import REDUCTION, concat_index, empty, source_index


def one(u: UOp, src: list[list[UOp]]) -> list[UOp]:
    """The numbers of u, row-major, from those of its sources."""
    if not u.src:
        if u.op is Ops.RANGE:
            return [UOp.const(i, u.dtype) for i in range(u.size)]
        return elements(u)
    if u.op in ELEMENTWISE:
        return [UOp(u.op, u.dtype, (), each, u.arg) for each in zip(*src)]
    if u.op is Ops.STACK:
        return [s[0] for s in src]
    if u.op is Ops.CONCAT:
        return [src[k][i] for k, i in concat_index(u)]
    if u.op is Ops.REDUCE:
        return reduced(u, src[0])
    zero = UOp.const(0, u.dtype)
    return [zero if i is None else src[0][i] for i in source_index(u)]


def reduced(u: UOp, items: list[UOp]) -> list[UOp]:
    op = REDUCTION[u.arg[0]]
    for axis in along(u):
        found = [fold(tree, lambda x, y: x.alu(op, y), items.__getitem__) for tree in trees(axis)]
        items = [UOp.const(empty(axis), u.dtype) if x is None else x for x in found]
    return items


def unroll(roots: Sequence[UOp]) -> list[list[UOp]]:
    """The numbers of each root as scalar graphs, sums in the order that their shape prescribes.

    >>> q = UOp.var("q", (2,))
    >>> unroll([(q * q).sum()])
    [[q[0]*q[0] + q[1]*q[1]]]
    """
    table: dict[UOp, list[UOp]] = {}
    for u in toposort(roots):
        # a component of a variable is a leaf here: q[0] stays q[0]
        is_leaf = u.op is Ops.ELEMENT and u.src[0].op is Ops.VAR
        table[u] = [u] if is_leaf else one(u, [table[s] for s in u.src])
    return [table[r] for r in roots]
