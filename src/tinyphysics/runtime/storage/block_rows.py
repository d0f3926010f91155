"""Where do the frames of some members go, in a store of all of them?  Into chunks that end where blocks of members end.

A chunk is written beside its place, under a mark of its own, and renamed by the one process that says what counts. Written
twice it has the same bytes. So workers may write where the disk is shared, and a worker that dies leaves nothing half done.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tinyphysics.device.host.threads import spread
from tinyphysics.runtime.storage.zarr3 import NOTHING, ChunkRows, Layout
from tinyphysics.util import prod

CHUNKS = 256  # of the members, at most
AT_ONCE = 8  # files that wait for the disk
TOKEN = ".blocks"  # a file of the store by which a worker knows that its disk is that of the client


def part_of(members: int) -> int:
    """How many members are in a chunk; 0: all."""
    part = -(-members // CHUNKS)
    return 0 if part >= members else part


@dataclass(frozen=True, eq=False)
class BlockRows:
    """Which rows of a store a run fills, for all of its members."""

    root: str
    token: str  # what the file TOKEN holds
    layouts: Mapping[str, Layout]  # of those arrays that have an axis of members
    at: Mapping[str, int]  # by array: its first row
    taken: Mapping[str, Any]  # by array: the numbers of the frames or observations that are its rows
    grain: int  # blocks begin at multiples of so many members; 0: chunks are not of blocks

    @property
    def reachable(self) -> bool:
        """Is the store on a disk of this machine too?"""
        try:
            return bool(self.grain) and (Path(self.root) / TOKEN).read_text() == self.token
        except OSError:
            return False

    def pieces(self, name: str, here: slice) -> Iterator[tuple[Path, slice, slice, slice, slice]]:
        """(file, rows in it, members in it, rows of the block, members of the block) of an array."""
        m, file = self.layouts[name], ChunkRows(Path(self.root), self.layouts[name]).file
        at, part = self.at[name], m.part or m.row[0]
        end, rest = at + len(self.taken[name]), [0] * (len(m.row) - 1)
        for c in range(at // m.rows, -(-end // m.rows)):
            a, b = max(at, c * m.rows), min(end, (c + 1) * m.rows)
            for j in range(here.start // part, -(-here.stop // part)):
                low, high = max(here.start, j * part), min(here.stop, (j + 1) * part)
                inside = slice(a - c * m.rows, b - c * m.rows), slice(low - j * part, high - j * part)
                mine = slice(a - at, b - at), slice(low - here.start, high - here.start)
                yield file(c, j, *rest), *inside, *mine

    def write(self, arrays: Mapping[str, Any], here: slice, mark: str) -> str:
        """The rows of some members, beside their places; their digest."""
        for name, v in arrays.items():
            m = self.layouts[name]
            for path, rows, members, own, of in self.pieces(name, here):
                chunk = opened(path, m)
                chunk[rows, members] = v[own, of]
                path.parent.mkdir(parents=True, exist_ok=True)
                with open(beside(path, mark), "wb") as file:
                    file.write(chunk.tobytes())
        return digest_of(arrays)

    def settle(self, here: slice, mark: str) -> None:
        """What was written under a mark is in its place."""
        for name in self.layouts:
            for path, *_ in self.pieces(name, here):
                os.replace(beside(path, mark), path)

    def drop(self, here: slice, mark: str) -> None:
        for name in self.layouts:
            for path, *_ in self.pieces(name, here):
                beside(path, mark).unlink(missing_ok=True)

    def read(self, name: str, here: slice) -> Any:
        """The rows of some members; an OSError if they are not there."""
        m = self.layouts[name]
        out = np.empty((len(self.taken[name]), here.stop - here.start, *m.row[1:]), m.dtype)
        for path, rows, members, own, of in self.pieces(name, here):
            if not path.exists():
                raise OSError(f"{path} is not there")
            out[own, of] = opened(path, m)[rows, members]
        return out

    def digest(self, here: slice) -> str:
        return digest_of({name: self.read(name, here) for name in self.layouts})

    def sweep(self) -> None:
        """Without what dead workers have left, and all that is there on the disk."""
        (Path(self.root) / TOKEN).unlink(missing_ok=True)
        files = [path for name in self.layouts for path in (Path(self.root) / name).rglob("*")]
        for path in files:
            if path.name.startswith("."):
                path.unlink(missing_ok=True)
        there = [path for path in files if path.is_file()]
        spread(lambda k: on_disk(there[k]), len(there), AT_ONCE)


def on_disk(path: Path) -> None:
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def beside(path: Path, mark: str) -> Path:
    return path.with_name(f".{path.name}.{mark}")


def opened(path: Path, m: Layout) -> Any:
    """A chunk as it is, or an empty one."""
    dtype = np.dtype(m.dtype)
    if path.exists() and path.stat().st_size == prod(m.chunk) * dtype.itemsize:
        return np.fromfile(path, dtype).reshape(m.chunk)
    fill = float("nan") if dtype.kind == "f" else NOTHING.get(dtype.kind, 0)
    return np.full(m.chunk, fill, dtype)


def digest_of(arrays: Mapping[str, Any]) -> str:
    h = hashlib.blake2b(digest_size=16)
    for name in sorted(arrays):
        v = np.ascontiguousarray(arrays[name])
        h.update(f"{name} {v.shape}".encode())
        h.update(v.tobytes())
    return h.hexdigest()
