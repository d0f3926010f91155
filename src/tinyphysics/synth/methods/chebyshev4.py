"""How is diffusion followed by slopes alone, to more digits?  By a Chebyshev method of order 4, with 40 stages.

ROCK4 of Abdulle 2002 (SIAM J. Sci. Comput. 23, 2041), with a fixed number of stages: a recurrence as in
synth/methods/chebyshev.py, and four stages after it that make the order 4. A step is stable for rates down to -559 / h,
for each slope 25 times as far as one of order 5. The slope at the end is the first of the next step, and one of those that
the error is made of.
"""

from __future__ import annotations

from functools import cache, partial

from tinyphysics.ir import UOp
from tinyphysics.synth.coefficients.abdulle import ERROR, RECURRENCE, STAGES, WEIGHTS
from tinyphysics.synth.methods.chebyshev import LONGER, Recurrence, follow
from tinyphysics.synth.methods.embedded import (
    NOTHING,
    AnyRates,
    Curve,
    Embedded,
    Here,
    Numbers,
    Problem,
    Tolerance,
    Tried,
    combined,
    mean,
)
from tinyphysics.synth.methods.radau import along

SLOPES = len(RECURRENCE) + len(STAGES)
KEPT = 2  # rows of a step: its move and the slopes at its end
POWER = 4  # of the step, in its error
DEGREE = 3  # of the curve
THROUGH = 1 / 3, 2 / 3, 1.0  # ends of shorter steps, and of the step


def runge_kutta_chebyshev4(p: Problem) -> tuple[AnyRates, Embedded]:
    f = p.slopes
    made = partial(attempt, f, p.tolerance), first, partial(curve, f)
    return f, Embedded(KEPT, POWER, LONGER, *made, DEGREE, SLOPES, carried=KEPT, through=THROUGH)


def first(slopes: Numbers) -> list[Numbers]:
    return [[NOTHING] * len(slopes), slopes]


@cache
def recurrence() -> tuple[Recurrence, ...]:
    """The rows with where in the step they are: what they make of f = 1."""
    out: list[Recurrence] = []
    places = [0.0, 0.0]
    for slope, last in RECURRENCE:
        places.append(slope + last * places[-1] + (1 - last) * places[-2])
        out.append(Recurrence(last, 1 - last, slope, 0.0, places[-1]))
    return tuple(out)


def tried(f: AnyRates, begin: Numbers, x: Numbers, t: UOp, h: UOp) -> tuple[Numbers, list[Numbers]]:
    """The move of a step, and the slopes of its last stages."""
    start = follow(recurrence(), f, begin, x, t, h)
    place = recurrence()[-1].place
    slopes: list[Numbers] = []
    for row in STAGES:
        more = added(start, row, slopes, h)
        slopes.append(f.at([u + d for u, d in zip(x, more)], h.fma(place + sum(row), t)))
    return added(start, WEIGHTS, slopes, h), slopes


def added(start: Numbers, row: tuple[float, ...], slopes: list[Numbers], h: UOp) -> Numbers:
    if not row:
        return start
    found = combined(dict(enumerate(row)), dict(enumerate(slopes)))
    return [v.fma(h, d) for v, d in zip(found, start)]


def attempt(f: AnyRates, tolerance: Tolerance, here: Here) -> Tried:
    h, begin = here.h, here.kept[1]
    move, slopes = tried(f, begin, here.x, here.t, h)
    end = [u + (v + w) for u, v, w in zip(here.x, here.low, move)]
    slopes.append(f.at(end, here.t + h))
    off = combined(dict(enumerate(ERROR)), dict(enumerate(slopes)))
    error = h * mean(off, tolerance.scale(here.x, end))
    return Tried([move, slopes[-1]], first(begin), error)


def curve(f: AnyRates, x: Numbers, t: UOp, h: UOp, kept: list[Numbers]) -> Curve:
    """The cubic through both ends and the ends of steps of a third and two thirds of the length.

    Not by slopes at the ends: in these, ripples that a long step leaves are as large as the tolerance.
    """
    begin, ends = f.at(x, t), kept[0]
    early, late = (tried(f, begin, x, t, h * part)[0] for part in THROUGH[:2])
    rows = [
        [a.fma(9.0, b.fma(-4.5, c)) for a, b, c in zip(early, late, ends)],
        [a.fma(-22.5, b.fma(18.0, c * -4.5)) for a, b, c in zip(early, late, ends)],
        [(a - b).fma(13.5, c * 4.5) for a, b, c in zip(early, late, ends)],
    ]
    return Curve(partial(along, rows), rows)
