"""In which order is a sum taken?  Part of the meaning of REDUCE: decided by shapes alone, followed by every backend.

Axes are reduced from the last to the first. Along an axis that has a long one behind it, items are
combined one after the other: the long axis is what runs in parallel. Otherwise up to 32 items are combined
one after the other, and more in 32 strided accumulators that are folded in halves, chunk by chunk.

A sum of products ("dot", of two sources) is taken in the same order; each product joins its accumulator with one
rounding, and the first of an accumulator is rounded by itself.

A sum over pairs i < j has an order of its own. Over j: eight accumulators, by j modulo 8, folded in halves.
Over i: one after the other, in slabs of rows whose number depends on the size alone; then the slabs.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isqrt
from typing import Any

from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import Shape, UOp

LANES = 32  # accumulators of a long sum
CHUNK = 1 << 16  # items that a set of accumulators takes; chunks can be summed apart
COMPONENTS = 32  # an axis up to here is a handful of components, written out: nothing runs along it
PAIR_LANES = 8
SLABS, ROWS_PER_SLAB = 16, 256  # of a sum over pairs
NEAR_SLABS, ROWS_PER_NEAR_SLAB = 8, 1024  # of a sum over neighbours
FEW = 8  # components of a system that has no axis longer than COMPONENTS

Tree = int | tuple[str, list[Any]]  # an item, or ("one by one" | "in halves", parts); a part may be missing


def along(u: UOp) -> list[UOp]:
    """A reduction as reductions along one axis each, the last axis first; the last of them equals u."""
    kind, axes, *pairs = u.arg
    x, out = u.src[0], []
    for a in sorted(axes, reverse=True):
        x = UOp(Ops.REDUCE, u.dtype, x.shape[:a] + x.shape[a + 1 :], (x,), (kind, (a,), *pairs))
        out.append(x)
    return out


def pairs_of(u: UOp) -> str:
    """Is this a sum over j ("rows") or over i ("columns") of pairs i < j?  Empty if it is not one."""
    if u.arg[0] != "pairs":
        return ""
    _, (axis,), (_, b, *_) = u.arg
    return "rows" if axis == b else "columns"


def one_by_one(shape: Shape, axis: int) -> bool:
    """Are items along the axis combined one after the other?"""
    return shape[axis] <= LANES or any(n > COMPONENTS for n in shape[axis + 1 :])


def slabs(n: int, near: bool = False) -> list[int]:
    """Where the rows of a triangle are cut: slabs of about equal work, at multiples of the pair lanes.

    Rows of neighbours are about equally long, those of a triangle are not.
    """
    if near:
        count = max(1, min(NEAR_SLABS, n // ROWS_PER_NEAR_SLAB))
        return sorted({n * k // count // PAIR_LANES * PAIR_LANES for k in range(count)}) + [n]
    count = max(1, min(SLABS, n // ROWS_PER_SLAB))
    cuts = [n - isqrt(n * n * (count - k) // count) for k in range(count)]
    return sorted({c // PAIR_LANES * PAIR_LANES for c in cuts}) + [n]


def sequence(items: list[Any]) -> Tree:
    return items[0] if len(items) == 1 else ("one by one", items)


def long_sum(items: list[Any]) -> Tree:
    if len(items) <= LANES:
        return sequence(items)
    if len(items) <= CHUNK:
        return ("in halves", [sequence(items[k::LANES]) for k in range(LANES)])
    return long_sum([long_sum(items[k : k + CHUNK]) for k in range(0, len(items), CHUNK)])


def trees(u: UOp) -> list[Tree | None]:
    """For each element of a reduction along one axis, how its items are combined; None where there is none."""
    (axis,) = u.arg[1]
    shape = u.src[0].shape
    n, inner = shape[axis], 1
    for size in shape[axis + 1 :]:
        inner *= size
    pairs = pairs_of(u)
    out: list[Tree | None] = []
    for k in range(u.size):
        first = k // inner * n * inner + k % inner
        items: list[Any] = [first + t * inner for t in range(n)]
        if pairs:
            out.append(pair_tree(u, k, items, pairs))
        elif not items:
            out.append(None)
        else:
            out.append(sequence(items) if one_by_one(shape, axis) else long_sum(items))
    return out


def pair_tree(u: UOp, k: int, items: list[Any], pairs: str) -> Tree | None:
    a, b, *near = u.arg[2]
    other, rest = (a, b) if pairs == "rows" else (b, a)
    kept = [n for i, n in enumerate(u.src[0].shape) if i != rest]
    place = other - (rest < other)
    stride = 1
    for size in kept[place + 1 :]:
        stride *= size
    at = k // stride % kept[place]
    if pairs == "rows":
        lanes = [
            [items[j] for j in range(at + 1, len(items)) if j % PAIR_LANES == lane]
            for lane in range(PAIR_LANES)
        ]
        return ("in halves", [sequence(x) if x else None for x in lanes]) if any(lanes) else None
    cuts = slabs(len(items), bool(near))
    parts = [items[lo : min(hi, at)] for lo, hi in zip(cuts, cuts[1:]) if lo < min(hi, at)]
    return sequence([sequence(p) for p in parts]) if parts else None


def multiplied_out(u: UOp) -> UOp:
    """A sum of products as a sum: the same number, with two roundings for each term."""
    x, y = u.src
    return UOp(Ops.REDUCE, u.dtype, u.shape, (UOp(Ops.MUL, u.dtype, x.shape, (x, y)),), ("sum", *u.arg[1:]))


def fold(tree: Tree | None, combine: Callable[[Any, Any], Any], item: Callable[[int], Any]) -> Any:
    """The items of a tree combined; None if it has none."""
    if tree is None or isinstance(tree, int):
        return None if tree is None else item(tree)
    how, parts = tree
    values = [fold(p, combine, item) for p in parts]

    def join(x: Any, y: Any) -> Any:
        return y if x is None else x if y is None else combine(x, y)

    if how == "in halves":
        while len(values) > 1:
            half = len(values) // 2
            values = [join(values[k], values[k + half]) for k in range(half)]
        return values[0]
    out = values[0]
    for x in values[1:]:
        out = join(out, x)
    return out


def fold_products(
    tree: Tree | None,
    add: Callable[[Any, Any], Any],
    join: Callable[[Any, Any, Any], Any],
    times: Callable[[Any, Any], Any],
    item: Callable[[int], tuple[Any, Any]],
) -> Any:
    """The products of a tree summed; join(a, b, c) is a*b + c with one rounding. None if it has none."""
    if tree is None or isinstance(tree, int):
        return None if tree is None else times(*item(tree))
    how, parts = tree
    if how == "one by one" and all(isinstance(p, int) for p in parts):
        out = times(*item(parts[0]))
        for p in parts[1:]:
            out = join(*item(p), out)
        return out
    values = [fold_products(p, add, join, times, item) for p in parts]
    return fold((how, list(range(len(values)))), add, values.__getitem__)
