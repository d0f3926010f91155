"""Which arrays are stored, and which are computed where they are used?

What the method updates is stored, what is summed over a long axis, and what would be computed several times
at a noticeable cost. Everything else is computed in the loop that uses it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from tinyphysics.ir.dtype import i64
from tinyphysics.ir.ops import ELEMENTWISE, Ops
from tinyphysics.ir.reduction import CHUNK, LANES, one_by_one
from tinyphysics.ir.uop import Shape, UOp, toposort
from tinyphysics.tpir.kernels.at_index import Home, is_component
from tinyphysics.tpir.kernels.every_kind import STORED, written_out
from tinyphysics.tpir.kernels.index import Index
from tinyphysics.tpir.kernels.layout import component_places, long_axes, peeled
from tinyphysics.tpir.kernels.neighbours import in_order

WEIGHT = {Ops.DIV: 4, Ops.SQRT: 4}  # against one for + - * fma; functions count as a polynomial
FUNCTION_WEIGHT = 16
CHEAP = {
    Ops.ADD, Ops.SUB, Ops.MUL, Ops.FMA, Ops.NEG, Ops.ABS, Ops.MIN, Ops.MAX, Ops.WHERE, Ops.LT, Ops.LE, Ops.EQ, Ops.NE,
    Ops.AND, Ops.OR, Ops.NOT, Ops.CAST,
}  # fmt: skip
MOST_REPEATED = 8  # operations that may be done again rather than stored
MOST_SUMMED = 1_000  # operations of a sum that is written out term by term in the body of a loop


def short_sums(roots: Sequence[UOp], components: int = 0) -> dict[UOp, UOp]:
    """Every node with its reductions along one axis each, and no longer than a chunk; short transforms are written out."""
    new: dict[UOp, UOp] = {}
    for u in toposort(roots):
        new[u] = u.replace(tuple(new[s] for s in u.src))
        if u.op is Ops.REDUCE and u.arg[0] == "dot":
            new[u] = in_chunks(new[u])
        elif u.op is Ops.REDUCE:
            kind, axes, *pairs = u.arg
            x = new[u.src[0]]
            for a in sorted(axes, reverse=True):
                shape = x.shape[:a] + x.shape[a + 1 :]
                x = in_chunks(UOp(Ops.REDUCE, u.dtype, shape, (x,), (kind, (a,), *pairs)))
            new[u] = x
        elif u.op in STORED:
            new[u] = written_out(new[u], components)
    return new


def in_chunks(u: UOp) -> UOp:
    """A long sum as the sum of its chunks."""
    (axis,), x = u.arg[1], u.src[0]
    n = x.shape[axis]
    if u.arg[0] == "pairs" or n <= CHUNK or one_by_one(x.shape, axis):
        return u
    whole = n // CHUNK * CHUNK
    before, after = x.shape[:axis], x.shape[axis + 1 :]

    def part(s: UOp, lo: int, hi: int) -> UOp:
        return s.slice([(0, m, 1) if a != axis else (lo, hi, 1) for a, m in enumerate(s.shape)])

    def summed(src: list[UOp], shape: Shape, at: int) -> UOp:
        return UOp(Ops.REDUCE, u.dtype, shape, tuple(src), (u.arg[0], (at,)))

    shape = (*before, n // CHUNK, CHUNK, *after)
    chunks = summed(
        [part(s, 0, whole).reshape(*shape) for s in u.src], (*before, n // CHUNK, *after), axis + 1
    )
    if whole < n:
        rest = summed([part(s, whole, n) for s in u.src], (*before, *after), axis).reshape(*before, 1, *after)
        chunks = UOp(Ops.CONCAT, u.dtype, (*before, n // CHUNK + 1, *after), (chunks, rest), axis)
    return in_chunks(chunks.reduce("sum" if u.arg[0] == "dot" else u.arg[0], axis))


def is_stored(u: UOp) -> bool:
    """A reduction that needs a nest of its own; an operation that has a kind; what is put in the order of a list."""
    if u.op in STORED or in_order(u) and u.src[1].arg[0] == "order":
        return True
    return u.op is Ops.REDUCE and (u.arg[0] == "pairs" or u.src[0].shape[u.arg[1][0]] > LANES)


def moves_long_axis(u: UOp, components: int) -> bool:
    match u.op:
        case Ops.ROLL:
            return any(not is_component(u.shape[a], components) for _, a in u.arg)
        case Ops.SLICE | Ops.PAD:
            old = u.src[0].shape
            return any(
                m != n and not (is_component(n, components) and is_component(m, components))
                for n, m in zip(old, u.shape)
            )
        case Ops.FLIP:
            return any(not is_component(u.shape[a], components) for a in u.arg)
        case Ops.CONCAT:
            return not is_component(u.shape[u.arg], components)
        case Ops.GATHER:
            return True
        case Ops.PERMUTE:
            long = [a for a in u.arg if not is_component(u.src[0].shape[a], components)]
            return long != sorted(long)
    return False


def broadcasts(u: UOp, components: int) -> bool:
    """Is its source the same along a long axis?"""
    if u.op is not Ops.EXPAND:
        return False
    old = (1,) * (len(u.shape) - u.src[0].ndim) + u.src[0].shape
    return any(m != n and not is_component(m, components) for n, m in zip(old, u.shape))


def weight(u: UOp) -> int:
    if u.op not in ELEMENTWISE:
        return 0
    return WEIGHT.get(u.op, 1 if u.op in CHEAP else FUNCTION_WEIGHT)


def cost(u: UOp, stored: dict[UOp, None], most: float = math.inf) -> int:
    """Operations to compute one number of u from what is stored; not counted beyond `most`."""
    total, seen, waiting = 0, {u: None}, [u]
    while waiting and total <= most:
        x = waiting.pop()
        total += weight(x)
        for s in x.src:
            if s not in seen and s not in stored:
                seen[s] = None
                waiting.append(s)
    return total


def long_sums(roots: Sequence[UOp], components: int) -> dict[UOp, None]:
    """Sums along short axes that are loops here, with too many operations to be written out: sums of sums of sums.

    A sum to one number has no loop around it and is written out; the sums in it are not, if it is too long.
    """
    written: dict[UOp, int] = {}  # operations of the sums that are written out
    found: dict[UOp, None] = {}

    def is_looped(u: UOp) -> bool:
        return u.src[0].shape[u.arg[1][0]] > components and bool(long_axes(u.shape, components))

    for u in toposort(roots):
        if u.op is not Ops.REDUCE or is_stored(u):
            continue
        n, below = u.src[0].shape[u.arg[1][0]], len(u.src) - 1
        seen, waiting, within = dict.fromkeys(u.src), list(dict.fromkeys(u.src)), []
        while waiting:
            x = waiting.pop()
            below += weight(x)
            if x in written:
                within.append(x)
            for s in () if x in written or x in found or is_stored(x) else x.src:
                if s not in seen:
                    seen[s] = None
                    waiting.append(s)
        if n * (below + sum(written[x] for x in within)) > MOST_SUMMED:
            if is_looped(u):
                found[u] = None
                continue
            for x in filter(is_looped, within):
                found[x] = None
                del written[x]
            within = [x for x in within if x in written]
        written[u] = n * (below + sum(written[x] for x in within))
    return found


def shifted_views(u: UOp, homes: dict[UOp, Home], components: int) -> list[UOp]:
    """The nodes whose shifted planes are those of u; empty if u is no such view."""
    if u in homes or u.op not in (Ops.ROLL, Ops.CONCAT, Ops.RESHAPE, Ops.SLICE):
        return []
    loops = [Index(0, n - 1, UOp.var(f"@{k}", (), i64)) for k, n in enumerate(long_axes(u.shape, components))]
    found = [peeled(u, where, homes) for _, where in component_places(u.shape, components, loops)]
    if not any(shifts for *_, shifts in found) or any(y in homes for y, *_ in found):
        return []
    return list(dict.fromkeys(y for y, *_ in found))


def in_one_loop(place: object) -> object:
    """Where something is read, whichever of the arrays that are stored it is read for."""
    if not isinstance(place, tuple):
        return ()
    return place and (in_one_loop(place[0]), *place[1:])


def to_store(
    roots: Sequence[UOp], homes: dict[UOp, Home], components: int, apart: bool = False
) -> dict[UOp, None]:
    """What gets a buffer: the roots, long sums, and what is worth not computing again.

    `apart`: what is stored is computed in loops of its own, as the stages of a long step are, so that whatever several of
    them read would be computed in each. That is no reason to store what is larger than all that the method updates, such
    as a number for every pair.
    """
    order = toposort(roots)
    largest = max((math.prod(u.shape) for u in roots), default=0)
    views = {u: shifted_views(u, homes, components) for u in roots}
    stored = dict.fromkeys(
        [*roots, *(u for u in order if is_stored(u)), *homes, *long_sums(roots, components)]
    )
    for u in order:
        if u.op is Ops.NEIGHBOURS:
            stored |= dict.fromkeys(u.src)  # the points, and how far they have gone
        elif u.op is Ops.TREE:
            stored[u.src[0]] = None
        elif u.op is Ops.MESH:
            stored |= dict.fromkeys(u.src)  # every particle reads many nodes
        elif in_order(u) and u.src[1].arg[0] == "inverse":
            stored[u.src[0]] = None
    reach: dict[UOp, dict[object, None]] = {u: {} for u in order}

    def own(u: UOp) -> dict[object, None]:
        return {u if apart else (): None}

    def is_one_place(places: Iterable[object]) -> bool:
        """Is it read where it is, by others?  Its operands come from memory there as well."""
        return not any(isinstance(r, tuple) for r in places)

    wide: dict[UOp, None] = {}
    for u in reversed(order):
        if u in stored:
            reach[u] = own(u)
        elif u.op in ELEMENTWISE or u.op is Ops.REDUCE:
            again = len(reach[u]) - 1
            price = cost(u, stored, MOST_REPEATED) if again or u in wide else 0
            dear = (
                price > MOST_REPEATED if apart and is_one_place(reach[u]) else price * again > MOST_REPEATED
            )
            if again and dear or u in wide and price > 1 and u.shape:
                stored[u] = None
                reach[u] = own(u)
        if u in homes:
            continue
        if views.get(u):  # computed where it is not shifted, stored where it is
            for y in views[u]:
                reach[y] |= own(y)
            continue
        far = moves_long_axis(u, components)
        for k, s in enumerate(u.src):
            step = (u.op, u.arg, k, *map(id, u.src[1:] if u.op is Ops.GATHER else ()))
            moved = far and not (k and u.op is Ops.GATHER)
            places = reach[u] if math.prod(s.shape) <= largest else map(in_one_loop, reach[u])
            reach[s] |= {(r, step) if moved else r: None for r in places}
            if broadcasts(u, components) or u in wide and u.op not in ELEMENTWISE and u not in stored:
                wide[s] = None
    return stored
