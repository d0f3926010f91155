"""Are two expressions seen to differ?  At a few points, in floats: what is seen to differ need not be compared in symbols.

One-sided the other way round: a yes is a difference far beyond rounding at two points; a no says nothing. Short expressions,
whose normal forms cost little, and large arrays, whose values cost much, are not looked at.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp, toposort
from tinyphysics.ir.value import Value, evaluate

FEWEST, MOST = 60, 20_000  # numbers in both graphs
GOLDEN = 0.6180339887498949  # its multiples, less their whole parts, lie everywhere
POINTS = (1, 5003)  # where their numbers begin
CLEARLY = 1e-3  # a relative difference that is none of rounding


def number(k: int) -> float:
    return 0.55 + (k * GOLDEN) % 1.0


def worth_it(order: Sequence[UOp]) -> bool:
    """Long enough for symbols to cost something, short enough for numbers not to, and made of what has values."""
    if len(order) < FEWEST or sum(x.size for x in order) > MOST:
        return False
    return not any(
        x.op in (Ops.NEIGHBOURS, Ops.TREE, Ops.CUSTOM) or x.op is Ops.VAR and not x.dtype.is_float
        for x in order
    )


def values_at(roots: Sequence[UOp], order: Sequence[UOp], first: int) -> list[list[float]] | None:
    """The numbers of each root at one point; None where one of them is not finite."""
    env: dict[str, Value] = {}
    for u in order:
        if u.op is Ops.VAR:
            env[str(u.arg)] = [number(first + k) for k in range(u.size)] if u.shape else number(first)
            first += u.size
    try:
        found: list[Any] = evaluate(roots, env)
    except (ArithmeticError, ValueError):
        return None
    out = [[float(n) for n in x] if isinstance(x, (list, tuple)) else [float(x)] for x in found]
    return out if all(math.isfinite(n) for x in out for n in x) else None


def at_two_points(u: UOp, v: UOp) -> list[tuple[list[float], list[float]]]:
    """Their numbers, or nothing where that is not worth it or not possible."""
    order = toposort([u, v])
    if not worth_it(order):
        return []
    points = [values_at([u, v], order, first) for first in POINTS]
    return [(x[0], x[1]) for x in points if x is not None] if None not in points else []


def seen_to_differ(u: UOp, v: UOp) -> bool:
    points = at_two_points(u, v)
    return bool(points) and all(
        any(abs(a - b) > CLEARLY * max(*map(abs, x), *map(abs, y)) for a, b in zip(x, y)) for x, y in points
    )


def seen_to_be_no_multiples(u: UOp, v: UOp) -> bool:
    """Is there no number r with u = r*v?"""
    points = at_two_points(u, v)
    if not points:
        return False
    x, y = ([n for point in points for n in point[side]] for side in (0, 1))
    largest = max(y, key=abs)
    if largest == 0:
        return False
    r = x[y.index(largest)] / largest
    return any(abs(a - r * b) > CLEARLY * (max(map(abs, x)) + abs(r * largest)) for a, b in zip(x, y))


def seen_to_be_something(u: UOp) -> bool:
    """Is it not zero, for sure?  A number that is left where larger ones cancel is not sure."""
    order = toposort([u])
    if not worth_it(order):
        return False
    floats = [x for x in order if x.dtype.is_float and x.op is not Ops.CONST]
    found = values_at([*floats, u], order, POINTS[0])
    return found is not None and max(map(abs, found[-1])) > CLEARLY * max(abs(n) for x in found for n in x)
