"""Does a run begin on the right side of its walls?"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from tinyphysics.device.host.arrays import Evaluator
from tinyphysics.errors import InputError
from tinyphysics.ir import UOp, elements, substitute
from tinyphysics.rules.calculus.custom import inline
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.rules.functions.transcendental import lower
from tinyphysics.runtime.engines.caller_arrays import host_copies
from tinyphysics.runtime.state.ensemble import Inputs
from tinyphysics.system import System

BEHIND = 1e-10  # of the size of its terms, by which a start may be behind a wall: a number of ten digits is


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


def check_start(system: System, i: Inputs) -> None:
    """An InputError where a member begins behind a wall."""
    if not i.members or all(c.kind != "wall" for c in system.crossings):
        return
    if i.there:
        i = replace(i, states=host_copies(i.states))
    env: dict[UOp, object] = {}
    for name, v in (*i.states.items(), *i.own.items()):
        flat = np.asarray(v, np.float64).reshape(len(v), -1)
        env |= {UOp.var(f"{name}.{k}"): flat[:, k] for k in range(flat.shape[1])}
    with np.errstate(all="ignore"):
        found = [np.broadcast_to(v, i.members) for v in evaluator(system)(env)]
    owners = [c for c in system.crossings for _ in range(c.rows)]
    for c, g, size in zip(owners, found[::2], found[1::2]):
        bad = g < -BEHIND * size
        if c.kind == "wall" and bad.any():
            member = int(np.argmax(bad))
            whose = f" member {member}" if i.is_ensemble else " the run"
            raise InputError(
                f"{whose.strip()} begins behind the wall `{c.name}`: its function is {g[member]:.3g} at the start",
                fix="A wall keeps its function positive: start inside, or change the sign of the function.",
            )
