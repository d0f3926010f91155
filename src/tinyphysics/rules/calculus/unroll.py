"""What does an array expression say about each of its numbers?  Small fixed sizes, element by element."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice

from tinyphysics.errors import PlanError
from tinyphysics.ir.dtype import bool_, i64
from tinyphysics.ir.fourier import transform
from tinyphysics.ir.ops import CHOSEN, ELEMENTWISE, Ops
from tinyphysics.ir.reduction import Tree, along, fold, fold_products, trees
from tinyphysics.ir.uop import RECORD, Shape, UOp, elements, toposort
from tinyphysics.ir.value import NAN, REDUCTION, concat_index, empty, source_index, strides
from tinyphysics.rules.calculus.lines import written_out
from tinyphysics.rules.calculus.solve import closed, of_arrays
from tinyphysics.util import prod


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
        return dotted(u, *src) if u.arg[0] == "dot" else reduced(u, src[0])
    if u.op is Ops.FOURIER:
        return transformed(u, *src)
    if u.op in CHOSEN:
        return (gathered if u.op is Ops.GATHER else scattered)(u, src)
    if u.op is Ops.LINE:
        return written_out(u, src)
    if u.op is Ops.MESH:
        raise PlanError(
            "particles on a mesh are not written out number by number",
            fix="Ask it of the same system with plain sums: long_range={}.",
        )
    if u.op is Ops.ELLIPTIC:
        raise PlanError(
            "Poisson's equation is not written out number by number",
            fix='Choose a step that goes over whole arrays: method="leapfrog", or "rk4" for rates.',
        )
    if of_arrays(u):
        raise PlanError(
            "equations of whole arrays run in loops, and are not written out number by number",
            fix="Ask it of the same system with fewer numbers: up to 96 unknowns are written out.",
        )
    if u.op is Ops.SOLVE:
        return closed(u, *src, *([] if len(src) == 4 else [[]]))
    zero = UOp.const(0, u.dtype)
    return [zero if i is None else src[0][i] for i in source_index(u)]


def transformed(u: UOp, re: list[UOp], im: list[UOp]) -> list[UOp]:
    """A part of the transforms along an axis."""
    part, sign, axis = u.arg
    step = strides(u.shape)[axis]
    out, n = list(re), u.shape[axis]
    for first in (k for k in range(u.size) if k // step % n == 0):
        at = range(first, first + n * step, step)
        for k, x in zip(at, transform([(re[k], im[k]) for k in at], sign)):
            out[k] = x[part]
    return out


def reduced(u: UOp, items: list[UOp]) -> list[UOp]:
    op = REDUCTION[u.arg[0]]
    for axis in along(u):
        found = [fold(tree, lambda x, y: x.alu(op, y), items.__getitem__) for tree in trees(axis)]
        items = [UOp.const(empty(axis), u.dtype) if x is None else x for x in found]
    return items


def dotted(u: UOp, x: list[UOp], y: list[UOp]) -> list[UOp]:
    """Sums of products, each product joining its sum with one rounding."""
    found = [sum_of_products(tree, lambda k: (x[k], y[k])) for tree in trees(u)]
    return [UOp.const(empty(u), u.dtype) if s is None else s for s in found]


def sum_of_products(tree: Tree | None, item: Callable[[int], tuple[UOp, UOp]]) -> UOp | None:
    out: UOp | None = fold_products(
        tree, lambda a, b: a + b, lambda a, b, c: a.fma(b, c), lambda a, b: a * b, item
    )
    return out


def merged(axes: Shape, at: Sequence[UOp]) -> UOp:
    """The row of leading axes that some indices choose, -1 if one of them is outside."""
    if all(i.op is Ops.CONST for i in at):
        known = [int(i.arg) for i in at]
        fits = all(0 <= i < n for i, n in zip(known, axes))
        return UOp.const(sum(i * s for i, s in zip(known, strides(axes))) if fits else -1, i64)
    row, outside = UOp.const(0, i64), UOp.const(False, bool_)
    for i, n, s in zip(at, axes, strides(axes)):
        outside = outside | (i < UOp.const(0, i64)) | (UOp.const(n, i64) <= i)
        row = row + i * UOp.const(s, i64)
    return outside.where(UOp.const(-1, i64), row)


def chosen(row: UOp, items: Sequence[UOp], first: int = 0) -> UOp:
    """items[row - first] of a row that is inside, by choices between halves."""
    if len(items) == 1:
        return items[0]
    half = len(items) // 2
    left, right = chosen(row, items[:half], first), chosen(row, items[half:], first + half)
    return (row < UOp.const(first + half, i64)).where(left, right)


def gathered(u: UOp, src: list[list[UOp]]) -> list[UOp]:
    table, indices = src[0], src[1:]
    axes = u.src[0].shape[: len(indices)]
    count = prod(axes)
    width = len(table) // count
    outside = UOp.const(NAN, u.dtype)
    out = []
    for at in zip(*indices):
        row = merged(axes, at)
        for c in range(width):
            items = table[c::width]
            if row.op is Ops.CONST:
                out.append(outside if row.arg < 0 else items[row.arg])
            else:
                out.append((row < UOp.const(0, i64)).where(outside, chosen(row, items)))
    return out


def scattered(u: UOp, src: list[list[UOp]]) -> list[UOp]:
    values, indices = src[0], src[1:]
    axes = u.shape[: len(indices)]
    count = prod(axes)
    width = u.size // count
    zero, outside = UOp.const(0, i64), UOp.const(NAN, u.dtype)
    out = [UOp.const(0, u.dtype)] * u.size
    for item, at in enumerate(zip(*indices)):
        row = merged(axes, at)
        for c in range(width):
            value = values[item * width + c]
            if row.op is Ops.CONST:
                k = max(row.arg, 0) * width + c
                out[k] = out[k] + (outside if row.arg < 0 else value)
                continue
            for r in range(count):
                k = r * width + c
                here = row.eq(UOp.const(r, i64)) if r else row <= zero
                added = (row < zero).where(outside, value) if not r else value
                out[k] = here.where(out[k] + added, out[k])
    return out


def stays_whole(order: Iterable[UOp]) -> bool:
    """Is one of these nodes a solution on a whole grid?  Such a one is not written out number by number."""
    return any(u.op is Ops.ELLIPTIC for u in order)


def unroll(roots: Sequence[UOp]) -> list[list[UOp]]:
    """The numbers of each root as scalar graphs, sums in the order that their shape prescribes.

    >>> q = UOp.var("q", (2,))
    >>> unroll([(q * q).sum()])
    [[q[0]*q[0] + q[1]*q[1]]]
    """
    table: dict[UOp, list[UOp]] = {}
    sites = RECORD.get()
    for u in toposort(roots):
        if sites is not None:
            sites.current = sites.table.get(u)
        # a component of a variable is a leaf here: q[0] stays q[0]
        is_leaf = u.op is Ops.ELEMENT and u.src[0].op is Ops.VAR
        table[u] = [u] if is_leaf else one(u, [table[s] for s in u.src])
    if sites is not None:
        sites.current = None
    return [table[r] for r in roots]


def rolled(flat: Sequence[UOp], variables: Sequence[UOp]) -> list[UOp]:
    """Numbers, those of one variable after the other, as arrays of the shapes that they have."""
    numbers = iter(flat)
    own = [list(islice(numbers, v.size)) for v in variables]
    return [UOp.stack(part, v.shape) if v.shape else part[0] for v, part in zip(variables, own)]
