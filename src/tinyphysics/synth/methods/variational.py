"""How is a Lagrangian stepped?  So that the sum of its L over a run is stationary: the velocities of stages are solved for.

Q_i = q + h sum a_ij V_j, momenta dL/dv(Q_i, V_i) = p + h sum a_ij dL/dq(Q_j, V_j), and (q, p) move by h sum b_j (V_j, dL/dq).
With the coefficients of Gauss that is the Galerkin method with polynomials of as many degrees as there are stages (Marsden &
West 2001, Acta Numerica 10, 357): in exact arithmetic the collocation of H, with half of the unknowns and no mass matrix
inverted in a round. The trapezoidal rule has one velocity for both ends of a step: Verlet's method, for any L.
"""

from __future__ import annotations

from collections.abc import Sequence

from tinyphysics.flows.shears import Shear, ShearFlow
from tinyphysics.ir import UOp, elements, substitute
from tinyphysics.rules.calculus.linear import Rows, less, times
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.rules.identities.real import simplify
from tinyphysics.step import DT, Step, Term
from tinyphysics.synth.methods.implicit import BY_NEWTON, Collocation, sizes_of, solving
from tinyphysics.system import System

Numbers = Sequence[UOp]


class Slopes:
    """dL/dv and dL/dq of each component, at other positions, velocities and times."""

    def __init__(self, system: System) -> None:
        motion = system.motion
        assert motion is not None
        self.time = system.time
        self.q = [e for x in system.q for e in elements(x)]
        self.v = [e for x in motion.v for e in elements(x)]
        self.p = [e for x in system.p for e in elements(x)]
        ((L,),) = unroll([motion.lagrangian])
        self.momenta, self.forces = simplify(gradient(L, self.v)), simplify(gradient(L, self.q))
        self.velocities = [u for group in unroll(motion.velocities) for u in group]
        self.n = len(self.q)

    def at(self, roots: Numbers, q: Numbers, v: Numbers, after: float) -> list[UOp]:
        table = dict(zip(self.q, q)) | dict(zip(self.v, v))
        if self.time is not None and after:
            table[self.time] = self.time + after * DT
        return substitute(list(roots), table)

    def foreseen(self, c: float) -> list[UOp]:
        """The velocities a part of a step later, as Euler's method sees them."""
        v = self.velocities
        forces = self.at(self.forces, self.q, v, 0.0)
        table = {q: q + (c * DT) * x for q, x in zip(self.q, v)} | {
            p: p + (c * DT) * f for p, f in zip(self.p, forces)
        }
        if self.time is not None:
            table[self.time] = self.time + c * DT
        return substitute(v, table)

    def second(self, q: Numbers, v: Numbers, after: float) -> tuple[Rows, Rows, Rows]:
        """The second derivatives of L: twice by velocities, by velocities and positions, twice by positions."""
        parts = ((self.momenta, self.v), (self.momenta, self.q), (self.forces, self.q))
        every = [[simplify(gradient(x, by)) for x in roots] for roots, by in parts]
        vv, vq, qq = ([self.at(row, q, v, after) for row in rows] for rows in every)
        return vv, vq, qq


def moved(x: Numbers, moves: Sequence[Numbers], parts: Sequence[float]) -> list[UOp]:
    """x and a part of each move."""
    return [UOp.sum_of([y, *(w * r[k] for w, r in zip(parts, moves))]) for k, y in enumerate(x)]


def over(rates: Sequence[Numbers], weights: Sequence[float]) -> list[list[UOp]]:
    """The moves at these rates, each for its part of a step."""
    return [[(w * DT) * r for r in own] for own, w in zip(rates, weights)]


def newton(slopes: Slopes, a: Sequence[Sequence[float]], q: Numbers, v: Numbers) -> Rows | None:
    """The derivative of the residuals, with the second derivatives of L taken at one point."""
    n, s = slopes.n, len(a)
    if n * s > BY_NEWTON:
        return None
    vv, vq, qq = slopes.second(q, v, 0.5)
    rows: Rows = []
    for i in range(s):
        for k in range(n):
            row = []
            for j in range(s):
                twice = 0.0  # term by term: from Python 3.12 on, sum() of floats has other last bits
                for m in range(s):
                    twice += a[i][m] * a[m][j]
                for m in range(n):
                    turn = less(vq[k][m], vq[m][k])
                    entry = less(times(turn, a[i][j] * DT), times(qq[k][m], (twice * DT) * DT))
                    row.append(vv[k][m] + entry if i == j else entry)
            rows.append(row)
    return rows


