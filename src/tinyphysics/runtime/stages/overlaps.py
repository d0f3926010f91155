"""Do bodies that touch begin apart?  Their gaps at the start of a run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tinyphysics.errors import InputError
from tinyphysics.runtime.engines.caller_arrays import host_copies
from tinyphysics.runtime.stages.in_numpy import numbers
from tinyphysics.runtime.state.ensemble import Inputs
from tinyphysics.system import System

SLIGHT = 1e-3  # of the largest position: an overlap that contacts leave, and take away again
LOOKED = 16  # members of an ensemble


def check_apart(system: System, i: Inputs) -> None:
    """An InputError where bodies overlap at the start by more than contacts leave."""
    if not system.contacts or not i.members:
        return
    if i.there:
        i = replace(i, states=host_copies(i.states))
    for member in range(0, i.members, max(1, i.members // LOOKED)):
        every = {**i.states, **i.own}
        env = {n: np.asarray(v[member if len(v) > 1 else 0], np.float64) for n, v in every.items()}
        size = max(float(np.abs(env[str(q.arg)]).max(initial=0.0)) for q in system.q)
        for touch, gap in zip(system.contacts, numbers(system.gaps, env)):
            worst = float(np.min(gap, initial=0.0))
            if worst < -SLIGHT * size:
                whose = f" of member {member}" if i.is_ensemble else ""
                raise InputError(
                    f"`{touch.name}`{whose} overlaps by {-worst:.3g} at the start",
                    fix="Start with bodies apart, where every gap is zero or above; check the sign of the gap.",
                )
