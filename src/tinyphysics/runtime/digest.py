"""What is the hash of a state?  Defined byte by byte, so that every backend can be compared with it."""
from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

LEAF = 64 * 1024  # bytes hashed at a time: leaves can be computed apart, where the data is


def state_hash(state: Mapping[str, Any]) -> str:
    """blake2b-128 over dtype, shape and leaf digests of each array, in declaration order.

    Arrays are C-contiguous and little-endian, NaNs canonical.
    """
    outer = hashlib.blake2b(digest_size=16)
    for value in state.values():
        a = np.asarray(value, order="C")
        a = a.astype(a.dtype.newbyteorder("<"), copy=False)
        if a.dtype.kind == "f" and np.isnan(a).any():
            a = np.where(np.isnan(a), np.array(np.nan, a.dtype), a)
        outer.update(f"{a.dtype.str}{a.shape}".encode())
        data = a.tobytes()
        for start in range(0, len(data), LEAF):
            outer.update(hashlib.blake2b(data[start : start + LEAF], digest_size=16).digest())
    return outer.hexdigest()


def chain(previous: str, state: str) -> str:
    """h_k = blake2b(h_{k-1} || hash of that step); empty before the first."""
    return hashlib.blake2b((previous + state).encode(), digest_size=16).hexdigest()
