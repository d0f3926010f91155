"""What is the hash of a state?  Defined byte by byte, so that every backend can be compared with it."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from tinyphysics.device.cuda.dlpack import DeviceArray
from tinyphysics.device.host.threads import spread
from tinyphysics.runtime.state import device_arrays

BITS = 3  # changes when a release changes results
LEAF = 64 * 1024  # bytes hashed at a time: leaves can be computed apart, where the data is
LEAVES = 16  # leaves that one thread takes at a time: a megabyte


def little_endian(dtype: Any) -> bool:
    return bool(dtype.byteorder == "<" or dtype.byteorder in "=|" and sys.byteorder == "little")


def canonical(a: Any) -> Any:
    """C-contiguous and little-endian, with one kind of NaN."""
    a = np.ascontiguousarray(a)
    if not little_endian(a.dtype):
        a = a.astype(a.dtype.newbyteorder("<"))
    if a.dtype.kind == "f" and np.count_nonzero(nan := np.isnan(a)):
        a = np.where(nan, np.array(np.nan, a.dtype), a)
    return a


def leaves(a: Any) -> bytes:
    """The digests of an array's leaves; of a part of one, if it begins and ends between two leaves.

    Arrays are C-contiguous and little-endian, NaNs canonical. Those on a GPU are hashed there.
    """
    if isinstance(a, DeviceArray):
        return device_arrays.leaves(a, LEAF)
    data = canonical(a).reshape(-1).view(np.uint8).data
    if 0 < len(data) <= LEAF:
        return hashlib.blake2b(data, digest_size=16).digest()
    return b"".join(
        hashlib.blake2b(data[start : start + LEAF], digest_size=16).digest()
        for start in range(0, len(data), LEAF)
    )


def joined(parts: Iterable[tuple[Any, tuple[int, ...], bytes]]) -> str:
    """blake2b-128 over dtype, shape and leaf digests of each array, in declaration order."""
    outer = hashlib.blake2b(digest_size=16)
    for dtype, shape, digests in parts:
        outer.update(f"{dtype.str if little_endian(dtype) else dtype.newbyteorder('<').str}{shape}".encode())
        outer.update(digests)
    return outer.hexdigest()


def state_hash(state: Mapping[str, Any], threads: int = 1) -> str:
    """The hash of whole arrays; many leaves are hashed in several threads."""
    arrays = [v if isinstance(v, DeviceArray) else np.asarray(v, order="C") for v in state.values()]
    parts: list[Any] = []  # of each array, one after the other
    for a in arrays:
        step = LEAVES * LEAF // a.itemsize
        if isinstance(a, DeviceArray) or a.size <= step:
            parts.append([a])
        else:
            flat = a.reshape(-1)
            parts.append([flat[k : k + step] for k in range(0, a.size, step)])
    every = [part for listed in parts for part in listed]
    found = iter(spread(lambda k: leaves(every[k]), len(every), threads if len(every) > len(arrays) else 1))
    return joined(
        (a.dtype, a.shape, b"".join(next(found) for _ in listed)) for a, listed in zip(arrays, parts)
    )


def marked(how: str, hash_of: Callable[[], str]) -> str:
    """A hash that cannot be taken for one of exact arithmetic."""
    return f"{how}:{hash_of()}"


def as_marked(before: Callable[[], str], hash_of: Callable[[], str]) -> Callable[[], str]:
    """Another digest, with the marks that the one before it has."""
    if isinstance(before, partial) and before.func is marked:
        return partial(marked, before.args[0], as_marked(before.args[1], hash_of))
    return hash_of


def unmarked(digest: str) -> str:
    return digest.rpartition(":")[2]


def digests(arrays: Sequence[Any]) -> Iterator[bytes]:
    """state_hash of each row of some arrays, in bytes; rows are often small and many."""
    if any(a[:1].nbytes > LEAF for a in arrays):
        for k in range(len(arrays[0])):
            yield bytes.fromhex(state_hash({str(n): a[k] for n, a in enumerate(arrays)}))
        return
    parts = []
    for a in arrays:
        a = canonical(a)
        size = a[:1].nbytes
        parts.append(
            (
                f"{a.dtype.newbyteorder('<').str}{a.shape[1:]}".encode(),
                a.reshape(-1).view(np.uint8).data,
                size,
            )
        )
    blake2b = hashlib.blake2b
    for k in range(len(arrays[0])):
        inner = [
            prefix + blake2b(data[k * size : (k + 1) * size], digest_size=16).digest() if size else prefix
            for prefix, data, size in parts
        ]
        yield blake2b(b"".join(inner), digest_size=16).digest()


def chain(previous: str, state: str) -> str:
    """h_k = blake2b(h_{k-1} || hash of that step); empty before the first."""
    return hashlib.blake2b((previous + state).encode(), digest_size=16).hexdigest()
