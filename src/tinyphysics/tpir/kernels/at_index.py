"""What is one number of an array expression?  The expression at an index, down to what is in memory.

Movement disappears into indices, short reductions into sums, constants into themselves. What is left are
element-wise operations on loads: the body of a loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tinyphysics.ir.dtype import bool_, i64
from tinyphysics.ir.ops import ELEMENTWISE, Ops
from tinyphysics.ir.reduction import LANES, fold, sequence
from tinyphysics.ir.uop import Shape, UOp
from tinyphysics.ir.value import NAN, REDUCTION, empty, strides
from tinyphysics.rules.calculus.unroll import sum_of_products
from tinyphysics.tpir.kernels.index import (
    Index,
    Place,
    Unsupported,
    added,
    below,
    chosen,
    divided,
    expr,
    rolled,
    same,
    shifted,
    times,
)
from tinyphysics.tpir.kernels.nests import load
from tinyphysics.util import prod

Places = tuple[Place, ...]
MOST_SCALARS = 64  # between which an index may choose


@dataclass(frozen=True)
class Home:
    """Where an array is: a plane for each combination of components, row-major along the rest.

    A sum over the columns of pairs has several parts, which are added when it is read.
    """

    buffer: str
    parts: int = 1
    folded: bool = False  # they are added in place, to the first


class NotHere(Exception):
    """A value of this nest is wanted at another index than the one at which it is computed."""


def is_component(n: int, limit: int) -> bool:
    return n <= limit


class AtIndex:
    def __init__(
        self,
        homes: Mapping[UOp, Home],
        components: int,
        own: Mapping[UOp, Places | None] | None = None,
        flat: Mapping[UOp, str] | None = None,
    ) -> None:
        self.homes, self.components = homes, components
        self.flat = flat or {}  # parameters of which a buffer holds all axes in a row
        self.own = own or {}  # what this nest computes, and at which index; None: not before its end
        self.memo: dict[tuple[object, ...], dict[UOp, UOp]] = {}  # by place

    def computing(self, own: Mapping[UOp, Places | None]) -> AtIndex:
        """The same, with all that it knows, for a nest that computes more: nothing so far has read that."""
        out = AtIndex(self.homes, self.components, {**self.own, **own}, self.flat)
        out.memo = self.memo
        return out

    def at(self, u: UOp, where: Places) -> UOp:
        place = tuple(i if isinstance(i, int) else i.key for i in where)
        known = self.memo.setdefault(place, {})
        if u not in known:
            for x in self.below(u, known):
                known[x] = self._at(x, where, known)
        return known[u]

    def below(self, u: UOp, known: Mapping[UOp, UOp]) -> Iterator[UOp]:
        """What is wanted at the same place, sources first: an expression may be deeper than Python's stack."""
        stack = [u]
        while stack:
            x = stack[-1]
            if x in known:
                stack.pop()
            elif waiting := [s for s in reversed(self.beside(x)) if s not in known]:
                stack += waiting
            else:
                yield stack.pop()

    def beside(self, u: UOp) -> tuple[UOp, ...]:
        """The sources that are read where u is."""
        return u.src if u.op in ELEMENTWISE and u not in self.own and u not in self.homes else ()

    def _at(self, u: UOp, where: Places, known: Mapping[UOp, UOp]) -> UOp:
        if u in self.own:
            here = self.own[u]
            if here is None or not all(same(i, j) for i, j in zip(where, here) if not isinstance(j, int)):
                raise NotHere(u)
        elif u in self.homes:
            return self.load(u, where)
        if u.op is Ops.CONST:
            return UOp.const(u.arg, u.dtype)
        if u.op is Ops.RANGE:
            return expr(where[0])
        if u.op is Ops.VAR:
            return u if not u.shape else self.load(u, where)
        if u.op in ELEMENTWISE:
            here_too = tuple([known[s] if s in known else self.at(s, where) for s in u.src])
            return UOp(u.op, u.dtype, (), here_too, u.arg)
        if u.op is Ops.REDUCE:
            return self.reduced(u, where)
        return self.moved(u, where)

    def load(self, u: UOp, where: Places) -> UOp:
        home = self.homes[u]
        plane, index, planes = 0, [], 1
        for axis, (n, i) in enumerate(zip(u.shape, where)):
            if is_component(n, self.components):
                if not isinstance(i, int):
                    return self.one_of(i, n, lambda k, a=axis: self.load(u, (*where[:a], k, *where[a + 1 :])))  # type: ignore[misc]
                plane, planes = plane * n + i, planes * n
            else:
                index.append(expr(i))
        parts = range(1 if home.folded else home.parts)
        loads = [load(u.dtype, tuple(index), home.buffer, plane + planes * k) for k in parts]
        return UOp.sum_of(loads) if len(loads) > 1 else loads[0]

    def reduced(self, u: UOp, where: Places) -> UOp:
        inner, (axis,) = u.src[0], u.arg[1]
        n = inner.shape[axis]
        assert u.arg[0] != "pairs" and n <= LANES, (
            f"a reduction of {n} items is computed by a nest of its own"
        )
        order = sequence(list(range(n))) if n else None
        every = [[self.at(s, (*where[:axis], k, *where[axis:])) for k in range(n)] for s in u.src]
        if u.arg[0] == "dot":
            x, y = every
            value = sum_of_products(order, lambda k: (x[k], y[k]))
            return UOp.const(empty(u), u.dtype) if value is None else value
        (items,) = every
        value = fold(order, lambda x, y: x.alu(REDUCTION[u.arg[0]], y), items.__getitem__)
        return UOp.const(empty(u), u.dtype) if value is None else value

    def moved(self, u: UOp, where: Places) -> UOp:
        x = u.src[0]
        match u.op:
            case Ops.EXPAND:
                new = len(u.shape) - x.ndim
                return self.at(x, tuple(0 if n == 1 else i for i, n in zip(where[new:], x.shape)))
            case Ops.PERMUTE:
                back: list[Place] = [0] * x.ndim
                for i, a in zip(where, u.arg):
                    back[a] = i
                return self.at(x, tuple(back))
            case Ops.SLICE:
                return self.at(x, tuple(shifted(times(i, b[2]), b[0]) for i, b in zip(where, u.arg)))
            case Ops.FLIP:
                return self.at(
                    x,
                    tuple(
                        shifted(times(i, -1), n - 1) if a in u.arg else i
                        for a, (i, n) in enumerate(zip(where, x.shape))
                    ),
                )
            case Ops.ROLL:
                return self.at(x, unrolled(u, where))
            case Ops.RESHAPE:
                return self.at(x, reshaped(where, u.shape, x.shape))
            case Ops.ELEMENT:
                return self.at(x, unravelled(u.arg, x.shape))
            case Ops.PAD:
                return self.padded(u, where)
            case Ops.CONCAT:
                return self.joined(u, where)
            case Ops.GATHER:
                return self.gathered(u, where)
            case Ops.STACK:
                if u.size > MOST_SCALARS and not all(isinstance(i, int) for i in where):
                    raise Unsupported("an array of scalars along a long axis")
                return self.one_of(flattened(where, u.shape), u.size, lambda k: self.at(u.src[k], ()))
            case Ops.TRIU:
                a, b = (expr(where[k]) for k in u.arg[:2])
                return self.either(a < b, self.at(x, where), UOp.const(0, u.dtype))
        raise AssertionError(f"{u.op} is not a movement")

    def either(self, condition: bool | UOp, yes: UOp, no: UOp) -> UOp:
        if isinstance(condition, bool):
            return yes if condition else no
        return UOp(Ops.WHERE, yes.dtype, (), (condition, yes, no))

    def one_of(self, i: Place, n: int, item: Callable[[int], UOp]) -> UOp:
        """The item at an index of few, by choices between halves."""
        if isinstance(i, int):
            return item(i)
        place = i.expr()

        def between(lo: int, hi: int) -> UOp:
            half = (lo + hi) // 2
            if hi - lo == 1:
                return item(lo)
            return self.either(place < UOp.const(half, i64), between(lo, half), between(half, hi))

        return between(max(i.lo, 0), min(i.hi + 1, n))

    def gathered(self, u: UOp, where: Places) -> UOp:
        """The item that indices choose: read at a place that is there, and NaN if they mean another."""
        table, *indices = u.src
        at, rest = where[: indices[0].ndim], where[indices[0].ndim :]
        places: list[UOp] = []
        outside: bool | UOp = False
        if indices[0].op is Ops.NEIGHBOURS:  # an order contains every particle
            return self.chosen(table, [self.at(indices[0], at)], (), rest)
        for index, n in zip(indices, table.shape):
            place, bad = inside(self.at(index, at), n)
            places.append(place)
            outside = bad if outside is False else outside | bad
        value = self.chosen(table, places, (), rest)
        return self.either(outside, UOp.const(NAN, u.dtype), value)

    def chosen(self, table: UOp, places: Sequence[UOp], found: Places, rest: Places) -> UOp:
        """The table at places that are known to be inside; between components by choices, unless it lies flat."""
        k = len(found)
        if not k and table in self.flat:
            index = (*places, *(expr(i) for i in rest))
            return load(table.dtype, index, self.flat[table], 0)
        if k == len(places):
            return self.at(table, (*found, *rest))
        n, i = table.shape[k], places[k]
        if i.op is Ops.CONST:
            return self.chosen(table, places, (*found, int(i.arg)), rest)
        place = Index(0, n - 1, base=i)
        if not is_component(n, self.components):
            return self.chosen(table, places, (*found, place), rest)
        return self.one_of(place, n, lambda k: self.chosen(table, places, (*found, k), rest))

    def padded(self, u: UOp, where: Places) -> UOp:
        zero, inside = UOp.const(0, u.dtype), None
        places = list(where)
        for a, (i, (lo, _, between), n) in enumerate(zip(where, u.arg, u.src[0].shape)):
            i = shifted(i, -lo)
            stride = between + 1
            under, fits = below(i, 0), below(i, (n - 1) * stride + 1)
            if under is True or fits is False:
                return zero
            for bad in (under, fits if isinstance(fits, bool) else fits.eq(UOp.const(False, bool_))):
                if isinstance(bad, bool):
                    continue
                inside = bad if inside is None else inside | bad
            places[a] = (
                i if under is False and fits is True else clamped(i, (n - 1) * stride + 1, under, fits)
            )
            if between:
                between_items, places[a] = thinned(places[a], stride)
                if between_items is True:
                    return zero
                if isinstance(between_items, UOp):
                    inside = between_items if inside is None else inside | between_items
        value = self.at(u.src[0], tuple(places))
        return value if inside is None else self.either(inside, zero, value)

    def joined(self, u: UOp, where: Places) -> UOp:
        """The source that the index falls into; in an outer loop, a choice."""
        a = u.arg
        begin, parts = 0, []
        for s in u.src:
            end = begin + s.shape[a]
            i = shifted(where[a], -begin)
            before = below(where[a], end)
            if before is False or begin == end:
                begin = end
                continue
            n = s.shape[a]
            safe = (
                i if isinstance(i, int) or i.lo >= 0 and i.hi < n else clamped(i, n, below(i, 0), below(i, n))
            )
            parts.append((before, self.at(s, (*where[:a], safe, *where[a + 1 :]))))
            begin = end
            if before is True:
                break
        out = parts[-1][1]
        for condition, value in reversed(parts[:-1]):
            out = self.either(condition, value, out)
        return out


