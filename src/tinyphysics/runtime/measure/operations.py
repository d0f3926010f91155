"""Are the derivatives of a user's operations right at the state of a pilot?  If one is not, nothing is certified of it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp, toposort
from tinyphysics.ir.value import Value, evaluate
from tinyphysics.rules.functions.user_derivatives import look_at
from tinyphysics.runtime.engines.plans import roots_of
from tinyphysics.runtime.state.ensemble import Inputs
from tinyphysics.system import Parameter, State, System
from tinyphysics.tpir.verifier import certified

MOST_POINTS = 64  # of an operation, for each member: those of an array are taken at even distances


def wrong_operations(system: System, i: Inputs, t0: float) -> bool:
    """Was one found to be wrong here?  Then what was certified with it is forgotten."""
    custom = [u for u in toposort(roots_of(system)) if u.op is Ops.CUSTOM]
    if not custom:
        return False
    members = environments(system, i, t0)
    found = any([look_at(str(u.arg), points) for env in members for u, points in met(custom, env)])
    if found:
        certified.cache_clear()
    return found


def environments(system: System, i: Inputs, t0: float) -> Iterator[dict[str, Value]]:
    """What each member gives to the system's expressions."""
    for k in range(i.members):
        env: dict[str, Value] = {} if system.time is None else {str(system.time.arg): t0}
        named: list[State | Parameter] = [*system.states, *system.parameters]
        for x in named:
            held = (i.states if x.name in i.states else i.params).get(x.name)
            if held is None:
                continue
            numbers = np.asarray(held[k if len(held) > 1 else 0], float)
            env[str(x.var.arg)] = numbers.reshape(-1).tolist() if x.var.shape else float(numbers)
        yield env


def met(custom: list[UOp], env: dict[str, Value]) -> Iterator[tuple[UOp, list[tuple[float, ...]]]]:
    """The points at which operations are evaluated; those that read what is not known, velocities say, are left out."""
    for u in custom:
        if not all(str(v.arg) in env for v in toposort([u]) if v.op is Ops.VAR):
            continue
        try:
            values = evaluate(list(u.src), env)
        except (ArithmeticError, ValueError):
            continue
        columns = [x if isinstance(x, list) else [x] for x in values]
        count = max(map(len, columns))
        rows = [tuple(float(c[j % len(c)]) for c in columns) for j in range(count)]
        yield u, rows[:: max(1, -(-count // MOST_POINTS))]
