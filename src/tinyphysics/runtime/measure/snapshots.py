"""Where are the loop states of a checkpointed gradient?  In memory as long as they fit, the others in files."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tinyphysics.device.cuda.dlpack import here

Arrays = Mapping[str, Any]


class Snapshots:
    """Loop states by their step; a folder for those beyond `room` bytes goes away with it."""

    def __init__(self, room: int) -> None:
        self.room, self.held, self.on_disk = room, 0, 0  # bytes: allowed, in memory, the most in files
        self._here: dict[int, Arrays] = {}
        self._there: dict[int, Path] = {}
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def __setitem__(self, n: int, state: Arrays) -> None:
        size = sum(int(v.nbytes) for v in state.values())
        if not self._here or self.held + size <= self.room:
            self._here[n] = state
            self.held += size
            return
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="tinyphysics-snapshots-")
        path = Path(self._folder.name) / f"{n}.npz"
        np.savez(path, **{name: here(v) for name, v in state.items()})
        self._there[n] = path
        self.on_disk = max(self.on_disk, size * len(self._there))

    def __getitem__(self, n: int) -> Arrays:
        if n in self._here:
            return self._here[n]
        with np.load(self._there[n]) as f:
            return {name: f[name] for name in f.files}

    def __delitem__(self, n: int) -> None:
        if n in self._here:
            self.held -= sum(int(v.nbytes) for v in self._here.pop(n).values())
        else:
            self._there.pop(n).unlink()