def variational(name: str, system: System, method: Collocation | None) -> Step:
    """A step by stages of Gauss, or by the trapezoidal rule if there is no method."""
    assert system.energy is not None
    slopes = Slopes(system)
    n, s = slopes.n, 1 if method is None else method.stages
    unknown = UOp.var("?velocities", (n * s,))
    V = [elements(unknown)[k * n : (k + 1) * n] for k in range(s)]
    v = slopes.velocities
    if method is None:
        residuals, moves, matrix = trapezoidal(slopes, V[0], v)
    else:
        residuals, moves, matrix = galerkin(slopes, V, v, method)
    shears = []
    for state, numbers, kind, weight in with_states(system, moves):
        value = UOp.stack(numbers, state.shape) if state.shape else numbers[0]
        shears.append(Shear(state, value, kind, weight))
    start = [x for c in ([0.5] if method is None else method.c) for x in slopes.foreseen(c)]
    speeds = sizes_of(system.q, [v, *(start[k * n : (k + 1) * n] for k in range(s))])
    solve = solving(unknown, start, residuals, speeds * s, ShearFlow(tuple(shears)), matrix)
    return Step.of(system, name, (Term("H", system.energy),), (), 2 if method is None else s, body=(solve,))


Moves = list[tuple[Numbers, Numbers, float]]  # (velocities, forces, weight) of each stage


def galerkin(
    slopes: Slopes, V: Sequence[Numbers], v: Numbers, method: Collocation
) -> tuple[list[UOp], Moves, Rows | None]:
    # a_ij = mu_ij b_j: as long as the two are not multiplied, mu_ij + mu_ji = 1 to the last bit
    drifts = over(V, method.b)
    Q = [moved(slopes.q, drifts, parts) for parts in method.mu]
    P = [slopes.at(slopes.momenta, x, y, c) for x, y, c in zip(Q, V, method.c)]
    F = [slopes.at(slopes.forces, x, y, c) for x, y, c in zip(Q, V, method.c)]
    kicks = over(F, method.b)
    residuals = [
        x - y for own, parts in zip(P, method.mu) for x, y in zip(own, moved(slopes.p, kicks, parts))
    ]
    ahead = [q + (0.5 * DT) * x for q, x in zip(slopes.q, v)]
    return residuals, list(zip(V, F, method.b)), newton(slopes, method.a, ahead, v)


def trapezoidal(slopes: Slopes, V: Numbers, v: Numbers) -> tuple[list[UOp], Moves, Rows | None]:
    ends = (slopes.q, [q + DT * x for q, x in zip(slopes.q, V)])
    P = [slopes.at(slopes.momenta, q, V, c) for q, c in zip(ends, (0.0, 1.0))]
    F = [slopes.at(slopes.forces, q, V, c) for q, c in zip(ends, (0.0, 1.0))]
    residuals = [0.5 * (x + y) - z for x, y, z in zip(P[0], P[1], moved(slopes.p, over(F[:1], [0.5]), [1.0]))]
    ahead = [q + (0.5 * DT) * x for q, x in zip(slopes.q, v)]
    return residuals, [(V, F[0], 0.5), (V, F[1], 0.5)], newton(slopes, [[0.5]], ahead, v)


def with_states(system: System, moves: Moves) -> list[tuple[UOp, list[UOp], str, float]]:
    """What moves each state: velocities the positions, forces the momenta."""
    out: list[tuple[UOp, list[UOp], str, float]] = []
    for rates, forces, weight in moves:
        at = 0
        for q, p in system.pairs:
            out.append((q, list(rates[at : at + q.size]), "pass", weight))
            out.append((p, simplify([-f for f in forces[at : at + q.size]]), "negate", weight))
            at += q.size
    return out
