"""Which velocities was a run of a Lagrangian given?  Gradients go on to them from its momenta; tangents come from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tinyphysics.errors import InputError
from tinyphysics.ir import UOp
from tinyphysics.rules.calculus.jvp import jvp
from tinyphysics.rules.identities.real import simplify
from tinyphysics.runtime.measure.loss_function import evaluate
from tinyphysics.runtime.stages.momenta_of_velocities import with_momenta
from tinyphysics.runtime.stages.resolve import Request
from tinyphysics.runtime.stages.setup import Setup
from tinyphysics.runtime.state.ensemble import sizes_from
from tinyphysics.runtime.state.from_frame import opened
from tinyphysics.system import SizedFamily, System
from tinyphysics.util import one_of


def velocities(system: System, given: Mapping[str, Any]) -> dict[str, Any]:
    """By name, as they were given; none where a run begins with momenta."""
    if system.motion is None:
        return {}
    return {str(v.arg): given[str(v.arg)] for v in system.motion.v if str(v.arg) in given}


def bound(setup: Setup, given: Mapping[str, Any]) -> System:
    """The system, once its sizes are known."""
    if isinstance(setup.source, SizedFamily):
        setup.bind(setup.source, sizes_from(setup.source, given))
    if setup._compiled is None:  # what depends on the first state
        setup.evolve(**given, steps=0, frames=2)
    return setup.system


def momenta(system: System) -> dict[str, UOp]:
    """By name, as functions of positions, velocities and parameters."""
    assert system.motion is not None
    return {str(p.arg): u for p, u in zip(system.p, system.motion.momenta)}


def check_momenta(system: System, names: Any, what: str) -> None:
    """An error where a momentum is named that follows from a velocity."""
    assert system.motion is not None
    fast = [str(v.arg) for v in system.motion.v]
    for name in names:
        if name in {str(p.arg) for p in system.p}:
            raise InputError(
                f"{what} `{name}`, and this run begins with {one_of(fast, 'and')}",
                fix=f"Name {one_of(fast)}, or pass {name}=... instead.",
            )


def in_momenta(setup: Setup, tangents: Any, request: Request) -> tuple[Any, Request]:
    """(tangents, the request) of a run that begins with momenta, from those of one that begins with velocities."""
    given, t0 = opened(setup.own_names, request.given, request.t0)
    system = bound(setup, given)
    if not velocities(system, given) or not isinstance(tangents, Mapping):
        return tangents, request
    assert system.motion is not None
    check_momenta(system, tangents, "tangents have")
    known = {str(u.arg): u for pair in zip(system.q, system.motion.v) for u in pair}
    known |= {p.name: p.var for p in system.parameters if p.dtype.is_float}
    values = {p.name: p.default for p in system.parameters} | given
    rows = [(str(u.arg), u.shape, values[n]) for n, u in known.items()]
    moving = {n: UOp.var(f"direction of {n}", known[n].shape) for n in tangents if n in known}
    rows += [(str(way.arg), way.shape, tangents[n]) for n, way in moving.items()]
    arrays = [(n, shape, np.asarray(v, float)) for n, shape, v in rows]
    lengths = [len(v) for _, shape, v in arrays if v.ndim > len(shape)]
    members = max(lengths, default=1)
    env = {n: np.broadcast_to(v, (members, *shape)) for n, shape, v in arrays}
    if system.time is not None:
        env[str(system.time.arg)] = np.full(members, t0)
    wanted = momenta(system)
    slopes = simplify(jvp(list(wanted.values()), [known[n] for n in moving], list(moving.values())))
    found = evaluate(dict(zip(wanted, slopes)), env, members)
    fast = {str(v.arg) for v in system.motion.v}
    own = {n: v for n, v in tangents.items() if n not in fast}
    own |= {n: v if lengths else v[0] for n, v in found.items()}
    return own, replace(request, given=with_momenta(system, given, t0), t0=t0)
