"""How is diffusion followed by slopes alone?  By Runge–Kutta–Chebyshev: many stages, for a long way along the negative axis.

The method of order 2 of Sommeijer, Shampine and Verwer 1998 (J. Comput. Appl. Math. 88, 315), with a fixed number of stages.
A step of s stages is stable for rates down to -0.65 s**2 / h, a step of order 5 with 6 slopes down to -3.3 / h. With 20 that
is 24 times as far for each slope. Where the spectrum is not along the negative axis nothing is gained. Stages are kept as
what they add to the beginning of a step, D_j = Y_j - x, so that the move of a step is not a difference of large numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

from tinyphysics.ir import UOp
from tinyphysics.synth.methods.embedded import (
    AnyRates,
    Embedded,
    Here,
    Numbers,
    Problem,
    Tolerance,
    Tried,
    mean,
)
from tinyphysics.synth.methods.explicit_pair import Tableau, first, method_of

STAGES = 20
DAMPING = Fraction(2, 13)  # of the stability polynomial, so that its edge does not touch 1
LONGER = 4.0  # at most, from a step to the next
# the curve is the cubic through both ends with their slopes; slope 1 is that at the beginning, 2 that at the end
HERMITE = Tableau({}, {}, {}, 2, (), {}, {}, (2, 1), 3, LONGER)


@dataclass(frozen=True)
class Recurrence:
    """D_j = last D_{j-1} + before D_{j-2} + slope h f(x + D_{j-1}) + begin h f(x), and where in the step Y_j is."""

    last: float
    before: float
    slope: float
    begin: float
    place: float


def chebyshev(count: int, w: Fraction) -> list[tuple[Fraction, Fraction, Fraction]]:
    """T_j, T_j' and T_j'' at a number, for j up to `count`."""
    one, none = Fraction(1), Fraction(0)
    rows = [(one, none, none), (w, one, none)]
    for _ in range(count - 1):
        (a, da, dda), (b, db, ddb) = rows[-2:]
        rows.append((2 * w * b - a, 2 * b + 2 * w * db - da, 4 * db + 2 * w * ddb - dda))
    return rows


def recurrences(stages: int) -> list[Recurrence]:
    """Of stages 1, 2, ...: exact until they are rounded here."""
    w0 = 1 + DAMPING / stages**2
    t = chebyshev(stages, w0)
    w1 = t[stages][1] / t[stages][2]
    later = [dd / (d * d) for _, d, dd in t[2:]]
    b = [later[0], later[0], *later]
    places = [w1 * dd / d for _, d, dd in t[2:]]
    c = [Fraction(0), places[0] / (4 * w0), *places]
    out = [Recurrence(0.0, 0.0, float(b[1] * w1), 0.0, float(c[1]))]
    for j in range(2, stages + 1):
        slope = 2 * b[j] * w1 / b[j - 1]
        begin = -(1 - b[j - 1] * t[j - 1][0]) * slope
        last, before = 2 * b[j] * w0 / b[j - 1], -b[j] / b[j - 2]
        out.append(Recurrence(*map(float, (last, before, slope, begin, c[j]))))
    return out


def runge_kutta_chebyshev(p: Problem) -> tuple[AnyRates, Embedded]:
    f = p.slopes
    return f, method_of(HERMITE, f, partial(attempt, f, p.tolerance), partial(remade, f), STAGES)


def move_of(f: AnyRates, begin: Numbers, x: Numbers, t: UOp, h: UOp) -> Numbers:
    """All stages, one after the other."""
    return follow(recurrences(STAGES), f, begin, x, t, h)


def follow(rows: Sequence[Recurrence], f: AnyRates, begin: Numbers, x: Numbers, t: UOp, h: UOp) -> Numbers:
    """The last D of a recurrence."""
    scaled = {w: h * w for r in rows for w in (r.slope, r.begin)}
    before: Numbers | None = None
    last = [scaled[rows[0].slope] * u for u in begin]
    place = rows[0].place
    for r in rows[1:]:
        slopes = f.at([u + d for u, d in zip(x, last)], h.fma(place, t))
        new = [d * r.last for d in last]
        if r.begin:
            new = [u.fma(scaled[r.begin], d) for u, d in zip(begin, new)]
        new = [v.fma(scaled[r.slope], d) for v, d in zip(slopes, new)]
        if before is not None:
            new = [d.fma(r.before, u) for d, u in zip(before, new)]
        before, last, place = last, new, r.place
    return last


def attempt(f: AnyRates, tolerance: Tolerance, here: Here) -> Tried:
    h, begin = here.h, here.kept[1]
    move = move_of(f, begin, here.x, here.t, h)
    end = [u + (v + w) for u, v, w in zip(here.x, here.low, move)]
    slopes = f.at(end, here.t + h)
    off = [0.4 * (h * (u + v)) - 0.8 * d for u, v, d in zip(begin, slopes, move)]
    error = mean(off, tolerance.scale(here.x, end))
    return Tried([move, slopes, begin], first(HERMITE, begin), error)


def remade(f: AnyRates, x: Numbers, t: UOp, h: UOp) -> list[Numbers]:
    """All that the curve through a step is made of, from where it began."""
    begin = f.at(x, t)
    move = move_of(f, begin, x, t, h)
    return [move, f.at([u + d for u, d in zip(x, move)], t + h), begin]
