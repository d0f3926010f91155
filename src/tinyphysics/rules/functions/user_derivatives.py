"""Is the derivative of a user's operation that of its definition?  Compared in symbols, else measured in double-double.

A certificate that rests on derivatives of an energy speaks of an operation only where the answer is yes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from tinyphysics.errors import TraceError
from tinyphysics.ir.uop import UOp, as_uop, substitute
from tinyphysics.ir.value import CUSTOM, evaluate
from tinyphysics.rules.calculus.custom import inline
from tinyphysics.rules.calculus.partials import CUSTOM_PARTIALS
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.rules.digits.double_double import Pair, minus, scaled
from tinyphysics.rules.equality.normal import Normal, TooLarge
from tinyphysics.rules.equality.probe import GOLDEN
from tinyphysics.rules.functions.widen import widen

SCALES = (1e-3, 0.1, 1.0, 10.0, 1e3)
POINTS = 8  # at each scale
FEWEST = 6  # points at which all is finite, below which nothing was measured
WIDTH = 2.0**-20  # of a difference quotient, relative to the argument: its error is the fourth power of it
TINY = 1e-9  # where both slopes are this small, they are the same
CLOSE = 1e-12  # relative: constants in a derivative are float64


def trouble_with(name: str, arguments: int) -> str:
    """Why nothing is certified of what uses the derivative of an operation; empty if it is that of the definition."""
    derivative = CUSTOM_PARTIALS.get(name)
    return "" if derivative is None else compared(name, CUSTOM[name], derivative, arguments)


@lru_cache(maxsize=256)
def compared(name: str, definition: Callable[..., Any], derivative: Callable[..., Any], count: int) -> str:
    x = [UOp.var(f"x{k}") for k in range(count)]
    value, *slopes = inline([as_uop(definition(*x)), *map(as_uop, derivative(*x))])
    if len(slopes) != count:
        return f"`{name}` has {count} arguments, and its derivative {len(slopes)} parts"
    try:
        if all(map(Normal().same, gradient(value, x), slopes)):
            return ""
    except (TooLarge, TraceError):
        pass
    return measured(name, x, value, slopes)


def measured(name: str, x: Sequence[UOp], value: UOp, slopes: Sequence[UOp]) -> str:
    """Slopes against difference quotients of the value, at points of several scales."""
    h = UOp.var("h")
    known = {v: Pair(v) for v in (*x, h)}
    quotients = []
    for v in x:
        ends = [substitute([value], {v: v + s * h})[0] for s in (1.0, -1.0, 2.0, -2.0)]
        a, b, c, d = map(as_pair, widen(ends, known))
        quotients.append(
            minus(scaled(minus(a, b), 8.0), minus(c, d))
        )  # 12 h f', but for the fifth derivative
    given = [as_pair(p) for p in widen(list(slopes), known)]
    roots = [w for p in (*quotients, *given) for w in (p.high, p.rest)]
    seen = 0
    for k in range(len(SCALES) * POINTS):
        scale = SCALES[k // POINTS]
        at = {v: scale * (2 * ((len(x) * k + j + 1) * GOLDEN % 1.0) - 1) for j, v in enumerate(x)}
        width = WIDTH * scale
        try:
            found = evaluate(roots, {str(v.arg): number for v, number in (*at.items(), (h, width))})
        except (ArithmeticError, ValueError):
            continue
        numbers = [float(n) for n in found]
        if not all(map(math.isfinite, numbers)):
            continue
        seen += 1
        pairs = [a + b for a, b in zip(numbers[::2], numbers[1::2])]
        for true, told in zip((d / (12 * width) for d in pairs[: len(x)]), pairs[len(x) :]):
            if abs(true - told) > CLOSE * max(abs(true), abs(told), TINY):
                where = ", ".join(f"{number:.4g}" for number in at.values())
                return (
                    f"the derivative of `{name}` is not that of its definition: at ({where}) it is {told:.6g}, "
                    f"and the slope there is {true:.6g}"
                )
    return "" if seen >= FEWEST else f"the derivative of `{name}` could not be compared with its definition"


def as_pair(p: Pair | UOp) -> Pair:
    return p if isinstance(p, Pair) else Pair(p)
