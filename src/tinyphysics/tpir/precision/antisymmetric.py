"""Is what a pair adds the same number, but for its sign, whichever of the two comes first?  To the last bit, or no.

A table of pairs (i, j) and the same table with i and j exchanged are written in one form, in which it does not matter
how factors and addends are arranged nor where a sign stands: floating point does not mind either. Products of three
factors in another order are other numbers, and a no.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from tinyphysics.ir.ops import COMPARE, ELEMENTWISE, Ops
from tinyphysics.ir.uop import UOp

Signed = tuple[int, int]  # (sign, number of a form)


class Unshown(Exception):
    """An expression for which it is not known what an exchange makes of it."""


def parity(table: UOp) -> int | None:
    """1 if an exchange of the first two axes changes nothing, -1 if it changes the sign; None if neither is shown."""
    forms = Forms()
    try:
        (sign, here), (other, there) = forms.of(table, False), forms.of(table, True)
    except Unshown:
        return None
    return sign * other if here == there else None


class Forms:
    """Expressions of pairs by number: two that are equal to the last bit, or opposite, may have the same."""

    def __init__(self) -> None:
        self.numbers: dict[Any, int] = {}
        self.memo: dict[tuple[UOp, bool], Signed] = {}

    def number(self, *form: Any) -> int:
        return self.numbers.setdefault(form, len(self.numbers))

    def of(self, u: UOp, exchanged: bool) -> Signed:
        if (u, exchanged) not in self.memo:
            self.memo[u, exchanged] = self.found(u, exchanged)
        return self.memo[u, exchanged]

    def found(self, u: UOp, exchanged: bool) -> Signed:
        if u.op is Ops.CONST:
            return (-1 if u.arg < 0 else 1), self.number("number", repr(abs(u.arg)))
        if u.ndim < 2:
            raise Unshown
        if u.op is Ops.EXPAND and (side := spread_along(u)) is not None:
            return 1, self.number("each", side if not exchanged else -side, *particle(u))
        if u.op in ELEMENTWISE:
            return self.element(u, exchanged)
        # a table of types: symmetric, or no run
        if u.op is Ops.GATHER and u.shape == u.src[1].shape and len(u.src) == 3:
            return 1, self.number("table", u.src[0], *sorted(self.of(s, exchanged) for s in u.src[1:]))
        if keeps_pairs(u):
            sign, form = self.of(u.src[0], exchanged)
            return sign, self.number(u.op, u.arg, u.shape, form)
        raise Unshown

    def element(self, u: UOp, exchanged: bool) -> Signed:
        if u.op in COMPARE and u.src[0].dtype.is_int:  # who is whose partner: of both, or of none
            return 1, self.number("partners", u)
        parts = [self.of(s, exchanged) for s in u.src]
        (sign, form), *rest = parts
        match u.op:
            case Ops.NEG:
                return -sign, form
            case Ops.ABS:
                return 1, self.number(Ops.ABS, form)
            case Ops.RINT:
                return sign, self.number(Ops.RINT, form)
            case Ops.MUL:
                return sign * rest[0][0], self.number(Ops.MUL, *sorted((form, rest[0][1])))
            case Ops.DIV:
                return sign * rest[0][0], self.number(Ops.DIV, form, rest[0][1])
            case Ops.ADD:
                return self.sum(parts)
            case Ops.SUB:
                return self.sum([parts[0], opposite(parts[1])])
            case Ops.IMAGE:  # no digit is lost: its addends are whole numbers of units
                a, b, shift = parts
                return self.sum([a, opposite(b), opposite(shift)])
            case Ops.FMA:
                a, b, c = parts
                return c[0], self.number(Ops.FMA, *sorted((a[1], b[1])), a[0] * b[0] * c[0], c[1])
            case Ops.WHERE:
                c, x, y = parts
                return x[0], self.number(Ops.WHERE, c, x[1], (1 if is_zero(u.src[2]) else x[0] * y[0]), y[1])
        return 1, self.number(u.op, u.arg, *parts)

    def sum(self, parts: list[Signed]) -> Signed:
        """A sum by its addends, the sign of the first of them in front."""
        ordered = sorted(parts, key=lambda part: part[1])
        sign = ordered[0][0]
        return sign, self.number("sum", *((sign * s, form) for s, form in ordered))


def opposite(x: Signed) -> Signed:
    return -x[0], x[1]


def is_zero(u: UOp) -> bool:
    return u.op is Ops.CONST and u.arg == 0


def spread_along(u: UOp) -> int | None:
    """1 if a table has one number for each first particle, -1 for each second, 0 for none of them."""
    x = u.src[0]
    old = (1,) * (u.ndim - x.ndim) + x.shape
    return {(False, False): 0, (True, False): 1, (False, True): -1}.get((old[0] != 1, old[1] != 1))


def particle(u: UOp) -> tuple[Any, ...]:
    """The numbers of each particle that a table is spread from: those of both sides are the same ones."""
    shape = tuple(n for n in u.src[0].shape if n != 1)
    return (shape, u.shape[2:], stripped(u.src[0]))


@lru_cache(maxsize=4096)
def stripped(u: UOp) -> Any:
    """An array without movements that only add or drop axes of length 1, also before it was put in the order of a list."""
    while (
        u.op in (Ops.RESHAPE, Ops.PERMUTE, Ops.EXPAND) and long_axes(u) == long_axes(u.src[0]) and in_turn(u)
    ):
        u = u.src[0]
    if u.op is Ops.GATHER and len(u.src) == 2 and u.src[1].op is Ops.NEIGHBOURS:
        return ("arranged", stripped(u.src[0]), u.src[1])
    if u.op is Ops.CONST:
        return (repr(u.arg), u.dtype)
    if u.op in ELEMENTWISE and all(long_axes(s) == long_axes(u) for s in u.src if s.op is not Ops.CONST):
        return (u.op, u.arg, u.dtype, *map(stripped, u.src))
    return u


def long_axes(u: UOp) -> tuple[int, ...]:
    return tuple(n for n in u.shape if n != 1)


def in_turn(u: UOp) -> bool:
    """Do the axes that are not of length 1 stay in their order?"""
    if u.op is not Ops.PERMUTE:
        return True
    kept = [a for a in u.arg if u.src[0].shape[a] != 1]
    return kept == sorted(kept)


def keeps_pairs(u: UOp) -> bool:
    """Does a movement, or a sum, leave the two axes of pairs in front as they are?"""
    if not u.src or u.src[0].ndim < 2 or u.shape[:2] != u.src[0].shape[:2]:
        return False
    x = u.src[0]
    match u.op:
        case Ops.SLICE:
            return all(part == (0, n, 1) for part, n in zip(u.arg[:2], x.shape))
        case Ops.RESHAPE:
            return long_axes(u) == long_axes(x) and 1 not in x.shape[:2]
        case Ops.EXPAND:
            return u.ndim == x.ndim
        case Ops.REDUCE:
            return u.arg[0] in ("sum", "max", "min") and min(u.arg[1]) > 1
    return False
