"""Which part of a long run is in memory?  A window of frames and observables; what is complete is handed on.

When depends on the clock, what does not: the frames are the same however they are cut into windows.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from tinyphysics.device.cuda.dlpack import empty_like, here
from tinyphysics.runtime.state.record import Record
from tinyphysics.runtime.state.schedule import times_at, times_of

BYTES = 4 << 20  # of frames, and of observables, that are handed on together
FEW = 16  # observations for which there is room in any case: a block of time is not shorter
PATIENCE = 1.0  # seconds after which what is complete is handed on, however little it is


# of frames (rows, members, shape...), their steps, and their times where they lie between two steps
Look = Callable[[Mapping[str, Any], Any, Any], dict[str, Any]]


@dataclass
class Window:
    """Frames and observations that follow each other: (rows, [members], shape...)."""

    steps: Any
    times: Any
    frames: Mapping[str, Any]
    observed_steps: Any
    observed_times: Any
    observed: Mapping[str, Any]

    def after(self, step: int, inside: Any) -> Window:
        """What comes after a step; frames between it and the next one do, which have times `inside`, not NaN."""
        a, b = (int(np.searchsorted(s, step, "right")) for s in (self.steps, self.observed_steps))
        while inside is not None and a and self.steps[a - 1] == step and not np.isnan(inside[a - 1]):
            a -= 1
        frames, observed = (
            {n: v[a:] for n, v in self.frames.items()},
            {n: v[b:] for n, v in self.observed.items()},
        )
        return Window(
            self.steps[a:], self.times[a:], frames, self.observed_steps[b:], self.observed_times[b:], observed
        )


class Target(Protocol):
    """Where windows go."""

    def put(self, window: Window, attributes: Mapping[str, Any]) -> None: ...
    def settle(self) -> None: ...


def fitting(arrays: Sequence[Any], least: int = 1) -> int:
    """How many rows of such arrays are a window."""
    return max(least, BYTES // max(sum(int(v.nbytes) for v in arrays), 1))


@dataclass
class Windows:
    record: Record
    target: Target
    dt: float
    t0: float
    is_ensemble: bool
    since: int = -1  # up to this step the target has everything
    look: Look | None = None  # of a run without steps to observe: its frames are observed instead
    handed: float = field(default_factory=time.monotonic)

    def limit(self) -> int:
        """Up to which step there is room."""
        r, s = self.record, self.record.schedule
        ends = [s.steps]
        slots = len(next(iter(r.frames.values())))
        if s.save_every is not None:
            slots -= s.most_between
            ends.append((s.first // s.save_every + r.slot0 + slots - 1) * s.save_every)
        elif s.marks is not None and (row := r.slot0 + slots) < len(s.marks.steps):
            step = int(s.marks.steps[row])  # the first for which there is no room
            ends.append(step - (bool(np.isnan(s.marks.times[row])) or step == s.steps))
        if s.observe_every is not None and r.observed:
            rows = len(next(iter(r.observed.values())))
            ends.append(s.observed(s.steps).start + (r.row0 + rows - 1) * s.observe_every)
        return min(ends)

    def full(self, n: int) -> bool:
        """Is there no room for what comes after step n?"""
        r, s = self.record, self.record.schedule
        full = any(s.complete(n) + 2 * s.most_between - r.slot0 >= len(v) for v in r.frames.values())
        return full or any(len(s.observed(n)) - r.row0 >= len(v) for v in r.observed.values())

    def ready(self, n: int) -> bool:
        """Is there no room for more, or has what is complete waited long enough?"""
        return self.full(n) or time.monotonic() - self.handed > PATIENCE

    def pass_on(self, n: int) -> None:
        """What is complete at step n, if there is no room for more or it has waited long enough."""
        if self.ready(n):
            self.hand_on(n)

    def hand_on(self, n: int, ends: bool = False) -> None:
        """All that is complete at step n; the window begins behind it. At its end a run has a frame of any step."""
        r, s = self.record, self.record.schedule
        slots, rows = s.kept(n) if ends else s.complete(n), len(s.observed(n))
        steps, inside = (
            s.frames(n, r.slot0) if ends else (s.steps_of(r.slot0, slots), s.between_of(r.slot0, slots))
        )
        later, count = s.observed(n)[r.row0 :], len(steps)
        seen: Any = np.arange(later.start, later.stop, later.step)
        # a run that goes on begins at any step
        odd = r.slot0 == 0 and s.first % (s.save_every or s.first + 1) != 0
        skip = int(odd and not (ends and n == s.first))
        inside = None if inside is None else inside[skip:]
        times = times_of((steps[skip:], inside), self.dt, self.t0)
        w = Window(
            steps[skip:],
            times,
            self.shown(r.frames, skip, count),
            seen,
            times_at(seen, self.dt, self.t0),
            self.shown(r.observed, 0, len(seen)),
        )
        if self.look is not None:
            found = self.look({name: v[skip:count] for name, v in r.frames.items()}, steps[skip:], inside)
            w = replace(
                w, observed_steps=steps[skip:], observed_times=times, observed=self.shown(found, 0, count)
            )
        self.target.put(w.after(self.since, inside), self.attributes())
        self.handed = time.monotonic()
        if count:
            r.passed = {name: v[count - 1] for name, v in r.frames.items()}
            r.frames = {name: empty_like(v) for name, v in r.frames.items()}
        if len(seen):
            r.observed = {name: np.empty_like(v) for name, v in r.observed.items()}
        r.slot0, r.row0 = slots, rows

    def all_of_it(self) -> Window:
        """What a run hands on that has reached its last step, at once: its frames and observations by their numbers."""
        s = self.record.schedule
        n = self.record.last
        steps, inside = s.frames(n)
        skip = int(s.first % (s.save_every or s.first + 1) != 0 and n != s.first)
        inside = None if inside is None else inside[skip:]
        times = times_of((steps[skip:], inside), self.dt, self.t0)
        later = s.observed(n)
        seen: Any = np.arange(later.start, later.stop, later.step)
        rows = {"row": np.arange(skip, len(steps))}, {"row": np.arange(len(seen))}
        w = Window(steps[skip:], times, rows[0], seen, times_at(seen, self.dt, self.t0), rows[1])
        if self.look is not None:
            w = replace(w, observed_steps=w.steps, observed_times=times, observed=rows[0])
        return w.after(self.since, inside)

    def shown(self, arrays: Mapping[str, Any], begin: int, end: int) -> dict[str, Any]:
        """Without a member axis if none was given."""
        rows = {name: here(v[begin:end]) for name, v in arrays.items()}
        return rows if self.is_ensemble else {name: v[:, 0] for name, v in rows.items()}

    def attributes(self) -> dict[str, Any]:
        """What has become known about the run."""
        r = self.record
        stops = [[s.cause, s.step, s.t, s.member] for s in r.stops]
        chain = dict(zip(("hashed_step", "hash_chain"), r.hashes[-1])) if r.hashes else {}
        return {**chain, "stops": json.dumps(stops)}
