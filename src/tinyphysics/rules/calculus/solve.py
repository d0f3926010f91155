"""When is an equation solved?  When its corrections no longer get smaller: rounds of them, for each member by itself.

A round takes x to x - c, where c is the residual or a matrix times it. The size of c, in parts of the size of x, falls
from round to round until rounding is all that is left of it: there a member stops. Stopping sooner, at some tolerance,
would leave an error of one sign, and the energy would drift by it (Hairer, McLachlan & Razakarivony 2008, BIT 48, 231). What
has not arrived after the last round is NaN: nothing is accepted silently.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import is_
from typing import Any

from tinyphysics.ir.dtype import bool_, f64
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.rewrite import graph_rewrite
from tinyphysics.ir.text import dump, parse
from tinyphysics.ir.uop import UOp, elements, substitute, toposort
from tinyphysics.rules.calculus.custom import inline
from tinyphysics.rules.digits.floats import magnitude
from tinyphysics.rules.identities.exact import exact

ROUNDS = 50  # more are not worth waiting for: with a shorter step they would be few
USUAL = 5  # of them, for estimates of what they cost
HALF_ULP = 2.0**-54  # corrections that are this part of x, or less, change nothing that is seen
CLOSE = 2.0**-36  # such a correction may be rounding, if the next is hardly smaller
HARDLY = 0.875  # times it: rounds that gain less would not have come this far
SMALL = 2.0**-30  # residuals, in parts of the size of x, that a root may have: so no matrix hides a large one
# SOLVED gives n numbers, then by these places: was a fast path not allowed in a round, rounds, the last residual
STRAYED, COUNT, RESIDUAL = 0, 1, 2


@dataclass(frozen=True, eq=False)
class Equations:
    """Residuals and corrections as functions of x0, x1, ... and of what they know, y0, y1, ..."""

    n: int
    rounds: int
    given: tuple[UOp, ...]
    residuals: tuple[UOp, ...]
    corrections: tuple[UOp, ...]

    @property
    def unknowns(self) -> list[UOp]:
        return named("x", self.n)

    @property
    def roots(self) -> list[UOp]:
        return [*self.residuals, *self.corrections]


def named(letter: str, n: int) -> list[UOp]:
    return [UOp.var(f"{letter}{k}") for k in range(n)]


def standing_for(known: Iterable[UOp]) -> list[UOp]:
    """y0, y1, ..., each of the type of what it stands for."""
    return [UOp.var(f"y{k}", (), u.dtype) for k, u in enumerate(known)]


def product(matrix: Sequence[UOp], v: Sequence[UOp]) -> list[UOp]:
    """A square matrix, row-major, times a vector."""
    n = len(v)
    out = []
    for i in range(n):
        row = matrix[i * n] * v[0]
        for k in range(1, n):
            row = matrix[i * n + k].fma(v[k], row)
        out.append(row)
    return out


def size(v: Sequence[UOp], scale: Sequence[UOp]) -> UOp:
    """The sum of |v|, each in parts of its size; NaN if there is one."""
    out = magnitude(v[0]) * scale[0]
    for x, s in zip(v[1:], scale[1:]):
        out = magnitude(x).fma(s, out)
    return out


@dataclass(frozen=True, eq=False)
class Round:
    """What a round leaves."""

    x: list[UOp]
    change: UOp  # its size
    residual: UOp
    over: UOp  # it has arrived, or is lost


def one_round(
    x: Sequence[UOp], residuals: Sequence[UOp], corrections: Sequence[UOp], scale: Sequence[UOp], before: UOp
) -> Round:
    """`before` is the size of the correction before this one."""
    change = size(corrections, scale)
    residual = change if all(map(is_, residuals, corrections)) else size(residuals, scale)
    return Round([a - c for a, c in zip(x, corrections)], change, residual, is_over(change, residual, before))


def is_over(change: UOp, residual: UOp, before: UOp) -> UOp:
    shrinks = change < HARDLY * before
    stays = UOp(Ops.NOT, bool_, (), (shrinks,)) & (before <= CLOSE)
    arrived = ((change <= HALF_ULP) | stays) & (residual <= SMALL)
    return arrived | change.ne(change)


# --- of whole arrays ---------------------------------------------------------------------------------
def of_arrays(u: UOp) -> bool:
    """Is a SOLVE one of whole arrays, which is not written out?  Its sizes are then the largest, not sums."""
    return u.op is Ops.SOLVE and u.ndim > 1


def unknown_of(u: UOp) -> UOp:
    """The variable that the rounds of a SOLVE change."""
    return UOp.var(u.arg[0], u.shape, u.dtype)


def array_round(x: UOp, residual: UOp, correction: UOp, scale: UOp, before: UOp) -> Round:
    """A round of arrays: the largest correction counts, in parts of the size of its number; NaN if there is one."""
    axes = tuple(range(x.ndim))

    def largest(v: UOp) -> UOp:
        return (magnitude(v) * magnitude(scale)).reduce("max", axes)

    change = largest(correction)
    left = change if residual is correction else largest(residual)
    return Round([x - correction], change, left, is_over(change, left, before))


def outer_solution(roots: Sequence[UOp]) -> UOp | None:
    """A SOLVE of whole arrays in expressions whose sources hold no other but in its rounds; None if there is none."""
    return next((u for u in toposort(list(roots)) if of_arrays(u)), None)


def array_solution(
    u: UOp, evaluate: Callable[[Sequence[UOp], Mapping[UOp, Any]], Sequence[Any]]
) -> list[Any]:
    """[the solution of a SOLVE of whole arrays, its rounds], by what evaluates expressions given values of some nodes."""
    start, scale, residual, *by = u.src
    x, before = unknown_of(u), UOp.var(f"{u.arg[0]}.before", (), u.dtype)
    size = UOp.var(f"{u.arg[0]}.scale", u.shape, u.dtype)
    done = array_round(x, residual, by[0] if by else residual, size, before)
    value, sizes = evaluate([start, scale], {})
    last: Any = float("inf")
    for k in range(u.arg[1]):
        value, last, over = evaluate(
            [done.x[0], done.change, done.over], {x: value, size: sizes, before: last}
        )
        if over:
            return [value, k + 1]
    (lost,) = evaluate([UOp.const(float("nan"), u.dtype, u.shape)], {})
    return [lost, u.arg[1]]


# --- from an open equation to a closed one -----------------------------------------------------------
def closed(
    u: UOp, start: Sequence[UOp], scale: Sequence[UOp], residuals: Sequence[UOp], matrix: Sequence[UOp]
) -> list[UOp]:
    """The numbers of a SOLVE, given those of its sources: what does not hold the unknown becomes a source."""
    name, rounds = u.arg
    n = len(start)
    whole = UOp.var(name, (n,))
    residuals = inline(residuals)
    corrections = product(inline(matrix), residuals) if matrix else residuals
    roots = graph_rewrite([*residuals, *corrections], exact)
    known: dict[UOp, None] = {}
    for x in toposort(roots):
        if whole in x.leaves:
            known |= {s: None for s in x.src if whole not in s.leaves and s.op is not Ops.CONST}
    known |= {r: None for r in roots if whole not in r.leaves and r.op is not Ops.CONST}
    table = dict(zip(elements(whole), named("x", n))) | dict(zip(known, standing_for(known)))
    text = dump(substitute(roots, table))
    sizes = graph_rewrite([abs(s) for s in scale], exact)
    return [UOp(Ops.SOLVED, f64, (), (*start, *sizes, *known), (k, n, rounds, text)) for k in range(n)]


@lru_cache(maxsize=256)
def read(text: str) -> tuple[UOp, ...]:
    return tuple(parse(text))


def equations(u: UOp) -> Equations:
    """Those of a SOLVED."""
    _, n, rounds, text = u.arg
    roots = read(text)
    return Equations(n, rounds, tuple(standing_for(u.src[2 * n :])), roots[:n], roots[n:])


def part(u: UOp, which: int) -> UOp:
    """Another number of the same solution."""
    _, n, rounds, text = u.arg
    return UOp(Ops.SOLVED, bool_ if which == n + STRAYED else f64, (), u.src, (which, n, rounds, text))


def strayed(u: UOp) -> UOp:
    """Was the fast path of a function not allowed in a round?"""
    return part(u, u.arg[1] + STRAYED)
