"""What does a machine do in one round of a solution?  The equations in the minimal operator set, and when to stop.

Emitters and engines write the loop around it; what they share is here, so that they share every bit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from tinyphysics.ir.rewrite import graph_rewrite
from tinyphysics.ir.uop import UOp
from tinyphysics.rules.calculus.solve import Round, equations, named, one_round, read
from tinyphysics.rules.functions.transcendental import guarded, lower
from tinyphysics.rules.identities.exact import exact

BEFORE = UOp.var("before")  # the size of the last correction
FIRST = math.inf  # which it is before the first round


@dataclass(frozen=True, eq=False)
class Rounds:
    """One round as expressions of x0, ..., their scales w0, ..., what is known, y0, ..., and BEFORE."""

    n: int
    most: int
    x: tuple[UOp, ...]
    scale: tuple[UOp, ...]
    given: tuple[UOp, ...]
    round: Round
    guards: tuple[UOp, ...]  # the fast path of a function was not allowed

    @property
    def roots(self) -> list[UOp]:
        r = self.round
        return [*r.x, r.change, r.residual, r.over, *self.guards]


def rounds_of(u: UOp, careful: bool) -> Rounds:
    """Of a SOLVED; `careful` is right for any argument."""
    eq = equations(u)
    return _rounds(u.arg[3], careful, eq.n, eq.rounds, eq.given)


@lru_cache(maxsize=256)
def _rounds(text: str, careful: bool, n: int, most: int, given: tuple[UOp, ...]) -> Rounds:
    roots, guards = (lower(read(text)), []) if careful else guarded(read(text))
    x, scale = named("x", n), named("w", n)
    r = one_round(x, roots[:n], roots[n:], scale, BEFORE)
    flat = graph_rewrite([*r.x, r.change, r.residual, r.over, *guards], exact)
    return Rounds(
        n, most, tuple(x), tuple(scale), given, Round(flat[:n], *flat[n : n + 3]), tuple(flat[n + 3 :])
    )
