"""What changes the state of a run between two steps?  An act: a map of states, done after every so many steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tinyphysics.errors import InputError
from tinyphysics.given import shown, whole
from tinyphysics.options import heeds
from tinyphysics.system import SizedFamily, System
from tinyphysics.util import a_kind

FIX = "Pass a map of states: map=lambda p: -p, or a function with @tp.map."


@dataclass(frozen=True)
class Act:
    """What is done after every so many steps; made by tp.act."""

    every: int
    map: Any  # a map, or a function that is read as one


@heeds("act", "tp.act(every=100, map=lambda p: -p)")
def act(*, every: int, map: Any) -> Act:
    """Says that a run changes its state after every so many steps: `evolve(..., acts={"kick": tp.act(every=100, map=f)})`.

    `every` is the number of steps between two acts. `map` is a function of states that returns their new values, with or
    without @tp.map; its other arguments are parameters of the system, states that are only read, the time `t`, or have
    defaults.
    """
    count = whole("every", every, 1)
    if not (callable(map) or isinstance(map, (System, SizedFamily))):
        raise InputError(f"map={shown(map)} is not a map", fix=FIX)
    if isinstance(map, (System, SizedFamily)) and map.kind != "map":
        raise InputError(f"map={map.name} is {a_kind(map)}, and an act needs a map of states", fix=FIX)
    return Act(count, map)


@dataclass(frozen=True, eq=False)
class Acted:
    """What became of an act in a run: out.acts["kick"]."""

    every: int
    steps: Any  # after which it was done
    t: Any  # the times of those
    map: System

    def __repr__(self) -> str:
        return f"<every {self.every} steps, {len(np.atleast_1d(self.steps))} times>"
