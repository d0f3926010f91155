"""How do arrays that grow lie in a directory?  As zarr 3: plain chunks, and JSON that says how long they are.

Rows are written where they belong in the file of their chunk, so that what was written before is not touched.
They count when the JSON of the group, which repeats that of its arrays, is replaced: one file, all arrays at once.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tinyphysics.runtime.storage.checkpoint import settle
from tinyphysics.util import prod

CHUNK = 4 << 20  # bytes
LEAST = 4096  # rows that a chunk has room for, if they are small: who knows how long a run will be
TYPES = {
    "<f8": "float64",
    "<f4": "float32",
    "<i8": "int64",
    "<i4": "int32",
    "<i2": "int16",
    "|i1": "int8",
    "|u1": "uint8",
    "|b1": "bool",
}
# fill value of chunks that were never written, by kind; else 0
NOTHING: dict[str, Any] = {"f": "NaN", "b": False}


@dataclass(frozen=True)
class Layout:
    """One array: its rows grow in number, or there is one row without an axis for it."""

    name: str
    dtype: str
    row: tuple[int, ...]
    dims: tuple[str, ...]  # of all axes
    rows: int = 1  # in a chunk
    part: int = 0  # how much of a row's first axis is in a chunk; 0: all of it
    grows: bool = True
    unit: str | None = None

    @property
    def row_bytes(self) -> int:
        return prod(self.row) * np.dtype(self.dtype).itemsize

    @property
    def chunk(self) -> tuple[int, ...]:
        """The shape of a chunk."""
        row = (self.part or self.row[0], *self.row[1:]) if self.row else ()
        row = tuple(max(n, 1) for n in row)
        return (self.rows, *row) if self.grows else row

    def metadata(self, length: int) -> dict[str, Any]:
        """What zarr calls an array's metadata document."""
        return {
            "shape": [length, *self.row] if self.grows else [*self.row],
            "data_type": TYPES[self.dtype],
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [*self.chunk]}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": NOTHING.get(self.dtype[1], 0),
            "codecs": [
                {"name": "bytes", "configuration": {"endian": "little"} if self.dtype[0] == "<" else {}}
            ],
            "attributes": {} if self.unit is None else {"units": self.unit},
            "dimension_names": [*self.dims],
            "zarr_format": 3,
            "node_type": "array",
            "storage_transformers": [],
        }


