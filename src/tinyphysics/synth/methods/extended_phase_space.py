"""How is any energy stepped by kicks and drifts?  With a copy of every particle, and both brought together again.

In H(q, y) + H(x, p) each part moves the other pair alone, so that a leapfrog of the two is explicit (Pihajoki 2015, Tao
2016). The copies begin apart by d and end apart by d, with d solved for: a symmetric projection, which makes the step
one of the system itself, and symplectic (Jayawardana & Ohsawa 2023, Math. Comp. 92, 251).
"""

from __future__ import annotations

from collections.abc import Sequence

from tinyphysics.flows.map import Map
from tinyphysics.ir import UOp, elements
from tinyphysics.rules.calculus.linear import ZERO, Rows, less, times
from tinyphysics.rules.calculus.unroll import rolled
from tinyphysics.step import DT, Claims, Step, Term
from tinyphysics.synth.methods.implicit import BY_NEWTON, VectorField, solving
from tinyphysics.system import System


def crossed(
    flow: VectorField, first: list[UOp], second: list[UOp], momenta: list[bool], h: UOp, clock: float
) -> None:
    """The flow of H at the positions of one copy and the momenta of the other, which moves the rest of both."""
    at = flow.at([b if is_p else a for a, b, is_p in zip(first, second, momenta)], clock)
    for k, is_p in enumerate(momenta):
        moved = first if is_p else second
        moved[k] = moved[k] + h * at[k]


def doubled(name: str, system: System, weights: Sequence[float], claims: Claims) -> Step:
    """A leapfrog of the copies for each weight, between one pair of projections."""
    assert system.energy is not None
    flow = VectorField(system, system.energy)
    n, places = len(flow.z), set(flow.places(system.p))
    momenta = [k in places for k in range(n)]
    unknown = UOp.var("?apart", (n,))
    d = elements(unknown)
    u, v = ([z + x for z, x in zip(flow.z, d)], [z - x for z, x in zip(flow.z, d)])
    done, flows = 0.0, list[tuple[int, float, float]]()  # (which copy's positions, length, time)
    for w in weights:
        for which, part in ((0, w / 2), (1, w), (0, w / 2)):
            if flows and flows[-1][0] == which and system.time is None:  # two flows of one kind are one
                flows[-1] = (which, flows[-1][1] + part, 0.0)
            else:
                flows.append((which, part, done + w / 2))
        done += w
    for which, part, clock in flows:
        crossed(flow, *((v, u) if which else (u, v)), momenta, part * DT, clock)
    residuals = [0.5 * (a - b) + x for a, b, x in zip(u, v, d)]
    rows: Rows | None = None
    # 2 d + dt L d, to first order: what a copy feels of the other's way is of the other sign
    if n <= BY_NEWTON:
        rows = []
        for i, row in enumerate(flow.jacobian()):
            signs = [1.0 if m != momenta[i] else -1.0 for m in momenta]
            rows.append(
                [
                    less(UOp.const(2.0) if i == k else ZERO, times(-sign * DT, x))
                    for k, (x, sign) in enumerate(zip(row, signs))
                ]
            )
    ahead = [z + (0.5 * DT) * f for z, f in zip(flow.z, flow.at(flow.z))]
    middle = [0.5 * (a + b) for a, b in zip(u, v)]
    moves = Map(tuple(zip(flow.states, rolled(middle, flow.states))))
    together = UOp.const(0.0, shape=(n,))
    solve = solving(unknown, together, residuals, flow.sizes([flow.z, ahead]), moves, rows)
    return Step.of(system, name, (Term("H", system.energy),), claims, len(flows), body=(solve,))
