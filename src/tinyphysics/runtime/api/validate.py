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
from tinyphysics.target import TARGETS
from tinyphysics.trajectory import Trajectory
from tinyphysics.util import plural

REFERENCE = "python"  # the virtual machine, which says what a program means
FEW = 64  # steps that it is asked for
HASHES = 8  # digests on the way

OF_STOPS = {
    "NOT_FINITE",
    "NOT_SOLVED",
    "CHECK_FAILED",
}  # flags of runs that stop, as they do on every backend
NEAR = 1e-6  # of the largest number of a state, after FEW steps

Compile = Callable[[str | None], Any]  # a backend, or None for the one of the file -> a Simulation


@dataclass(frozen=True)
class Item:
    """One question of a validation: its letter, what is asked, whether it passed, and what was seen."""

    letter: str
    asks: str
    passed: bool | None  # None: there was nothing to compare
    saw: str


def near(ours: Trajectory, theirs: Trajectory) -> bool:
    """Are two runs at the same end, but for roundings?"""
    if ours.final.step != theirs.final.step:
        return False
    pairs = [(np.asarray(ours.final.states[name]), np.asarray(v)) for name, v in theirs.final.states.items()]
    largest = max((float(np.abs(b).max(initial=0.0)) for _, b in pairs), default=0.0)
    coarse = max(float(np.finfo(b.dtype).eps) if b.dtype.kind == "f" else 0.0 for _, b in pairs)
    room = max(NEAR, FEW * coarse) * largest
    return all(bool(np.all(np.abs(a - b) <= room)) for a, b in pairs)


def validate(compiled: Compile, given: Mapping[str, Any], steps: int) -> Iterator[Item]:
    """The items in their order; an error of an item is its answer, and the others are asked all the same."""
    sim = compiled(None)
    every = max(1, steps // HASHES)
    kept: dict[str, Trajectory] = {}

    def run(observer: str, **more: Any) -> Trajectory:
        if observer not in kept:
            kept[observer] = sim.evolve(**given, steps=steps, options={"observer": observer}, **more)
        return kept[observer]

    def stopped(out: Trajectory) -> list[tuple[Any, ...]]:
        return [(s.cause, s.step, s.member) for s in out.stops]

    def advance() -> tuple[bool | None, str]:
        out, told = run("none"), ""
        m = out.metrics
        deleted = sim.compiled.known.way != "loop"
        if not steps:
            told = ", no steps to do"
        elif deleted and not m["launches"]:
            told = ", the loop was deleted"
        moved = m["launches"] > 0 or bool(told)
        if out.stops:
            told += f", stopped at step {out.stops[0].step} ({out.stops[0].cause})"
        failed = set(m["flags"]["failure"]) - OF_STOPS
        gpu = m["backend"]["used"] != "cuda" or m["gpu_hotloop_active"] or not m["launches"]
        good = moved and gpu and not failed and m["bytes_read"] == 0
        return good, f"{m['backend']['used']}, {m['launches']} launches, {m['bytes_read']} bytes read{told}"

    def bits() -> tuple[bool | None, str]:
        few = min(steps, FEW)
        reference = compiled(REFERENCE)
        ours, theirs = (s.evolve(**given, steps=few, hash_every=1) for s in (sim, reference))
        if not theirs.hashes:
            return None, "no step was done, so nothing was compared"
        count = len(theirs.hashes)
        same = sum((n, unmarked(h)) == other for (n, h), other in zip(ours.hashes, theirs.hashes))
        ends = unmarked(ours.hash) == theirs.hash
        whole = same == count == len(ours.hashes) and ends and stopped(ours) == stopped(theirs)
        told, backend = (
            f"{same} of {count} hashes are those of the virtual machine",
            sim.compiled.known.backend,
        )
        if not whole and not TARGETS[backend].bit_exact:  # it promises no bits
            return near(
                ours, theirs
            ), f"{told}; {backend} promises the same numbers to rounding, which were compared"
        return whole, told

    def snapshots() -> tuple[bool | None, str]:
        out = run("snapshots", save_every=every, hash_every=every)
        read, frames = out.metrics["bytes_read"], sum(v.nbytes for v in out.kept.values())
        first = frames // len(out.t)
        # of members that stopped, frames are NaN, and the end is their last good state
        end = out.hash if out.stops else state_hash({name: v[-1] for name, v in out.kept.items()})
        count = -(-out.final.step // every) + 1
        ends = unmarked(end) == unmarked(run("none").hash)
        good = (
            len(out.t) == count and frames - first <= read and ends and stopped(out) == stopped(run("none"))
        )
        return good, f"{plural(len(out.t), 'frame')}, {read:,} bytes read, hash {out.hash[:12]}"

    def parity() -> tuple[bool | None, str]:
        if not steps:
            return None, "no step was done, so nothing was compared"
        again = sim.evolve(**given, steps=steps, hash_every=every)
        out = run("snapshots", save_every=every, hash_every=every)
        same = sum(a == b for a, b in zip(again.hashes, out.hashes))
        good = again.hashes == out.hashes and again.hash == out.hash and stopped(again) == stopped(out)
        return good, f"{same} of {len(out.hashes)} hashes along the run are equal, and that of the end"

    def nothing() -> tuple[bool | None, str]:
        out = run("none")
        if not out.final.step:
            return None, "the run ended where it began, so there was nothing to read"
        final = {name: np.asarray(v) for name, v in out.final.states.items()}
        size = sum(v.nbytes for v in final.values())
        read = out.metrics["bytes_read"]
        return read >= size > 0, f"{read} bytes once `final` is read"

    def metrics() -> tuple[bool | None, str]:
        out = run("metrics", observe_every=every)
        strides = len(next(iter(out.observed.values()))[0])
        read = out.metrics["bytes_read"] / max(strides, 1)
        return read <= STRIDE_BYTES and out.hash == run("none").hash, f"{read:.0f} bytes a stride"

    asked: dict[str, Callable[[], tuple[bool | None, str]]] = {
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
