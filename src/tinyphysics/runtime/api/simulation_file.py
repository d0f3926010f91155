"""How does a compiled system outlive its process?  As text: the graph and the goal, compiled again when read.

Nothing in the file is code that Python runs. What was compiled is checked by the hash of its program: if
this version would compute other bits, reading says so.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from tinyphysics.errors import StoreError, TinyPhysicsError
from tinyphysics.given import path as checked_path
from tinyphysics.ir import UOp, parse
from tinyphysics.options import heeds
from tinyphysics.plan import Goal, Hierarchy
from tinyphysics.planner.cost.target import checked
from tinyphysics.planner.systems.time_transformation import WAYS, transformed
from tinyphysics.runtime.api.simulation import Simulation
from tinyphysics.runtime.stages.description import FORMAT
from tinyphysics.runtime.stages.pilot_cache import from_data
from tinyphysics.system import Motion, Parameter, State, System


@heeds("load", 'tp.load("pendulum.json")')
def load(path: str | Path) -> Simulation:
    """Reads the simulation that `sim.save(path)` wrote, and compiles it to the same program."""
    try:
        data = json.loads(checked_path("path", path, "pendulum.json").read_text())
    except OSError as error:
        if isinstance(error, TinyPhysicsError):
            raise
        raise StoreError(
            f"`{path}` could not be read: {error.strerror or error}",
            fix="Pass a file that sim.save(path) wrote.",
        ) from error
    except ValueError as error:
        if isinstance(error, TinyPhysicsError):
            raise
        raise StoreError(
            f"`{path}` is not a saved simulation: {error}", fix="Pass a file that sim.save(path) wrote."
        ) from error
    if not isinstance(data, dict) or data.get("tinyphysics") != FORMAT:
        raise StoreError(
            f"`{path}` is not a saved simulation of this version", fix="Compile the system again and save it."
        )
    try:
        sim = rebuilt(data)
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, TinyPhysicsError):
            raise
        raise StoreError(
            f"`{path}` is damaged: {error!r}", fix="Compile the system again and save it."
        ) from error
    if sim.tpir.hash != data["program"] and sim.goal.propagator is None:
        # a file from before loops were deleted by default
        older = replace(sim, goal=replace(sim.goal, propagator="loop"), _compiled=None)
        sim = older if older.tpir.hash == data["program"] else sim
    if sim.tpir.hash != data["program"]:
        raise StoreError(
            f"this version compiles `{path}` to another program, so its runs would give different bits",
            fix="Compile the system again and save it.",
        )
    return sim


def motion_of(roots: list[UOp]) -> Motion:
    L, *rest = roots
    n = len(rest) // 3
    return Motion(L, tuple(rest[:n]), tuple(rest[n : 2 * n]), tuple(rest[2 * n :]))


def rebuilt(data: dict[str, Any]) -> Simulation:
    s, goal = data["system"], data["goal"]
    roots = parse(s["graph"])
    states = tuple(State(n, UOp.var(n, tuple(shape)), role, unit) for n, role, shape, unit in s["states"])
    parameters = tuple(
        Parameter(n, UOp.var(n, tuple(shape)), default, unit, *sign)
        for n, shape, default, unit, *sign in s["parameters"]
    )
    kind = s["kind"]
    system = System(
        s["name"],
        kind,
        states,
        parameters,
        UOp.var("t") if s["time"] else None,
        energy=roots[0] if kind == "hamiltonian" else None,
        forces=tuple(roots) if kind == "forces" else (),
        update=tuple(roots) if kind in ("map", "ode") else (),
        axes={name: tuple(shape) for name, shape in s.get("axes", {}).items()},
        levels=tuple(parse(s["levels"])) if s.get("levels") else (),
        motion=motion_of(parse(s["motion"])) if s.get("motion") else None,
    )
    if "clock" in s:
        way, rate = s["clock"]
        system = transformed(system, way if way in WAYS else parse(rate)[0])
    order, eps = goal.get("hierarchy") or (None, 0.0)
    units = tuple((str(name), float(unit)) for name, unit in goal.get("lattice", ()))
    wanted = Goal(
        goal["dt"],
        goal["method"],
        goal["order"],
        tuple(goal["forbid"]),
        goal.get("precision", "float64"),
        goal.get("scale", "off"),
        goal.get("approximate"),
        inner=tuple(goal.get("inner", ())),
        lattice=units,
        backwards=bool(goal.get("backwards", False)),
        hierarchy=None if order is None else Hierarchy(tuple(order), eps),
        propagator=goal.get("propagator", "loop"),
        energy_drift=goal.get("energy_drift"),
        error=goal.get("error"),
        tolerance=goal.get("tolerance"),
        absolute=goal.get("absolute"),
        math=goal.get("math", "exact"),
        decision=from_data(goal["decision"]) if goal.get("decision") else None,
    )
    return Simulation(system, wanted, checked(data["backend"]), data["checks"])
