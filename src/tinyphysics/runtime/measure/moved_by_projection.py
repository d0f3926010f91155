"""How far does a projection move the state?  Steps that begin at frames, with the multipliers solved for and without them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from tinyphysics.device.host.arrays import Evaluator
from tinyphysics.ir import UOp, substitute
from tinyphysics.rules.calculus.custom import inline
from tinyphysics.rules.calculus.solve import part
from tinyphysics.rules.functions.transcendental import lower
from tinyphysics.runtime.measure.solver import at_frames, whole_step
from tinyphysics.runtime.stages.origin import Origin
from tinyphysics.runtime.state.run import made
from tinyphysics.tpir.kernels.kernel import Kernel
from tinyphysics.tpir.program.isa import Program


@lru_cache(maxsize=8)
def ends(program: Program) -> tuple[Kernel, int, Evaluator] | None:
    """(kernel, how many numbers a state has, what evaluates a state at the end of a step, then before it is projected)."""
    kernel, values, solves = whole_step(program)
    if not solves:
        return None
    last = solves[-1]  # the projection is what ends a step
    without = {part(last, k): UOp.const(0.0) for k in range(last.arg[1])}
    after = substitute(kernel.functions["final"], values)
    return kernel, len(after), Evaluator(lower(inline([*after, *substitute(after, without)])), careful=True)


def moved(origin: Origin) -> float | None:
    """The largest distance that a state is moved in a step, in parts of the state's largest number; None: no such state."""
    found = ends(made(origin.run.program)) if origin.run.given.members else None
    if found is None:
        return None
    kernel, count, evaluator = found
    env, good = at_frames(origin, kernel)
    if not good.any():
        return None
    with np.errstate(all="ignore"):
        values = np.array([np.broadcast_to(v, len(good))[good] for v in evaluator(env)])
    after, before = values[:count], values[count:]
    far_most, at = 0.0, 0
    for s in origin.run.system.states:
        own = slice(at, at := at + s.var.size)
        far, size = np.abs(after[own] - before[own]).max(axis=0), np.abs(after[own]).max(axis=0)
        far_most = max(far_most, worst(far, size))
    return far_most


def worst(far: Any, size: Any) -> float:
    """The largest ratio; a state that is zero, and is not moved, does not count."""
    seen = (far > 0.0) & (size > 0.0)
    return float((far[seen] / size[seen]).max(initial=0.0))
