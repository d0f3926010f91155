"""How is a run watched in a terminal, while it goes on or from its store?  evolve(view="terminal"), `tp watch run.zarr`."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from tinyphysics.errors import PlanError, StoreError
from tinyphysics.options import a_view
from tinyphysics.runtime.api.pictures import drawn
from tinyphysics.runtime.stages.description import system_of
from tinyphysics.runtime.stages.live import Shown
from tinyphysics.runtime.storage.run_store import open_store
from tinyphysics.trajectory import Trajectory
from tinyphysics.view.moment import Ranges, State, reach, state_of, wider
from tinyphysics.view.terminal import portrait
from tinyphysics.view.watching import HELP, Watching

AGAIN = 0.5  # seconds between two looks at a store for new frames
MOST = 64 * 2**20  # bytes of frames that are read: of more, evenly spaced ones


def watched(where: Any, run: Callable[[Watching], Trajectory]) -> Trajectory:
    """A run on the other screen of the terminal; what it made is played there when it is over."""
    a_view("view", where)
    with Watching() as watching:
        out = run(watching)
        try:
            watching.play(Shown(*drawn(out)))
        except PlanError as error:  # what has no picture: the run itself is there
            watching.told = error.what
    return out


class StoredFrames:
    """The frames of a store, as far as they are written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.ranges: Ranges | None = None
        self.looked, self.written = -AGAIN, -1
        store = open_store(path)
        try:
            self.system = system_of(json.loads(store.attributes["simulation"])["system"])
        except (KeyError, TypeError, ValueError) as error:
            raise StoreError(f"`{path}` is damaged: its system could not be read: {error!r}") from error
        self.again()

    def again(self) -> bool:
        """Reads what there is now; is there more than before?"""
        if time.monotonic() - self.looked < AGAIN:
            return False
        self.looked = time.monotonic()
        store = open_store(self.path)
        steps, times = store.read("step"), store.read("time")
        if len(steps) == self.written:
            return False
        self.written = len(steps)
        one = sum(store.read(name, 0, 1).nbytes for name in store.states) if len(steps) else 0
        every = max(1, -(-one * len(steps) // MOST))
        frames = {name: few(store, name, len(steps), every) for name in store.states}
        self.steps, self.t = steps[::every], times[::every]
        self.stops: Sequence[Any] = json.loads(store.attributes.get("stops", "[]"))
        if len(self.steps):
            so_far: Any = SimpleNamespace(frames=frames, t=self.t)
            self.picture = portrait(so_far, self.system.seen)
            self.ranges = wider(self.ranges, reach(self.picture))
        return True

    def count(self) -> int:
        return len(self.steps)

    def state(self, k: int) -> State:
        assert self.ranges is not None
        end = k == len(self.steps) - 1
        told = f"{self.written:,} frames" + ", the run stopped" * bool(end and self.stops)
        return state_of(self.picture, k, self.steps[k], self.t[k], told, self.ranges, HELP)


def few(store: Any, name: str, count: int, every: int) -> Any:
    """Every so many of the frames of a state, without holding them all."""
    if every == 1:
        return store.read(name)
    return np.stack([store.read(name, k, k + 1)[0] for k in range(0, count, every)])


def watch(path: str | Path) -> int:
    """Plays the frames of a store and follows those that are added; how many there were in the end."""
    frames = StoredFrames(Path(path))
    if not frames.count():
        raise StoreError(f"`{path}` has no frame yet", fix="Wait until the run has written one.")
    with Watching() as watching:
        watching.play(frames, frames.again)
    return frames.count()