def inside(i: UOp, n: int) -> tuple[UOp, UOp]:
    """(the index, or 0 if it is outside; is it outside?)."""
    outside = (i < UOp.const(0, i64)) | (UOp.const(n, i64) <= i)
    return UOp(Ops.WHERE, i64, (), (outside, UOp.const(0, i64), i)), outside


def thinned(i: Place, stride: int) -> tuple[bool | UOp, Place]:
    """(is it between two items?  the item that it is or follows)."""
    item, rest = divided(i, stride)
    return bool(rest) if isinstance(rest, int) else rest.expr().ne(UOp.const(0, i64)), item


def clamped(i: Place, n: int, under: bool | UOp, fits: bool | UOp) -> Index:
    """The index where it is inside, else 0: what is read there is not used, but it must be there."""
    outside: UOp | None = None
    if isinstance(under, UOp):
        outside = under
    if isinstance(fits, UOp):
        over = fits.eq(UOp.const(False, bool_))
        outside = over if outside is None else outside | over
    assert outside is not None
    return chosen(outside, 0, i, 0, n - 1)


def unrolled(u: UOp, where: Places) -> Places:
    places = list(where)
    for shift, a in u.arg:
        places[a] = rolled(places[a], shift, u.shape[a])
    return tuple(places)


def unravelled(flat: int, shape: Shape) -> Places:
    out = []
    for step, n in zip(strides(shape), shape):
        out.append(flat // step % n if n else 0)
    return tuple(out)


def flattened(where: Places, shape: Shape) -> Place:
    """The row-major index."""
    out: Place = 0
    for i, n in zip(where, shape):
        out = added(times(out, n), i)
    return out


def reshaped(where: Places, new: Shape, old: Shape) -> Places:
    """Indices of the old shape; axes that hold the same numbers are merged into one, which is split again."""
    if 0 in old:
        return (0,) * len(old)
    left, waiting = [(i, n) for i, n in zip(where, new) if n != 1], [n for n in old if n != 1]
    found: list[Place] = []
    while waiting:
        group, axes = [left.pop(0)], [waiting.pop(0)]
        while (ours := prod(n for _, n in group)) != (theirs := prod(axes)):
            if ours < theirs:
                group.append(left.pop(0))
            else:
                axes.append(waiting.pop(0))
        places, flat = [], flattened(tuple(i for i, _ in group), tuple(n for _, n in group))
        for n in reversed(axes[1:]):
            flat, rest = divided(flat, n)
            places.append(rest)
        found += [flat, *reversed(places)]
    long = iter(found)
    return tuple(0 if n == 1 else next(long) for n in old)


def spread(shape: Shape, components: int) -> tuple[list[Sequence[int]], list[int]]:
    """The axes of components as their values, and the long axes."""
    short = [range(n) for n in shape if is_component(n, components)]
    return [*short], [n for n in shape if not is_component(n, components)]


def planes(shape: Shape, components: int) -> int:
    return prod(n for n in shape if is_component(n, components))
