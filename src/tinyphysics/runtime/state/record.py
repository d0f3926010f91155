"""What has a run collected?  Frames and observables in arrays that are laid out before it begins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tinyphysics.device.cuda import dlpack as exchange
from tinyphysics.errors import InputError
from tinyphysics.runtime.state.digest import canonical, chain, joined, leaves
from tinyphysics.runtime.state.ensemble import Inputs
from tinyphysics.runtime.state.schedule import Schedule
from tinyphysics.trajectory import Stop


def room(what: str, count: int, like: Any) -> Any:
    """Memory for so many arrays like this one; pages that are never written cost nothing."""
    if isinstance(like, exchange.DeviceArray):
        return exchange.empty((count, *like.shape), like.dtype)
    try:
        return np.empty((count, *like.shape), like.dtype)
    except (MemoryError, ValueError):
        size = count * like.nbytes / 2**30
        raise InputError(
            f"{count:,} {what} need {size:,.0f} GiB, more than the available memory",
            fix='Raise save_every= or observe_every=, or pass save="run.zarr".',
        ) from None


@dataclass(frozen=True, eq=False)
class Carried:
    """The loop state in which a run ended: enough to go on with it, bit for bit."""

    step: int
    registers: Mapping[str, Any]  # (members, ...); at step 0 nothing
    # by the number of the member: why it stopped, its last state
    frozen: Mapping[int, tuple[Stop, Mapping[str, Any]]]
    memory: Mapping[str, Any] = field(default_factory=dict)  # of what changes all members together


@dataclass
class Record:
    """Which rows count follows from the step that was reached, so an interrupted run has nothing to undo."""

    schedule: Schedule
    frames: dict[str, Any]  # (slots, members, shape...); empty if nothing is saved
    observed: dict[str, Any] = field(default_factory=dict)  # (rows, members, shape...)
    hashes: list[tuple[int, str]] = field(default_factory=list)
    stops: list[Stop] = field(default_factory=list)
    final: dict[str, Any] = field(default_factory=dict)
    last: int = 0
    slot0: int = 0  # the number of the first frame that the arrays have room for
    row0: int = 0  # and of the first observation
    # the errors of each member's approximate forces
    measured: list[dict[str, float]] = field(default_factory=list)
    # that each member took, where they choose their own, by tile
    substeps: list[Any] = field(default_factory=list)
    # attempts of each that were no steps, where there are such
    rejected: list[Any] = field(default_factory=list)
    found: list[Any] = field(default_factory=list)  # of the events that were looked for, by tile
    met: list[Any] = field(default_factory=list)  # (ties, grazes, rollbacks) of walls and events, by tile
    shape: Mapping[str, Any] = field(default_factory=dict)  # how members lay on a GPU
    passed: Mapping[str, Any] = field(default_factory=dict)  # the frame before that one
    carried: Carried | None = None  # the loop state at its end
    worker: Any = None  # what changed all members together, as it was at the end
    alarms: int = 0  # members that looked wrong, and were replayed
    kept_nearest: bool = False  # did its loop keep how near it came to poles?
    came_near: bool = False  # did a member come near one, and go on?  Its energy may say more
    # of some members of a larger ensemble: their states at the steps of which all of it is hashed, as bytes
    unhashed: list[tuple[int, list[Any]]] | None = None

    def watch(self, first: Mapping[str, Any], most: int | None = None) -> None:
        """Memory for the observables, whose values at the first step are these; for so many at most."""
        s = self.schedule
        count = len(s.observed(s.steps))
        count = count if most is None else max(1, min(count, most))
        for name, v in first.items():
            self.observed[name] = room(f"values of `{name}`", count, v)
            if s.first in s.observed(s.first):
                self.observed[name][0] = v

    def hash(self, n: int, state: str) -> None:
        if not self.hashes or self.hashes[-1][0] < n:
            self.hashes.append((n, chain(self.hashes[-1][1] if self.hashes else "", state)))

    def digest(self, array: Any) -> bytes:
        """What a hash is made of, of some members."""
        return leaves(array) if self.unhashed is None else canonical(array).tobytes()

    def hash_parts(self, n: int, parts: list[tuple[Any, tuple[int, ...], bytes]]) -> None:
        """The hash of step n, from the digests of each array."""
        if self.unhashed is None:
            self.hash(n, joined(parts))
        else:
            self.unhashed.append((n, parts))

    def forget_hashes(self, n: int) -> None:
        """Those after step n are not of this run."""
        self.hashes[:] = [h for h in self.hashes if h[0] <= n]
        if self.unhashed is not None:
            self.unhashed[:] = [h for h in self.unhashed if h[0] <= n]

    @property
    def steps(self) -> Any:
        return self.schedule.frames(self.last)[0]

    @property
    def observed_at(self) -> range:
        return self.schedule.observed(self.last)

    def raise_error(self) -> None:
        """Of a replay, which answers nothing if it ended half way."""
        for stop in self.stops:
            if stop.error is not None:
                raise stop.error

    def series(self, name: str) -> Any:
        return self.observed[name][: len(self.observed_at)]

    def keep(self, steps: Any, values: Mapping[str, Any], here: slice, frames: Mapping[str, str]) -> None:
        """The rows of some members at some steps; `frames` are the names under which states come along."""
        s = self.schedule
        if s.observe_every is not None and self.observed:
            wanted = steps % s.observe_every == 0
            rows = steps // s.observe_every - s.observed(s.steps).start // s.observe_every - self.row0
            for name, v in self.observed.items():
                place(v, rows, wanted, values[name], here)
        if frames and s.save_every is not None:
            wanted = (steps % s.save_every == 0) | (steps == s.steps)
            rows = -(-steps // s.save_every) - s.first // s.save_every - self.slot0
            for name, source in frames.items():
                place(self.frames[name], rows, wanted, values[source], here)

    def frame(self, n: int) -> Mapping[str, Any]:
        """The arrays of the frame at step n."""
        return self.frame_of(self.schedule.slot(n))

    def frame_of(self, number: int) -> Mapping[str, Any]:
        slot = number - self.slot0
        return {name: v[slot] for name, v in self.frames.items()} if slot >= 0 else self.passed

    def blank(self, n: int, target: int, here: slice, frames: Iterable[str]) -> None:
        """NaN for these members after step n up to the target: in the observables, and in these frames."""
        s = self.schedule
        for v in self.observed.values():
            v[len(s.observed(n)) - self.row0 : len(s.observed(target)) - self.row0, here] = np.nan
        for name in frames:
            self.frames[name][s.complete(n) - self.slot0 : s.slot(target) + 1 - self.slot0, here] = np.nan


def place(out: Any, rows: Any, wanted: Any, values: Any, here: slice) -> None:
    """values[wanted] into the rows of the same place, which follow each other."""
    if not wanted.any():
        return
    first = int(rows[wanted][0])
    chosen = values if wanted.all() else values[wanted]
    out[first : first + len(chosen), here] = chosen


def beginning(given: Inputs, schedule: Schedule, most: int | None = None) -> Record:
    """Memory for the frames of a run; for so many at most."""
    count = schedule.kept(schedule.steps)
    count = count if most is None else min(count, max(most, 2 * schedule.most_between + 2))
    return Record(schedule, {name: room("frames", count, v) for name, v in given.states.items()})
