"""Which part of a nest does a statement go over?  Its variables, the pieces of the last one, whole blocks of a range."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

from tinyphysics.ir.dtype import bool_, i64
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp, toposort
from tinyphysics.tpir.kernels.loopir import HI, LO, Body, For, Note, When, affine, number, replaced
from tinyphysics.tpir.kernels.nests import Nest, Piece, Store

COMPARISONS: dict[Ops, Callable[[int, int], bool]] = {
    Ops.LT: operator.lt,
    Ops.LE: operator.le,
    Ops.EQ: operator.eq,
    Ops.NE: operator.ne,
}
LANE = UOp.var("@lane", (), i64)  # of a vector


def least(a: UOp, b: UOp) -> UOp:
    return UOp(Ops.WHERE, i64, (), (a < b, a, b))


def most(a: UOp, b: UOp) -> UOp:
    return UOp(Ops.WHERE, i64, (), (a < b, b, a))


def whole(begin: UOp, end: UOp, size: int) -> UOp:
    """How far whole blocks of a size that is a power of two reach."""
    if begin.op is end.op is Ops.CONST:
        return number(begin.arg + max(0, end.arg - begin.arg) // size * size)
    length = UOp(Ops.AND, i64, (), (end - begin, number(-size)))
    return UOp(Ops.WHERE, i64, (), (begin < end, begin + length, begin))


def sums_of(count: int, like: Store) -> list[UOp]:
    return [UOp.var(f"@{like.buffer}.{like.plane}.{k}", (), like.value.dtype) for k in range(count)]


def bounds(nest: Nest, k: int) -> tuple[UOp, UOp]:
    """The loop over a variable; the first one is what threads of a processor share."""
    return (LO, HI) if k == 0 else (number(0), number(nest.sizes[k]))


def columns(nest: Nest, p: Piece) -> tuple[UOp, UOp]:
    """The range of the last variable in a piece, cut to that of this call."""
    if len(nest.variables) > 1:
        return number(p.lo), number(p.hi)
    lo, hi = number(p.lo), number(p.hi)
    return UOp(Ops.WHERE, i64, (), (LO < lo, lo, LO)), least(HI, hi)


def outer(nest: Nest, p: Piece, body: Body, last_too: bool, inner: int = 1) -> Body:
    """The loops around, without the last ones where the body has them itself."""
    count = len(nest.variables) - (inner if last_too else 0)
    for k in reversed(range(max(count, 0))):
        if k == len(nest.variables) - 1:
            begin, end = columns(nest, p)
        else:
            begin, end = bounds(nest, k)
        body = (For(nest.variables[k], begin, end, body),)
    return body


def in_pieces(nest: Nest, write: Callable[[Piece], Body]) -> Body:
    """The piece of the last variable in which a thread is."""
    if len(nest.pieces) == 1:
        return tuple(write(nest.pieces[0]))
    x = nest.variables[-1]
    return tuple(When((number(p.lo) <= x) & (x < number(p.hi)), tuple(write(p))) for p in nest.pieces)


def notes(p: Piece, here: dict[UOp, UOp]) -> tuple[Note, ...]:
    """The marks that the guards of a piece leave."""
    guards = replaced(p.guards, here)
    seen = guards[0] if guards else None
    for g in guards[1:]:
        seen = UOp(Ops.OR, g.dtype, (), (seen, g))  # type: ignore[arg-type]
    return () if seen is None else (Note(seen),)


# --- what is known of a condition where an index is in a range -----------------------------------------------------------
def compared(u: UOp, x: UOp) -> tuple[int, int] | None:
    """(a, b) where a whole number a*x + b is compared with 0; None if it depends on more."""
    if u.op not in COMPARISONS or not u.src[0].dtype.is_int:
        return None
    (left, m), (right, k) = (affine(s) for s in u.src)
    if not {*left, *right} <= {x}:
        return None
    return left.get(x, 0) - right.get(x, 0), m - k


def turning_points(x: UOp, roots: Sequence[UOp]) -> list[int]:
    """Where conditions on x become others: before each of these numbers and from it on."""
    found: set[int] = set()
    for u in toposort(roots):
        known = compared(u, x)
        if known is not None and abs(known[0]) == 1:
            a, b = known
            found |= {-b * a, -b * a + 1}
    return sorted(found)


def within(x: UOp, lo: int, hi: int, roots: Sequence[UOp]) -> list[UOp]:
    """The same values, for lo <= x <= hi: conditions that hold in all of it, or nowhere, are not asked."""
    new: dict[UOp, UOp] = {}
    for u in toposort(roots):
        own = u.replace(tuple(new[s] for s in u.src)) if u.src else u
        known, first = compared(own, x), own.src[0] if own.src else own
        if known is not None:
            a, b = known
            ends = [COMPARISONS[own.op](a * i + b, 0) for i in (lo, hi)]
            constant = (
                a == 0 or ends[0] == ends[1] and (own.op not in (Ops.EQ, Ops.NE) or not lo <= -b / a <= hi)
            )
            own = UOp.const(ends[0], own.dtype) if constant else own
        elif own.op is Ops.EQ and all(s.op is Ops.CONST and s.dtype is bool_ for s in own.src):
            own = UOp.const(own.src[0].arg == own.src[1].arg, own.dtype)
        elif own.op is Ops.WHERE and first.op is Ops.CONST:
            own = own.src[1 if first.arg else 2]
        elif own.op in (Ops.AND, Ops.OR) and own.dtype is bool_ and any(s.op is Ops.CONST for s in own.src):
            y, z = own.src if first.op is Ops.CONST else own.src[::-1]
            own = z if bool(y.arg) is (own.op is Ops.AND) else y
        new[u] = own
    return [new[u] for u in roots]
