"""Which momenta go with the velocities that a run of a Lagrangian was given?  dL/dv there, by a program of one step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from tinyphysics.errors import InputError
from tinyphysics.ir import UOp, substitute
from tinyphysics.plan import Goal
from tinyphysics.runtime.stages.compiled import Compiled
from tinyphysics.runtime.stages.execute import execute
from tinyphysics.runtime.state.ensemble import inputs, shaped
from tinyphysics.runtime.state.indices import check_indices
from tinyphysics.runtime.state.record import Record
from tinyphysics.runtime.state.run import Run
from tinyphysics.runtime.state.schedule import Schedule
from tinyphysics.system import Parameter, State, System
from tinyphysics.target import TARGETS

START = "the_start"  # the time at which a run begins, as a parameter


def given_momenta(system: System, given: Mapping[str, Any], t0: float = 0.0) -> Mapping[str, Any]:
    """What a run was given, in states: a Lagrangian's may begin with velocities."""
    return given if system.motion is None else with_momenta(system, given, t0)


@lru_cache(maxsize=16)
def converter(system: System) -> Compiled:
    """Takes positions and velocities to momenta, which it keeps where the velocities were."""
    motion = system.motion
    assert motion is not None
    start = UOp.var(START)
    momenta = substitute(motion.momenta, {} if system.time is None else {system.time: start})
    states = tuple(State(str(u.arg), u, "field") for pair in zip(system.q, motion.v) for u in pair)
    update = tuple(u for pair in zip(system.q, momenta) for u in pair)
    one = replace(
        system,
        name=f"momenta of {system.name}",
        kind="map",
        states=states,
        time=None,
        energy=None,
        motion=None,
        update=update,
        parameters=(*system.parameters, Parameter(START, start, 0.0)),
    )
    return Compiled(one, Goal(None), "auto")


def with_momenta(system: System, given: Mapping[str, Any], t0: float = 0.0) -> dict[str, Any]:
    """What was given, with momenta for velocities."""
    motion = system.motion
    assert motion is not None
    names = {str(v.arg): str(p.arg) for v, p in zip(motion.v, system.p)}
    for v, p in names.items():
        if v in given and p in given:
            raise InputError(
                f"both `{v}` and `{p}` are given, and one determines the other", fix=f"Leave {p}= out."
            )
        if v not in given and p not in given:
            raise InputError(f"neither the initial `{v}` nor `{p}` is given", fix=f"Pass {v}=... to evolve.")
    fast = [v for v in names if v in given]
    if not fast:
        return dict(given)
    if len(fast) < len(names):
        other = next(p for v, p in names.items() if v not in given)
        raise InputError(
            f"`{fast[0]}` is a velocity and `{other}` a momentum",
            fix="Pass only velocities, or only momenta.",
        )
    begin: dict[str, Any] = {START: t0} if system.time is not None else {}
    found = one_step(converter(system), {**given, **begin})
    return {n: x for n, x in given.items() if n not in names} | {p: found[v] for v, p in names.items()}


def one_step(c: Compiled, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """The states of a map after one step, as a user sees them."""
    i, schedule = inputs(c.system, given, c.encoding), Schedule(1, None, None, None)
    if c.selects:
        check_indices(c.system.equations, i)
    target = TARGETS[c.known.backend]
    r = Run(c.program, c.system, target, i, schedule, 1.0, 0.0, None, c.encoding, c.in_loops(i.members))
    frames = {name: np.array(v)[None].repeat(2, axis=0) for name, v in i.states.items()}
    record, *_ = execute(r, Record(schedule, frames), {}, lambda n: None)
    for stop in record.stops:
        if stop.error is not None:
            raise stop.error
        raise InputError(f"the momenta of these velocities are {stop.cause}", fix="Check the initial values.")
    return shaped(i)(record.final)
