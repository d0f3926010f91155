"""Is a step too long for the curvature that a run meets?  The distance of the shadow energy from H, at every step.

With checks={"shadow": 1e-3} the whole run is replayed when it is over, with the same bits, and the first step is named at
which the distance passes the threshold times the largest sum of |terms of H| so far. The step that is proposed is measured.
What is looked at of every other run is in shadow_glance.py.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tinyphysics.analysis.separable import mixes, separable, terms
from tinyphysics.errors import PhysicsWarning
from tinyphysics.ir import UOp
from tinyphysics.plan import Goal
from tinyphysics.rules.calculus.jvp import jvp
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.rules.identities.real import simplify
from tinyphysics.runtime.measure.alarms import proposed
from tinyphysics.runtime.measure.part_again import compiled
from tinyphysics.runtime.measure.shadow import (
    MOST,
    every_step,
    first_term,
    refusal,
    sequence_of,
    shadow,
)
from tinyphysics.runtime.stages.origin import Origin, addends
from tinyphysics.runtime.stages.setup import Setup
from tinyphysics.system import System
from tinyphysics.trajectory import Trajectory
from tinyphysics.util import frames_to_user

TRIES = 5  # steps that are measured, each shorter than the last
FEW = 8  # terms of a potential whose curvatures are compared


@dataclass(frozen=True)
class Gap:
    """How far the shadow energy is from H at worst, and where it first passes a threshold: None if it does not."""

    largest: float
    step: int | None
    member: int
    there: float  # at that step
    term: int = 0  # of the potential: the one that is bent most


def short(x: float) -> str:
    """1.1e-3, as one writes it."""
    digits, _, power = f"{x:.1e}".partition("e")
    return f"{digits}e{int(power)}"


def potential_terms(system: System) -> list[UOp]:
    split = separable(system)
    return [-u if minus else u for u, minus in terms(split.V, mixes(system))]


def bends(system: System) -> list[UOp]:
    """|v V'' v| of each term of the potential."""
    q, p = list(system.q), list(system.p)
    v = simplify(gradient(separable(system).T, p))
    return [abs(jvp(jvp([u], q, v), q, v)[0]) for u in potential_terms(system)[:FEW]]


def gap_of(origin: Origin, goal: Goal, method: str, threshold: float) -> Gap:
    system, run = origin.run.system, origin.run
    H = origin.energy()
    values = {"H": H, "scale": UOp.sum_of(abs(x) for x in addends(H))}
    values |= {f"bend{k}": u for k, u in enumerate(bends(system))}
    term = first_term(system, tuple(part for part, _ in sequence_of(method)), run.dt)
    if term is not None:
        values["shadow"] = term
    again = every_step(origin, values)
    seen = {name: np.asarray(again.series(name), float) for name in values}
    first, most = 0, np.inf
    if term is None:
        found = shadow(origin, goal, method)
        first = found.order // 2
        inner = slice(first, first + len(found.energy))
        seen = {name: x[inner] for name, x in seen.items()}
        seen["shadow"] = np.reshape(found.energy, seen["H"].shape)
        # the series is asymptotic, and where steps are too long for it it says anything: no more is shown than H itself moved
        most = np.ptp(seen["H"], axis=0)
    with np.errstate(all="ignore"):
        away = np.fmin(np.abs(seen["shadow"] - seen["H"]), most)
        gap = away / np.maximum.accumulate(np.fmax(seen["scale"], 1e-300), axis=0)
    bad = ~(gap <= threshold)
    worst = float(np.nanmax(np.where(np.isfinite(gap), gap, math.inf)))
    if not bad.any():
        return Gap(worst, None, 0, worst)
    row = int(np.argmax(bad.any(axis=1)))
    member = int(np.argmax(bad[row]))
    curved = [seen[f"bend{k}"][row, member] for k in range(len(values)) if f"bend{k}" in seen]
    return Gap(worst, row + first, member, float(gap[row, member]), int(np.argmax(curved)) if curved else 0)


def judge_shadow(setup: Setup, out: Trajectory) -> dict[str, Any]:
    """An entry of out.metrics, and a warning where the threshold was passed."""
    threshold, origin = setup.thresholds.get("shadow"), out.origin
    method, goal = setup.compiled.known.method, setup.goal
    if threshold is None or setup.checks == "off" or not isinstance(origin, Origin):
        return {}
    if refusal(origin.run.system, goal, method) or origin.run.jump is not None or origin.last < 1:
        return {}
    if (origin.last + 1) * origin.run.given.members > MOST // FEW:
        return {"shadow": {"threshold": threshold, "not_watched": "the run has too many steps and members"}}
    found = gap_of(origin, goal, method, threshold)
    if found.step is None:
        return {"shadow": {"threshold": threshold, "largest": found.largest}}
    return tell(setup, out, origin, found, threshold)


def tell(
    setup: Setup, out: Trajectory, origin: Origin, found: Gap, threshold: float, span: int | None = None
) -> dict[str, Any]:
    """A warning, and the entry of out.metrics; the step that is proposed is measured over so many of the run's steps."""
    dt = shorter(setup, out, origin, found, threshold, origin.last if span is None else span)
    what = sentence(origin, found, dt)
    out.metrics["notes"] = (*out.metrics["notes"], what)
    out._warned = (*out._warned, what)
    warnings.warn(PhysicsWarning(what), stacklevel=frames_to_user())
    return {"shadow": {"threshold": threshold, "largest": found.largest, "step": found.step, "dt": dt}}


def sentence(origin: Origin, found: Gap, dt: float | None) -> str:
    system = origin.run.system
    u = potential_terms(system)[found.term]
    site = system.sites.get(u) or (system.sites.get(u.src[0]) if u.src else None)
    which = f" of member {found.member}" if origin.run.given.is_ensemble else ""
    take = f"; dt <= {proposed(dt)}" if dt is not None else ""
    return (
        f"At step {found.step}, your Shadow Energy{which} deviates by {short(found.there)}. Your step size is too large "
        f"for the curvature of potential {u}{f' ({site})' if site else ''}{take}."
    )


def shorter(
    setup: Setup, out: Trajectory, origin: Origin, found: Gap, threshold: float, last: int
) -> float | None:
    """A step with which the run was measured to stay below the threshold until its step `last`; None if none was found."""
    run, goal, method = origin.run, setup.goal, setup.compiled.known.method
    span, dt, worst = run.dt * last, run.dt, found.largest
    start = {name: v[0, found.member] if run.given.is_ensemble else v[0] for name, v in out.frames.items()}
    given = {
        x.name: np.asarray(v)[found.member if len(v) > 1 else 0]
        for x in run.system.parameters
        if (v := run.given.own.get(x.name)) is not None
    }
    order, backend = 2, compiled(run).target.backend
    for _ in range(TRIES):
        if not math.isfinite(worst) or worst <= 0:
            dt *= 0.5
        else:
            dt *= min(0.9, 0.98 * (threshold / worst) ** (1 / order))
        dt = math.copysign(float(proposed(dt)), run.dt)
        steps = math.ceil(abs(span / dt))
        if steps * 4 > MOST // FEW:
            return None
        trial = setup.variant(replace(goal, dt=dt, method=method), backend)
        try:
            again = trial.evolve(**start, **given, steps=steps, t0=run.t0, frames=2)
        except KeyboardInterrupt:  # the run itself is over: the warning comes without a step to take
            return None
        worst = gap_of(again.origin, goal, method, threshold).largest
        if worst <= threshold:
            return dt
    return None
