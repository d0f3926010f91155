"""How do numbers of members lie in rows on this machine?  A row for each number, a column for each member: NumPy arrays."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from tinyphysics.device.numbers import NUMPY_DTYPE, finite
from tinyphysics.ir.dtype import DType
from tinyphysics.util import prod

Arrays = Mapping[str, Any]
Outputs = Mapping[str, tuple[Any, tuple[int, ...]]]  # the dtype and shape of each
FEW = 1 << 19  # numbers that are sooner counted than looked at with the interpreter left to other threads


class HostMemory:
    """Rows of this machine (device/protocols.py: Memory)."""

    there = False

    def empty(self, shape: Sequence[int], dtype: Any) -> Any:
        return np.empty(shape, dtype)

    def put(self, a: Any) -> Any:
        return a

    def get(self, rows: Any, first: int = 0, end: int | None = None) -> Any:
        return rows[first:end]

    def copy(self, rows: Any) -> Any:
        return rows.copy()

    def take(self, rows: Any, members: Sequence[int]) -> Any:
        return np.ascontiguousarray(rows[:, members])

    def fill(self, rows: Any, members: Sequence[int], well: int) -> None:
        rows[:, members] = rows[:, well : well + 1]

    def encode(self, arrays: Arrays, numbers: int, members: int, lanes: int, dtype: Any) -> Any:
        rows, at = np.empty((numbers, lanes), dtype), 0
        for v in arrays.values():
            part = as_rows(v.reshape(members, -1), dtype).T
            rows[at : at + len(part), :members] = part
            at += len(part)
        fill(rows, members)
        return rows

    def decode(
        self, rows: Any, outputs: Outputs, members: int, names: Collection[str], mixed: bool
    ) -> dict[str, Any]:
        return unpacked(rows, outputs, members, names)

    def bad(self, rows: Any, members: int) -> list[int]:
        good = finite(rows[:, :members])
        # which leaves the others be
        well = np.count_nonzero(good) == good.size if good.size < FEW else good.all()
        return [] if well else np.flatnonzero(~good.all(axis=0)).tolist()

    def extremes(self, rows: Any, first: int, end: int, members: int, largest: Any) -> Any:
        return np.array(
            [r[:members].max() if most else r[:members].min() for r, most in zip(rows[first:end], largest)]
        )

    def arrays(self, rows: Any, outputs: Outputs, members: int, mixed: bool = False) -> dict[str, Any]:
        return self.decode(rows, outputs, members, outputs, mixed)


class MemberMemory(HostMemory):
    """The same with a row for each member, in whose order its numbers lie."""

    def empty(self, shape: Sequence[int], dtype: Any) -> Any:
        return np.empty(shape[::-1], dtype)

    def get(self, rows: Any, first: int = 0, end: int | None = None) -> Any:
        return rows[:, first:end].T

    def take(self, rows: Any, members: Sequence[int]) -> Any:
        return rows[list(members)]

    def fill(self, rows: Any, members: Sequence[int], well: int) -> None:
        rows[list(members)] = rows[well]

    def encode(self, arrays: Arrays, numbers: int, members: int, lanes: int, dtype: Any) -> Any:
        parts = [np.asarray(v, dtype).reshape(members, -1) for v in arrays.values()]
        return np.concatenate(parts, axis=1)

    def decode(
        self, rows: Any, outputs: Outputs, members: int, names: Collection[str], mixed: bool
    ) -> dict[str, Any]:
        return unpacked(rows.T, outputs, members, names)


HOST, MEMBERS = HostMemory(), MemberMemory()


def fill(rows: Any, members: int) -> None:
    """The columns that make up a whole number of vectors: copies of the last member, whose numbers are harmless."""
    if 0 < members < rows.shape[1]:
        rows[:, members:] = rows[:, members - 1 : members]


def as_rows(a: Any, dtype: Any) -> Any:
    """Numbers as rows of some type have them: whole numbers by value, beside which floats stand by their bits."""
    floats = a.dtype.kind == "f" and np.dtype(dtype).kind != "f"
    return (np.ascontiguousarray(a).view(f"i{a.itemsize}") if floats else a).astype(dtype, copy=False)


def as_numbers(rows: Any, dtype: DType) -> Any:
    """The other way."""
    whole = np.ascontiguousarray(rows)
    if dtype.is_float and whole.dtype.kind != "f":
        return whole.astype(f"i{dtype.bits // 8}", copy=False).view(NUMPY_DTYPE[dtype.name])
    return whole.astype(NUMPY_DTYPE[dtype.name], copy=False)


def unpacked(rows: Any, outputs: Outputs, members: int, names: Collection[str]) -> dict[str, Any]:
    """Rows of components as arrays (members, shape...), of those with these names."""
    result, at = {}, 0
    for name, (dtype, shape) in outputs.items():
        size = prod(shape)
        if name in names:
            result[name] = as_numbers(rows[at : at + size, :members].T, dtype).reshape(members, *shape)
        at += size
    return result


def observed(series: Any, names: Outputs, members: int) -> dict[str, Any]:
    """Rows of numbers, of each time a group, as (rows, members, shape...)."""
    out, at = {}, 0
    for name, (_, shape) in names.items():
        part = series[:, at : at + prod(shape), :members]
        out[name] = np.ascontiguousarray(np.moveaxis(part, 1, 2)).reshape(len(series), members, *shape)
        at += prod(shape)
    return out
