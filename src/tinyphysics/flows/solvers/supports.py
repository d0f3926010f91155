"""Which numbers of an array does each number of an expression look at?  Followed through the graph, number by number."""

from __future__ import annotations

from collections.abc import Sequence

from tinyphysics.ir import Ops, UOp, toposort
from tinyphysics.ir.ops import ELEMENTWISE, MOVEMENT
from tinyphysics.ir.reduction import along
from tinyphysics.ir.value import chosen_rows, concat_index, evaluate, source_index

Support = frozenset[int]
NOTHING: Support = frozenset()


def supports(root: UOp, of: UOp) -> list[Support] | None:
    """For each number of `root` those of `of` that it may depend on; None if a node is not followed.

    A set may be too large, and never too small.
    """
    known: dict[UOp, list[Support]] = {}
    for u in toposort([root]):
        if of not in u.leaves:
            continue
        found = [frozenset({k}) for k in range(of.size)] if u is of else looked_at(u, known)
        if found is None:
            return None
        known[u] = found
    return known.get(root, [NOTHING] * root.size)


def looked_at(u: UOp, known: dict[UOp, list[Support]]) -> list[Support] | None:
    sets = [known.get(s, [NOTHING] * s.size) for s in u.src]
    if u.op in ELEMENTWISE:
        return [NOTHING.union(*items) for items in zip(*sets)]
    if u.op is Ops.STACK:
        return [item for (item,) in sets]
    if u.op is Ops.CONCAT:
        return [sets[k][i] for k, i in concat_index(u)]
    if u.op is Ops.REDUCE and u.arg[0] in ("sum", "dot") and len(u.arg) == 2:
        return summed(u, [NOTHING.union(*items) for items in zip(*sets)])
    if u.op in (Ops.GATHER, Ops.SCATTER):
        return chosen(u, sets[0])
    if u.op in MOVEMENT and len(u.src) == 1:
        return [NOTHING if i is None else sets[0][i] for i in source_index(u)]
    return None


def summed(u: UOp, sets: Sequence[Support]) -> list[Support]:
    for axis in along(u):
        (k,), shape = axis.arg[1], axis.src[0].shape
        inner = 1
        for n in shape[k + 1 :]:
            inner *= n
        sets = [
            NOTHING.union(
                *(sets[i // inner * shape[k] * inner + i % inner + t * inner] for t in range(shape[k]))
            )
            for i in range(axis.size)
        ]
    return list(sets)


def chosen(u: UOp, sets: Sequence[Support]) -> list[Support] | None:
    """By indices that no run changes."""
    if any(leaf.op is Ops.VAR for s in u.src[1:] for leaf in s.leaves):
        return None
    gathers = u.op is Ops.GATHER
    table, other = (u.src[0], u) if gathers else (u, u.src[0])
    axes = table.shape[: len(u.src) - 1]
    rows = chosen_rows(axes, evaluate(list(u.src[1:]), {}), not u.src[1].shape)
    width = other.size // max(len(rows), 1)
    if any(row is None for row in rows):
        return None
    if gathers:
        return [sets[row * width + c] for row in rows if row is not None for c in range(width)]
    out = [NOTHING] * u.size
    for item, row in enumerate(rows):
        for c in range(width):
            assert row is not None
            out[row * width + c] |= sets[item * width + c]
    return out
