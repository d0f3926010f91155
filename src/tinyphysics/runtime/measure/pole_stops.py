"""Where does a run stop that passed a pole of its energy?  Before the step that did, and it says how to go on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tinyphysics.errors import PhysicsIntegrityError
from tinyphysics.planner.methods.catalog import BY_NAME
from tinyphysics.runtime.measure.part_again import state_at
from tinyphysics.runtime.measure.passed_pole import Passed, passed_pole, told
from tinyphysics.runtime.stages.setup import Setup
from tinyphysics.runtime.state.run import Run
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
    return Stop("singularity", p.step, p.t, who, where, error_of(p, limit, told_member(r, member))), before


def told_member(r: Run, member: int) -> int | None:
    """The number of a member for messages: that in the ensemble that the run is part of."""
    return r.first_member + member if r.given.is_ensemble else None


def error_of(p: Passed, limit: float | None, member: int | None) -> PhysicsIntegrityError:
    pair = "" if p.where is None else f" between particles {p.where[0]} and {p.where[1]}"
    of = "" if member is None else f" of member {member}"
    return PhysicsIntegrityError(
        f"step {p.step:,}{of} (t = {p.t:g}) passes a pole of {p.term}{pair}, at a distance of {p.distance:.2g}: "
        f"omega*dt is {p.pace:.3g} there, and {limit:.3g} at most",
        fix='Compile with time="logarithmic", a softening or a shorter dt; checks="off" goes on past it.',
        evidence=told(p),
    )
