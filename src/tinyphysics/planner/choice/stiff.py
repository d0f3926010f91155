"""Is leapfrog unstable because a quadratic part is stiff?  Then the default solves that part instead of stepping it.

Shown for the numbers that are known when a system is compiled: dt, and the parameters' defaults. At the centre of the
quadratic part the curvature of all of V along its stiffest number is at most the largest there is (Rayleigh), so that a
kick and a drift beyond omega*dt = 2 multiply what lies along it. Anything not shown leaves the default what it was.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from tinyphysics.analysis.interaction import NAME, interaction
from tinyphysics.analysis.nystrom import kinetic_quadratic
from tinyphysics.analysis.separable import separable
from tinyphysics.facts import Fact, Facts
from tinyphysics.ir import Ops, UOp, toposort
from tinyphysics.ir.value import evaluate
from tinyphysics.plan import Goal
from tinyphysics.planner.choice.oscillator_resonance import MOST_NUMBERS, curvatures, defaults
from tinyphysics.planner.methods.catalog import BY_NAME, BY_ORDER, CHOICES
from tinyphysics.planner.methods.method import not_taken
from tinyphysics.rules.calculus.jvp import jvp
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.system import System

LIMIT = 2.0  # of leapfrog
SOLVED = {2: "interaction", 4: "interaction4", 6: "interaction6", 8: "interaction8"}  # by order


def limit(order: int | None) -> float:
    """Of the splitting that an order gets where T is quadratic."""
    return LIMIT if order in (None, 2) else BY_NAME[BY_ORDER[order or 2]].limit or math.inf


OTHER = frozenset({Ops.NEIGHBOURS, Ops.TREE, Ops.RANDOM, Ops.CUSTOM})  # what is not evaluated here


def may_be(system: System, goal: Goal) -> bool:
    """Is it a question at all?  Only where leapfrog would be taken because nothing else was asked for."""
    if goal.method not in CHOICES or goal.order not in (None, *SOLVED) or goal.dt is None:
        return False
    if goal.forbid or goal.is_accurate or goal.inner or goal.backwards or goal.approximate is not None:
        return False
    if goal.precision != "float64" or goal.scale != "off" or goal.propagator not in (None, "loop"):
        return False
    if not_taken(BY_NAME[SOLVED[goal.order or 2]], system) is not None:
        return False  # such as heat: its own methods step everything
    own = system.kind == "hamiltonian" and not system.levels
    return own and sum(q.size for q in system.q) <= MOST_NUMBERS


@lru_cache(maxsize=64)  # steps are tried one after the other
def quadratic(system: System) -> Fact:
    split = separable(system)
    if not split:
        return Fact.no(NAME, split.because)
    return interaction(system, Facts((split, kinetic_quadratic(system, split.T))))


def stiffest(system: System, goal: Goal) -> float:
    """omega*dt of the stiffest number where the splitting of the order is shown to be unstable; 0 where it is not."""
    if not may_be(system, goal):
        return 0.0
    assert system.energy is not None and goal.dt is not None
    values = defaults(system.parameters)
    if any(p.name not in values for p in system.parameters):
        return 0.0
    if any(u.op in OTHER for u in toposort([system.energy])):
        return 0.0
    found = quadratic(system)
    pairs = curvatures(found.oscillators, values) if found and found.oscillators else None
    if not pairs:
        return 0.0
    stiff = max(range(len(pairs)), key=lambda k: pairs[k][0] * pairs[k][1])
    a, b = pairs[stiff]
    h = abs(goal.dt)
    if not a > 0 or not a * b * h * h > LIMIT**2:
        return 0.0
    bend = curvature_along(system, found, values, stiff)
    square = a * bend * h * h
    return math.sqrt(square) if math.isfinite(square) and square > limit(goal.order) ** 2 else 0.0


def curvature_along(system: System, found: Fact, values: dict[str, Any], number: int) -> float:
    """The second derivative of V along one number of q, at the centre of the quadratic part."""
    assert system.energy is not None
    centre: list[float] = []
    for q, o in zip(system.q, found.oscillators):
        b, f = evaluate([o.b, UOp.const(0.0, q.dtype, q.shape) if o.f is None else o.f], values)
        pairs = zip(b, f) if q.shape else [(b, f)]
        centre += [-y / x if x else 0.0 for x, y in pairs]
    env, at, along = dict(values), 0, []
    for s in system.states:
        env[s.name] = [0.0] * s.var.size if s.var.shape else 0.0
    for q in system.q:
        name = f"along {q.arg}"
        direction = [float(at + k == number) for k in range(q.size)]
        env[str(q.arg)] = centre[at : at + q.size] if q.shape else centre[at]
        env[name] = direction if q.shape else direction[0]
        along.append(UOp.var(name, q.shape, q.dtype))
        at += q.size
    if system.time is not None:
        env[str(system.time.arg)] = 0.0
    bends = evaluate(jvp(gradient(system.energy, list(system.q)), list(system.q), along), env)
    flat = [x for row, q in zip(bends, system.q) for x in (row if q.shape else [row])]
    return float(flat[number])
