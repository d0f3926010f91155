"""Can a run be done in the units of its program?  They are made of dt and parameters, and must be undone at the end."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinyphysics.errors import InputError
from tinyphysics.ir.value import evaluate
from tinyphysics.runtime.stages.execute import observe_states
from tinyphysics.runtime.state.run import Run
from tinyphysics.step import Scale

SMALLEST, LARGEST = 2.0**-500, 2.0**500  # products of two such units are still numbers of full precision


def check_units(r: Run, scales: tuple[Scale, ...]) -> None:
    """An InputError if a unit is zero, not finite, or so far from 1 that products with it lose digits."""
    for s in scales:
        values = np.abs(unit(r, s))
        bad = ~((values >= SMALLEST) & (values <= LARGEST))
        if bad.any():
            member = int(np.flatnonzero(bad.reshape(len(values), -1).any(axis=1))[0])
            whose = f" of member {member}" if len(values) > 1 else ""
            raise InputError(
                f"`{s.state.arg}`{whose} cannot be stored in units of {s.factor} = {values[bad][0]:g}",
                fix='Compile it with scale="off", or check dt and the parameters.',
            )


def unit(r: Run, s: Scale) -> Any:
    """Its value: (members or 1, shape...)."""
    given = {str(v.arg): r.given.params[str(v.arg)] for v in s.factor.leaves if str(v.arg) != "dt"}
    if any(len(a) > 1 for a in given.values()):
        return observe_states(r, {"unit": s.factor}, {n: v[None] for n, v in r.given.states.items()}, [0])[
            "unit"
        ][0]
    values = {name: a[0].ravel().tolist() if a[0].ndim else float(a[0]) for name, a in given.items()}
    return np.asarray(evaluate([s.factor], values | {"dt": r.dt})[0])[None]
