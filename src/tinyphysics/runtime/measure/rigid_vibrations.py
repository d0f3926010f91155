"""Which vibrations have rigid bonds replaced?  Of springs k g²/2: ω² are the eigenvalues of √k G M⁻¹ Gᵀ √k."""

from __future__ import annotations

import numpy as np

from tinyphysics.ir import Ops
from tinyphysics.runtime.stages.constraints import numeric, numeric_arrays
from tinyphysics.runtime.stages.in_numpy import numbers
from tinyphysics.runtime.state.ensemble import Inputs
from tinyphysics.system import System


def count_of(system: System) -> int:
    """How many constraints stand for springs."""
    return sum(k.size for k in system.stiffness if not (k.op is Ops.CONST and k.arg == 0.0))


def vibrations(system: System, given: Inputs) -> tuple[float, float]:
    """The lowest and the highest angular frequency of the first member, where it begins."""
    states, own = ({n: np.asarray(v[:1]) for n, v in x.items()} for x in (given.states, given.own))
    first = Inputs(states, own, 1, False)
    env = {name: np.asarray(v[0], np.float64) for name, v in (*states.items(), *own.items())}
    k = np.concatenate([np.ravel(x) for x in numbers(list(system.stiffness), env)])
    if (long := numeric_arrays(system)) is not None:
        _, _, G, moved = long.slopes(env)
        matrix = G @ moved
    else:
        _, G, A, *_ = numeric(system).at(first, first.states)
        matrix = G[0] @ A[0] @ G[0].T
    stiff = np.sqrt(k[k > 0])
    squares = np.linalg.eigvalsh(stiff[:, None] * matrix[np.ix_(k > 0, k > 0)] * stiff)
    return float(np.sqrt(max(squares[0], 0.0))), float(np.sqrt(squares[-1]))
