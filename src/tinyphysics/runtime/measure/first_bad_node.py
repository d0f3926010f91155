"""Which operation of an expression first makes something that is no number, and has it only run out of the floats?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tinyphysics.ir import Ops, UOp, toposort
from tinyphysics.runtime.stages.in_numpy import numbers

RUNS_OUT = (Ops.MUL, Ops.ADD, Ops.SUB, Ops.FMA, Ops.REDUCE, Ops.EXP, Ops.SINH, Ops.COSH, Ops.NEG)
HUGE = 1e75  # beyond, an operation that is not finite has run out of the floats


def first_bad_node(roots: Sequence[UOp], env: Mapping[str, Any]) -> UOp | None:
    """The first operation that makes something of finite numbers that is not one; a particle and itself are no pair."""
    if any(str(v.arg) not in env for r in roots for v in r.leaves):  # random numbers
        return None
    try:
        if all(finite(r, v) for r, v in zip(roots, numbers(list(roots), env))):
            return None
        order = [u for u in toposort(roots) if u.op is not Ops.VAR and u.dtype.is_float]
        values = numbers(order, env)
    except (ArithmeticError, ValueError):
        return None
    constants = {u for u in order if u.op is Ops.CONST or not u.leaves}  # an infinite bound is meant
    bad = {u for u, v in zip(order, values) if u not in constants and not finite(u, v)}
    return next((u for u in order if u in bad), None)


def finite(u: UOp, value: Any) -> bool:
    good = np.isfinite(np.ravel(np.asarray(value, float)))
    own = own_pairs(u)
    return bool(good.all() if own is None else (good | own).all())


def own_pairs(u: UOp) -> Any:
    """Which numbers of a table of pairs belong to a particle and itself; None where there are none."""
    if u.ndim < 2 or u.shape[0] != u.shape[1] or u.shape[0] < 2:
        return None
    mask = np.zeros(u.shape, bool)
    mask[np.arange(u.shape[0]), np.arange(u.shape[0])] = True
    return mask.ravel()


def overflows(u: UOp, env: Mapping[str, Any]) -> bool:
    """Does it only run out of the floats?"""
    if u.op in RUNS_OUT:
        return True
    own = own_pairs(u)
    for s in u.src:
        size = np.abs(np.ravel(np.asarray(numbers([s], env)[0], float)))
        size = size[~own] if own is not None and size.size == own.size else size
        if (size[np.isfinite(size)] > HUGE).any():
            return True
    return False
