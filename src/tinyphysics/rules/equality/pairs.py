"""Is a sum over all i and j a sum over pairs?  Shown by exchanging i and j, and by letting them meet.

A double sum of a symmetric expression is twice the sum over i < j, and what it is where i is j, which often is
nothing: each pair is computed once, and what a derivative of it moves obeys the third law. Symmetry is proved on the
graph; where it is not, the double sum stays as it was written. Like all of rules/identities/real.py this holds wherever both
sides are defined: 0 * (1/r) is taken for 0 where a mask of i and j makes the 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

from tinyphysics.ir.dtype import bool_
from tinyphysics.ir.ops import ELEMENTWISE, Ops
from tinyphysics.ir.pattern import PatternMatcher, UPat
from tinyphysics.ir.rewrite import graph_rewrite
from tinyphysics.ir.uop import Shape, UOp, toposort
from tinyphysics.rules.equality.normal import Normal
from tinyphysics.rules.identities.exact import exact
from tinyphysics.rules.identities.real import real, scaled

x, y, pairs = UPat.var("x"), UPat.var("y"), UPat.var("x", when=lambda u: over_pairs(u))
a, b = UPat.const("a"), UPat.const("b")


class Unproved(Exception):
    """An operation along i or j through which nothing is followed."""


class Infinite(Exception):
    """A sum that takes in i = j, where what is summed is not finite, whatever the state."""

    def __init__(self, sum: UOp) -> None:
        super().__init__(str(sum))
        self.sum = sum


def long(shape: Shape) -> list[int]:
    return [k for k, n in enumerate(shape) if n != 1]


def index_axis(u: UOp) -> int | None:
    """The axis along which u counts 0, 1, 2, ..., the same everywhere else."""
    if u.op is Ops.RANGE:
        return 0
    if u.op not in (Ops.RESHAPE, Ops.EXPAND) or index_axis(u.src[0]) is None:
        return None
    old = u.src[0].shape
    if u.op is Ops.EXPAND:
        at = long(old)
        return at[0] + u.ndim - len(old) if len(at) == 1 else None
    return long(u.shape)[0] if len(long(u.shape)) == len(long(old)) == 1 else None


class Exchange:
    """An expression of i and j, which run along two axes, with j for i and i for j."""

    def __init__(self) -> None:
        self.memo: dict[tuple[UOp, int, int], UOp] = {}

    def shape(self, shape: Shape, i: int, j: int) -> Shape:
        out = list(shape)
        out[i], out[j] = out[j], out[i]
        return tuple(out)

    def at(self, u: UOp, i: int, j: int) -> UOp:
        key = (u, i, j)
        if key not in self.memo:
            self.memo[key] = u if u.shape[i] == u.shape[j] == 1 else self.changed(u, i, j)
        return self.memo[key]

    def changed(self, u: UOp, i: int, j: int) -> UOp:
        shape = self.shape(u.shape, i, j)
        if u.op is Ops.CONST:
            return UOp.const(u.arg, u.dtype, shape)
        if u.op in ELEMENTWISE:
            return UOp(u.op, u.dtype, shape, tuple(self.at(s, i, j) for s in u.src), u.arg)
        if u.op is Ops.EXPAND:
            source = u.src[0]
            return self.at(source.reshape((1,) * (u.ndim - source.ndim) + source.shape), i, j).expand(shape)
        if 1 in (u.shape[i], u.shape[j]):
            return self.along_one(u, i, j)
        return self.along_both(u, i, j)

    def along_one(self, u: UOp, i: int, j: int) -> UOp:
        """It changes with one of the two alone: the same numbers, along the other axis."""
        if any(n != 1 for n in u.shape[min(i, j) + 1 : max(i, j)]):
            raise Unproved
        return (u.src[0] if u.op is Ops.RESHAPE else u).reshape(self.shape(u.shape, i, j))

    def along_both(self, u: UOp, i: int, j: int) -> UOp:
        source, shape = u.src[0] if u.src else u, self.shape(u.shape, i, j)
        match u.op:
            case Ops.RESHAPE if [source.shape[k] for k in long(source.shape)] == [
                u.shape[k] for k in long(u.shape)
            ]:
                place = dict(zip(long(u.shape), long(source.shape)))
                return self.at(source, place[i], place[j]).reshape(shape)
            case Ops.PERMUTE:
                return self.at(source, u.arg[i], u.arg[j]).permute(u.arg)
            case Ops.REDUCE if u.arg[0] != "pairs":
                kept = [k for k in range(source.ndim) if k not in u.arg[1]]
                inner = self.at(source, kept[i], kept[j])
                return UOp(Ops.REDUCE, u.dtype, shape, (inner,), u.arg)
            case Ops.CONCAT if u.arg not in (i, j):
                return UOp(Ops.CONCAT, u.dtype, shape, tuple(self.at(s, i, j) for s in u.src), u.arg)
            case Ops.SLICE if all(u.arg[k] == (0, source.shape[k], 1) for k in (i, j)):
                inner = self.at(source, i, j)
                return inner.slice(
                    [(0, n, 1) if k in (i, j) else cut for k, (n, cut) in enumerate(zip(inner.shape, u.arg))]
                )
        raise Unproved


class Meet(Exchange):
    """The expression where j is i."""

    def shape(self, shape: Shape, i: int, j: int) -> Shape:
        out = list(shape)
        out[i], out[j] = max(shape[i], shape[j]), 1
        return tuple(out)

    def along_one(self, u: UOp, i: int, j: int) -> UOp:
        return u if u.shape[j] == 1 else super().along_one(u, i, j)


class Masked(Exchange):
    """The expression where i and j are known to be the same, or not: comparisons of the two are decided."""

    def __init__(self, same: bool) -> None:
        super().__init__()
        self.same = same

    def shape(self, shape: Shape, i: int, j: int) -> Shape:
        return shape

    def changed(self, u: UOp, i: int, j: int) -> UOp:
        if u.op in (Ops.EQ, Ops.NE) and {index_axis(s) for s in u.src} == {i, j}:
            return UOp.const(self.same == (u.op is Ops.EQ), bool_, u.shape)
        try:
            return super().changed(u, i, j)
        except Unproved:
            return u  # whatever it says of i and j, it goes on saying

    def along_one(self, u: UOp, i: int, j: int) -> UOp:
        return u


def on_diagonal(u: UOp, i: int, j: int) -> UOp:
    """What it is where i is j: because a mask says so, or because that is what is between i and itself."""
    masked = Masked(True).at(u, i, j)
    (short,) = graph_rewrite([masked], nothing + real)
    if is_zero(short):
        return short
    (met,) = graph_rewrite([Meet().at(masked, i, j)], real)
    return met


def is_zero(u: UOp) -> bool:
    return u.op is Ops.CONST and u.arg == 0 or u.op is not Ops.CONST and not Normal().form(u)


def infinite(u: UOp) -> bool:
    """Is it infinite or undefined, whatever its variables are?"""
    match u.op:
        case Ops.CONST:
            return u.dtype.is_float and not math.isfinite(u.arg)
        case Ops.DIV if u.src[1].op is Ops.CONST and u.src[1].arg == 0:
            return True
        case Ops.DIV:
            return infinite(u.src[0])
        case Ops.ADD | Ops.SUB | Ops.MUL | Ops.NEG | Ops.EXPAND | Ops.RESHAPE:
            return any(map(infinite, u.src))
    return False


def symmetric(u: UOp, i: int, j: int) -> bool:
    exchange = Exchange()
    there = exchange.at(u, i, j)
    return Normal().same(there, exchange.at(there, i, j))  # and back: both in the words of the exchange


FACTORS = {Ops.MUL: (0, 1), Ops.DIV: (0,), Ops.NEG: (0,)}  # where a sum may stand in a product


def opened(u: UOp, axes: Sequence[int]) -> tuple[UOp, tuple[int, ...]] | None:
    """(an expression, its axes) with the same sum: what stands before an inner sum is taken into it.

    Along one way down only: the square of a sum is no sum of squares.
    """
    way: list[tuple[UOp, int]] = []
    inner = u
    while not (inner.op is Ops.REDUCE and inner.arg[0] == "sum"):
        k = next((k for k in FACTORS.get(inner.op, ()) if inner.src[k].op in (Ops.REDUCE, *FACTORS)), None)
        if k is None:
            return None
        way.append((inner, k))
        inner = inner.src[k]
    items, summed = inner.src[0], inner.arg[1]
    kept = [k for k in range(items.ndim) if k not in summed]
    apart = tuple(1 if k in summed else n for k, n in enumerate(items.shape))
    out = items
    for v, k in reversed(way):
        sources = tuple(out if m == k else s.reshape(apart).expand(items.shape) for m, s in enumerate(v.src))
        out = UOp(v.op, v.dtype, items.shape, sources)
    return out, tuple(sorted([*summed, *(kept[k] for k in axes)]))


def items_of(u: UOp) -> UOp | None:
    """What a sum to one number is taken over, inner sums opened."""
    if u.op is not Ops.REDUCE or u.arg[0] != "sum" or not u.dtype.is_float:
        return None
    items, axes = u.src[0], u.arg[1]
    while (wider := opened(items, axes)) is not None:
        items, axes = wider
    return items if len(axes) == items.ndim else None


def squares(items: UOp) -> list[tuple[int, int]]:
    return [(i, j) for i, j in combinations(range(items.ndim), 2) if items.shape[i] == items.shape[j] > 1]


def shown(u: UOp, items: UOp, i: int, j: int) -> tuple[UOp, UOp] | str:
    """The items of the sum u where i is not j and where it is, if the first are symmetric; else what is not shown."""
    try:
        diagonal = on_diagonal(items, i, j)
        if infinite(diagonal):
            raise Infinite(u)
        (apart,) = graph_rewrite([Masked(False).at(items, i, j)], exact + nothing)
        if symmetric(apart, i, j):
            return (apart, diagonal)
        return "it is not shown that the two of a pair can be exchanged"
    except Unproved:
        return ""  # no expression of i and j: a field on a square


def pair_sum(u: UOp) -> UOp | None:
    """A double sum as twice a sum over pairs, and the sum of the diagonal if there is something."""
    if (items := items_of(u)) is None:
        return None
    for i, j in squares(items):
        if not isinstance(found := shown(u, items, i, j), str) and not is_zero(found[0]):
            apart, diagonal = found
            rest = tuple(k for k in range(items.ndim) if k not in (i, j))
            twice = 2.0 * apart.sum(rest).triu(0, 1).sum()
            return twice if is_zero(diagonal) else twice + diagonal.sum()
    return None


def why_not(u: UOp) -> str:
    """Why a double sum is not one over pairs; empty if it is no double sum."""
    items = items_of(u)
    try:
        reasons = [] if items is None else [shown(u, items, i, j) for i, j in squares(items)]
    except Infinite:
        return "what is between one and itself is infinite"
    return next((r for r in reasons if isinstance(r, str) and r), "")


def over_pairs(u: UOp) -> bool:
    """A sum over pairs, or something times one."""
    return u.op is Ops.REDUCE and u.src[0].op is Ops.TRIU or u.op is Ops.MUL and any(map(over_pairs, u.src))


# fmt: off
nothing = PatternMatcher([
    (x * 0.0,                               lambda x: UOp.const(0.0, x.dtype, x.shape)),
    (x + 0.0,                               lambda x: x),
    (x / UPat(Ops.CONST, value=math.inf),   lambda x: UOp.const(0.0, x.dtype, x.shape)),
])
halves = PatternMatcher([  # and the 2 meets the 1/2
    (UPat(Ops.REDUCE, name="u"),            pair_sum),
    (y * (b * pairs),                       lambda x, y, b: None if y.op is Ops.CONST else b * (y * x)),
    (a * (b * pairs),                       lambda x, a, b: scaled(a * b, x)),
    ((b * pairs) / a,                       lambda x, a, b: scaled(b / a, x)),
    (-(b * pairs),                          lambda x, b: scaled(-b, x)),
    (1.0 * pairs,                           lambda x: x),
    (-1.0 * pairs,                          lambda x: -x),
])
# fmt: on


def with_pair_sums(energy: UOp) -> UOp:
    """The energy with every double sum that is shown to be one over pairs written as such.

    >>> q = UOp.var("q", (3,))
    >>> with_pair_sums(abs(q[:, None] - q[None, :]).sum() / 2)
    sum_{i<j} abs(q[i] - q[j])
    """
    if not any(n > 1 and u.shape.count(n) > 1 for u in toposort([energy]) for n in u.shape):
        return energy
    (out,) = graph_rewrite([energy], halves)
    return out
