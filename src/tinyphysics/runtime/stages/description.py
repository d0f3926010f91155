"""A compiled system as data that JSON can hold: the graph, and what was asked of it; nothing in it is code."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

from tinyphysics.errors import StoreError
from tinyphysics.given import path as checked_path
from tinyphysics.ir import UOp, dump, f64, parse
from tinyphysics.ir.dtype import DTYPES
from tinyphysics.options import COMPILE
from tinyphysics.plan import Goal, Hierarchy, Spectrum
from tinyphysics.planner.systems.time_transformation import WAYS, transformed
from tinyphysics.runtime.stages.pilot_cache import as_data, from_data
from tinyphysics.runtime.stages.setup import Setup
from tinyphysics.runtime.state.run import BoundAct
from tinyphysics.system import GIVEN_BY, ComplexNumbers, Crossing, Parameter, State, System, Touch, roots_in
from tinyphysics.touching import IMPULSE, RUB

FORMAT = 1


def system_data(whole: System) -> dict[str, Any]:
    """A system as data; `system_of` makes it again."""
    clock, s = whole.clock, whole.seen if whole.clock is not None else whole
    roots = dict(s.roots)
    return {
        "name": s.name,
        "kind": s.kind,
        "states": [
            [x.name, x.role, list(x.var.shape), x.unit, *([] if x.var.dtype is f64 else [x.var.dtype.name])]
            for x in s.states
        ],
        "parameters": [
            [x.name, list(x.var.shape), x.default, x.unit, *sign_and_type(x)] for x in s.parameters
        ],
        "axes": s.axes,
        "time": s.time is not None,
        "graph": dump(roots.pop(GIVEN_BY[s.kind])),
        "levels": "",
        **({} if clock is None else {"clock": [clock.way, dump([clock.rate])]}),
        **{name: word for name in ("step", "unsafe", "bath", "bracket") if (word := getattr(s, name))},
        **({"starts": starts} if (starts := starts_of(s)) else {}),
        **({"biased_by": list(whole.biased_by)} if whole.biased_by else {}),
        **({"barostat": list(whole.barostat)} if whole.barostat else {}),
        **({"held": list(s.held)} if s.held else {}),
        **({"contacts": [list(astuple(c)) for c in s.contacts]} if s.contacts else {}),
        **({"complexes": [list(astuple(c)) for c in s.complexes]} if s.complexes else {}),
        **({"crossings": [list(astuple(c)) for c in s.crossings]} if s.crossings else {}),
        "motion": "",
        **{name: dump(us) for name, us in roots.items()},
    }


def starts_of(s: System) -> dict[str, float]:
    """What states of a bath, and parameters that events change, begin with, where a run does not give them."""
    return {x.name: x.start for x in s.states if (s.heat or s.crossings) and x.start is not None}


def sign_and_type(p: Parameter) -> list[str]:
    """What is left out of most: files of before whole numbers have the first alone."""
    if p.dtype is not f64:
        return [p.sign, p.dtype.name]
    return [p.sign] if p.sign else []


def start_of(s: Mapping[str, Any], name: str) -> float | None:
    """Impulses of contacts begin with 0 where a run does not give them, and so do the states of a bath."""
    if name in s.get("starts", {}):
        return float(s["starts"][name])
    return 0.0 if any(name in (f"{c[0]}{IMPULSE}", f"{c[0]}{RUB}") for c in s.get("contacts", ())) else None


def system_of(s: Mapping[str, Any]) -> System:
    """The system that was made data."""
    how, kind = roots_in(System), s["kind"]
    graphs = {GIVEN_BY[kind]: s["graph"]} | {name: s[name] for name in how if s.get(name)}
    states = tuple(
        State(n, UOp.var(n, tuple(shape), *(DTYPES[d] for d in dtype)), role, unit, start_of(s, n))
        for n, role, shape, unit, *dtype in s["states"]
    )
    parameters = tuple(
        Parameter(n, UOp.var(n, tuple(shape)), default, unit, *sign[:1], *(DTYPES[d] for d in sign[1:]))
        for n, shape, default, unit, *sign in s["parameters"]
    )
    system = System(
        s["name"],
        kind,
        states,
        parameters,
        UOp.var("t") if s["time"] else None,
        axes={name: tuple(shape) for name, shape in s.get("axes", {}).items()},
        step=str(s.get("step", "")),
        unsafe=str(s.get("unsafe", "")),
        bath=str(s.get("bath", "")),
        bracket=str(s.get("bracket", "")),
        biased_by=in_tuples(s.get("biased_by", ())) or (),
        barostat=in_tuples(s.get("barostat", ())) or (),
        held=tuple(map(str, s.get("held", ()))),
        contacts=tuple(Touch(*map(in_tuples, c)) for c in s.get("contacts", ())),
        complexes=tuple(ComplexNumbers(*map(in_tuples, c)) for c in s.get("complexes", ())),
        crossings=tuple(Crossing(*map(in_tuples, c)) for c in s.get("crossings", ())),
        **{name: how[name].put(parse(text)) for name, text in graphs.items()},
    )
    if "clock" in s:
        way, rate = s["clock"]
        system = transformed(system, way if way in WAYS else parse(rate)[0])
    return system


# --- what was asked for ---------------------------------------------------------------------------------------------
FIRST = ("dt", "method", "order", "forbid")  # in every file
# than the first files, and so written where they are given alone: as options of Goal.more are
LATER = ("math", "project", "spectrum")
NOT_SAVED = ("stiff", "more")  # found again when it is compiled; options by their own names
OLDER = {"propagator": "loop"}  # what was meant where it is not in a file


@dataclass(frozen=True)
class Field:
    """How a field of Goal is written that JSON does not have, and read again."""

    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


def listed(pairs: Any) -> list[list[Any]]:
    return [list(pair) for pair in pairs]


FIELDS = {
    "forbid": Field(tuple, tuple),
    "inner": Field(tuple, tuple),
    "lattice": Field(listed, lambda pairs: tuple((str(name), float(unit)) for name, unit in pairs)),
    "project": Field(listed, lambda pairs: tuple((str(name), str(held)) for name, held in pairs)),
    "backwards": Field(bool, bool),
    "hierarchy": Field(
        lambda h: None if h is None else [h.order, h.perturbation],
        lambda data: Hierarchy(tuple(data[0]), data[1]) if data else None,
    ),
    "spectrum": Field(astuple, lambda data: Spectrum(*data) if data else None),
    "decision": Field(
        lambda d: None if d is None else as_data(d), lambda data: from_data(data) if data else None
    ),
}


def goal_data(goal: Goal) -> dict[str, Any]:
    """A goal as data; `goal_of` makes it again."""
    given = goal.options
    own = [f.name for f in fields(Goal) if f.name not in (*LATER, *NOT_SAVED, "decision")]
    later = [f.name for f in fields(Goal) if f.name in LATER and given[f.name] != f.default]
    names = [*own, *sorted([*later, *dict(goal.more)]), "decision"]
    return {name: FIELDS[name].write(given[name]) if name in FIELDS else given[name] for name in names}


def goal_of(data: Mapping[str, Any]) -> Goal:
    """The goal that was made data."""
    given = OLDER | {name: data[name] for name in (*FIRST, *data)}
    own = {f.name for f in fields(Goal) if f.name not in NOT_SAVED} & given.keys()
    read = {name: FIELDS[name].read(given[name]) if name in FIELDS else given[name] for name in own}
    more = {name: in_tuples(given[name]) for name in given if name not in own and name in COMPILE}
    return Goal(**read).given(**more)


def in_tuples(value: Any) -> Any:
    """What JSON gives back, as it was."""
    return tuple(map(in_tuples, value)) if isinstance(value, list) else value


def acts_data(acts: Sequence[BoundAct]) -> list[Any]:
    """The acts of a run as data: their names, strides and maps."""
    return [[a.name, a.every, system_data(a.system), *([] if a.since is None else [a.since])] for a in acts]


def described(
    s: System, goal: Goal, requested: str, checks: str, program: str, acts: Sequence[BoundAct] = ()
) -> dict[str, Any]:
    """`runtime/api/simulation_file.py` makes the simulation from it again."""
    return {
        "tinyphysics": FORMAT,
        "system": system_data(s),
        "goal": goal_data(goal),
        "backend": requested,
        "checks": checks,
        "program": program,
        **({"acts": acts_data(acts)} if acts else {}),
    }


def save(sim: Setup, path: str | Path) -> None:
    """Writes `path` in one piece, or not at all."""
    data = described(sim.system, sim.goal, sim.requested, sim.checks, sim.tpir.hash)
    if sim._asked is not None:  # a run has decided more: the next one decides it anew
        data["asked"] = goal_data(sim._asked[0])
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
