"""Which part of a nest does a statement go over?  Its variables, the pieces of the last one, whole blocks of a range."""

from __future__ import annotations

from collections.abc import Callable

from tinyphysics.ir.dtype import i64
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp
from tinyphysics.tpir.kernels.loopir import HI, LO, Body, For, Note, When, number, replaced
from tinyphysics.tpir.kernels.nests import Nest, Piece, Store

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
