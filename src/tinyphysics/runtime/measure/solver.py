"""How well were the equations of a run solved?  Rounds and residuals, where its frames are.

A kernel keeps neither: counting would cost time in every step. They are found again by solving from frames, which has
the bits that the run had there.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from tinyphysics.device.host.arrays import Evaluator
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp, substitute, toposort
from tinyphysics.rules.calculus.custom import inline
from tinyphysics.rules.calculus.solve import COUNT, RESIDUAL, part
from tinyphysics.rules.functions.transcendental import lower
from tinyphysics.runtime.stages.origin import Origin
from tinyphysics.runtime.state.run import made
from tinyphysics.tpir.kernels.kernel import NOW, ORIGIN, STEP, Kernel, build_kernel
from tinyphysics.tpir.program.isa import Program

MOST = 1024  # states that are looked at, over frames and members
MOST_ARRAYS, MOST_NUMBERS = 32, 2_000_000  # and numbers in them, where equations are of whole arrays


def whole_step(program: Program) -> tuple[Kernel, dict[UOp, UOp], list[UOp]]:
    """(kernel, what it carries after a step, every solution), as expressions of the state that the step begins with."""
    kernel = build_kernel(program)
    values, found = dict(zip(kernel.carried, kernel.functions["init"])), dict[UOp, None]()
    for k in range(kernel.stages):
        here = values | {w: row[k] for w, row in kernel.weights.items()}
        after = substitute(kernel.functions["step"], here)
        found |= {part(u, 0): None for u in toposort(after) if u.op is Ops.SOLVED}
        values = dict(zip(kernel.carried, after))
    return kernel, values, list(found)


@lru_cache(maxsize=8)
def looker(program: Program) -> tuple[Kernel, int, Evaluator]:
    """(kernel, how many solutions a step has, what evaluates the rounds of each, then the residuals)."""
    kernel, _, solves = whole_step(program)
    roots = lower(inline([part(u, u.arg[1] + which) for which in (COUNT, RESIDUAL) for u in solves]))
    return kernel, len(solves), Evaluator(roots, careful=True)


def at_frames(origin: Origin, kernel: Kernel) -> tuple[dict[UOp, Any], Any]:
    """(what a kernel is given in steps that begin at frames, which of these states are finite); of many, some."""
    r = origin.run
    count, members = next(iter(origin.frames.values())).shape[:2]
    chosen = np.unique(np.linspace(0, count * members - 1, min(MOST, count * members)).astype(int))
    at, who = np.divmod(chosen, members)
    looked, place = np.unique(at, return_inverse=True)  # frames may lie in a file
    rows = {name: np.array([np.asarray(v[int(k)]) for k in looked]) for name, v in origin.frames.items()}
    flat = [x for s in r.system.states for x in rows[s.name][place, who].reshape(len(chosen), -1).T]
    env: dict[UOp, Any] = {
        NOW: np.asarray(origin.steps, float)[at],
        ORIGIN: np.array([r.t0]),
        STEP: np.array([r.dt]),
    }
    env |= dict(zip(kernel.inputs, flat))
    for p in kernel.params:
        if p is not STEP and p is not ORIGIN:
            name, _, index = str(p.arg)[1:].partition(".")
            v = np.asarray(r.given.params[name], float).reshape(len(r.given.params[name]), -1)[
                :, int(index or 0)
            ]
            env[p] = v[who] if len(v) > 1 else v
    return env, np.isfinite(np.array(flat)).all(axis=0)


def solver_report(origin: Origin) -> dict[str, Any]:
    """The rounds and the largest residual, in parts of the state, of steps that begin at frames."""
    if not origin.run.given.members:
        return {"states": 0}
    from tinyphysics.runtime.engines.rounds_again import solves_arrays

    program = made(origin.run.program)
    if solves_arrays(program):
        return array_report(origin, program)
    kernel, solves, evaluator = looker(program)
    env, good = at_frames(origin, kernel)
    with np.errstate(all="ignore"):
        values = [np.broadcast_to(v, len(good))[good] for v in evaluator(env)]
    counts, residuals = np.array(values[:solves]), np.array(values[solves:])
    if not counts.size:
        return {"states": 0}
    return {
        "rounds": float(counts.mean()),
        "most_rounds": int(counts.max()),
        "residual": float(residuals.max()),
        "states": int(good.sum()),
    }


def array_report(origin: Origin, program: Program) -> dict[str, Any]:
    """The same of equations of whole arrays, from fewer states."""
    from tinyphysics.runtime.engines.rounds_again import residuals

    r = origin.run
    count, members = next(iter(origin.frames.values())).shape[:2]
    size = sum(s.var.size for s in r.system.states)
    most = max(1, min(MOST_ARRAYS, MOST_NUMBERS // size, count * members))
    found = []
    for chosen in np.unique(np.linspace(0, count * members - 1, most).astype(int)):
        at, who = divmod(int(chosen), members)
        state = {name: np.asarray(v[at])[who : who + 1] for name, v in origin.frames.items()}
        if not all(np.isfinite(v).all() for v in state.values()):
            continue
        params = {name: v[[who if len(v) > 1 else 0]] for name, v in r.given.params.items()}
        found.append(residuals(program, state, params, r.dt, r.t0, int(origin.steps[at])))
    rounds = [x for x in found if x]
    if not rounds:
        return {"states": 0}
    return {
        "rounds": float(np.mean([len(x) for x in rounds])),
        "most_rounds": max(map(len, rounds)),
        "residual": max(x[-1] for x in rounds),
        "states": len(rounds),
    }
