"""Which number does an index stand for inside a loop?  Affine in one loop variable, with bounds that decide conditions.

Movement is a change of indices: a roll is a subtraction modulo n, a pad a condition, a reshape a division. Where the
bounds of a loop decide the condition it costs nothing; a loop along which memory is contiguous is cut in pieces until
they do (`Cut` says where); in an outer loop the condition is computed, once a row. What is no longer affine is
computed as well, item by item.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tinyphysics.ir.dtype import i64
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp

MOST_CUTS = 8  # of a loop, for the quotient of its index to be a number in each piece
LONGEST = 1 << 31  # the square of an index is still a whole number of 64 bits


class Cut(Exception):
    """The innermost loop must be cut at this value of its variable for a condition to be decided."""

    def __init__(self, at: int) -> None:
        super().__init__(at)
        self.at = at


class Unsupported(Exception):
    """A movement that loops over long axes do not follow; the message names it."""


@dataclass(frozen=True, eq=False)
class Index:
    """coefficient*variable + offset, plus an expression; between lo and hi."""

    lo: int
    hi: int
    var: UOp | None = None
    coefficient: int = 1
    offset: int = 0
    base: UOp | None = None
    inner: bool = False  # is the variable that of the innermost loop?
    ring: tuple[UOp, int, int] | None = None  # (v, k, n): this is (v + k) modulo n, computed by a condition

    @property
    def key(self) -> tuple[object, ...]:
        return (self.var, self.coefficient, self.offset, self.base)

    def expr(self) -> UOp:
        """As a node, in one form for equal indices."""
        out = self.var
        if out is not None and self.coefficient != 1:
            out = out * UOp.const(self.coefficient, i64)
        if self.base is not None:
            out = self.base if out is None else out + self.base
        if out is None:
            return UOp.const(self.offset, i64)
        return out + UOp.const(self.offset, i64) if self.offset else out

    def shifted(self, k: int) -> Index:
        return replace(self, lo=self.lo + k, hi=self.hi + k, offset=self.offset + k, ring=None) if k else self

    def times(self, k: int) -> Index:
        base = None if self.base is None else self.base * UOp.const(k, i64)
        lo, hi = sorted((self.lo * k, self.hi * k))
        return Index(lo, hi, self.var, self.coefficient * k, self.offset * k, base, self.inner)

    def below(self, k: int) -> bool | UOp:
        """Is it less than k?  True, False, a condition, or a Cut."""
        if self.hi < k:
            return True
        if self.lo >= k:
            return False
        if not self.inner or self.base is not None:
            return self.expr() < UOp.const(k, i64)
        c, room = self.coefficient, k - self.offset  # c*x < room
        raise Cut(-(-room // c) if c > 0 else room // c + 1)


Place = int | Index  # of a component, or along a loop


def shifted(i: Place, k: int) -> Place:
    return i + k if isinstance(i, int) else i.shifted(k)


def times(i: Place, k: int) -> Place:
    return i * k if isinstance(i, int) else i.times(k)


def below(i: Place, k: int) -> bool | UOp:
    return i < k if isinstance(i, int) else i.below(k)


def added(i: Place, j: Place) -> Place:
    """The sum of two indices; that of the innermost loop stays affine, if it is one of them."""
    if isinstance(i, int):
        return shifted(j, i)
    if isinstance(j, int):
        return i.shifted(j)
    if i.inner and not j.inner:
        i, j = j, i
    lo, hi = i.lo + j.lo, i.hi + j.hi
    return Index(
        lo, hi, j.var, j.coefficient, j.offset, i.expr() if j.base is None else i.expr() + j.base, j.inner
    )


def expr(i: Place) -> UOp:
    return UOp.const(i, i64) if isinstance(i, int) else i.expr()


def rolled(i: Place, shift: int, n: int) -> Place:
    """(i - shift) modulo n; there and back again is where one was."""
    if isinstance(i, int):
        return (i - shift) % n
    if i.ring is not None and i.ring[2] == n:
        v, k, _ = i.ring
        k = (k - shift) % n
    elif (
        not i.inner
        and (i.lo, i.hi) == (0, n - 1)
        and i.var is not None
        and i.coefficient == 1
        and i.base is None
    ):
        v, k = i.var, -shift % n
    else:
        return wrapped(i.shifted(-shift), n)
    plain = Index(0, n - 1, v)
    if not k:
        return plain
    out = wrapped(plain.shifted(k if 2 * k <= n else k - n), n)
    assert isinstance(out, Index)
    return replace(out, ring=(v, k, n))


def wrapped(i: Place, n: int) -> Place:
    """i modulo n, for i between -n and 2n - 1."""
    if isinstance(i, int):
        return i % n
    if i.lo < 0:
        under = i.below(0)
        if under is True:
            return i.shifted(n)
        if under is not False:
            return chosen(under, i.shifted(n), i, 0, n - 1)
    if i.hi >= n:
        inside = i.below(n)
        if inside is False:
            return i.shifted(-n)
        if inside is not True:
            return chosen(inside, i, i.shifted(-n), 0, n - 1)
    return i


def divided(i: Place, d: int) -> tuple[Place, Place]:
    """(i // d, i % d) of an index that is not negative."""
    if isinstance(i, int):
        return divmod(i, d)
    first, last = i.lo // d, i.hi // d
    if first == last:
        return first, i.shifted(-first * d)
    if i.base is None and i.coefficient % d == 0:
        return Index(first, last, i.var, i.coefficient // d, i.offset // d, inner=i.inner), i.offset % d
    if i.inner and i.base is None and last - first < MOST_CUTS:
        i.below((first + 1) * d)  # a Cut: in each piece the quotient is a number
    whole = i.expr()
    quotient = over(whole, d, i.hi)
    rest = whole - quotient * UOp.const(d, i64)
    return Index(first, last, base=quotient), Index(0, min(d - 1, i.hi), base=rest)


def over(x: UOp, d: int, largest: int) -> UOp:
    """x // d for 0 <= x <= largest, as a product and a shift: no machine has a fast division of whole numbers."""
    if not d & (d - 1):
        return UOp(Ops.SHR, i64, (), (x, UOp.const(d.bit_length() - 1, i64)))
    if largest >= LONGEST:
        raise Unsupported(f"a division of an index by {d}, on an axis of {largest + 1:,}")
    shift = ((largest + 1) * d).bit_length()  # the factor is at most d/2**shift too large, of a unit of 1/d
    return UOp(Ops.SHR, i64, (), (x * UOp.const((1 << shift) // d + 1, i64), UOp.const(shift, i64)))


def chosen(condition: UOp, yes: Place, no: Place, lo: int, hi: int) -> Index:
    """One of two indices, computed."""
    return Index(lo, hi, base=UOp(Ops.WHERE, i64, (), (condition, expr(yes), expr(no))))


def same(i: Place, j: Place) -> bool:
    if isinstance(i, int) or isinstance(j, int):
        return i is j or isinstance(i, int) and isinstance(j, int) and i == j
    return i.var is j.var and i.base is j.base and (i.coefficient, i.offset) == (j.coefficient, j.offset)
