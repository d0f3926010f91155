"""What is a linear solver inside a step?  The correction of a residual, as an expression that may hold a solution of its own.

The slopes f of some states z, all of one shape, change by f' v when the states change by v. A solver is asked for the d with
d - g*dt f' d = r, at one state per step. How well it solves decides how many rounds a step takes, and nothing else: every
round computes the residual itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from tinyphysics.ir import Ops, UOp, substitute
from tinyphysics.ir.uop import component
from tinyphysics.rules.calculus.jvp import jvp
from tinyphysics.rules.identities.real import simplify

Arrays = list[UOp]  # one for each state
TINY = 2.0**-1000  # a size that is not zero


class LinearSolver(Protocol):
    @property
    def told(self) -> str:
        """How explain() ends "by Newton's method, ..."."""

    @property
    def f(self) -> Slopes: ...

    def correction(self, weight: UOp, residual: Sequence[UOp]) -> Arrays:
        """The d with d - weight f' d = residual."""


def stacked(arrays: Sequence[UOp]) -> UOp:
    """Arrays of one shape as one, along a new first axis."""
    rows = tuple(u.reshape((1, *u.shape)) for u in arrays)
    if len(rows) == 1:
        return rows[0]
    return UOp(Ops.CONCAT, rows[0].dtype, (len(rows), *arrays[0].shape), rows, 0)


def unstacked(u: UOp) -> Arrays:
    return [component(u, 0, k) for k in range(u.shape[0])]


def inner(a: Sequence[UOp], b: Sequence[UOp]) -> UOp:
    """The sum of all products."""
    return UOp.sum_of([(x * y).sum() for x, y in zip(a, b)])


def largest(arrays: Sequence[UOp]) -> UOp:
    out = abs(arrays[0]).max()
    for u in arrays[1:]:
        out = out.maximum(abs(u).max())
    return out


def plus(a: Sequence[UOp], c: UOp, b: Sequence[UOp]) -> Arrays:
    """a + c*b."""
    return [x + c * y for x, y in zip(a, b)]


@dataclass(frozen=True, eq=False)
class Slopes:
    """The slopes of states, and where they are differentiated."""

    states: tuple[UOp, ...]
    slopes: tuple[UOp, ...]
    at: tuple[UOp, ...]  # the states there, as expressions

    def along(self, v: Sequence[UOp | None]) -> Arrays:
        """f' v: how the slopes change; a state without a direction stays."""
        directions, table, moved = direction_of(self)
        known = {d: x for d, x in zip(directions, v) if x is not None}
        nothing = {d: UOp.const(0.0, d.dtype, d.shape) for d, x in zip(directions, v) if x is None}
        out = simplify(substitute(moved, nothing)) if nothing else moved
        return substitute(out, table | known)


@lru_cache(maxsize=16)
def direction_of(s: Slopes) -> tuple[Arrays, dict[UOp, UOp], Arrays]:
    """(directions, what the states become, f' along the directions)."""
    directions = [UOp.var(f"direction {k}", z.shape, z.dtype) for k, z in enumerate(s.states)]
    moved = simplify(jvp(list(s.slopes), list(s.states), directions))
    return directions, dict(zip(s.states, s.at)), moved
