"""How is a large array copied or looked at by all threads?  In pieces of a megabyte, along its longest axis.

Memory that nobody has written yet is laid out by whoever writes it first: a copy by all threads is where they will read it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tinyphysics.device.host.threads import spread
from tinyphysics.device.numbers import finite

PIECE = 1 << 17  # numbers that are copied or looked at in one go: a megabyte


def pieces_of(a: Any) -> list[Any]:
    """Indices of parts of an array."""
    if a.size <= PIECE:
        return [...]
    axis = int(np.argmax(a.shape))
    length = a.shape[axis]
    step = max(1, PIECE * length // a.size)
    before = (slice(None),) * axis
    return [(*before, slice(k, min(k + step, length))) for k in range(0, length, step)]


def copy(source: Any, out: Any, threads: int) -> None:
    """The numbers of one array into another of its shape."""
    if out.size <= PIECE:
        out[...] = source
        return
    source, cuts = np.broadcast_to(source, out.shape), pieces_of(out)

    def one(k: int) -> None:
        out[cuts[k]] = source[cuts[k]]

    spread(one, len(cuts), threads)


def copied(a: Any, threads: int) -> Any:
    """A copy, in memory of its own."""
    out = np.empty(a.shape, a.dtype)
    copy(a, out, threads)
    return out


def all_finite(a: Any, threads: int = 1) -> bool:
    """Without a temporary array of the size of the first."""
    if a.size <= PIECE:
        return bool(np.count_nonzero(finite(a)) == a.size)  # sooner than .all(), of few
    cuts = pieces_of(a)
    return all(spread(lambda k: bool(finite(a[cuts[k]]).all()), len(cuts), threads))


def in_pieces(f: Callable[[Any], dict[str, Any]], a: Any, threads: int) -> dict[str, Any]:
    """f(a) of a function that makes arrays of each number of a."""
    if a.size <= PIECE:
        return f(a)
    cuts = pieces_of(a)
    first = f(a[cuts[0]])
    if any(np.may_share_memory(v, a) for v in first.values()):  # nothing is made
        return f(a)
    out = {name: np.empty(a.shape, v.dtype) for name, v in first.items()}

    def one(k: int) -> None:
        for name, v in (first if k == 0 else f(a[cuts[k]])).items():
            out[name][cuts[k]] = v

    spread(one, len(cuts), threads)
    return out
