"""Does a stored run come out again?  It is recomputed from its first frame, and compared frame by frame, bit by bit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tinyphysics.errors import StoreError, TinyPhysicsError
from tinyphysics.planner.cost.target import checked
from tinyphysics.runtime.api.simulation import Simulation
from tinyphysics.runtime.api.simulation_file import rebuilt
from tinyphysics.runtime.engines.backend import resolved
from tinyphysics.runtime.stages.description import system_of
from tinyphysics.runtime.state.acts import Act
from tinyphysics.runtime.state.digest import BITS
from tinyphysics.runtime.state.windows import Window
from tinyphysics.runtime.storage.run_store import RunStore, hashes, open_store


@dataclass(frozen=True)
class Difference:
    """The first frame that is not what it should be."""

    step: int
    why: str


@dataclass(frozen=True)
class Replayed:
    system: str
    frames: int
    last: int  # the step of the last frame
    difference: Difference | None


class StoredBitsDiffer(StoreError):
    """A difference was found: the rest need not be computed."""


class Comparison:
    """Takes the frames of a run instead of a store, and holds them against those of one."""

    def __init__(self, store: RunStore) -> None:
        self.store, self.difference, self.at = store, None, 0
        self.steps, self.times = store.read("step"), store.read("time")
        self.between = len(self.steps) > 1 and not np.diff(self.steps).all()  # frames between two steps

    difference: Difference | None

    def put(self, w: Window, attributes: Mapping[str, Any]) -> None:
        if self.difference is not None or not len(w.steps):
            return
        # a store that a resumed run has made begins with a gap
        wanted = np.isin(w.times, self.times) if self.between else np.isin(w.steps, self.steps)
        count = int(wanted.sum())
        mine = {name: v[wanted] for name, v in w.frames.items()}
        theirs = {name: self.store.read(name, self.at, self.at + count) for name in mine}
        claimed = self.store.read("hash", self.at, self.at + count)
        again, held = hashes(mine), hashes(theirs)
        wrong = (again != claimed).any(axis=1) | (held != claimed).any(axis=1)
        if wrong.any():
            k = int(np.flatnonzero(wrong)[0])
            self.difference = Difference(int(self.steps[self.at + k]), reason(again[k], held[k], claimed[k]))
            raise StoredBitsDiffer("a frame differs")
        self.at += count

    def settle(self) -> None:
        """Nothing was written, so nothing has to reach the disk."""


def reason(again: Any, held: Any, claimed: Any) -> str:
    if (again == held).all():
        return "the frame comes out again, but the hash beside it is another: the hash was altered"
    if (again == claimed).all():
        return "the frame was altered after it was written: what is computed again has the hash beside it, the frame has not"
    if (held == claimed).all():
        return "the frame is as it was written, and what is computed again is another"
    return "the frame, the hash beside it and what is computed again are three different things"


def simulation(store: RunStore, backend: str | None) -> Simulation:
    """The simulation that wrote a store."""
    a, path = store.attributes, store.root
    if a["bits"] != BITS:
        raise StoreError(
            f"`{path}` was written by version {a['tinyphysics']}, whose runs give different bits",
            fix=f"Replay it with tinyphysics {a['tinyphysics']}.",
        )
    try:
        # a run that failed is compared up to where it failed
        told = json.loads(a["simulation"]) | {"checks": "on"}
        sim = rebuilt(told if backend is None else {**told, "backend": resolved(checked(backend))})
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, TinyPhysicsError):
            raise
        raise StoreError(f"`{path}` is damaged: its simulation could not be read: {error!r}") from error
    if sim.compiled.known.program != a["program"]:
        raise StoreError(
            f"this version compiles the system of `{path}` to another program, so its runs give different bits",
            fix=f"Replay it with tinyphysics {a['tinyphysics']}.",
        )
    return sim


def replay(path: str | Path, backend: str | None = None) -> Replayed:
    """Recomputes the run in a store from its first frame on; nothing in the store is changed."""
    store = open_store(Path(path))
    steps = store.read("step")
    if not len(steps) or steps[0] != 0:
        raise StoreError(
            f"`{path}` has no first frame to start from", fix="Write the store again, from the first step on."
        )
    a, sim = store.attributes, simulation(store, backend)
    first = {name: store.read(name, 0, 1)[0] for name in store.states}
    start: dict[str, Any] = {s.name: sim.compiled.encoding.words(s.name, first) for s in sim.system.states}
    arrays = {name: store.read(name) for name, m in store.layouts.items() if not m.grows}
    against = Comparison(store)
    every, data = a.get("save_every"), json.loads(a["simulation"]).get("acts", ())
    acts = {name: Act(every, system_of(one), *since) for name, every, one, *since in data}
    at = None if every is not None and not against.between else against.times
    out = sim.evolve(
        **start,
        **json.loads(a["parameters"]),
        **arrays,
        steps=None if against.between else int(steps[-1]),
        until=float(against.times[-1]) if against.between else None,
        dt=None if sim.system.kind == "map" else float(a["dt"]),
        t0=a["t0"],
        seed=a["seed"],
        options={"save_at": at, **({"acts": acts} if acts else {})},
        save_every=every if at is None else None,
        save=against,
        progress="auto",
    )
    found = against.difference
    if found is None and against.at < len(steps):
        step = int(steps[against.at])
        ended = f": {out.stopped.cause} at step {out.stopped.step}" if out.stopped is not None else ""
        found = Difference(step, f"what is computed again ends before it{ended}")
    return Replayed(a["system"], len(steps), int(steps[-1]), found)
