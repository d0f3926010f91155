"""Does the series of Magnus converge in the steps of a run?  Where the norm of A(t), integrated over a step, is below pi.

Looked at before the run, at the nodes of every step, or of steps at even distances where there are many. The norm is that
of A in the units of q and p in which it is smallest, or nearly: a change of units changes nothing about the series.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from tinyphysics.analysis.quadratic import quadratic
from tinyphysics.device.host.arrays import Evaluator
from tinyphysics.errors import PlanError
from tinyphysics.ir import UOp
from tinyphysics.planner.methods.catalog import BY_NAME
from tinyphysics.planner.methods.method import MAGNUS
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.rules.functions.transcendental import lower
from tinyphysics.runtime.state.run import Run
from tinyphysics.runtime.state.schedule import time_at
from tinyphysics.synth.methods.magnus import CONVERGES, NODES, WEIGHTS, generator
from tinyphysics.system import System

LOOKS = 1 << 12  # matrices whose norm is computed
SWEEPS = 8  # over rows and columns, after which units change no more


def check_converges(r: Run, method: str) -> dict[str, Any]:
    """What is reported about a run of a method that is an exponential; a PlanError where its series does not converge."""
    if method not in BY_NAME or BY_NAME[method].family.kind != MAGNUS or not r.given.members:
        return {}
    order, steps = BY_NAME[method].order, r.schedule.steps
    members = max(len(v) for v in (*r.given.own.values(), [0]))  # those that differ in their parameters
    every = max(1, -(-steps * members * len(NODES[order]) // LOOKS))
    last = max(steps, r.schedule.first + 1) - 1
    n = np.unique(np.append(np.arange(r.schedule.first, last + 1, every), last))
    seen = np.stack([matrices(r, r.t0 + (n + float(c)) * r.dt, members) for c in NODES[order]])
    length = abs(r.dt) * np.tensordot(WEIGHTS[order], norms(seen), 1)
    step, who = np.unravel_index(int(np.argmax(np.where(np.isnan(length), np.inf, length))), length.shape)
    worst = float(length[step, who])
    if not worst < CONVERGES:
        of = f" of member {who}" if r.given.is_ensemble and members > 1 else ""
        raise PlanError(
            f"`{method}` does not converge: the norm of A(t), integrated over the step at "
            f"t = {time_at(int(n[step]), r.dt, r.t0):g}{of}, is {worst:.3g}, and must be below pi",
            fix=f"Shorten dt, to {abs(r.dt) * 2.0 / worst:.2g} or less.",
        )
    looked = "every step" if every == 1 else f"{len(n):,} of {steps:,} steps"
    return {"magnus": {"norm": worst, "limit": CONVERGES, "looked_at": looked}}


def matrices(r: Run, t: Any, members: int) -> Any:
    """A at some times, for every set of parameters: (times, members, rows, columns)."""
    size, components, f = entries(r.system)
    env: dict[Any, Any] = {} if r.system.time is None else {r.system.time: np.repeat(t, members)}
    for p in r.system.parameters:
        flat = (
            np.broadcast_to(r.given.params[p.name], (members, *p.var.shape))
            .reshape(members, -1)
            .astype(np.float64)
        )
        env |= {e: np.tile(flat[:, k], len(t)) for k, e in enumerate(components[p.var])}
    with np.errstate(all="ignore"):
        values = [np.broadcast_to(v, len(t) * members) for v in f(env)]
    return np.stack(values, -1).reshape(len(t), members, size, size)


@lru_cache(maxsize=16)
def entries(system: System) -> tuple[int, dict[UOp, list[UOp]], Evaluator]:
    """(rows of A, the numbers of each parameter, all entries of A as a function of those and of t)."""
    a = generator(system, quadratic(system))
    variables = [p.var for p in system.parameters]
    components = dict(zip(variables, unroll(variables)))
    f = Evaluator(lower([u for group in unroll([x for row in a.matrix for x in row]) for u in group]))
    given = {e for group in components.values() for e in group}
    f.order = [u for u in f.order if u not in given and u is not system.time and not (u.shape and not u.src)]
    return len(a.vector), components, f


def norms(a: Any) -> Any:
    """Of matrices (nodes, steps, members, n, n), in units that suit one step: each has a series of its own."""
    mean = np.abs(a).mean(axis=0)  # (steps, members, n, n)
    n = mean.shape[-1]
    unit = np.ones(mean.shape[:-1])
    off = mean * (1 - np.eye(n))
    with np.errstate(invalid="ignore"):
        for _ in range(SWEEPS):
            for k in range(n):
                scaled = off * unit[..., None, :] / unit[..., :, None]
                row, column = scaled[..., k, :].sum(axis=-1), scaled[..., :, k].sum(axis=-1)
                good = (row > 0) & (column > 0)
                unit[..., k] *= np.sqrt(np.divide(row, column, out=np.ones_like(row), where=good))
        scaled = a * (unit[..., None, :] / unit[..., :, None])
    known = np.isfinite(scaled).all(axis=(-2, -1))
    return np.where(
        known, np.linalg.norm(np.where(known[..., None, None], scaled, 0.0), 2, axis=(-2, -1)), np.nan
    )
