"""How are many pairs of float64 added up, with nothing lost and in no particular order?

A few are added one after the other. Many are cut into slices first (Rump, Ogita and Oishi 2008): what an item holds
above a grid that is the same for all of them is added exactly by any float64 sum, in any order; then what it holds
above the next, finer grid, and so on. So the sums are the ones that loops, tiles and threads know already.
"""
from __future__ import annotations

from tinyphysics.ir import Ops, UOp
from tinyphysics.ir.reduction import COMPONENTS, along, pairs_of
from tinyphysics.ir.uop import component
from tinyphysics.rules.floats import DOUBLE, bits
from tinyphysics.rules.wide import Pair, chosen, number, plus

DIGITS = 112  # bits below the largest item that are kept: those of a pair, and a few


def reduced(u: UOp, x: Pair) -> Pair:
    """The words of a reduction, from those of its source."""
    kind, _, *pairs = u.arg
    for one in along(u):
        (axis,) = one.arg[1]
        n = one.src[0].shape[axis]
        if not n:
            x = number(0, one)
        elif kind in ("max", "min"):
            x = extreme(one, x)
        elif n > COMPONENTS or len(pairs) and len(pairs[0]) > 2:
            x = long_sum(one, x)
        else:
            x = short_sum(one, x, axis, n)
    return x


def words_at(x: Pair, axis: int, k: int) -> Pair:
    return Pair(component(x.high, axis, k), None if x.low is None else component(x.low, axis, k))


def short_sum(u: UOp, x: Pair, axis: int, n: int) -> Pair:
    """One after the other; of pairs i < j those with another index are passed over."""
    out: Pair | None = None
    taken = None if u.arg[0] == "sum" else pair_mask(u)
    for k in range(n):
        item = words_at(x, axis, k)
        if taken is None:
            out = item if out is None else plus(out, item)
            continue
        start = number(0, item.high) if out is None else out
        out = chosen(component(taken, axis, k), item if out is None else plus(out, item), start)
    assert out is not None
    return out


def pair_mask(u: UOp) -> UOp:
    """Where the index along one axis is below that along the other."""
    a, b = u.arg[2][:2]
    shape = u.src[0].shape
    i, j = (UOp.range(shape[k]).reshape(tuple(shape[k] if k == m else 1 for m in range(len(shape)))) for k in (a, b))
    return (i < j).expand(shape)


def extreme(u: UOp, x: Pair) -> Pair:
    """Of the items whose high word is the largest, the largest low one."""
    high = u.replace((x.high,))
    if x.low is None:
        return Pair(high)
    (axis,) = u.arg[1]
    back = high.reshape(tuple(1 if k == axis else n for k, n in enumerate(x.high.shape))).expand(x.high.shape)
    none = float("-inf") if u.arg[0] == "max" else float("inf")
    low = u.replace((x.high.eq(back).where(x.low, none),))
    return Pair(high, (high - high).eq(0.0).where(low, 0.0))


def long_sum(u: UOp, x: Pair) -> Pair:
    (axis,) = u.arg[1]
    shape = x.high.shape
    n = shape[axis]
    room = n.bit_length() + 1  # bits that a sum of n items may grow by

    def spread(v: UOp) -> UOp:
        return v.reshape(tuple(1 if k == axis else size for k, size in enumerate(shape))).expand(shape)

    size = abs(x.high)
    if u.arg[0] == "pairs":
        size = size.triu(*u.arg[2])
    largest = UOp(Ops.REDUCE, u.dtype, u.shape, (size,), ("max", (axis,)))
    # a power of two above all items, times 2**room: adding and taking it away leaves multiples of its last bit
    exponent = (bits(largest) >> DOUBLE.mantissa) + (1 + room)
    grid = (exponent << DOUBLE.mantissa).bitcast(u.dtype)
    left = [x.high, *([] if x.low is None else [x.low])]
    total: Pair | None = None
    kept = 0
    while kept < DIGITS + room:
        step = spread(grid)
        parts = [(step + v) - step for v in left]
        left = [v - p for v, p in zip(left, parts)]
        cut = parts[0] if len(parts) == 1 else parts[0] + parts[1]  # exact: both are multiples of one small number
        slice_ = Pair(u.replace((cut,)))
        total = slice_ if total is None else plus(total, slice_)
        kept += DOUBLE.mantissa - room
        grid = grid * 2.0 ** -(DOUBLE.mantissa - room)
    assert total is not None
    return total
