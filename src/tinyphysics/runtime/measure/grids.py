"""How well were tp.poisson's equations solved by cycles?  Rounds, what each leaves of the residual, and the end.

A kernel keeps none of them: counting would cost time in every step. They are found again from the last frame, in NumPy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp, toposort
from tinyphysics.rules.calculus.elliptic import MULTIGRID, elliptic
from tinyphysics.rules.formulas.elliptic import expand
from tinyphysics.runtime.stages.in_numpy import numbers, with_rounds
from tinyphysics.runtime.stages.origin import Origin
from tinyphysics.system import System

MOST_MEMBERS = 16  # that are looked at


def equations_of(system: System) -> list[UOp]:
    """Those that are solved by cycles, in an energy, forces or rates."""
    given = (system.energy, *(system.forces or ()), *(system.update or ()))
    roots = [u for u in given if u is not None]
    return [u for u in toposort(roots) if u.op is Ops.ELLIPTIC and elliptic(u).method == MULTIGRID]


def is_solved_by_cycles(system: System) -> bool:
    return bool(equations_of(system))


def cycles_report(origin: Origin) -> dict[str, Any]:
    """The largest of all equations, and of the members that are looked at."""
    r = origin.run
    rounds, factors, residuals = [], [], []
    for who in range(min(r.given.members, MOST_MEMBERS)):
        env: dict[str, Any] = {name: np.asarray(v[-1])[who] for name, v in origin.frames.items()}
        env |= {name: v[who if len(v) > 1 else 0] for name, v in r.given.params.items()}
        if r.system.time is not None:
            env[str(r.system.time.arg)] = r.t0 + r.dt * origin.last
        if not all(np.isfinite(v).all() for v in env.values()):
            continue
        for u in equations_of(r.system):
            names = [UOp.var(f"source {k}", s.shape, s.dtype) for k, s in enumerate(u.src)]
            values = {str(x.arg): y for x, y in zip(names, numbers(list(u.src), env))}
            plain = u.replace(tuple(names))
            found, count = with_rounds(expand(plain), values)
            e = elliptic(plain)
            x = UOp.var("found", u.shape, u.dtype)
            (applied,) = numbers([e.applied(x)], values | {"found": found})
            f = np.asarray(values["source 0"])
            f = f - f.mean() if e.is_singular and not values["source 1"].any() else f
            size = np.linalg.norm(f)
            residual = float(np.linalg.norm(f - applied) / size) if size else 0.0
            turns = e.cycles or max(count - 1, 1)  # the last round finds that it is over
            rounds.append(turns)
            residuals.append(residual)
            factors.append(residual ** (1 / turns))
    if not rounds:
        return {"cycles": 0}
    return {"cycles": max(rounds), "factor": max(factors), "residual": max(residuals)}
