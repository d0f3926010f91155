"""Where did the first run of a simulation begin?  Some of its members, kept for reports that need a state."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tinyphysics.runtime.state.ensemble import Inputs

MEMBERS = 16  # of an ensemble that are kept, at even distances
NUMBERS = 1 << 17  # that are kept at most: a megabyte


@dataclass(frozen=True, eq=False)
class FirstState:
    given: Inputs
    dt: float
    steps: int | None  # of that run; None where a state was given and nothing has run


def first_state(i: Inputs, dt: float, steps: int | None = None) -> FirstState | None:
    """None where it is empty, on a GPU, or so large that keeping it would be noticed."""
    numbers = sum(v[:1].size for v in i.states.values()) if not i.there else 0
    if i.members == 0 or not 0 < numbers <= NUMBERS:
        return None
    count = min(i.members, MEMBERS, NUMBERS // numbers)
    who = [k * (i.members - 1) // max(count - 1, 1) for k in range(count)]
    states = {name: np.array(v[who]) for name, v in i.states.items()}
    params = {name: v[who] if len(v) > 1 else v for name, v in i.params.items()}
    return FirstState(replace(i, states=states, params=params, members=count), dt, steps)
