"""What is watched of a run?  The frames that it has recorded, while it goes on and when it is over.

What is shown is read between two blocks, from what is kept anyway: it can end a run, and changes no bit of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np

from tinyphysics.runtime.stages.progress import Drift, ProgressRate
from tinyphysics.runtime.state.record import Record
from tinyphysics.runtime.state.schedule import times_at
from tinyphysics.system import System
from tinyphysics.trajectory import Trajectory
from tinyphysics.view.moment import Ranges, State, reach, state_of, wider
from tinyphysics.view.terminal import portrait
from tinyphysics.view.watching import HELP, Watching


@contextmanager
def shown_live(
    view: Watching, system: System, record: Record, dt: float, t0: float, steps: int, drift: Drift
) -> Iterator[Callable[[int], None]]:
    """A function to be called with the number of steps done, as that of a progress bar."""
    pace, ranges = ProgressRate(steps, drift), None

    def state(n: int) -> State | None:
        nonlocal ranges
        s = record.schedule
        first, end = record.slot0, s.slot(s.last_saved(n)) + 1
        if (
            end <= first
            or not record.frames
            or not all(isinstance(v, np.ndarray) for v in record.frames.values())
        ):
            return None
        at = s.steps_of(first, end)
        frames = {name: v[: end - first] for name, v in record.frames.items()}
        so_far: Any = SimpleNamespace(frames=frames, t=times_at(at, dt, t0))
        picture = portrait(so_far, system)
        ranges = wider(ranges, reach(picture))
        return state_of(picture, len(at) - 1, at[-1], so_far.t[-1], pace.told(n), ranges, HELP)

    def tick(n: int) -> None:
        pace.begin(n)
        view.glance(lambda: state(n))

    yield tick


class Shown:
    """The frames of a run that is over."""

    def __init__(self, out: Trajectory, system: System) -> None:
        self.picture, self.steps, self.t = portrait(out, system), out.steps, out.t
        self.ranges: Ranges = reach(self.picture)
        self.told = told(out, system)

    def count(self) -> int:
        return len(self.t)

    def state(self, k: int) -> State:
        return state_of(self.picture, k, self.steps[k], self.t[k], self.told(k), self.ranges, HELP)


def told(out: Trajectory, system: System) -> Callable[[int], str]:
    """What is known of the energy at a frame; it changes rarely, so that it can be read."""
    if system.energy is None or system.books:
        return lambda k: ""
    e = np.asarray(out.energy)
    if not e.size:
        return lambda k: ""
    of = " of that at the start" if np.abs(e[0]).max() else ""
    with np.errstate(invalid="ignore", over="ignore"):
        off = np.abs(e - e[0]).reshape(len(e), -1).max(axis=1) / (np.abs(e[0]).max() or 1.0)
    worst = np.maximum.accumulate(np.where(np.isfinite(off), off, np.inf))
    return lambda k: f"energy off by {worst[k]:.0e}{of}"
