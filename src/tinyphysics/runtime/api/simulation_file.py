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
from tinyphysics.options import heeds
from tinyphysics.planner.cost.target import checked
from tinyphysics.runtime.api.simulation import Simulation
from tinyphysics.runtime.stages.description import FORMAT, goal_of, system_of


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
    if "asked" in data:
        before = Simulation(sim.system, goal_of(data["asked"]), sim.requested, sim.checks)
        sim.keep_decided()  # for checkpoints of that run
        sim._asked = before.goal, before._compiled
    return sim


def rebuilt(data: dict[str, Any]) -> Simulation:
    system, goal = system_of(data["system"]), goal_of(data["goal"])
    return Simulation(system, goal, checked(data["backend"]), data["checks"])
