"""How is a stiff system of arrays followed?  By linear systems alone: Rosenbrock's method of order 4, L-stable.

RODAS (Hairer and Wanner, Solving Ordinary Differential Equations II, IV.7): six stages U with
(1 - g h J) U_i = g (h f(x + sum a_ij U_j) + sum c_ij U_j + d_i h**2 df/dt), J exact at the beginning of an attempt. The last
stage is the error. Nothing is iterated but the linear solver: on one chain it is elimination, else BiCGStab until what is
left is a small part of what is allowed. A solver that does not arrive gives no number, and the attempt is repeated with a
shorter step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from tinyphysics.flows.solvers import lines
from tinyphysics.flows.solvers.banded import BlockElimination, band_of
from tinyphysics.flows.solvers.cyclic import ChainElimination, is_one_chain
from tinyphysics.flows.solvers.krylov import StabilizedGradients
from tinyphysics.flows.solvers.solver import LinearSolver, Slopes
from tinyphysics.flows.solvers.stencil import local_part
from tinyphysics.ir import UOp, substitute
from tinyphysics.rules.calculus.jvp import jvp
from tinyphysics.rules.calculus.linear import ONE, ZERO, less, solved, times
from tinyphysics.rules.identities.real import simplify
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
from tinyphysics.synth.methods.rates import ArrayRates, Rates

GAMMA = 0.25
A = (
    (),
    (1.544,),
    (0.9466785280815826, 0.2557011698983284),
    (3.314825187068521, 2.896124015972201, 0.9986419139977817),
    (1.221224509226641, 6.019134481288629, 12.53708332932087, -0.687886036105895),
    (1.221224509226641, 6.019134481288629, 12.53708332932087, -0.687886036105895, 1.0),
)
C = (
    (),
    (-5.6688,),
    (-2.430093356833875, -0.2063599157091915),
    (-0.1073529058151375, -9.594562251023355, -20.47028614809616),
    (7.496443313967647, -10.24680431464352, -33.99990352819905, 11.7089089320616),
    (8.083246795921522, -7.981132988064893, -31.52159432874371, 16.31930543123136, -6.058818238834054),
)
PLACES = (0.0, 0.386, 0.21, 0.63, 1.0, 1.0)
BY_TIME = (0.25, -0.1043, 0.1035, -0.03620000000000023, 0.0, 0.0)
WITHIN = (
    (10.12623508344586, -7.487995877610167, -34.80091861555747, -7.992771707568823, 1.025137723295662),
    (-0.6762803392806898, 6.087714651680015, 16.43084320892478, 24.76722511418386, -6.594389125716872),
)
SOLVED = 2.0**-7  # of what is allowed: what a linear solver may leave


def rosenbrock(p: Problem) -> tuple[AnyRates, Embedded]:
    f = p.slopes
    made = partial(attempt, f, p.tolerance), first, lambda x, t, h, kept: curve(kept)
    return f, Embedded(3, 4, 6.0, *made, 3, 6, carried=3)


def first(slopes: Numbers) -> list[Numbers]:
    return [[UOp.const(0.0, u.dtype, u.shape) for u in slopes]] * 3


def curve(kept: list[Numbers]) -> Curve:
    """The cubic p*move + p*(1 - p)*(a + p*b) of the part p of a step."""
    move, a, b = kept
    rows = [
        [u + v for u, v in zip(move, a)],
        [v - u for u, v in zip(a, b)],
        [-v for v in b],
    ]
    return Curve(partial(along, rows), rows)


def moved(x: Numbers, weights: Sequence[float], stages: Sequence[Numbers]) -> Numbers:
    if not weights:
        return x
    found = combined(dict(enumerate(weights)), dict(enumerate(stages)))
    return [u + v for u, v in zip(x, found)]


def attempt(f: Rates | ArrayRates, tolerance: Tolerance, here: Here) -> Tried:
    h = here.going.where(here.h, NOTHING)  # who has arrived has nothing to solve
    solve = solver(f, tolerance, here, GAMMA * h)
    lag = by_time(f, here)
    stages: list[Numbers] = []
    for a, c, place, late in zip(A, C, PLACES, BY_TIME):
        rates = f.at(moved(here.x, a, stages), h.fma(place, here.t))
        right = [h * u for u in rates]
        if c:
            found = combined(dict(enumerate(c)), dict(enumerate(stages)))
            right = [u + v for u, v in zip(right, found)]
        if lag and late:
            right = [u + (late * (h * h)) * v for u, v in zip(right, lag)]
        stages.append(solve([GAMMA * u for u in right]))
    error = stages[-1]
    move = combined(dict(enumerate((*A[-1], 1.0))), dict(enumerate(stages)))
    rows = [combined(dict(enumerate(w)), dict(enumerate(stages))) for w in WITHIN]
    scale = tolerance.scale(here.x, [x + u for x, u in zip(here.x, move)])
    return Tried([move, *rows], first(here.x), mean(error, scale))


def by_time(f: Rates | ArrayRates, here: Here) -> Numbers:
    """How the rates change with time alone; nothing where they do not."""
    if f.time is None:
        return []
    roots, own = (f.whole, f.own) if isinstance(f, ArrayRates) else (f.flat, f.x)
    found = simplify(jvp(roots, [f.time], [ONE]))
    return substitute(found, dict(zip(own, here.x)) | {f.time: here.t})


def solver(
    f: Rates | ArrayRates, tolerance: Tolerance, here: Here, weight: UOp
) -> Callable[[Numbers], Numbers]:
    """What divides by 1 - weight J."""
    if isinstance(f, Rates):
        rows = f.jacobian(here.x, here.t)
        matrix = [
            [less(ONE if i == j else ZERO, times(weight, u)) for j, u in enumerate(row)]
            for i, row in enumerate(rows)
        ]
        return lambda right: [row[0] for row in solved(matrix, [[u] for u in right], fused=True)]
    slopes = f.whole if f.time is None else substitute(f.whole, {f.time: here.t})
    s = Slopes(tuple(f.own), tuple(slopes), tuple(here.x))
    by: LinearSolver
    if is_one_chain(s):
        by = ChainElimination(s)
    elif (band := band_of(s, lines.MOST)) is not None and lines.goes_along(band, s.states[0].shape[0]):
        by = lines.LineElimination(s, band)
    elif (band := band_of(s)) is not None:
        by = BlockElimination(s, band, exactly=True)
    else:
        by = StabilizedGradients(s, tuple(tolerance.scale(here.x)), SOLVED, local_part(s))
    return lambda right: by.correction(weight, right)
