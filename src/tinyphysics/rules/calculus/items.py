"""How does a sum change if its items move?  One item at an index that stays a symbol, whatever the size of the arrays.

A sum over 1,000 bodies is looked at for one body i, a sum over pairs for one pair i < j: what vanishes there vanishes in
the sum. Short axes (components in space) are written out. An operation along a long axis through which no index is followed
raises NotFollowed: then nothing is shown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tinyphysics.ir.dtype import i64
from tinyphysics.ir.ops import ELEMENTWISE, Ops
from tinyphysics.ir.uop import Shape, UOp
from tinyphysics.ir.value import strides
from tinyphysics.rules.calculus.partials import partials, times
from tinyphysics.util import prod

SHORT = 4  # items of an axis that are written out


class NotFollowed(Exception):
    """An index goes through an operation that has no rule here."""


@dataclass(frozen=True)
class Place:
    """factor*i + offset along an axis, i the index of a sum; counted around an axis of length `around`, if that is not 0."""

    symbol: str
    factor: int = 1
    offset: int = 0
    around: int = 0

    def shifted(self, by: int) -> Place:
        if self.around and by:
            raise NotFollowed
        return Place(self.symbol, self.factor, self.offset + by, self.around)

    def __str__(self) -> str:
        name = self.symbol if self.factor == 1 else f"{self.factor}*{self.symbol}"
        at = name if not self.offset else f"{name}{self.offset:+d}"
        return f"({at} mod {self.around})" if self.around else at


Index = int | Place
Places = tuple[Index, ...]
Bound = tuple[str, int]  # the index of a sum, and how far it runs
Total = dict[tuple[Bound, ...], UOp]  # sums, each over its indices, of these items; they add up


def add(a: Total, b: Total) -> Total:
    out = dict(a)
    for over, item in b.items():
        out[over] = out[over] + item if over in out else item
    return out


def scaled(a: Total, factor: UOp) -> Total:
    return {over: times(item, factor) for over, item in a.items()}


def key_of(places: Places) -> str:
    return ",".join(map(str, places))


class Items:
    """Items of expressions, and how fast they change where each number of a variable moves at the rate that `field` gives it.

    `field` is asked for a variable and a place in it; None is a number that does not move.
    """

    def __init__(self, field: Callable[[UOp, Places], UOp | None], moving: frozenset[UOp]) -> None:
        self.field, self.moving = field, moving
        self.values: dict[tuple[UOp, Places, int], UOp] = {}
        self.rates: dict[tuple[UOp, Places, int], Total] = {}
        self.names: dict[object, str] = {}

    def symbol(self, *what: object, dtype: object = None) -> UOp:
        """A number of which nothing is known but when it is the same."""
        name = self.names.setdefault(what, f"@{len(self.names)}")
        return UOp.var(name) if dtype is None else UOp.var(name, (), dtype)  # type: ignore[arg-type]

    # --- the item itself ----------------------------------------------------------------------
    def value(self, u: UOp, places: Places = (), depth: int = 0) -> UOp:
        key = (u, places, depth)
        if key not in self.values:
            self.values[key] = self._value(u, places, depth)
        return self.values[key]

    def _value(self, u: UOp, places: Places, depth: int) -> UOp:
        if u.op is Ops.CONST:
            return UOp.const(u.arg, u.dtype)
        if u.op is Ops.VAR:
            return u if not u.shape else UOp.var(f"{u.arg}[{key_of(places)}]", (), u.dtype)
        if u.op is Ops.RANGE:
            i = places[0]
            return UOp.const(i, i64) if isinstance(i, int) else self.symbol("index", str(i), dtype=i64)
        if u.op in ELEMENTWISE:
            return UOp(u.op, u.dtype, (), tuple(self.value(s, places, depth) for s in u.src), u.arg)
        if u.op is Ops.TRIU:
            return self.kept(u, places) * self.value(u.src[0], places, depth)
        if u.op is Ops.NEIGHBOURS:
            return self.symbol(u, places, dtype=u.dtype)
        if u.op is Ops.REDUCE:
            items = self.written_out(u, places)
            if items is not None and u.arg[0] == "sum":
                return UOp.sum_of(self.value(u.src[0], at, depth) for at in items)
            return self.symbol(u, places, dtype=u.dtype)
        try:
            source, at = self.moved(u, places, depth)
        except NotFollowed:
            if u.leaves & self.moving:
                raise
            return self.symbol(u, places, dtype=u.dtype)
        return self.value(source, at, depth)

    def kept(self, u: UOp, places: Places) -> UOp:
        """1 where the pair is counted, 0 elsewhere."""
        a, b = (places[k] for k in u.arg[:2])
        if isinstance(a, int) and isinstance(b, int):
            return UOp.const(float(a < b), u.dtype)
        return self.symbol("below", str(a), str(b), dtype=u.dtype)

    # --- how fast it changes ------------------------------------------------------------------
    def rate(self, u: UOp, places: Places = (), depth: int = 0) -> Total:
        if not u.leaves & self.moving:
            return {}
        key = (u, places, depth)
        if key not in self.rates:
            self.rates[key] = self._rate(u, places, depth)
        return self.rates[key]

    def _rate(self, u: UOp, places: Places, depth: int) -> Total:
        if u.op is Ops.VAR:
            found = self.field(u, places)
            return {} if found is None else {(): found}
        if u.op in ELEMENTWISE:
            here = UOp(u.op, u.dtype, (), tuple(self.value(s, places, depth) for s in u.src), u.arg)
            out: Total = {}
            # the derivative is that of this very node: what is folded away is not asked
            for s, slope in zip(u.src, partials(here)):
                if slope is not None and (inner := self.rate(s, places, depth)):
                    out = add(out, scaled(inner, slope))
            return out
        if u.op is Ops.TRIU:
            return scaled(self.rate(u.src[0], places, depth), self.kept(u, places))
        if u.op is Ops.NEIGHBOURS:  # the order of a list and the images of a box jump, and do not move
            return {}
        if u.op is Ops.REDUCE:
            return self.rate_of_sum(u, places, depth)
        source, at = self.moved(u, places, depth)
        return self.rate(source, at, depth)

    def rate_of_sum(self, u: UOp, places: Places, depth: int) -> Total:
        if u.arg[0] not in ("sum", "pairs"):
            items = self.written_out(u, places)
            if items is None or any(self.rate(u.src[0], at, depth) for at in items):
                raise NotFollowed  # of a largest item, unless none of them moves
            return {}
        out: Total = {}
        bound, everywhere = self.indices(u, places, depth)
        for at in everywhere:
            inner = self.rate(u.src[0], at, depth + len(bound))
            if u.arg[0] == "pairs":
                inner = scaled(
                    inner, self.kept(UOp(Ops.TRIU, u.dtype, u.src[0].shape, (u.src[0],), u.arg[2]), at)
                )
            out = add(out, {tuple(sorted((*over, *bound))): item for over, item in inner.items()})
        return out

    def total(self, u: UOp, depth: int = 0) -> Total:
        """A sum of sums as such: what stands before one is taken into it, as far as that is plain to see."""
        if u.op in (Ops.ADD, Ops.SUB):
            a, b = (self.total(s, depth) for s in u.src)
            return add(a, b if u.op is Ops.ADD else scaled(b, UOp.const(-1.0)))
        if u.op is Ops.NEG:
            return scaled(self.total(u.src[0], depth), UOp.const(-1.0))
        if u.op in (Ops.MUL, Ops.DIV) and u.shape == ():
            first, second = u.src
            if u.op is Ops.MUL and not first.leaves & self.moving:
                first, second = second, first
            by = self.value(second, (), depth)
            return scaled(self.total(first, depth), 1.0 / by if u.op is Ops.DIV else by)
        if u.op is Ops.REDUCE and u.arg[0] == "sum" and u.shape == ():
            out: Total = {}
            bound, everywhere = self.indices(u, (), depth)
            for at in everywhere:
                out = add(out, {bound: self.value(u.src[0], at, depth + len(bound))})
            return out
        return {(): self.value(u, (), depth)}

    # --- indices ------------------------------------------------------------------------------
    def indices(self, u: UOp, places: Places, depth: int) -> tuple[tuple[Bound, ...], list[Places]]:
        """What a reduction runs over: indices of long axes, and every combination of the places of short ones."""
        shape, axes = u.src[0].shape, u.arg[1]
        bound: list[Bound] = []
        every: list[list[Index]] = [[]]
        kept = iter(places)
        for axis, n in enumerate(shape):
            if axis not in axes:
                here: list[Index] = [next(kept)]
            elif n <= SHORT:
                here = list(range(n))
            else:
                name = f"i{depth + len(bound)}"
                bound.append((name, n))
                here = [Place(name)]
            every = [[*before, at] for before in every for at in here]
        return tuple(bound), [tuple(at) for at in every]

    def written_out(self, u: UOp, places: Places) -> list[Places] | None:
        """The places of the items of a short reduction; None of a long one."""
        if any(u.src[0].shape[a] > SHORT for a in u.arg[1]):
            return None
        return self.indices(u, places, 0)[1]

    def moved(self, u: UOp, places: Places, depth: int) -> tuple[UOp, Places]:
        """Where the item at some places comes from."""
        x = u.src[0] if u.src else u
        match u.op:
            case Ops.EXPAND:
                own = places[len(u.shape) - x.ndim :]
                return x, tuple(0 if n == 1 else at for at, n in zip(own, x.shape))
            case Ops.PERMUTE:
                back: list[Index] = [0] * x.ndim
                for at, a in zip(places, u.arg):
                    back[a] = at
                return x, tuple(back)
            case Ops.RESHAPE:
                return x, reshaped(places, u.shape, x.shape)
            case Ops.ELEMENT:
                return x, tuple(u.arg // s % n for s, n in zip(strides(x.shape), x.shape))
            case Ops.SLICE:
                return x, tuple(strided(at, b[2], b[0]) for at, b in zip(places, u.arg))
            case Ops.FLIP:
                ends = zip(places, x.shape)
                return x, tuple(
                    strided(at, -1, n - 1) if a in u.arg else at for a, (at, n) in enumerate(ends)
                )
            case Ops.ROLL:
                out = list(places)
                for shift, a in u.arg:
                    out[a] = around(out[a], -shift, u.shape[a])
                return x, tuple(out)
            case Ops.STACK if all(isinstance(at, int) for at in places):
                return u.src[flat(places, u.shape)], ()
            case Ops.CONCAT if isinstance(places[u.arg], int):
                at = int(places[u.arg])
                for s in u.src:
                    if at < s.shape[u.arg]:
                        return s, (*places[: u.arg], at, *places[u.arg + 1 :])
                    at -= s.shape[u.arg]
            case Ops.GATHER:
                return self.chosen(u, places, depth)
        raise NotFollowed

    def chosen(self, u: UOp, places: Places, depth: int) -> tuple[UOp, Places]:
        """The item that indices choose: which one is not known, but the same indices choose the same."""
        table, *indices = u.src
        own, rest = places[: indices[0].ndim], places[indices[0].ndim :]
        if any(i.leaves & self.moving and i.op is not Ops.NEIGHBOURS for i in indices):
            raise NotFollowed
        at: list[Index] = []
        for i in indices:
            if i.op is Ops.NEIGHBOURS:
                at.append(Place(self.names.setdefault((i, own), f"@{len(self.names)}")))
                continue
            value = self.value(i, own, depth)
            if value.op is Ops.CONST:
                at.append(int(value.arg))
            else:
                at.append(Place(self.names.setdefault(("chosen", value), f"@{len(self.names)}")))
        return table, (*at, *rest)


def strided(at: Index, factor: int, offset: int) -> Index:
    if isinstance(at, int):
        return factor * at + offset
    if factor == 1:
        return at.shifted(offset)
    if at.around:
        raise NotFollowed
    return Place(at.symbol, factor * at.factor, factor * at.offset + offset)


def around(at: Index, by: int, n: int) -> Index:
    if isinstance(at, int):
        return (at + by) % n
    if at.around not in (0, n) or at.factor != 1:
        raise NotFollowed
    offset = (at.offset + by) % n
    return Place(at.symbol, 1, offset, n if offset else 0)


def flat(places: Places, shape: Shape) -> int:
    return sum(at * s for at, s in zip(places, strides(shape)) if isinstance(at, int))


def reshaped(places: Places, new: Shape, old: Shape) -> Places:
    """Places in the old shape: axes that stay, and groups of axes whose places are all numbers."""
    left, waiting = [(at, n) for at, n in zip(places, new) if n != 1], [n for n in old if n != 1]
    found: list[Index] = []
    while waiting:
        group, axes = [left.pop(0)], [waiting.pop(0)]
        while (ours := prod(n for _, n in group)) != (theirs := prod(axes)):
            if ours < theirs:
                group.append(left.pop(0))
            else:
                axes.append(waiting.pop(0))
        if len(group) == len(axes) == 1:
            found.append(group[0][0])
            continue
        if not all(isinstance(at, int) for at, _ in group):
            raise NotFollowed
        number = flat(tuple(at for at, _ in group), tuple(n for _, n in group))
        found += [number // s % n for s, n in zip(strides(tuple(axes)), axes)]
    long = iter(found)
    return tuple(0 if n == 1 else next(long) for n in old)
