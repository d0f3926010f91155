"""How are many pairs of float64 added up, with nothing lost and in no particular order?

A few are added one after the other. Many are cut into slices first (Rump, Ogita and Oishi 2008): what an item holds
above a grid that is the same for all of them is added exactly by any float64 sum, in any order; then what it holds
above the next, finer grid, and so on. So the sums are the ones that loops, tiles and threads know already.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tinyphysics.ir import UOp
from tinyphysics.ir.reduction import COMPONENTS, along
from tinyphysics.ir.uop import component
from tinyphysics.rules.digits.double_double import Pair, chosen, number, plus
from tinyphysics.rules.digits.floats import DOUBLE, bits

DIGITS = 106  # bits below the sum of the magnitudes that are kept: those of a pair


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
    for k in range(n):
        item = words_at(x, axis, k)
        if u.arg[0] == "sum":
            out = item if out is None else plus(out, item)
        else:
            start = number(0, item.high) if out is None else out
            out = chosen(is_pair(u, axis, k), item if out is None else plus(out, item), start)
    assert out is not None
    return out


def is_pair(u: UOp, axis: int, k: int) -> UOp:
    """Where k along one axis and the index along the other are i < j."""
    a, b = u.arg[2][:2]
    other = a if axis == b else b
    place = other - (axis < other)
    index = UOp.range(u.shape[place]).reshape(tuple(n if m == place else 1 for m, n in enumerate(u.shape)))
    return (index < k if axis == b else k < index).expand(u.shape)


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

    def spread(v: UOp) -> UOp:
        return v.reshape(tuple(1 if k == axis else n for k, n in enumerate(shape))).expand(shape)

    return in_slices(x, shape[axis], lambda v: u.replace((v,)), spread)


def scattered(u: UOp, x: Pair, indices: Sequence[UOp]) -> Pair:
    """Items added at chosen places."""
    return in_slices(x, x.high.size, lambda v: u.replace((v, *indices)), lambda v: v.gather(indices))


def in_slices(x: Pair, count: int, add: Callable[[UOp], UOp], spread: Callable[[UOp], UOp]) -> Pair:
    """Slice by slice, the first above a grid that fits the sum of the magnitudes, and each 53 - room bits finer.

    `add` is a sum of at most `count` items, `spread` gives each item what its sum has.
    """
    room = count.bit_length() + 2  # by what a sum of so many may be larger than its items
    # spread out first, and the grid made where it is used: then a loop over pairs has nothing to wait for but the size
    size = spread(add(abs(x.high)))
    # a power of two above it: what is left when that is added and taken away are multiples of its last bit
    grid = (((bits(size) >> DOUBLE.mantissa) + 3) << DOUBLE.mantissa).bitcast(x.high.dtype)
    left = [w for w in x if w is not None]
    total: Pair | None = None
    kept = DOUBLE.mantissa - 3
    while True:
        parts = [(grid + w) - grid for w in left]
        left = [w - p for w, p in zip(left, parts)]
        cut = parts[0] if len(parts) == 1 else parts[0] + parts[1]  # exact, as their sums are
        slice_ = Pair(add(cut))
        total = slice_ if total is None else plus(total, slice_)
        if kept >= DIGITS + room:
            return total
        kept += DOUBLE.mantissa + 1 - room
        grid = grid * 2.0 ** (room - DOUBLE.mantissa - 1)
