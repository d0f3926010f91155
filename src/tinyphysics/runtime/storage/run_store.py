"""What does a run leave in a zarr store?  Frames, hashes and observables as they come, and all that reproduces it.

A store is written by one run and what goes on from its checkpoints. How many frames and observations are complete
is committed after them, so that a reader, or a run that goes on, never sees half of one.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tinyphysics.errors import InputError, StoreError
from tinyphysics.given import check_writable
from tinyphysics.runtime.state.digest import digests
from tinyphysics.runtime.state.windows import Window
from tinyphysics.runtime.storage import zarr3
from tinyphysics.runtime.storage.checkpoint import settle
from tinyphysics.runtime.storage.zarr3 import ChunkRows, Layout, layout_of

FORMAT = 1
TIME, OBSERVED, MEMBER = "time", "observed_time", "member"
OWN = ("time", "step", "hash", "observed_time", "observed_step")  # names of arrays that every store has
NAME = re.compile(r"[A-Za-z_]\w*")


@dataclass
class RunStore:
    root: Path
    attributes: dict[str, Any]
    layouts: dict[str, Layout]
    frames: int = 0  # complete, as readers see it
    observed: int = 0

    @cached_property
    def states(self) -> list[str]:
        return [n for n, m in self.layouts.items() if m.grows and m.dims[0] == TIME and n not in OWN]

    @cached_property
    def observables(self) -> list[str]:
        return [n for n, m in self.layouts.items() if m.grows and m.dims[0] == OBSERVED and n not in OWN]

    def rows(self, name: str) -> ChunkRows:
        return ChunkRows(self.root, self.layouts[name])

    def length(self, m: Layout) -> int:
        return self.frames if m.dims[:1] == (TIME,) else self.observed

    def read(self, name: str, at: int = 0, end: int | None = None) -> Any:
        """Rows of an array; a StoreError if they are not there."""
        try:
            return self.rows(name).read(at, self.length(self.layouts[name]) if end is None else end)
        except OSError as error:
            raise StoreError(
                f"`{self.root}` is damaged: `{name}` could not be read: {error.strerror or error}"
            ) from error

    def append(self, w: Window, attributes: Mapping[str, Any]) -> None:
        """Data first, all of it on the disk; then what says that it is there."""
        frames = {
            "step": np.asarray(w.steps, np.int64),
            "time": w.times,
            "hash": hashes(w.frames),
            **w.frames,
        }
        observed = {
            "observed_step": np.asarray(w.observed_steps, np.int64),
            OBSERVED: w.observed_times,
            **w.observed,
        }
        try:
            for at, arrays in ((self.frames, frames), (self.observed, observed)):
                for name, v in arrays.items():
                    if len(v):
                        self.rows(name).write(at, v, os.fsync)
            self.commit(self.frames + len(w.steps), self.observed + len(w.observed_steps), attributes)
        except OSError as error:
            raise StoreError(
                f"`{self.root}` could not be written: {error.strerror or error}",
                fix="The frames written before are complete.",
            ) from error

    def commit(self, frames: int, observed: int, attributes: Mapping[str, Any]) -> None:
        before = self.frames, self.observed
        self.frames, self.observed = frames, observed
        try:
            new = {**self.attributes, **attributes}
            zarr3.commit(self.root, new, {m: self.length(m) for m in self.layouts.values()})
            self.attributes = new
        except BaseException:
            self.frames, self.observed = before
            raise

    def truncate(self, step: int, t: float, save_every: int | None) -> None:
        """Nothing after a step, which is at a time, and no frame that was only there because a run ended.

        An error if frames are missing. Frames without a stride are all that are there.
        """
        steps, times = self.read("step"), self.read("time")
        kept = int(np.searchsorted(steps, step, "right"))
        while kept > 1 and steps[kept - 1] == step and times[kept - 1] != t:
            kept -= 1
        missing = not kept
        if save_every is not None:
            if kept > 1 and steps[kept - 1] % save_every:
                kept -= 1
            wanted = step // save_every * save_every
            missing = not kept or wanted >= self.attributes["begins"] and steps[kept - 1] != wanted
        if missing:
            raise StoreError(
                f"`{self.root}` has no frames up to step {step:,}, where the checkpoint is",
                fix="Pass another save=, or continue from an older checkpoint.",
            )
        observed = int(np.searchsorted(self.read("observed_step"), step, "right"))
        self.commit(kept, observed, {})


def hashes(frames: Mapping[str, Any]) -> Any:
    """The hash of each frame, as out.hash has it, in bytes."""
    arrays = list(frames.values())
    if not len(arrays[0]):
        return np.empty((0, 16), np.uint8)
    return np.frombuffer(b"".join(digests(arrays)), np.uint8).reshape(len(arrays[0]), 16)


# --- the names and shapes of things -----------------------------------------------------------------
def axis_names(
    name: str, shape: tuple[int, ...], axes: Mapping[str, tuple[int | str, ...]]
) -> tuple[str, ...]:
    """The letters of an annotation; other axes are called by their length, so that equal ones are shared."""
    out: list[str] = []
    for k, n in enumerate(shape):
        declared = axes[name][k] if len(axes.get(name, ())) == len(shape) else n
        called = f"axis_{n}"
        if isinstance(declared, str) and declared not in (TIME, OBSERVED, MEMBER):
            called = declared
        out.append(called if called not in out else f"{called}_{k}")
    return tuple(out)


def check_names(own: Sequence[str], observables: Sequence[str]) -> None:
    """Is there a place in a store for each state, parameter and observable?"""
    for name in own:
        if name in OWN:
            raise InputError(
                f"`{name}` cannot be stored: every store already has an array of that name",
                fix="Give it another name.",
            )
    for name in observables:
        if name in OWN or name in own or not NAME.fullmatch(name):
            raise InputError(
                f"the observable `{name}` cannot be stored under this name",
                fix="Use letters and digits, and not the name of a state, a parameter, time or step.",
            )


# --- making and finding one -------------------------------------------------------------------------
def check_place(path: Path) -> None:
    """Can a store be made here?  Said before anything has run."""
    if not path.parent.is_dir():
        raise StoreError(
            f"there is no directory `{path.parent}` for save={str(path)!r}", fix="Create it first."
        )
    check_writable(path.parent, "save")


def create(
    path: Path, layouts: Sequence[Layout], attributes: Mapping[str, Any], fixed: Mapping[str, Any]
) -> RunStore:
    """An empty store, which appears with all that describes it or not at all."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        if partial.is_dir():
            shutil.rmtree(partial)
        partial.mkdir()
        out = RunStore(partial, dict(attributes), {m.name: m for m in layouts})
        for m in layouts:
            (partial / m.name).mkdir()
        for name, v in fixed.items():
            out.rows(name).write(0, v, os.fsync)
        out.commit(0, 0, {})
        partial.rename(path)
        settle(path.parent)
    except OSError as error:
        raise StoreError(
            f"`{path}` could not be created: {error.strerror or error}", fix="Pass another save=."
        ) from error
    return RunStore(path, dict(attributes), out.layouts)


def open_store(path: Path) -> RunStore:
    """A store that a run has written, with what is complete in it."""
    if not path.exists():
        raise StoreError(f"there is no store `{path}`", fix='A run writes one: evolve(..., save="run.zarr").')
    try:
        found = json.loads((path / "zarr.json").read_text())
        attributes = found["attributes"]
        if attributes["format"] != FORMAT or not attributes["tinyphysics"]:
            raise StoreError(
                f"`{path}` is a store in the format of another version, {attributes['tinyphysics']}",
                fix="Use the version that wrote it.",
            )
        arrays = found["consolidated_metadata"]["metadata"]
        layouts = {name: layout_of(name, m) for name, m in arrays.items()}
        return RunStore(
            path, attributes, layouts, arrays["step"]["shape"][0], arrays["observed_step"]["shape"][0]
        )
    except StoreError:
        raise
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(
            f"`{path}` is not the store of a run: {error!r}",
            fix="Pass a path where nothing is, or the store of this run.",
        ) from error
