"""Does cutting time into slices pay?  The model, and the cheapest method of the catalogue that takes no slices."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tinyphysics.cluster.slices import Slices
from tinyphysics.errors import PlanError
from tinyphysics.runtime.api.simulation import Simulation

WIDER = (8, 16)  # times the step of the fine method: what its error is estimated from


def explained(x: Slices, steps: int, given: Mapping[str, Any]) -> str:
    sim, dt = x.fine, x.fine.goal.dt or 0.0
    error, order = serial_error(x, given), sim.compiled.built.plan.order or 1
    lines = [
        f"{sim.system.name}: {x.count} slices of {x.steps:,} steps; a coarse slice costs {x.ratio:.2g} of a fine one"
    ]
    lines += [
        f"  after {k} sweeps at most {x.speedup(k):.3g} times faster on {x.count} workers"
        for k in sorted({1, 2, 3, max(1, x.count // 2), x.count})
        if k <= x.count
    ]
    whole_cost = forces(sim) * steps
    if error is None:
        return "\n".join([*lines, "  the error of the fine method could not be estimated"])
    lines.append(
        f"  fine method   {sim.compiled.known.method}, order {order}, {whole_cost:,} forces: "
        f"error about {error:.1e} at t = {steps * dt:g}"
    )
    other = cheapest(sim, given, steps * dt, error)
    if other is None:
        return "\n".join([*lines, "  no other method was found at that error"])
    method, step, count, found = other
    best = max(x.speedup(k) for k in range(1, x.count + 1))
    says = f"{method} at dt={step:.3g} alone needs {count:,} forces for an error of {found:.1e}"
    if count * best < whole_cost:
        return "\n".join([f"slices do not pay: {says}, where the fine steps need {whole_cost:,}", *lines])
    return "\n".join([*lines, f"  one after the other: {says}"])


def forces(sim: Simulation) -> int:
    """Force evaluations of a step."""
    return int(max(1, sim.built.step.evaluations))


def serial_error(x: Slices, given: Mapping[str, Any]) -> float | None:
    """Of the fine method over the whole run, relative to the state: from two runs with longer steps, by its order."""
    order = x.fine.compiled.built.plan.order
    if not order:
        return None
    found = []
    for times in WIDER:
        n = x.count * x.steps // times
        sim = x.fine.variant(replace(x.fine.goal, dt=x.count * x.steps * (x.fine.goal.dt or 0) / max(n, 1)))
        out = sim.evolve(**given, steps=max(n, 1), frames=2, progress=False)
        if out.stopped is not None:
            return None
        found.append({s: np.asarray(getattr(out.final, s)) for s in x.names})
    size = max(float(np.max(np.abs(v))) for v in found[0].values()) or 1.0
    apart = max(float(np.max(np.abs(found[0][s] - found[1][s]))) for s in x.names) / size
    return float(apart / (WIDER[1] ** order - WIDER[0] ** order))


def cheapest(
    sim: Simulation, given: Mapping[str, Any], until: float, error: float
) -> tuple[str, float, int, float] | None:
    """(method, dt, forces, error) of the catalogue at that error, as the planner finds it for a goal."""
    goal = replace(sim.goal, dt=None, method="auto", order=None, error=max(error, 1e-13))
    try:
        other = Simulation(sim.system.seen, goal, "auto")
        out = other.evolve(**given, until=until, frames=2, progress=False)
    except PlanError:
        return None
    found = other.goal.decision
    if found is None or found.dt is None or out.stopped is not None:
        return None
    return found.method, found.dt, math.ceil(until / found.dt) * forces(other), float(found.error or error)
