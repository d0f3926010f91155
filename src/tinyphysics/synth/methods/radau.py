"""How is a stiff system followed?  By collocation at the three points of Radau: order 5, L-stable, solved in each attempt.

The moves Z of the stages satisfy Z_i = h sum a_ij f(x + Z_j). As in RADAU5 (Hairer and Wanner, Solving Ordinary Differential
Equations II, IV.8) the inverse of (a_ij) is brought to its eigenvalues by W = T^-1 Z, so that one round solves with
g - h J, of numbers, and with (a + ib) - h J, of pairs of them. J is exact, of the state that an attempt begins with; a pivot
that is too small spoils the rounds, which are then not accepted, and a shorter h makes it larger. The rounds begin on the
cubic through the stages of the step before.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from tinyphysics.flows.map import Map
from tinyphysics.ir import UOp, elements, f64
from tinyphysics.rules.calculus.linear import ZERO, less, solved, times
from tinyphysics.rules.calculus.solve import HALF_ULP
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
from tinyphysics.synth.methods.implicit import solving
from tinyphysics.synth.methods.rates import Rates

ROOT = math.sqrt(6)
PLACES = ((4 - ROOT) / 10, (4 + ROOT) / 10, 1.0)
G = 3 + 3 ** (2 / 3) - 3 ** (1 / 3)  # the eigenvalues of the inverse of (a_ij): G, A + iB and A - iB
A = 3 + (3 ** (1 / 3) - 3 ** (2 / 3)) / 2
B = -(3 ** (5 / 6) + 3 ** (7 / 6)) / 2
T = (
    (0.09443876248897524, -0.14125529502095421, 0.03002919410514742),
    (0.25021312296533332, 0.20412935229379994, -0.38294211275726192),
    (1.0, 1.0, 0.0),
)
INVERSE = (
    (4.17871859155190428, 0.32768282076106237, 0.52337644549944951),
    (-4.17871859155190428, -0.32768282076106237, 0.47662355450055044),
    (0.50287263494578682, -2.57192694985560522, 0.59603920482822492),
)
ESTIMATE = ((-13 - 7 * ROOT) / 3, (-13 + 7 * ROOT) / 3, -1 / 3)
CUBIC = (
    (13 / 3 + 7 * ROOT / 3, 13 / 3 - 7 * ROOT / 3, 1 / 3),  # the powers of the part of a step, of Z
    (-23 / 3 - 22 * ROOT / 3, -23 / 3 + 22 * ROOT / 3, -8 / 3),
    (10 / 3 + 5 * ROOT, 10 / 3 - 5 * ROOT, 10 / 3),
)
FARTHEST = 0.85  # of a step: there, nearly, a curve through the points of Radau is farthest off
CLOSE = 0.03  # of what is allowed, or its root if that is smaller: such a correction ends the rounds, and one more follows
ROUNDS = 10
ROWS = (2, 0, 1)  # of Z, as they are kept: the move first, and last the error
# beside the cubic, a quartic whose slope is 1 at the beginning and 0 at the points of Radau: it is zero at the end too, since
# the product of (p - c_i) is orthogonal to 1
QUARTIC = (1.0, -4.5, 6.0, -2.5)


def radau(p: Problem) -> tuple[AnyRates, Embedded]:
    f = Rates(p.system, p.rates)
    # evaluations: at the beginning, three in a round and three when it has arrived, two for the error
    made = partial(attempt, f, p.tolerance), first, lambda x, t, h, kept: curve(kept)
    return f, Embedded(4, 4, 8.0, *made, 4, 9)


def first(slopes: Numbers) -> list[Numbers]:
    return [[NOTHING] * len(slopes)] * 4


def mixed(matrix: Sequence[Sequence[float]], rows: Sequence[Numbers]) -> list[Numbers]:
    table = dict(enumerate(rows))
    return [combined({k: w for k, w in enumerate(row) if w}, table) for row in matrix]


def cubic(kept: list[Numbers]) -> list[Numbers]:
    """The curve through the stages, in powers of the part of a step."""
    return mixed(CUBIC, [kept[ROWS.index(k)] for k in range(3)])


def curve(kept: list[Numbers]) -> Curve:
    """The cubic, and what its slope at the beginning lacks: that is the error, which is damped where the system is stiff."""
    lacks = [G * u for u in kept[3]]
    stages = [*cubic(kept), [NOTHING] * len(lacks)]
    rows = [[d.fma(q, u) for d, u in zip(lacks, row)] for q, row in zip(QUARTIC, stages)]
    return Curve(partial(along, rows), rows)


def along(rows: list[Numbers], part: UOp) -> Numbers:
    out = rows[-1]
    for row in reversed(rows[:-1]):
        out = [total.fma(part, u) for total, u in zip(out, row)]
    return [u * part for u in out]


class Newton:
    """Corrections of W, with one matrix of numbers and one of pairs."""

    def __init__(self, f: Rates, here: Here, h: UOp) -> None:
        self.f, self.here, self.h = f, here, h
        self.n = len(here.x)
        slopes = [[times(h, u) for u in row] for row in f.jacobian(here.x, here.t)]
        self.real = self.shifted(slopes, G)
        block = self.shifted(slopes, A)
        self.pairs = []  # real and imaginary parts side by side
        for i, row in enumerate(block):
            turn = [B if i == j else 0.0 for j in range(self.n)]
            self.pairs.append([u for x, b in zip(row, turn) for u in (x, UOp.const(-b) if b else ZERO)])
            self.pairs.append([u for x, b in zip(row, turn) for u in (UOp.const(b) if b else ZERO, x)])

    def shifted(self, slopes: list[Numbers], by: float) -> list[Numbers]:
        return [
            [less(UOp.const(by) if i == j else ZERO, u) for j, u in enumerate(row)]
            for i, row in enumerate(slopes)
        ]

    def divided(self, right: Numbers) -> Numbers:
        """By g - h J."""
        return [row[0] for row in solved(self.real, [[u] for u in right], fused=True)]

    def correction(self, w: list[Numbers]) -> list[Numbers]:
        moves, h = mixed(T, w), self.h
        rates = [
            self.f.at([x + z for x, z in zip(self.here.x, row)], h.fma(c, self.here.t))
            for c, row in zip(PLACES, moves)
        ]
        first, second, third = mixed(INVERSE, rates)
        alone = self.divided([G * a - h * u for a, u in zip(w[0], first)])
        right = [
            row
            for a, b, u, v in zip(w[1], w[2], second, third)
            for row in ([(A * a - B * b) - h * u], [(B * a + A * b) - h * v])
        ]
        both = [row[0] for row in solved(self.pairs, right, fused=True)]
        return [alone, both[0::2], both[1::2]]


def attempt(f: Rates, tolerance: Tolerance, here: Here) -> Tried:
    n = len(here.x)
    h = here.going.where(here.h, NOTHING)  # who has arrived has nothing to solve
    newton = Newton(f, here, h)
    before = cubic(here.kept)
    ratio = h / here.last
    ahead = [along(before, ratio.fma(c, 1.0)) for c in PLACES]
    begins = [[(0.0 < here.last).where(a - b, ZERO) for a, b in zip(row, here.kept[0])] for row in ahead]
    near = tolerance.scale(here.x)
    close = max(10 * 2.0**-53 / tolerance.relative, min(CLOSE, math.sqrt(tolerance.relative)))
    weights = [u * (HALF_ULP / close) for u in near]
    unknown = UOp.var("?stages", (3 * n,))
    w = [elements(unknown)[k * n : (k + 1) * n] for k in range(3)]
    corrections = newton.correction(w)
    start, residuals = ([u for row in rows for u in row] for rows in (mixed(INVERSE, begins), corrections))
    equations = solving(unknown, start, residuals, weights * 3, Map(()), rounds=ROUNDS)
    z = mixed(T, [[a - b for a, b in zip(*rows)] for rows in zip(w, corrections)])
    left = mean(residuals, near * 3)
    slopes = f.at(here.x, here.t)
    rest = mixed((ESTIMATE,), z)[0]
    scale = tolerance.scale(here.x, [x + u for x, u in zip(here.x, z[2])])
    error = newton.divided([u.fma(h, v) for u, v in zip(slopes, rest)])
    size = mean(error, scale)
    # filtered once more where it was too large already: a stiff part that has died out is in the first estimate
    again = f.at([x + e for x, e in zip(here.x, error)], here.t)
    smaller = mean(newton.divided([u.fma(h, v) for u, v in zip(again, rest)]), scale)
    size = ((1.0 < size) & (here.again | here.last.eq(0.0))).where(smaller, size)
    kept = [*(z[k] for k in ROWS), error]
    within = mean(newton.divided(defect(f, here, h, curve(kept).coefficients)), scale)
    size = size.fma(size, within * within).sqrt()
    return Tried(kept, first(here.x), (left <= close).where(size, UOp.const(math.inf, f64)), equations)


def defect(f: Rates, here: Here, h: UOp, rows: list[Numbers]) -> Numbers:
    """By how much the slope of the curve is not the rate there.

    Where the system is stiff the ends of steps are right whatever their length, and the estimate of the error says so;
    divided by g - h J, as that is, this is how far the curve is off the solution between them.
    """
    place = UOp.const(FARTHEST, f64)
    rates = f.at([x + u for x, u in zip(here.x, along(rows, place))], h.fma(FARTHEST, here.t))
    slopes = along([[float(k + 1) * u for u in row] for k, row in enumerate(rows)], place)
    return [h * a - b * (1.0 / FARTHEST) for a, b in zip(rates, slopes)]
