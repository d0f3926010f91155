"""What changes the state of a run between two steps?  An act: a map of states, done after every so many steps.

A fault is an act that a run is not meant to have: it shows whether the checks of the run would find one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tinyphysics.errors import InputError
from tinyphysics.given import number, shown, whole
from tinyphysics.options import heeds
from tinyphysics.system import SizedFamily, System
from tinyphysics.util import a_kind

FIX = "Pass a map of states: map=lambda p: -p, or a function with @tp.map."


@dataclass(frozen=True)
class Act:
    """What is done after every so many steps; made by tp.act."""

    every: int
    map: Any  # a map, or a function that is read as one, or a Fault
    since: int | None = None  # of a fault: the first step that has it


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


@dataclass(frozen=True)
class Fault:
    """A number of a state that is wrong by a factor."""

    state: str
    index: tuple[int, ...]
    factor: float


@heeds("fault", 'tp.fault("p", (3, 0), relative=1e-3, since=1000)')
def fault(state: str, index: Any = (), *, relative: float, since: int) -> Act:
    """Makes a number of a state wrong on purpose, after step `since` and every step after it, to see whether a run finds it.

    `state` and `index` name the number: ("p", (3, 0)) is p[3, 0]. It is multiplied by 1 + `relative`. A run with a fault is
    watched as if it had none: `evolve(..., acts={"fault": tp.fault("p", (3, 0), relative=1e-3, since=1000)})` stops at step
    1000, with `out.stopped.cause == "integrity"`.
    """
    example = 'Write tp.fault("p", (3, 0), relative=1e-3, since=1000).'
    if not isinstance(state, str) or not state:
        raise InputError(f"tp.fault: {shown(state)} is not the name of a state", fix=example)
    at = index if isinstance(index, tuple) else (index,)
    at = tuple(whole("index", k, 0) for k in at)
    size = number("relative", relative, "relative=1e-3")
    if size == 0.0:
        raise InputError("tp.fault: relative=0 changes nothing", fix=example)
    return Act(1, Fault(state, at, 1.0 + size), whole("since", since, 1))


@dataclass(frozen=True, eq=False)
class Acted:
    """What became of an act in a run: out.acts["kick"]."""

    every: int
    steps: Any  # after which it was done
    t: Any  # the times of those
    map: System

    def __repr__(self) -> str:
        return f"<every {self.every} steps, {len(np.atleast_1d(self.steps))} times>"
