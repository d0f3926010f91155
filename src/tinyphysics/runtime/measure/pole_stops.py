"""Where does a run stop that passed a pole of its energy?  Before the step that did, and it says how to go on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tinyphysics.errors import PhysicsIntegrityError
from tinyphysics.planner.methods.catalog import BY_NAME
from tinyphysics.runtime.measure.alarms import AT_A_POLE, applies, chosen_frames
from tinyphysics.runtime.measure.part_again import part_of, state_at
from tinyphysics.runtime.measure.passed_pole import Passed, passed_pole, told
from tinyphysics.runtime.stages.setup import Setup
from tinyphysics.runtime.state.record import Record
from tinyphysics.runtime.state.run import Found, Run
from tinyphysics.trajectory import Stop


def limit_of(setup: Setup) -> float | None:
    """The largest dt*omega of a method of kicks and drifts."""
    method = BY_NAME.get(setup.compiled.known.method)
    return None if method is None else method.limit


def looks_for_poles(setup: Setup, r: Run) -> bool:
    fixed = r.jump is None and not r.adaptive and r.series is None and not r.gridless
    steps = fixed and r.system.clock is None and setup.goal.approximate is None and not r.system.driven
    acts = any(a.since is None and not a.inside for a in r.acts)
    floats = r.encoding.precision.state.is_float
    return bool(steps and floats and not acts and limit_of(setup) is not None and setup.compiled.poles)


def met(setup: Setup, r: Run, begun: Run, member: int, last: int) -> tuple[Stop, Mapping[str, Any]] | None:
    """The stop of a member that passed a pole, and its last state before it; `begun` is its part of the run."""
    limit = limit_of(setup)
    p = None if limit is None else passed_pole(begun, last, limit)
    if p is None:
        return None
    before = {name: v[0] for name, v in state_at(begun, p.step - 1).items()}
    who = member if r.given.is_ensemble else None
    where: Any = p.where if p.where is not None else (str(r.system.seen.q[0].arg), 0)
    return Stop("singularity", p.step, p.t, who, where, error_of(p, limit, who)), before


def error_of(p: Passed, limit: float | None, member: int | None) -> PhysicsIntegrityError:
    pair = "" if p.where is None else f" between particles {p.where[0]} and {p.where[1]}"
    of = "" if member is None else f" of member {member}"
    return PhysicsIntegrityError(
        f"step {p.step:,}{of} (t = {p.t:g}) passes a pole of {p.term}{pair}, at a distance of {p.distance:.2g}: "
        f"omega*dt is {p.pace:.3g} there, and {limit:.3g} at most",
        fix='Compile with time="logarithmic", a softening or a shorter dt; checks="off" goes on past it.',
        evidence=told(p),
    )


# --- short runs, when they are over -------------------------------------------------------------------
def passed_poles(setup: Setup, r: Run, record: Record) -> Found:
    """The stop of one system that passed a pole, by the energy of its frames; it was too short to be watched.

    Members of ensembles are stopped by watches alone: what is found afterwards depends on where a run ends, and runs in
    pieces must have the bits of the whole.
    """
    if r.watches or r.given.is_ensemble or not applies(r, record, setup.checks, setup.goal.approximate):
        return {}
    look = setup.compiled.look if looks_for_poles(setup, r) else None
    if look is None or r.system.friction:
        return {}
    kept, rows = chosen_frames(r, record, True)
    shape = len(rows), r.given.members
    states = {name: v[list(rows)] for name, v in kept.items()}
    flat = {n: np.asarray(v, np.float64).reshape(*shape, -1) for n, v in r.encoding.values(states).items()}
    own = r.given.own
    flat |= {n: np.broadcast_to(v.reshape(1, len(v), -1), (*shape, v[0].size)) for n, v in own.items()}
    with np.errstate(all="ignore"):
        energy, scale = (np.broadcast_to(x, shape) for x in look.energy[1](*look.columns(flat)))
        off = np.abs(energy - energy[0]).max(axis=0)
        wrong = ~(off <= AT_A_POLE * np.fmax.reduce(scale, axis=0)) & np.isfinite(energy[0])
    out = {}
    for k in np.flatnonzero(wrong).tolist():
        found = met(setup, r, part_of(r, [k]), k, record.last)
        if found is not None:
            out[k] = found
    return out
