"""Does a run begin on the right side of its walls?"""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from tinyphysics.device.host.arrays import Evaluator
from tinyphysics.errors import InputError, PhysicsWarning, PlanError
from tinyphysics.ir import UOp, elements, substitute
from tinyphysics.rules.calculus.custom import inline
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.rules.functions.transcendental import lower
from tinyphysics.runtime.engines.caller_arrays import host_copies
from tinyphysics.runtime.state.ensemble import Inputs
from tinyphysics.system import System
from tinyphysics.util import frames_to_user

BEHIND = 1e-10  # of the size of its terms, by which a start may be behind a wall: a number of ten digits is
BEHIND_SHORT = 2.0**-21  # the same of states that are float32


@lru_cache(maxsize=8)
def evaluator(system: System) -> Evaluator:
    """Of each wall: its function, and the size of what it is made of."""
    every = (*(s.var for s in system.states), *(p.var for p in system.parameters))
    table = {e: UOp.var(f"{v.arg}.{k}") for v in every for k, e in enumerate(elements(v))}
    q = [e for v in system.q for e in elements(v)]
    roots = []
    for g in unroll(system.guards):
        roots += [g[0], UOp.sum_of([abs(d * x) for d, x in zip(gradient(g[0], q), q)])]
    return Evaluator(lower(inline(substitute(roots, table))))


def behind(system: System, i: Inputs) -> tuple[str, Any, Any] | None:
    """(the wall, which members are behind it, its function of all of them); None where all are inside."""
    if not i.members or all(c.kind != "wall" for c in system.crossings):
        return None
    if i.there:
        i = replace(i, states=host_copies(i.states))
    env: dict[UOp, object] = {}
    for name, v in (*i.states.items(), *i.own.items()):
        flat = np.asarray(v, np.float64).reshape(len(v), -1)
        env |= {UOp.var(f"{name}.{k}"): flat[:, k] for k in range(flat.shape[1])}
    with np.errstate(all="ignore"):
        found = [np.broadcast_to(v, i.members) for v in evaluator(system)(env)]
    owners = [c for c in system.crossings for _ in range(c.rows)]
    first: Any = next(iter(i.states.values()))
    by = BEHIND_SHORT if first.dtype == np.float32 else BEHIND
    for c, g, size in zip(owners, found[::2], found[1::2]):
        bad = g < -by * size
        if c.kind == "wall" and bad.any():
            return c.name, bad, g
    return None


def check_start(system: System, i: Inputs) -> None:
    """An InputError where a member begins behind a wall."""
    if (found := behind(system, i)) is not None:
        wall, bad, g = found
        member = int(np.argmax(bad))
        raise InputError(
            f"{f'member {member}' if i.is_ensemble else 'the run'} begins behind the wall `{wall}`: its function is "
            f"{g[member]:.3g} at the start",
            fix="A wall keeps its function positive: start inside, or change the sign of the function.",
        )


def stop_behind(system: System, i: Inputs, names: str, n: int) -> dict[str, Any]:
    """States after acts; members that these have put behind a wall have none, and a warning says so."""
    states = dict(i.states)
    if (found := behind(system, i)) is None:
        return states
    wall, bad, _ = found
    whose = f"member {int(np.argmax(bad))}" if i.is_ensemble else "the body"
    warnings.warn(
        PhysicsWarning(
            f"{system.name}: {names} has put {whose} behind the wall `{wall}` after step {n}: the run stops there. "
            "A wall keeps its function positive, whatever moves the body."
        ),
        stacklevel=frames_to_user(),
    )
    first = system.states[0].name
    states[first] = np.where(bad.reshape(-1, *(1,) * (np.ndim(states[first]) - 1)), np.nan, states[first])
    return states


def speculated(system: System, speculate: int | None) -> int | None:
    """How many steps are tried at once, of a system with walls or events."""
    if speculate is not None and not system.crossings:
        raise PlanError(
            f"speculate= is about walls and events, and `{system.name}` has none: no step of it is tested",
            fix="Leave speculate= out.",
        )
    return speculate
