"""How is a solution followed by slopes alone?  Pairs of Dormand and Prince, of orders 5 and 8, with curves of orders 4 and 7.

The error of the pair of order 8 is the one of DOP853 (Hairer, Nørsett and Wanner, Solving Ordinary Differential Equations I,
II.10): an estimate of order 5, made smaller where one of order 3 is larger. That of the pair of order 5 is the difference to
order 4. The slope at the end of a step is the first of the next; the more that a curve needs are computed for whoever looks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from tinyphysics.ir import UOp
from tinyphysics.synth.coefficients import dormand_prince, dormand_prince5
from tinyphysics.synth.coefficients.dormand_prince import Row
from tinyphysics.synth.methods.embedded import (
    NOTHING,
    TINY,
    AnyRates,
    Curve,
    Embedded,
    Here,
    Numbers,
    Problem,
    Remade,
    Tolerance,
    Tried,
    combined,
    mean,
    squares,
)
from tinyphysics.synth.methods.taylor import larger


@dataclass(frozen=True, eq=False)
class Tableau:
    """Slopes are counted from 1; `end` is the one at the end of a step, the first of the next."""

    stages: dict[int, Row]  # of the slopes before, by the number of a slope
    weights: Row  # of the step
    places: dict[int, float]  # of slopes, in parts of the step
    end: int
    errors: tuple[Row, ...]  # one estimate, or one and another that corrects it
    between: dict[int, Row]  # slopes for the curve alone
    curve: dict[int, Row]  # the last numbers of the curve
    kept: tuple[int, ...]  # slopes that the curve is made of, the one at the end first
    power: int  # of the step, in its error
    longer: float  # at most, from a step to the next


# fmt: off
EIGHT = Tableau(dormand_prince.STAGES, dormand_prince.WEIGHTS, dormand_prince.PLACES, 13,
                (dormand_prince.FIFTH, dormand_prince.THIRD), dormand_prince.BETWEEN, dormand_prince.CURVE,
                (13, 1, 6, 7, 8, 9, 10, 11, 12), 8, 6.0)
FIVE = Tableau(dormand_prince5.STAGES, dormand_prince5.WEIGHTS, dormand_prince5.PLACES, 7,
               (dormand_prince5.FOURTH,), {}, dormand_prince5.CURVE, (7, 1, 3, 4, 5, 6), 5, 6.0)
# fmt: on


def explicit_pair(a: Tableau, p: Problem) -> tuple[AnyRates, Embedded]:
    f = p.slopes
    return f, method_of(a, f, partial(attempt, a, f, p.tolerance), partial(remade, a, f), a.end - 1)


def method_of(
    a: Tableau, f: AnyRates, attempt: Callable[[Here], Tried], remade: Remade, evaluations: int
) -> Embedded:
    """With the curve of a tableau."""
    rows, degree, made = 1 + len(a.kept), 3 + len(a.curve), partial(curve, a, f)
    return Embedded(rows, a.power, a.longer, attempt, partial(first, a), made, degree, evaluations, 2, remade)


def first(a: Tableau, slopes: Numbers) -> list[Numbers]:
    nothing = [NOTHING] * len(slopes)
    return [nothing, slopes, *[nothing] * (len(a.kept) - 1)]


def stage(a: Tableau, f: AnyRates, k: dict[int, Numbers], which: int, x: Numbers, t: UOp, h: UOp) -> Numbers:
    weights = a.stages[which] if which in a.stages else a.between[which]
    return f.at([u + h * v for u, v in zip(x, combined(weights, k))], h.fma(a.places[which], t))


def slopes(a: Tableau, f: AnyRates, begin: Numbers, x: Numbers, t: UOp, h: UOp) -> dict[int, Numbers]:
    """Of all stages."""
    k = {1: begin}
    for which in a.stages:
        k[which] = stage(a, f, k, which, x, t, h)
    return k


def attempt(a: Tableau, f: AnyRates, tolerance: Tolerance, here: Here) -> Tried:
    h, k = here.h, slopes(a, f, here.kept[1], here.x, here.t, here.h)
    move = [h * u for u in combined(a.weights, k)]
    end = [u + (v + w) for u, v, w in zip(here.x, here.low, move)]
    k[a.end] = f.at(end, here.t + h)
    scale = tolerance.scale(here.x, end)
    return Tried([move, *(k[s] for s in a.kept)], first(a, here.kept[1]), error(a, k, h, scale))


def error(a: Tableau, k: dict[int, Numbers], h: UOp, scale: Numbers) -> UOp:
    """In parts of what is allowed."""
    if len(a.errors) == 1:
        return h * mean(combined(a.errors[0], k), scale)
    fifth, third = (squares(combined(row, k), scale) for row in a.errors)
    count = sum(u.size for u in scale)
    both = larger(third.fma(0.01, fifth) * float(count), UOp.const(TINY))
    return h * fifth / both.sqrt()


def remade(a: Tableau, f: AnyRates, x: Numbers, t: UOp, h: UOp) -> list[Numbers]:
    """All that is kept of a step, from where it began."""
    k = slopes(a, f, f.at(x, t), x, t, h)
    move = [h * u for u in combined(a.weights, k)]
    k[a.end] = f.at([u + v for u, v in zip(x, move)], t + h)
    return [move, *(k[s] for s in a.kept)]


def curve(a: Tableau, f: AnyRates, x: Numbers, t: UOp, h: UOp, kept: list[Numbers]) -> Curve:
    """The move times the part of a step, and more and more of what is zero at both ends."""
    move, k = kept[0], dict(zip(a.kept, kept[1:]))
    for which in a.between:
        k[which] = stage(a, f, k, which, x, t, h)
    begins, ends = ([h * u for u in k[s]] for s in (1, a.end))
    rows = [
        move,
        [u - m for u, m in zip(begins, move)],
        [2.0 * m - (u + v) for m, u, v in zip(move, begins, ends)],
    ]
    rows += [[h * u for u in combined(weights, k)] for weights in a.curve.values()]

    def at(part: UOp) -> Numbers:
        rest, out = 1.0 - part, [u * part for u in rows[-1]]
        for n, row in reversed(list(enumerate(rows[:-1]))):
            out = [(total + u) * (rest if n % 2 else part) for total, u in zip(out, row)]
        return out

    return Curve(at, [combined(weights, dict(enumerate(rows))) for weights in powers(len(rows))])


def powers(count: int) -> list[dict[int, float]]:
    """The coefficients of p, p(1 - p), p p (1 - p), ... in the powers of p: for each power, those of the functions."""
    functions, function = [], [0, 1]
    for n in range(count):
        functions.append(function)
        shifted = [0, *function]
        function = shifted if n % 2 else [a - b for a, b in zip([*function, 0], shifted)]
    return [
        {n: float(row[k]) for n, row in enumerate(functions) if k < len(row) and row[k]}
        for k in range(1, count + 1)
    ]
