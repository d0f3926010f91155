"""What moved a quantity that a run keeps to rounding?  A number that the step did not write, or a term of the energy."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tinyphysics.errors import PhysicsIntegrityError, PhysicsWarning, TinyPhysicsError
from tinyphysics.ir import UOp
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.runtime.measure.autopsy import shown
from tinyphysics.runtime.measure.checked import on_columns
from tinyphysics.runtime.measure.part_again import state_at
from tinyphysics.runtime.stages.setup import Setup
from tinyphysics.runtime.stages.terms import addends
from tinyphysics.runtime.state.run import Run
from tinyphysics.runtime.state.schedule import time_at
from tinyphysics.runtime.storage.checkpoint import read
from tinyphysics.trajectory import WRONG, Stop, Trajectory
from tinyphysics.util import frames_to_user


@dataclass(frozen=True)
class Injured:
    """A quantity that one step moved by more than it should."""

    name: str
    expression: UOp
    step: int
    size: float  # by which it moved
    band: float  # how far rounding would have taken it until then
    smallest: float  # change that would have been noticed there


def injury(x: Injured, r: Run, member: int) -> tuple[Stop, Mapping[str, Any]]:
    """The stop of a member, and its last good state; `r` is the run of that member alone, from a step before."""
    before, after = ({n: v[0] for n, v in state_at(r, step).items()} for step in (x.step - 1, x.step))
    error, where = why_stopped(x, r, before, after)
    who = member if r.given.is_ensemble else None
    return Stop("integrity", x.step, time_at(x.step, r.dt, r.t0), who, where, error), before


def not_reproduced(r: Run, good: int, n: int, member: int) -> tuple[Stop, Mapping[str, Any]]:
    """The stop of a member whose replay has other bits: a number has changed that no step and no act wrote."""
    what = (
        f"the run has other numbers at step {n:,} than the same steps done again: between step {good:,} and there a number "
        "changed that no step wrote"
    )
    fix = f"The state of step {good:,} is the last one that is known to be good; run it again, and test the memory."
    evidence = {"quantity": "bits", "step": good + 1, "where": None, "term": ""}
    who = member if r.given.is_ensemble else None
    error = PhysicsIntegrityError(what, fix=fix, evidence=evidence)
    before = {name: v[0] for name, v in state_at(r, good).items()}
    return Stop("integrity", good + 1, time_at(good + 1, r.dt, r.t0), who, None, error), before


def why_stopped(
    x: Injured, r: Run, before: Mapping[str, Any], after: Mapping[str, Any]
) -> tuple[PhysicsIntegrityError, tuple[str, int] | None]:
    """The error that checks="strict" raises, and the number of the state that moved."""
    place, term = not_of_the_step(r, x.step, after), ""
    what = (
        f"{x.name} changed by {x.size:.2g} at step {x.step:,} (t = {time_at(x.step, r.dt, r.t0):g}), where it should "
        f"move by less than {x.band:.2g}; the smallest change that is noticed is {x.smallest:.2g}"
    )
    if place is not None:
        acts = [a.name for a in r.acts if a.due(x.step)]
        by = f"act {' and '.join(f'`{a}`' for a in acts)}" if acts else "something that is not the step"
        what += f". {by.capitalize()} changed {numbered(r, place)}"
    else:
        term, where = moving_term(x.expression, r, before, x.step)
        place = where
        if term:
            what += f". The term that moves it is {term}"
            what += f", by {numbered(r, where)}" if where is not None else ""
    evidence = {"quantity": x.name, "size": x.size, "band": x.band, "smallest": x.smallest, "step": x.step}
    evidence |= {"where": None if place is None else numbered(r, place), "term": term}
    fix = f"The state of step {x.step - 1:,} is the last good one."
    if x.expression is r.system.seen.energy and not any(a.due(x.step) for a in r.acts):
        fix = f"The step is too long there: compile with a shorter dt. {fix}"
    return PhysicsIntegrityError(what, fix=fix, evidence=evidence), place


def tell(setup: Setup, r: Run, out: Trajectory, checkpoint: Any) -> None:
    """A warning, or an error, for a run with members that a watch has stopped."""
    found = [s for s in out.stops if s.cause in WRONG and s.error is not None]
    if not found:  # they stopped before the checkpoint that this run went on from
        return
    error = found[0].error
    assert isinstance(error, PhysicsIntegrityError)
    what = error.what + (f" ({len(found):,} members in all)" if len(found) > 1 else "")
    fix = f"{error.fix}{'' if found[0].cause == 'singularity' else f' {last_good(checkpoint)}'}"
    if found[0].cause == "singularity":
        out.metrics["singularity"] = error.evidence
    out.metrics["notes"] = (*out.metrics["notes"], what)
    out._warned = (*out._warned, what)
    if setup.checks == "strict":
        raise PhysicsIntegrityError(
            what, out=out, fix=f"{fix} The run so far is in .out.", evidence=error.evidence
        )
    warnings.warn(PhysicsWarning(f"{r.system.name}: {what}. {fix}"), stacklevel=frames_to_user())


def last_good(checkpoint: Any) -> str:
    """Where to go on from: checkpoints are written after a look."""
    if checkpoint is None or not Path(checkpoint).is_file():
        return "It is out.final."
    return f"It is out.final, and `{checkpoint}` has step {read(Path(checkpoint)).step:,}."


def numbered(r: Run, place: tuple[str, int]) -> str:
    """p[3, 0]: a number of a state as the user writes it."""
    name, at = place
    shape = next(s.var.shape for s in r.system.states if s.name == name)
    index = np.unravel_index(at, shape) if shape else ()
    return f"{name}[{', '.join(str(int(k)) for k in index)}]" if index else name


def not_of_the_step(r: Run, step: int, after: Mapping[str, Any]) -> tuple[str, int] | None:
    """The number that is not what the step alone makes of the state before; None if all are."""
    if not any(a.due(step) for a in r.acts):
        return None
    alone = replace(r, acts=tuple(replace(a, skips=step) for a in r.acts))
    plain = state_at(alone, step)
    best, found = 0.0, None
    for s in r.system.states:
        if s.name not in plain:
            continue
        a, b = (np.ravel(np.asarray(v, float)) for v in (plain[s.name][0], after[s.name]))
        off = np.abs(a - b)
        if off.size and np.nanmax(off) > best:
            best, found = float(np.nanmax(off)), (s.name, int(np.nanargmax(off)))
    return found


def moving_term(of: UOp, r: Run, before: Mapping[str, Any], step: int) -> tuple[str, tuple[str, int] | None]:
    """The addend of H whose flow changes a charge most, with its line, and the number through which it does."""
    system = r.system.seen
    assert system.energy is not None
    values = r.encoding.values({n: np.asarray(v)[None] for n, v in before.items()})
    env = {n: np.ravel(np.asarray(v[0], float))[:, None] for n, v in values.items()}
    env |= {n: np.ravel(v[0])[:, None] for n, v in r.given.own.items()}
    env["t"] = np.array([[time_at(step - 1, r.dt, r.t0)]])
    q, p = list(system.q), list(system.p)
    best, found, place = 0.0, "", None
    try:
        by_q, by_p = gradient(of, q), gradient(of, p)
        for u in addends(system.energy):
            if of is system.energy and not u.leaves & frozenset(q):
                continue  # a step that is too long is too long for a potential
            u_q, u_p = gradient(u, q), gradient(u, p)
            parts = [-a * b for a, b in zip(by_p, u_q)], [a * b for a, b in zip(by_q, u_p)]
            for names, products in zip((p, q), parts):
                for x, v in zip(names, on_columns(products, env)):
                    total = abs(float(v.sum()))
                    if total > best and np.isfinite(total):
                        best, found = total, shown(u, system.sites)
                        place = str(x.arg), int(np.abs(v[:, 0]).argmax())
    except (NotImplementedError, TinyPhysicsError):
        return "", None
    return found, place
