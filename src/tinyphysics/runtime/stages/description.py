"""A compiled system as data that JSON can hold: the graph, and what was asked of it; nothing in it is code."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from tinyphysics.errors import StoreError
from tinyphysics.given import path as checked_path
from tinyphysics.ir import dump
from tinyphysics.plan import Goal
from tinyphysics.runtime.stages.pilot_cache import as_data
from tinyphysics.runtime.stages.setup import Setup
from tinyphysics.system import System

FORMAT = 1


def described(s: System, goal: Goal, requested: str, checks: str, program: str) -> dict[str, Any]:
    """`runtime/api/simulation_file.py` makes the simulation from it again."""
    clock, s = s.clock, s.seen
    roots = [u for u in (s.energy, *s.forces, *s.update) if u is not None]
    return {
        "tinyphysics": FORMAT,
        "system": {
            "name": s.name,
            "kind": s.kind,
            "states": [[x.name, x.role, list(x.var.shape), x.unit] for x in s.states],
            "parameters": [
                [x.name, list(x.var.shape), x.default, x.unit, *([x.sign] if x.sign else [])]
                for x in s.parameters
            ],
            "axes": s.axes,
            "time": s.time is not None,
            "graph": dump(roots),
            "levels": dump(s.levels) if s.levels else "",
            **({} if clock is None else {"clock": [clock.way, dump([clock.rate])]}),
            "motion": ""
            if (m := s.motion) is None
            else dump([m.lagrangian, *m.v, *m.momenta, *m.velocities]),
        },
        "goal": {
            "dt": goal.dt,
            "method": goal.method,
            "order": goal.order,
            "forbid": goal.forbid,
            "precision": goal.precision,
            "scale": goal.scale,
            "approximate": goal.approximate,
            "propagator": goal.propagator,
            "inner": goal.inner,
            "lattice": [list(pair) for pair in goal.lattice],
            "backwards": goal.backwards,
            "hierarchy": None if (h := goal.hierarchy) is None else [h.order, h.perturbation],
            "energy_drift": goal.energy_drift,
            "error": goal.error,
            "tolerance": goal.tolerance,
            "absolute": goal.absolute,
            **({} if goal.math == "exact" else {"math": goal.math}),
            "decision": None if goal.decision is None else as_data(goal.decision),
        },
        "backend": requested,
        "checks": checks,
        "program": program,
    }


def save(sim: Setup, path: str | Path) -> None:
    """Writes `path` in one piece, or not at all."""
    data = described(sim.system, sim.goal, sim.requested, sim.checks, sim.tpir.hash)
    target = checked_path("path", path, "pendulum.json")
    try:
        handle, name = tempfile.mkstemp(dir=target.parent or ".", prefix=f".{target.name}")
        with os.fdopen(handle, "w") as file:
            json.dump(data, file, indent=1)
        os.replace(name, target)
    except OSError as error:
        raise StoreError(
            f"`{path}` could not be written: {error.strerror or error}", fix="Pass another path."
        ) from error
