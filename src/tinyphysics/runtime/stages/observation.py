"""What does a run hand out while it goes on?  An `Observation` counts and times it, and says what is not to be handed out.

A run without `observer=` has none, and pays nothing for it. With one it has a copy of its engine whose calls are timed: an
engine is shared by the runs of a program.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from tinyphysics.device.host.threads import spread
from tinyphysics.errors import InputError
from tinyphysics.runtime.engines.backend import bytes_read_from
from tinyphysics.runtime.stages.ending import last_frame, put_final
from tinyphysics.runtime.stages.running import Running
from tinyphysics.runtime.state.record import Record, room
from tinyphysics.runtime.state.run import Run
from tinyphysics.runtime.state.stage_times import StageTimes

NONE, METRICS, SNAPSHOTS, VISUALIZE = "none", "metrics", "snapshots", "visualize"
LEAN = (NONE, METRICS)  # observers that are handed no frames
STRIDE_BYTES = 4096  # that the observer "metrics" is handed a stride, at most
STAGES = {  # the calls of an engine, by the stage that they are
    "advance": ("start", "resume", "restored", "advance", "watch"),
    "read": ("synchronised", "synchronised_there", "registers"),
    "check": ("bad", "nearest", "nearest_of_all"),
}
MEASURED = (
    "magnus",
    "transfers",
    "math",
    "webgpu",
    "shape",
    "approximate",
    "substeps",
    "strict",
    "peak_memory",
)
READS = ("watch", "synchronised", "synchronised_there", "registers")  # what copies numbers out of a run


@dataclass(eq=False)
class Observation:
    observer: str
    times: StageTimes = field(default_factory=StageTimes)
    copied: int = 0  # bytes, out of the run
    flags_read: int = 0  # of a GPU: what says whether members are well
    compiled: float = 0.0  # seconds inside of stages
    read_before: int = 0
    read_after: int | None = None  # of a GPU
    gpu: bool = False
    running: Running | None = None
    run: Run | None = None
    summary: Summary | None = None
    stages: dict[str, float] = field(default_factory=dict)  # that were measured around the run
    _lock: Any = field(default_factory=threading.Lock)
    _inside: Any = field(default_factory=threading.local)

    def diagnostics(self, every: Sequence[Any]) -> Sequence[Any]:
        """What is measured of the run: where no frames are handed out, nothing that looks at states, but for poles.

        How near a run comes to its poles is kept in its loop.
        """
        if not self.is_lean:
            return every
        at_poles = [
            replace(d, poles=partial(self.poles, d.poles), watch=None) for d in every if d.poles is not None
        ]
        return [*(d for d in every if d.name in MEASURED), *at_poles]

    def poles(self, find: Callable[[Any, Run], Any], setup: Any, run: Run) -> Any:
        """Nothing where members are reduced to a few numbers, from which a member that stopped cannot be taken back."""
        return None if self.summary is not None and run.given.is_ensemble else find(setup, run)

    @property
    def is_lean(self) -> bool:
        return self.observer in LEAN

    def begin(self, run: Run, record: Record, keeper: Any, windows: Any) -> None:
        """A run is about to begin: of a lean one no frames are laid out."""
        self.run, self.gpu = run, run.target.backend == "cuda"
        self.read_before = bytes_read_from(run.target)
        if (
            self.is_lean and record.schedule.end is None
        ):  # the part of a step at the end can fail: it is done then
            record.frames = {}
        if self.summary is not None:
            self.summary.is_ensemble, self.summary.whole = run.given.is_ensemble, self.gpu
        timed: list[tuple[Any, str, str]] = [(record, "hash", "digest"), (record, "hash", "hash_parts")]
        timed += [(keeper, "write", "keep"), (windows, "write", "hand_on")]
        for it, stage, name in timed:
            if it is not None:
                vars(it)[name] = self.times.timed(stage, getattr(it, name))

    def watches(self, running: Running) -> None:
        self.running, running.goes_on = running, False
        running.look = self.times.timed("check", running.look)

    def engine(self, engine: Any) -> Any:
        """The same engine, with its calls timed and what it hands out counted."""
        own = copy.copy(engine)
        for stage, names in STAGES.items():
            for name in names:
                if hasattr(engine, name):
                    setattr(own, name, self.call(own, stage, name, getattr(own, name)))
        return own

    def call(self, engine: Any, stage: str, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        reads = name in READS

        def called(*args: Any, **options: Any) -> Any:
            if getattr(self._inside, "stage", None) is not None:  # one call of the engine makes another
                return function(*args, **options)
            self._inside.stage = stage
            try:
                return counted(*args, **options)
            finally:
                self._inside.stage = None

        def counted(*args: Any, **options: Any) -> Any:
            compiling = engine.compiling
            before = bytes_read_from(self.run.target) if self.gpu and stage == "check" and self.run else 0
            with self.times.stage(stage):
                out = function(*args, **options)
            if (took := engine.compiling - compiling) > 0.0:
                self.times.leave_out(stage, took)
                with self._lock:
                    self.compiled += took
            if self.gpu and stage == "check" and self.run:
                self.flags_read += bytes_read_from(self.run.target) - before
            if reads and (name != "watch" or self.summary is None):
                self.count(sum(int(v.nbytes) for v in out.values()))
            return out

        return called

    def count(self, size: int) -> None:
        with self._lock:
            self.copied += size

    def end(self) -> None:
        if self.gpu and self.run is not None:
            self.read_after = bytes_read_from(self.run.target)

    @property
    def bytes_read(self) -> int:
        """Numbers that were copied out of the run; of a GPU what its driver copied here, without flags."""
        if self.read_after is None:
            return self.copied
        return self.read_after - self.read_before - self.flags_read

    def fetch(self) -> dict[str, Any]:
        """The last state of a run that was handed no frames: of members that have stopped, the last good one."""
        running = self.running
        assert running is not None
        r, i = running.record, running.given
        if r.final:  # it ended between two steps
            r.frames, self.running = {}, None
            return r.final
        if running.n == running.schedule.first or not running.tiles:
            return dict(i.states)
        before = bytes_read_from(self.run.target) if self.gpu and self.run is not None else 0
        r.frames = {name: room("states", 1, v) for name, v in i.states.items()}
        r.slot0 = running.schedule.slot(running.n)
        spread(partial(last_frame, running), len(running.tiles), running.engine.workers)
        r.final = dict(r.frame(running.n))
        good = {tile.here.start + k: last for tile in running.tiles for k, (_, last) in tile.frozen.items()}
        if good:
            put_final(running, good)
        r.frames, self.running = {}, None  # its engine's memory may go
        if (
            self.gpu and self.run is not None and self.read_after is not None
        ):  # other runs may have read since
            self.read_after += bytes_read_from(self.run.target) - before
        return r.final


def check_room(row: Mapping[str, Any]) -> None:
    """Is what is observed once as little as the observer "metrics" is handed?"""
    size = sum(int(v.nbytes) for v in row.values())
    if size > STRIDE_BYTES:
        raise InputError(
            f'what is observed takes {size:,} bytes a stride, and observer="metrics" is handed {STRIDE_BYTES:,}',
            fix='Observe fewer numbers, or pass observer="snapshots".',
        )


@dataclass(eq=False)
class Summary:
    """What the observer "metrics" keeps of an ensemble: of each value its least, mean and greatest, stride by stride."""

    handed: Callable[[int], None]  # is told of bytes
    is_ensemble: bool = False
    whole: bool = False  # does the driver read the values of every member?
    parts: dict[int, list[Mapping[str, Any]]] = field(default_factory=dict)  # by the first member of a tile
    first: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, values: Mapping[str, Any], here: slice) -> None:
        rows = {name: self.reduced(np.asarray(v)) for name, v in values.items()}
        self.handed(sum(int(v.nbytes) for v in rows.values()))
        if not self.first:
            check_room(values if self.whole else rows)
            self.first = rows
        else:
            self.parts.setdefault(here.start, []).append(rows)

    def reduced(self, v: Any) -> Any:
        """Of an ensemble the count, sum, least and greatest of what is a number, over members; else the values."""
        if not self.is_ensemble:
            return v[:, 0].copy()
        good = np.isfinite(v)
        count, some = good.sum(axis=1), good.any(axis=1)
        total = np.where(good, v, 0.0).sum(axis=1)
        least = np.where(some, np.where(good, v, np.inf).min(axis=1, initial=np.inf), np.nan)
        most = np.where(some, np.where(good, v, -np.inf).max(axis=1, initial=-np.inf), np.nan)
        return np.stack([count.astype(float), total, least, most], axis=1)

    def series(self) -> dict[str, Any]:
        """The values over strides by name; of an ensemble NAME_mean, NAME_least and NAME_greatest."""
        out: dict[str, Any] = {}
        for name, first in self.first.items():
            tiles = [
                np.concatenate([rows[name] for rows in self.parts[k]])
                for k in sorted(self.parts)  # in the order of members, whichever came first
            ]
            count = max(map(len, tiles), default=0)
            if not self.is_ensemble:
                out[name] = np.concatenate([first, *tiles])
                continue
            whole = self.joined([t for t in tiles], count, first.shape[1:])
            all_rows = np.concatenate([first, whole])
            with np.errstate(invalid="ignore"):
                out[f"{name}_mean"] = all_rows[:, 1] / all_rows[:, 0]
            out[f"{name}_least"], out[f"{name}_greatest"] = all_rows[:, 2], all_rows[:, 3]
        return out

    def joined(self, tiles: list[Any], count: int, shape: tuple[int, ...]) -> Any:
        """Counts and sums added, in the order of tiles; a tile whose members have all stopped has fewer rows."""
        out = np.zeros((count, *shape))
        out[:, 2:] = np.nan
        for t in tiles:
            n = len(t)
            out[:n, 0] += t[:, 0]
            out[:n, 1] += t[:, 1]
            out[:n, 2], out[:n, 3] = np.fmin(out[:n, 2], t[:, 2]), np.fmax(out[:n, 3], t[:, 3])
        return out