def growing(
    name: str, like: Any, dims: tuple[str, ...], unit: str | None = None, planned: int = 0, part: int = 0
) -> Layout:
    """The layout of rows like this one: chunks of a few megabytes; with `part` each is of so many members."""
    a = np.asarray(like)
    dtype = a.dtype.newbyteorder("<").str
    if part:
        fit = CHUNK * len(a) // max(part * a.nbytes, 1)
        return Layout(name, dtype, a.shape, dims, max(1, min(fit, planned)), part, unit=unit)
    fit = CHUNK // max(a.nbytes, 1)
    if fit >= 1 or not a.shape:
        return Layout(name, dtype, a.shape, dims, max(1, min(fit, max(planned, LEAST))), unit=unit)
    return Layout(name, dtype, a.shape, dims, 1, max(1, CHUNK * a.shape[0] // a.nbytes), unit=unit)


def layout_of(name: str, found: Mapping[str, Any]) -> Layout:
    """The layout that metadata describes; KeyError, TypeError or ValueError if it is not one of ours."""
    dims, shape = tuple(map(str, found["dimension_names"])), tuple(int(n) for n in found["shape"])
    chunk = [int(n) for n in found["chunk_grid"]["configuration"]["chunk_shape"]]
    dtype = {v: k for k, v in TYPES.items()}[found["data_type"]]
    if [c["name"] for c in found["codecs"]] != ["bytes"]:
        raise ValueError("chunks that are compressed")
    unit = found["attributes"].get("units")
    if not dims or dims[0] not in ("time", "observed_time"):
        return Layout(name, dtype, shape, dims, grows=False, unit=unit)
    part = chunk[1] if len(chunk) > 1 and chunk[1] < shape[1] else 0
    return Layout(name, dtype, shape[1:], dims, chunk[0], part, unit=unit)


@dataclass(frozen=True)
class ChunkRows:
    """The numbers of one array, in the files of its chunks."""

    root: Path
    layout: Layout

    def file(self, *index: int) -> Path:
        place = self.root / self.layout.name / "c"
        return place.joinpath(*map(str, index)) if index else place

    def places(self, at: int, count: int) -> Iterator[tuple[Path, int, Any]]:
        """(file, where in it, which numbers of so many rows) of rows from number `at` on."""
        m, k = self.layout, 0
        rest = [0] * max(len(m.row) - 1, 0)
        if not m.grows:
            yield self.file(*([0] * len(m.row))), 0, ...
            return
        while k < count:
            chunk, offset = divmod(at + k, m.rows)
            end = min(k + m.rows - offset, count)
            if not m.part:
                yield self.file(chunk, *([0] if m.row else []), *rest), offset * m.row_bytes, slice(k, end)
            else:
                size = m.part * m.row_bytes // m.row[0]
                for row in range(k, end):
                    for j in range(0, m.row[0], m.part):
                        place = (offset + row - k) * size
                        yield self.file(chunk, j // m.part, *rest), place, (row, slice(j, j + m.part))
            k = end

    def write(self, at: int, rows: Any, sync: Callable[[int], None]) -> None:
        """Some rows from number `at` on; `sync` gets each file when it is written."""
        rows = np.ascontiguousarray(rows, self.layout.dtype)
        for file, offset, which in self.places(at, len(rows) if self.layout.grows else 1):
            put(file, prod(self.layout.chunk) * rows.itemsize, offset, rows[which], sync)

    def read(self, at: int, end: int) -> Any:
        """Rows from one number to another; of an array that does not grow, all of it."""
        m = self.layout
        out = np.empty((max(end - at, 0), *m.row) if m.grows else m.row, m.dtype)
        for file, offset, which in self.places(at, len(out) if m.grows else 1):
            get(file, offset, out[which])
        return out


def put(path: Path, size: int, offset: int, data: Any, sync: Callable[[int], None]) -> None:
    """Numbers into a file of this size, of which the rest stays as it is."""
    new = not path.exists()
    if new:
        path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        if os.fstat(handle).st_size < size:
            os.ftruncate(handle, size)
        view = data.reshape(-1).view(np.uint8).data
        while len(view):
            done = os.pwrite(handle, view, offset)
            view, offset = view[done:], offset + done
        sync(handle)
    finally:
        os.close(handle)
    if new:
        for folder in (path.parent, path.parent.parent):
            settle(folder)


def get(path: Path, offset: int, out: Any) -> Any:
    """The array filled from a file; what a file is too short for raises OSError."""
    view = out.reshape(-1).view(np.uint8).data
    with open(path, "rb", buffering=0) as file:
        file.seek(offset)
        while len(view):
            done = file.readinto(view)
            if not done:
                raise OSError(f"{path} ends too soon")
            view = view[done:]
    return out


def replaced(path: Path, data: Mapping[str, Any]) -> None:
    """JSON in place of what was there, in one step, and on the disk."""
    partial = path.with_name(f".{path.name}.partial")
    with open(partial, "w") as file:
        json.dump(data, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)
    settle(path.parent)


def overwritten(path: Path, data: Mapping[str, Any]) -> None:
    """JSON over what was there, without waiting for the disk; of one length, so that nothing is left of the other."""
    text = json.dumps(data, indent=1).encode()
    handle = os.open(path, os.O_WRONLY | os.O_CREAT, 0o666)
    try:
        os.pwrite(handle, text.ljust(-(-len(text) // 4096) * 4096), 0)
    finally:
        os.close(handle)


def commit(root: Path, attributes: Mapping[str, Any], lengths: Mapping[Layout, int]) -> None:
    """From here on the arrays have these lengths, for whoever opens the group."""
    metadata = {m.name: m.metadata(n) for m, n in lengths.items()}
    for name, found in metadata.items():  # for readers that do not know consolidated metadata
        overwritten(root / name / "zarr.json", found)
    group = {
        "zarr_format": 3,
        "node_type": "group",
        "attributes": dict(attributes),
        "consolidated_metadata": {"kind": "inline", "must_understand": False, "metadata": metadata},
    }
    replaced(root / "zarr.json", group)
