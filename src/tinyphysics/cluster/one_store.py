"""How do blocks fill one store?  Each has chunks of its own, and only this process says which of them count, and when.

A worker that sees the disk of the store writes there itself, beside the place of its chunks; what others have computed comes
along with their answers, and is written here.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from tinyphysics.cluster.worker import Done, all_rows, nothing, without_rows
from tinyphysics.errors import StoreError
from tinyphysics.runtime.state.run import Run
from tinyphysics.runtime.state.windows import BYTES, Windows
from tinyphysics.runtime.storage.block_rows import TOKEN, BlockRows
from tinyphysics.runtime.storage.run_store import OBSERVED, RunStore, hashes
from tinyphysics.trajectory import Stop

HERE = "client"  # the mark of what this process has written
MOST = 256 << 20  # bytes of the frames of a block: it is in memory


@dataclass(frozen=True, eq=False)
class OneStore:
    """The store of a run whose members are done in blocks."""

    one: Run
    windows: Windows
    store: RunStore
    rows: BlockRows
    early: dict[int, Done] = field(default_factory=dict)  # by first member: blocks that ended before the run

    @classmethod
    def opened(cls, one: Run, windows: Windows, observed: Sequence[str]) -> OneStore:
        """Says to workers on this disk that it is the one."""
        store: RunStore = windows.target.store  # type: ignore[attr-defined]
        windows.target.settle()
        schedule, record = one.schedule, windows.record
        before, record.last = record.last, schedule.steps
        whole = windows.all_of_it()
        record.last = before
        layouts, at, taken = {}, {}, {}
        for names, first, numbers in (
            (list(one.given.states), store.frames, whole.frames["row"]),
            (observed if windows.look is None else [], store.observed, whole.observed["row"]),
        ):
            for name in names:
                layouts[name], at[name], taken[name] = store.layouts[name], first, numbers
        parts = {m.part for m in layouts.values()}
        grain = parts.pop() if len(parts) == 1 and one.given.is_ensemble else 0
        token = uuid.uuid4().hex
        if grain:
            (store.root / TOKEN).write_text(token)
        rows = BlockRows(str(store.root.resolve()), token, layouts, at, taken, grain)
        return cls(one, windows, store, rows)

    @property
    def most(self) -> int:
        """Members of a block whose frames fit into memory."""
        s = self.one.schedule
        each = sum(v[:1].nbytes for v in self.one.given.states.values()) * max(s.kept(s.steps), 1)
        each += 8 * len(s.observed(s.steps)) * len(self.rows.layouts)
        return max(1, MOST // max(int(each), 1))

    def put(self, d: Done) -> Done:
        """A block that counts, without what is in the store now."""
        here = slice(d.first, d.first + d.members)
        try:
            if not d.mark:
                d = self.written(d, all_rows(d.record, self.rows.taken))
            elif self.one.given.is_ensemble:
                self.rows.settle(here, d.mark)
        except OSError as error:
            raise StoreError(
                f"`{self.store.root}` could not be written: {error.strerror or error}",
                fix="Free some space, and go on with resume= of a checkpoint.",
            ) from error
        if d.record.last < self.one.schedule.steps:
            self.early[d.first] = d
        return d

    def written(self, d: Done, arrays: Mapping[str, Any]) -> Done:
        """A block that came along with its answer."""
        if not self.one.given.is_ensemble:
            for name, v in arrays.items():
                self.store.rows(name).write(self.rows.at[name], v[:, 0], lambda handle: None)
            return replace(d, mark=HERE)
        here = slice(d.first, d.first + d.members)
        stored = self.rows.write(arrays, here, HERE)
        self.rows.settle(here, HERE)
        return without_rows(replace(d, mark=HERE, stored=stored))

    def drop(self, d: Done) -> None:
        """A block that does not count."""
        if d.mark and self.one.given.is_ensemble:
            self.rows.drop(slice(d.first, d.first + d.members), d.mark)

    def holds(self, d: Done) -> bool:
        """Is what a block has written there, as it was written?"""
        try:
            there = self.rows.digest(slice(d.first, d.first + d.members)) == d.stored
        except (OSError, ValueError):
            return False
        if there and d.record.last < self.one.schedule.steps:
            self.early[d.first] = d
        return there

    # --- the end --------------------------------------------------------------------------------------
    def finish(self, missing: Sequence[tuple[slice, Stop, Mapping[str, Any]]]) -> None:
        """All that is there counts from here on."""
        w = self.windows.all_of_it()
        try:
            for here, _, state in missing:
                self.fill(here, state)
            for d in self.early.values():
                self.end(d)
            frames = {"step": np.asarray(w.steps, np.int64), "time": w.times}
            observed = {"observed_step": np.asarray(w.observed_steps, np.int64), OBSERVED: w.observed_times}
            for at, arrays in ((self.store.frames, frames), (self.store.observed, observed)):
                for name, v in arrays.items():
                    if len(v):
                        self.store.rows(name).write(at, v, lambda handle: None)
            self.look_through(len(w.steps), w)
            self.rows.sweep()
            self.store.commit(
                self.store.frames + len(w.steps),
                self.store.observed + len(w.observed_steps),
                self.windows.attributes(),
            )
        except OSError as error:
            raise StoreError(
                f"`{self.store.root}` could not be written: {error.strerror or error}",
                fix="Free some space, and go on with resume= of a checkpoint.",
            ) from error

    def look_through(self, count: int, w: Any) -> None:
        """The hash of each frame, and what is observed of frames, some at a time."""
        names = list(self.one.given.states)
        size = sum(v.nbytes for v in self.one.given.states.values())
        step = max(1, BYTES // max(size, 1))
        inside = w.times
        for k in range(0, count, step):
            a, b = self.store.frames + k, self.store.frames + min(k + step, count)
            frames = {name: self.store.rows(name).read(a, b) for name in names}
            self.store.rows("hash").write(a, hashes(frames), lambda handle: None)
            if self.windows.look is not None:
                lifted = frames if self.one.given.is_ensemble else {n: v[:, None] for n, v in frames.items()}
                found = self.windows.look(lifted, w.steps[k : k + step], inside[k : k + step])
                at = self.store.observed + k
                for name, v in self.windows.shown(found, 0, b - a).items():
                    self.store.rows(name).write(at, v, lambda handle: None)

    def fill(self, here: slice, state: Mapping[str, Any]) -> None:
        """Members of which nothing came back: where they began, and then no numbers."""
        arrays = {}
        for name, numbers in self.rows.taken.items():
            m = self.rows.layouts[name]
            v = np.empty((len(numbers), here.stop - here.start, *m.row[1:]), m.dtype)
            v[:] = nothing(v)
            if name in state and len(v) and numbers[0] == 0:
                v[0] = state[name]
            arrays[name] = v
        self.rows.write(arrays, here, HERE)
        self.rows.settle(here, HERE)

    def end(self, d: Done) -> None:
        """The last frame of a block with which the run ended."""
        s, last = self.one.schedule, self.windows.record.last
        if d.record.last != last or last == s.steps or s.saves(last):
            return
        number = s.slot(last)
        for name in self.one.given.states:
            row = np.flatnonzero(self.rows.taken[name] == number)
            for k in row.tolist():
                v = self.store.rows(name).read(self.rows.at[name] + k, self.rows.at[name] + k + 1)
                part = d.record.frames[name][-1]
                if self.one.given.is_ensemble:
                    v[0, d.first : d.first + d.members] = part
                else:
                    v[0] = part[0]
                self.store.rows(name).write(self.rows.at[name] + k, v, lambda handle: None)

    def discard(self) -> None:
        """Nothing came into it: it is as if it had not been made."""
        if self.one.begun is None and not self.store.frames:
            shutil.rmtree(self.store.root, ignore_errors=True)
        else:
            (Path(self.rows.root) / TOKEN).unlink(missing_ok=True)
