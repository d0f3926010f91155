"""In which order do bodies go round each other, and how far are they from Kepler orbits?  Measured at a state.

The heaviest body is the centre; the others come in the order of their semi-major axes about it, those that are not
bound in the order of their distances behind them. What a body feels besides its Kepler orbit about the mass within, over
what keeps it there, must be small for every body of every member; else no method on orbits is used.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from tinyphysics.device.host.arrays import Evaluator
from tinyphysics.errors import PlanError
from tinyphysics.facts import Fact
from tinyphysics.ir import UOp
from tinyphysics.pipeline import all_facts
from tinyphysics.plan import Goal, Hierarchy
from tinyphysics.planner.choice.choose import choose
from tinyphysics.planner.methods.families.orbits import HIERARCHY
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.rules.functions.transcendental import lower
from tinyphysics.runtime.state.ensemble import Inputs
from tinyphysics.synth.methods.derivative import derivative
from tinyphysics.system import System

SMALL = 0.1  # where eps**2 is 1 % of eps, and a splitting by eps still gains from it


class BodyNumbers:
    """Expressions of the states and parameters of a system, as a function of what a run is given."""

    def __init__(self, system: System, roots: list[UOp]) -> None:
        self.system, self.roots = system, roots
        variables = [*(s.var for s in system.states), *(p.var for p in system.parameters)]
        self.components = dict(zip(variables, unroll(variables)))
        self.f = Evaluator(lower([u for group in unroll(roots) for u in group]))
        given = {e for group in self.components.values() for e in group}
        # components of variables are given, not taken out of arrays
        self.f.order = [u for u in self.f.order if u not in given and not (u.shape and not u.src)]

    def __call__(self, i: Inputs) -> list[Any]:
        """For every member: (members, shape...)."""
        arrays = {s.var: i.states[s.name] for s in self.system.states}
        arrays |= {p.var: i.params[p.name] for p in self.system.parameters}
        env: dict[UOp, Any] = {}
        for v, a in arrays.items():
            flat = np.broadcast_to(a, (i.members, *v.shape)).reshape(i.members, -1)
            env |= {e: flat[:, k] for k, e in enumerate(self.components[v])}
        with np.errstate(all="ignore"):
            values = iter(self.f(env))
        return [
            np.stack([np.broadcast_to(next(values), i.members) for _ in range(r.size)], -1).reshape(
                i.members, *r.shape
            )
            for r in self.roots
        ]


def measured(system: System, look: BodyNumbers, i: Inputs, order: tuple[int, ...] | None = None) -> Hierarchy:
    """The hierarchy of a state, in a given order if there is one; a PlanError if it is none."""
    x, y, m, G, slope = look(i)
    if not (m > 0).all():
        raise refusal(system, "a mass is not positive")
    if not (G > 0).all():
        raise refusal(system, "the bodies do not attract each other: G is not positive")
    orders = ordered(x, y / m[..., None], m, G)
    if order is None:
        order = tuple(int(k) for k in orders[0])
        other = np.nonzero((orders != orders[0]).any(axis=1))[0]
        if len(other):
            raise refusal(
                system, f"the bodies of member {other[0]} are in another order than those of member 0"
            )
    felt = besides(x, -slope, m, G, order)
    worst = np.unravel_index(np.argmax(np.where(np.isfinite(felt), felt, np.inf)), felt.shape)
    eps = float(felt[worst])
    if not eps <= SMALL:
        who = f"body {order[worst[1] + 1]}" + (f" of member {worst[0]}" if i.is_ensemble else "")
        raise refusal(
            system,
            f"{who} feels a perturbation of {eps:.2g} times the pull of its Kepler orbit, above {SMALL:g}; "
            f"order {', '.join(map(str, order))}",
        )
    return Hierarchy(order, eps)


def refusal(system: System, why: str) -> PlanError:
    return PlanError(
        f"the bodies of `{system.name}` do not form a hierarchy of orbits at their initial state: {why}",
        fix="A splitting into kicks and drifts does not need orbits: leave method= out.",
    )


def ordered(x: Any, v: Any, m: Any, G: Any) -> Any:
    """For each member its bodies, the centre first."""
    centre = np.argmax(m, axis=1)
    rows = np.arange(len(x))
    apart, speed = x - x[rows, centre][:, None], v - v[rows, centre][:, None]
    with np.errstate(all="ignore"):
        r = np.sqrt((apart**2).sum(-1))
        inverse = 2 / r - (speed**2).sum(-1) / (G[:, None] * (m + m[rows, centre][:, None]))  # 1/a
        key = np.where(inverse > 0, 1 / inverse, np.inf)
    r[rows, centre], key[rows, centre] = -1.0, -1.0
    return np.lexsort((r, key), axis=1)


def besides(x: Any, force: Any, m: Any, G: Any, order: tuple[int, ...]) -> Any:
    """For each member and body but the centre: what it feels besides its orbit, over what keeps it there."""
    within, centre, pull = m[:, order[0]], x[:, order[0]], force[:, order[0]]
    out = []
    for k in order[1:]:
        apart = x[:, k] - centre
        total = within + m[:, k]
        r = np.sqrt((apart**2).sum(-1))
        own = -(G * total / r**3)[:, None] * apart
        rate = force[:, k] / m[:, k, None] - pull / within[:, None]
        out.append(np.sqrt(((rate - own) ** 2).sum(-1)) / np.sqrt((own**2).sum(-1)))
        centre = centre + (m[:, k] / total)[:, None] * apart
        pull, within = pull + force[:, k], total
    return np.stack(out, axis=1)


@lru_cache(maxsize=16)
def check_orbits(system: System, goal: Goal) -> BodyNumbers:
    """What is measured of a state; a PlanError if no method on orbits applies, whatever the state."""
    facts = all_facts(system, goal)
    choose(system, facts, goal)
    (q,), (p,) = system.q, system.p
    bodies: Fact = facts[HIERARCHY]
    return BodyNumbers(
        system, [q, p, bodies.masses.expand((q.shape[0],)), bodies.G, *derivative(facts["separable"].V, [q])]
    )


def hierarchy_of(system: System, goal: Goal, i: Inputs, order: tuple[int, ...] | None) -> Hierarchy:
    return measured(system, check_orbits(system, replace(goal, hierarchy=None)), i, order)
