"""Does a backend do what the others do, whatever is looked at?  `tp validate FILE`: six runs of one system, compared.

The order is that in which faults are found: first that the backend runs at all and nothing is read, then its bits, then what
observers are handed, and that none of them changes a bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinyphysics.errors import TinyPhysicsError
from tinyphysics.runtime.stages.observation import STRIDE_BYTES
from tinyphysics.runtime.state.digest import state_hash, unmarked
from tinyphysics.trajectory import Trajectory
from tinyphysics.util import plural

REFERENCE = "python"  # the virtual machine, which says what a program means
FEW = 64  # steps that it is asked for
HASHES = 8  # digests on the way

Compile = Callable[[str | None], Any]  # a backend, or None for the one of the file -> a Simulation


@dataclass(frozen=True)
class Item:
    """One question of a validation: its letter, what is asked, whether it passed, and what was seen."""

    letter: str
    asks: str
    passed: bool
    saw: str


def validate(compiled: Compile, given: Mapping[str, Any], steps: int) -> Iterator[Item]:
    """The items in their order; an error of an item is its answer, and the others are asked all the same."""
    sim = compiled(None)
    every = max(1, steps // HASHES)
    kept: dict[str, Trajectory] = {}

    def run(observer: str, **more: Any) -> Trajectory:
        if observer not in kept:
            kept[observer] = sim.evolve(**given, steps=steps, options={"observer": observer}, **more)
        return kept[observer]

    def advance() -> tuple[bool, str]:
        m = run("none").metrics
        good = m["launches"] > 0 and not any(run("none").stops) and m["bytes_read"] == 0
        gpu = m["backend"]["used"] != "cuda" or m["gpu_hotloop_active"]
        return good and gpu and not m["flags"]["failure"], (
            f"{m['backend']['used']}, {m['launches']} launches, {m['bytes_read']} bytes read"
        )

    def bits() -> tuple[bool, str]:
        few = min(steps, FEW)
        ours, theirs = (s.evolve(**given, steps=few, hash_every=1) for s in (sim, compiled(REFERENCE)))
        pairs = zip(ours.hashes, theirs.hashes)
        same = sum((n, unmarked(h)) == other for (n, h), other in pairs)
        whole = same == few and unmarked(ours.hash) == theirs.hash
        return whole, f"{same} of {few} hashes are those of the virtual machine"

    def snapshots() -> tuple[bool, str]:
        out = run("snapshots", save_every=every, hash_every=every)
        read, frames = out.metrics["bytes_read"], sum(v.nbytes for v in out.kept.values())
        first = frames // len(out.t)
        end = state_hash({name: v[-1] for name, v in out.kept.items()})
        good = (
            len(out.t) == -(-steps // every) + 1
            and frames - first <= read
            and end == unmarked(run("none").hash)
        )
        return good, f"{plural(len(out.t), 'frame')}, {read:,} bytes read, hash {out.hash[:12]}"

    def parity() -> tuple[bool, str]:
        again = sim.evolve(**given, steps=steps, hash_every=every)
        hashes = run("snapshots").hashes
        same = sum(a == b for a, b in zip(again.hashes, hashes))
        return again.hashes == hashes, f"{same} of {len(hashes)} hashes along the run are equal"

    def nothing() -> tuple[bool, str]:
        out = run("none")
        final = {name: np.asarray(v) for name, v in out.final.states.items()}
        size = sum(v.nbytes for v in final.values())
        return out.metrics[
            "bytes_read"
        ] >= size > 0, f"{out.metrics['bytes_read']} bytes once `final` is read"

    def metrics() -> tuple[bool, str]:
        out = run("metrics", observe_every=every)
        strides = len(next(iter(out.observed.values()))[0])
        read = out.metrics["bytes_read"] / max(strides, 1)
        return read <= STRIDE_BYTES and out.hash == run("none").hash, f"{read:.0f} bytes a stride"

    asked: dict[str, Callable[[], tuple[bool, str]]] = {
        "it advances on the backend, and nothing is read": advance,
        "its hashes are those of the virtual machine, step by step": bits,
        "snapshots are handed out, and the last one is the end": snapshots,
        "looking changes no bit of the run": parity,
        "without an observer the end is read when it is asked for": nothing,
        "metrics are small, and change no bit": metrics,
    }
    for letter, (text, ask) in zip("ABCDEF", asked.items()):
        try:
            yield Item(letter, text, *ask())
        except TinyPhysicsError as error:
            yield Item(letter, text, False, f"{type(error).__name__}: {error.what}")
