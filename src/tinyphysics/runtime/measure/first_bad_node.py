"""Which operation of an expression first makes something that is no number, and has it only run out of the floats?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tinyphysics.ir import Ops, UOp, evaluate, toposort

RUNS_OUT = (Ops.MUL, Ops.ADD, Ops.SUB, Ops.FMA, Ops.REDUCE, Ops.EXP, Ops.SINH, Ops.COSH, Ops.NEG)
HUGE = 1e75  # beyond, an operation that is not finite has run out of the floats


def first_bad_node(roots: Sequence[UOp], env: Mapping[str, Any]) -> UOp | None:
    """The first operation that makes something of finite numbers that is not one."""
    order = [u for u in toposort(roots) if u.op is not Ops.VAR]
    try:
        values = evaluate(order, env)
    except (ArithmeticError, ValueError):
        return None
    for u, v in zip(order, values):
        if u.dtype.is_float and not np.isfinite(np.asarray(v, float)).all():
            return u
    return None


def overflows(u: UOp, env: Mapping[str, Any]) -> bool:
    """Does it only run out of the floats?"""
    if u.op in RUNS_OUT:
        return True
    sizes = (np.abs(np.ravel(np.asarray(evaluate([s], env)[0], float))).max(initial=0.0) for s in u.src)
    return any(size > HUGE for size in sizes)
