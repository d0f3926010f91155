"""Where is r**-3 worth a function of its own?  In sums over the pairs of a long axis, which wait for the divider.

A root and a division of float64 take a divider 34 cycles for eight pairs on AVX-512, and everything else 16. What
x**-1.5 is made of (rules/functions/power.py) takes it a third of that. Alone, a root and a division are done sooner, and
so they are among the neighbours of a list: those sums have an order of their own, so that every pair would have to be
asked.
"""

from __future__ import annotations

from collections.abc import Sequence

from tinyphysics.ir.ops import Ops
from tinyphysics.ir.pattern import PatternMatcher, UPat
from tinyphysics.ir.reduction import COMPONENTS
from tinyphysics.ir.rewrite import graph_rewrite
from tinyphysics.ir.uop import UOp, toposort

x, y = UPat.var("x"), UPat.var("y")


def times_inverse_cube(x: UOp, y: UOp) -> UOp:
    cube = y**-1.5
    return cube if x.op is Ops.CONST and x.arg == 1 else x * cube


inverse_cubes = PatternMatcher([(x / (y * y.sqrt()), times_inverse_cube)])


def pair_roots(roots: Sequence[UOp]) -> list[UOp]:
    """The roots with x/(y*sqrt y) as x * y**-1.5 inside sums over all pairs of a long axis."""
    new: dict[UOp, UOp] = {}
    for u in toposort(roots):
        src = tuple(new[s] for s in u.src)
        pairs = u.op is Ops.REDUCE and u.arg[0] == "pairs" and len(u.arg[2]) == 2
        if pairs and u.src[0].shape[u.arg[1][0]] > COMPONENTS:
            src = tuple(graph_rewrite(src, inverse_cubes))
        new[u] = u.replace(src)
    return [new[r] for r in roots]
