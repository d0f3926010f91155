"""How is a solution followed by slopes alone, to order 8?  The pair of Dormand and Prince, with a curve of order 7.

The error is the one of DOP853 (Hairer, Nørsett and Wanner, Solving Ordinary Differential Equations I, II.10): an estimate of
order 5, made smaller where one of order 3 is larger. The slope at the end of a step is the first of the next; the three more
that the curve needs are computed for whoever looks.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tinyphysics.ir import UOp
from tinyphysics.step import Step, Term
from tinyphysics.synth.coefficients.dormand_prince import (
    BETWEEN,
    CURVE,
    FIFTH,
    PLACES,
    STAGES,
    THIRD,
    WEIGHTS,
)
from tinyphysics.synth.methods.embedded import (
    NOTHING,
    TINY,
    Curve,
    Embedded,
    Here,
    Numbers,
    Tolerance,
    Tried,
    combined,
    embedded_step,
    squares,
)
from tinyphysics.synth.methods.rates import Rates
from tinyphysics.synth.methods.taylor import larger
from tinyphysics.system import System

END = 13  # the slope there
KEPT = (END, 1, 6, 7, 8, 9, 10, 11, 12)  # slopes that the curve is made of
DEGREE = 7


def dop853(
    name: str, system: System, terms: Sequence[Term], rates: Sequence[UOp], tolerance: Tolerance
) -> Step:
    f = Rates(system, rates)
    method = Embedded(
        1 + len(KEPT), 8, 6.0, partial(attempt, f, tolerance), first, partial(curve, f), DEGREE, END - 1
    )
    return embedded_step(name, system, terms, f, method)


def first(slopes: Numbers) -> list[Numbers]:
    nothing = [NOTHING] * len(slopes)
    return [nothing, slopes, *[nothing] * (len(KEPT) - 1)]


def stage(f: Rates, k: dict[int, Numbers], which: int, x: Numbers, t: UOp, h: UOp) -> Numbers:
    weights = STAGES[which] if which in STAGES else BETWEEN[which]
    return f.at([a + h * u for a, u in zip(x, combined(weights, k))], h.fma(PLACES[which], t))


def attempt(f: Rates, tolerance: Tolerance, here: Here) -> Tried:
    h, k = here.h, {1: here.kept[1]}
    for which in STAGES:
        k[which] = stage(f, k, which, here.x, here.t, h)
    move = [h * u for u in combined(WEIGHTS, k)]
    end = [a + (b + c) for a, b, c in zip(here.x, here.low, move)]
    k[END] = f.at(end, here.t + h)
    scale = tolerance.scale(here.x, end)
    fifth, third = (squares(combined(row, k), scale) for row in (FIFTH, THIRD))
    both = larger(third.fma(0.01, fifth) * float(len(move)), UOp.const(TINY))
    return Tried([move, *(k[s] for s in KEPT)], first(here.kept[1]), h * fifth / both.sqrt())


def curve(f: Rates, x: Numbers, t: UOp, h: UOp, kept: list[Numbers]) -> Curve:
    """The move times the part of a step, and more and more of what is zero at both ends."""
    move, k = kept[0], dict(zip(KEPT, kept[1:]))
    for which in BETWEEN:
        k[which] = stage(f, k, which, x, t, h)
    begins, ends = ([h * u for u in k[s]] for s in (1, END))
    rows = [
        move,
        [a - m for a, m in zip(begins, move)],
        [2.0 * m - (a + b) for m, a, b in zip(move, begins, ends)],
    ]
    rows += [[h * u for u in combined(weights, k)] for weights in CURVE.values()]

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
