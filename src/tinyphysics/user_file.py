"""The file of a user: which system it has, what it says about running it, and the simulation that it compiles."""

from __future__ import annotations

import ast
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tinyphysics.errors import InputError, TinyPhysicsError
from tinyphysics.front.trace import PhysicsSystem
from tinyphysics.planner.systems.link import linked
from tinyphysics.runtime.api.compile import check_sizes
from tinyphysics.runtime.api.compile import compile as compiled
from tinyphysics.runtime.api.simulation import Simulation
from tinyphysics.runtime.state.ensemble import sizes_from
from tinyphysics.script import execute, look
from tinyphysics.system import SizedFamily, Sum, System
from tinyphysics.util import Site, did_you_mean

LOOK_DT = 0.01  # explain and ir need a step, and print the same program for every one


@dataclass(frozen=True, eq=False)
class Loaded:
    """One system of a file, and what the file says about running it."""

    file: Path
    name: str
    system: Any  # System, Family or PhysicsSystem
    start: Mapping[str, Any]
    dt: float | None
    steps: int | None
    options: Mapping[str, Any] = field(default_factory=dict)  # that the file gives to tp.compile
    left_out: Mapping[str, Site] = field(default_factory=dict)  # what the file makes by running, and where


def systems(module: types.ModuleType) -> dict[str, Any]:
    """The systems at module level, by the first name that each has; of a sum not its parts."""
    found: dict[str, Any] = {}
    parts = [part for v in vars(module).values() if isinstance(v, Sum) for part in v.parts]
    for name, value in vars(module).items():
        is_system = isinstance(value, (System, SizedFamily, PhysicsSystem, Sum)) and all(
            value is not x for x in parts
        )
        if is_system and not name.startswith("_") and all(value is not v for v in found.values()):
            found[name] = value
    return found


def load(where: str, whole: bool = False) -> Loaded:
    """FILE or FILE:NAME; what the file runs is left out unless the whole of it is asked for."""
    path, name = Path(where), ""
    if not path.is_file() and ":" in where:
        file, _, name = where.rpartition(":")
        path = Path(file)
    if not path.is_file():
        raise InputError(f"there is no file `{path}`", fix="Give a Python file: kepler.py or kepler.py:NAME.")
    script = execute(path) if whole else look(path)
    module = script.module
    found = systems(module)
    missed = script.left_out.get(name) if name else None
    if not name and not found:
        missed = next(iter(script.left_out.values()), None)
    if missed:
        raise InputError(
            f"`{missed.text}` is executable code, and `{name or path}` is only defined after it runs",
            site=missed,
            fix="This command does not execute the file: define the system above the lines that run something.",
        )
    if not found:
        classes = {n: v for n, v in vars(module).items() if isinstance(v, type) and v is not PhysicsSystem}
        fix = "Decorate a function with @tp.hamiltonian, @tp.forces or @tp.map."
        if model := next((n for n, v in classes.items() if issubclass(v, PhysicsSystem)), None):
            fix = f"`{model}` is a class; write {model.lower()} = {model}()."
        raise InputError(f"`{path}` has no system at module level", fix=fix)
    if name and name not in found:
        raise InputError(
            f"`{path}` has no system `{name}`", fix=f"{did_you_mean(name, found)}It has {', '.join(found)}."
        )
    if not name and len(found) > 1:
        name = next(iter(found))
        raise InputError(
            f"`{path}` has {len(found)} systems",
            fix=f"Name one of them, as {path}:{name}: {', '.join(found)}.",
        )
    name = name or next(iter(found))
    own = vars(module)
    start, dt, steps = own.get("start", {}), own.get("dt"), own.get("steps")
    if not isinstance(start, Mapping):
        raise InputError(
            f"`start` in `{path}` is a {type(start).__name__}",
            fix="Write start = dict(q=[1.0, 0.0], p=[0.0, 1.2]).",
        )
    system = linked(found[name]) if isinstance(found[name], Sum) else found[name]
    asked = script.of(found[name])
    if not isinstance(dt, (int, float)) and asked is not None:
        dt = asked.dt
    dt, steps = dt if isinstance(dt, (int, float)) else None, steps if isinstance(steps, int) else None
    options = {} if asked is None else asked.options
    options = {k: v for k, v in options.items() if k not in ("pilot", "sizes")}
    return Loaded(path, name, system, start, dt, steps, options, script.left_out)


def settings(option: str, given: Sequence[str]) -> dict[str, Any]:
    """NAME=VALUE, NAME=VALUE, ... as numbers.

    >>> settings("--set", ["q=1,0", "mu=2"])
    {'q': (1, 0), 'mu': 2}
    """
    out: dict[str, Any] = {}
    for text in given:
        name, _, value = text.partition("=")
        try:
            out[name.strip()] = ast.literal_eval(value.strip())
        except (ValueError, SyntaxError) as error:
            sets = 'Write --set mu=2, --set q=1,0 or --set "q=[[1,0],[0,1]]".'
            fix = sets if option == "--set" else "Write --size n=16."
            raise InputError(f"`{option} {text}` is not a name and a number", fix=fix) from error
    return out


def bound(loaded: Loaded, given: Mapping[str, Any], sizes: Mapping[str, int]) -> System:
    """The system with its sizes known: from --size, or read off the start."""
    if isinstance(loaded.system, SizedFamily) and not sizes:
        try:
            sizes = sizes_from(loaded.system, given)
        except TinyPhysicsError as error:
            letter = loaded.system.letters[0]
            raise InputError(error.what, fix=f"Pass --size {letter}=16, or give it a start.") from error
    check_sizes(loaded.system, sizes)
    system: System = loaded.system.bind(sizes)
    return system


def simulation_of(loaded: Loaded, options: Mapping[str, Any]) -> Simulation:
    """A system of a file, compiled as the file does it but for some options."""
    system = bound(loaded, loaded.start, {})
    given = {**loaded.options, **options}
    dt = loaded.dt
    if dt is None and system.kind != "map" and not {"error", "energy_drift"} & set(given):
        dt = LOOK_DT
    return compiled(system, dt, **given)


def rates_by_momentum(system: System) -> dict[str, str]:
    """Of a Lagrangian, the name of the velocity that may be given instead of each momentum."""
    velocities = () if system.motion is None else system.motion.v
    return {str(p.arg): str(v.arg) for p, v in zip(system.p, velocities)}
