"""A compiled system as data that JSON can hold: the graph, and what was asked of it; nothing in it is code."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tinyphysics.errors import StoreError
from tinyphysics.given import path as checked_path
from tinyphysics.ir import UOp, dump, parse
from tinyphysics.plan import Goal
from tinyphysics.planner.systems.time_transformation import WAYS, transformed
from tinyphysics.runtime.stages.pilot_cache import as_data
from tinyphysics.runtime.stages.setup import Setup
from tinyphysics.runtime.state.run import BoundAct
from tinyphysics.system import GIVEN_BY, Parameter, State, System, roots_in

FORMAT = 1


def system_data(whole: System) -> dict[str, Any]:
    """A system as data; `system_of` makes it again."""
    clock, s = whole.clock, whole.seen
    roots = dict(s.roots)
    return {
        "name": s.name,
        "kind": s.kind,
        "states": [[x.name, x.role, list(x.var.shape), x.unit] for x in s.states],
        "parameters": [
            [x.name, list(x.var.shape), x.default, x.unit, *([x.sign] if x.sign else [])]
            for x in s.parameters
        ],
        "axes": s.axes,
        "time": s.time is not None,
        "graph": dump(roots.pop(GIVEN_BY[s.kind])),
        "levels": "",
        **({} if clock is None else {"clock": [clock.way, dump([clock.rate])]}),
        "motion": "",
        **{name: dump(us) for name, us in roots.items()},
    }


def system_of(s: Mapping[str, Any]) -> System:
    """The system that was made data."""
    how, kind = roots_in(System), s["kind"]
    graphs = {GIVEN_BY[kind]: s["graph"]} | {name: s[name] for name in how if s.get(name)}
    states = tuple(State(n, UOp.var(n, tuple(shape)), role, unit) for n, role, shape, unit in s["states"])
    parameters = tuple(
        Parameter(n, UOp.var(n, tuple(shape)), default, unit, *sign)
        for n, shape, default, unit, *sign in s["parameters"]
    )
    system = System(
        s["name"],
        kind,
        states,
        parameters,
        UOp.var("t") if s["time"] else None,
        axes={name: tuple(shape) for name, shape in s.get("axes", {}).items()},
        **{name: how[name].put(parse(text)) for name, text in graphs.items()},
    )
    if "clock" in s:
        way, rate = s["clock"]
        system = transformed(system, way if way in WAYS else parse(rate)[0])
    return system


def acts_data(acts: Sequence[BoundAct]) -> list[Any]:
    """The acts of a run as data: their names, strides and maps."""
    return [[a.name, a.every, system_data(a.system)] for a in acts]


def described(
    s: System, goal: Goal, requested: str, checks: str, program: str, acts: Sequence[BoundAct] = ()
) -> dict[str, Any]:
    """`runtime/api/simulation_file.py` makes the simulation from it again."""
    return {
        "tinyphysics": FORMAT,
        "system": system_data(s),
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
            **({"project": [list(pair) for pair in goal.project]} if goal.project else {}),
            "decision": None if goal.decision is None else as_data(goal.decision),
        },
        "backend": requested,
        "checks": checks,
        "program": program,
        **({"acts": acts_data(acts)} if acts else {}),
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
