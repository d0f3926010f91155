"""Why do the equations of a drift along constraints have no solution?  A rod turned too far in it, as the end of a whip does.

A drift pushes along the slope G that a constraint has where it begins. A rod that turns by more than a radian in it cannot be
brought back to its length along its old direction: then no multiplier solves the equations, whatever the solver.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tinyphysics.errors import PhysicsIntegrityError
from tinyphysics.runtime.stages.constraints import holds, numeric, numeric_arrays, rows_of
from tinyphysics.runtime.state.ensemble import Inputs
from tinyphysics.system import System

FAR = 0.5  # of its own length, by which a slope may change in a drift: beyond 1 there is no solution
WELL = 0.25  # by which it should not change more, for what is advised


def slopes(system: System, i: Inputs, states: Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
    """(T'(p) by the names of the positions, G) of one member."""
    if (long := numeric_arrays(system)) is not None:
        _, v, G, _ = long.slopes(long.env(i, states, 0))
        return {str(long.of.q.arg): v.reshape(long.of.q.shape)}, G
    n = numeric(system)
    _, G, A, _, p = n.at(i, states)
    v = n.unflat(np.einsum("mkl,ml->mk", A, p), n.of.positions)
    return {name: x[0] for name, x in v.items()}, G[0]


def turned_too_far(
    system: System, i: Inputs, member: int, state: Mapping[str, Any], dt: float
) -> PhysicsIntegrityError | None:
    """The row whose slope changes most in a drift from a state, if it is too much; None if that is not the reason."""
    if not holds(system):
        return None
    own = Inputs({}, {name: v[[member if len(v) > 1 else 0]] for name, v in i.own.items()}, 1, False)
    now = {name: np.asarray(v, np.float64)[None] for name, v in state.items()}
    v, G = slopes(system, own, now)
    _, after = slopes(system, own, {name: x + dt * v[name] if name in v else x for name, x in now.items()})
    with np.errstate(all="ignore"):
        change = np.nan_to_num(np.linalg.norm(after - G, axis=1) / np.linalg.norm(G, axis=1))
    row = int(change.argmax())
    far = float(change[row])
    if not far > FAR:
        return None
    return PhysicsIntegrityError(
        f"{rows_of(system)[row]} turns by {far:.2f} rad in one step, and beyond about 1 rad the equations of a drift "
        "have no solution",
        fix=f"Compile with dt={dt * WELL / far:.2g} or less; the state before that step is the last one of the run.",
    )
