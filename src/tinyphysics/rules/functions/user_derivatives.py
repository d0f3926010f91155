"""Is the derivative of a user's operation that of its definition?  Compared in symbols, else measured in double-double.

A certificate that rests on derivatives of an energy speaks of an operation only where the answer is yes. What is measured is
measured at points of several scales, and at the states of pilots: `look_at`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from tinyphysics.errors import TraceError
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp, as_uop, substitute, toposort
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
ASIDE = 2.0**-16  # of a point of a pilot, on both sides of which a derivative must be wrong too
CLOSE = 1e-12  # relative: constants in a derivative are float64


Function = Callable[..., Any]
# at states of pilots: an operation that was wrong once is
found_wrong: dict[tuple[str, Function, Function], str] = {}


def trouble_with(name: str, arguments: int) -> str:
    """Why nothing is certified of what uses the derivative of an operation; empty if it is that of the definition."""
    derivative = CUSTOM_PARTIALS.get(name)
    if derivative is None:
        return ""
    known = (name, CUSTOM[name], derivative)
    return found_wrong.get(known) or compared(*known, arguments)


def trouble_in(root: UOp) -> str:
    """What is wrong with the derivative of an expression; empty if nothing is."""
    custom = [u for u in toposort([root]) if u.op is Ops.CUSTOM]
    return next(filter(None, (trouble_with(str(u.arg), len(u.src)) for u in custom)), "")


def look_at(name: str, points: Sequence[tuple[float, ...]]) -> str:
    """Why the derivative is not that of the definition at some of these points; from then on nothing is certified of it."""
    derivative = CUSTOM_PARTIALS.get(name)
    if derivative is None or not points:
        return ""
    known = (name, CUSTOM[name], derivative)
    count = len(points[0])
    if compared(*known, count) or shown(*known, count):
        return ""  # it is known to be wrong, or to be right everywhere
    why = next(filter(None, map(comparison(*known, count).wrong_around, points)), "")
    if why:
        found_wrong[known] = why
    return why


def expressions(definition: Function, derivative: Function, count: int) -> tuple[list[UOp], UOp, list[UOp]]:
    x = [UOp.var(f"x{k}") for k in range(count)]
    value, *slopes = inline([as_uop(definition(*x)), *map(as_uop, derivative(*x))])
    return x, value, slopes


@lru_cache(maxsize=256)
def shown(name: str, definition: Function, derivative: Function, count: int) -> bool:
    """Is it the derivative, in symbols?"""
    x, value, slopes = expressions(definition, derivative, count)
    try:
        return all(map(Normal().same, gradient(value, x), slopes))
    except (TooLarge, TraceError):
        return False


@lru_cache(maxsize=256)
def compared(name: str, definition: Function, derivative: Function, count: int) -> str:
    _, _, slopes = expressions(definition, derivative, count)
    if len(slopes) != count:
        return f"`{name}` has {count} arguments, and its derivative {len(slopes)} parts"
    if shown(name, definition, derivative, count):
        return ""
    points = [
        tuple(scale * (2 * ((count * k + j + 1) * GOLDEN % 1.0) - 1) for j in range(count))
        for k in range(len(SCALES) * POINTS)
        for scale in (SCALES[k // POINTS],)
    ]
    why, seen = comparison(name, definition, derivative, count).wrong_at(points, SCALES)
    if why or seen >= FEWEST:
        return why
    return f"the derivative of `{name}` could not be compared with its definition"


@lru_cache(maxsize=64)
def comparison(name: str, definition: Function, derivative: Function, count: int) -> Comparison:
    return Comparison(name, *expressions(definition, derivative, count))


class Comparison:
    """Slopes against difference quotients of the value, in double-double."""

    def __init__(self, name: str, x: Sequence[UOp], value: UOp, slopes: Sequence[UOp]) -> None:
        self.name, self.x = name, x
        self.roots = compared_roots(x, value, slopes)

    def wrong_at(self, points: Sequence[tuple[float, ...]], scales: Sequence[float]) -> tuple[str, int]:
        """(what is wrong at the first point where something is, at how many all is finite); POINTS for each scale."""
        seen = 0
        for k, point in enumerate(points):
            if (slopes := self.at(point, WIDTH * scales[k // POINTS])) is None:
                continue
            seen += 1
            for true, told in slopes:
                if differ(true, told):
                    return self.told(point, true, told), seen
        return "", seen

    def wrong_around(self, point: tuple[float, ...]) -> str:
        """What is wrong at a point and on both sides of it, by quotients of two widths that agree: no kink, no pole."""
        size = max(1e-3, *map(abs, point))
        out = ""
        for side in (-1.0, 1.0, 0.0):
            beside = tuple(x + side * ASIDE * size for x in point)
            wide, narrow = (self.at(beside, width * size) for width in (WIDTH, WIDTH / 16))
            if wide is None or narrow is None:
                return ""
            wrong = [
                self.told(beside, true, told)
                for (true, told), (again, _) in zip(narrow, wide)
                if differ(true, told) and abs(true - again) < 0.1 * abs(true - told)
            ]
            if not wrong:
                return ""
            out = wrong[0]
        return out

    def told(self, point: tuple[float, ...], true: float, told: float) -> str:
        where = ", ".join(f"{number:.4g}" for number in point)
        return (
            f"the derivative of `{self.name}` is not that of its definition: at ({where}) it is {told:.6g}, "
            f"and the slope there is {true:.6g}"
        )

    def at(self, point: tuple[float, ...], width: float) -> list[tuple[float, float]] | None:
        """(the difference quotient, the derivative that is told) for each argument; None if one is not finite."""
        env = {str(v.arg): number for v, number in (*zip(self.x, point), (STEP, width))}
        try:
            numbers = [float(n) for n in evaluate(self.roots, env)]
        except (ArithmeticError, ValueError):
            return None
        if not all(map(math.isfinite, numbers)):
            return None
        pairs = [a + b for a, b in zip(numbers[::2], numbers[1::2])]
        return [(d / (12 * width), told) for d, told in zip(pairs, pairs[len(self.x) :])]


def differ(true: float, told: float) -> bool:
    return abs(true - told) > CLOSE * max(abs(true), abs(told), TINY)


STEP = UOp.var("h")


def compared_roots(x: Sequence[UOp], value: UOp, slopes: Sequence[UOp]) -> list[UOp]:
    """The words of 12 h times the difference quotients, and of the slopes."""
    h = STEP
    known = {v: Pair(v) for v in (*x, h)}
    quotients = []
    for v in x:
        ends = [substitute([value], {v: v + s * h})[0] for s in (1.0, -1.0, 2.0, -2.0)]
        a, b, c, d = map(as_pair, widen(ends, known))
        # 12 h f', but for the fifth derivative
        quotients.append(minus(scaled(minus(a, b), 8.0), minus(c, d)))
    given = [as_pair(p) for p in widen(list(slopes), known)]
    return [w for p in (*quotients, *given) for w in (p.high, p.rest)]


def as_pair(p: Pair | UOp) -> Pair:
    return p if isinstance(p, Pair) else Pair(p)
