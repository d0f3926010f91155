"""What of a run follows from its first state?  Gradients go on from there to that state, and to the parameters.

A time of its own begins with p_t = -H; a projection holds what invariants are at the first state, as parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tinyphysics.device.cuda.dlpack import here
from tinyphysics.errors import PlanError
from tinyphysics.flows.cotangents import BAR, REST
from tinyphysics.ir import UOp, parse
from tinyphysics.rules.calculus.vjp import vjp
from tinyphysics.rules.identities.real import simplify
from tinyphysics.runtime.measure.cotangent_words import added, joined
from tinyphysics.runtime.measure.course import Course
from tinyphysics.runtime.measure.loop_numbers import HOST
from tinyphysics.runtime.measure.loss_function import evaluate
from tinyphysics.runtime.measure.velocities import momenta
from tinyphysics.runtime.stages.setup import Setup
from tinyphysics.tpir.precision.rewriter import LOW
from tinyphysics.tpir.program.isa import kept_name


def follow(setup: Setup, fast: bool) -> dict[str, UOp]:
    """By name: states and parameters of a step that no user gives, as functions of those that users give.

    A run that is `fast` was given velocities, and its momenta follow.
    """
    found = {kept_name(k): parse(text)[0] for k, (_, text) in enumerate(setup.goal.project)}
    clock = setup.system.clock
    if clock is not None:
        assert clock.system.energy is not None
        found[clock.momentum] = -clock.system.energy
    return found | (momenta(setup.system) if fast else {})


def check_beginning(setup: Setup, given: Mapping[str, Any], what: str) -> None:
    """A run that goes on from another's last state begins with a p_t that is not that of its own state."""
    clock = setup.system.clock
    if clock is not None and clock.momentum in given:
        raise PlanError(
            f"{what}: this run begins with a `{clock.momentum}` of its own, and H + {clock.momentum} would not stay "
            "zero where the first state is moved",
            fix=f"Pass states and t0=, without `{clock.time}` and `{clock.momentum}`.",
        )


def course_momenta(course: Course) -> frozenset[str]:
    """The momenta that follow from velocities."""
    return frozenset(momenta(course.setup.system)) if course.velocities else frozenset()


def through_beginning(
    course: Course,
    end: Mapping[str, Any],
    exponent: Any,
    direct: Mapping[str, Any],
    first: Mapping[str, Any],
) -> Mapping[str, Any]:
    """The cotangents of a first state, with those of all that follows from it; `first` are those of a look at it."""
    values = follow(course.setup, bool(course.velocities))
    if not values:
        return end
    seen, members = course.setup.system.seen, course.members
    wanted = {s.name: s.var for s in seen.states if s.name not in values}
    if course.velocities:
        assert course.setup.system.motion is not None
        wanted |= {str(v.arg): v for v in course.setup.system.motion.v}
    wanted |= {p.name: p.var for p in seen.parameters if any(p.var is v for v in course.wrt)}
    shown, params = course.shown(course.first()), course.run.given.params
    env = {str(s.var.arg): shown[s.name] for s in seen.states}
    env |= {str(v.arg): course.velocities[n] for n, v in wanted.items() if n in course.velocities}
    env |= {str(p.var.arg): np.broadcast_to(params[p.name], (members, *p.var.shape)) for p in seen.parameters}
    if seen.time is not None:
        env[str(seen.time.arg)] = np.full(members, course.run.t0)
    seeds = {name: UOp.var(f"cotangent of {name}", u.shape) for name, u in values.items()}
    for name, seed in seeds.items():
        words = {f"{name}{end_of}": np.zeros((members, *seed.shape)) for end_of in (BAR, REST)} | {**end}
        more = HOST.lowered(direct[name], exponent) if name in direct else 0.0
        if name in course_momenta(course):
            more = more + HOST.lowered(here(first.get(name, np.zeros((members, *seed.shape)))), exponent)
        env[str(seed.arg)] = joined(words, f"{name}{BAR}") + here(words[f"{name}{REST}"]) + more
    slopes = simplify(vjp(list(values.values()), list(seeds.values()), list(wanted.values())))
    found = {f"{name}{BAR}": v for name, v in evaluate(dict(zip(wanted, slopes)), env, members).items()}
    low = {f"{name}{LOW}": np.zeros_like(v) for name, v in found.items() if f"{name}{LOW}" in end}
    rest = {name.removesuffix(BAR) + REST for name in found}
    own = {name: np.asarray(here(end[name])) for name in (*found, *low, *rest) if name in end}
    own |= {f"{name}{BAR}": np.zeros_like(found[f"{name}{BAR}"]) for name in course.velocities}
    return {**end, **added(own, {**found, **low})}
