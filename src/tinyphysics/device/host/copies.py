"""How is a large array copied or looked at by all threads?  In pieces of a megabyte, along its longest axis.

New memory is placed near the processor that writes it first, so copies are made by the threads that will read them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tinyphysics.device.host.threads import spread
from tinyphysics.device.numbers import finite

EACH = 4  # pieces that are worth a thread
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


def sharing(pieces: int, threads: int) -> int:
    """The threads that so many pieces are worth: to wake one up takes as long as some pieces do."""
    return min(threads, -(-pieces // EACH))


def copy(source: Any, out: Any, threads: int) -> None:
    """The numbers of one array into another of its shape."""
    copy_all([(source, out)], threads)


def copy_all(pairs: Sequence[tuple[Any, Any]], threads: int, doubtful: Sequence[bool] = ()) -> list[bool]:
    """The numbers of some arrays into others of their shapes. Which are finite, of those that are doubtful?

    A piece that was just copied is in a cache, and is sooner looked at than later.
    """
    asked = [*doubtful, *[False] * (len(pairs) - len(doubtful))]
    if sum(out.size for _, out in pairs) <= PIECE:
        for source, out in pairs:
            out[...] = source
        return [not wanted or all_finite(out) for (_, out), wanted in zip(pairs, asked)]
    whole = [np.broadcast_to(source, out.shape) for source, out in pairs]
    parts = [(k, cut) for k, (_, out) in enumerate(pairs) for cut in pieces_of(out)]

    def one(j: int) -> bool:
        k, cut = parts[j]
        out = pairs[k][1]
        out[cut] = whole[k][cut]
        return not asked[k] or bool(finite(out[cut]).all())

    return each(len(pairs), parts, spread(one, len(parts), sharing(len(parts), threads)))


def each(arrays: int, parts: Sequence[tuple[int, Any]], good: Sequence[bool]) -> list[bool]:
    """Of each array: are all of its parts good?"""
    bad = {k for (k, _), well in zip(parts, good) if not well}
    return [k not in bad for k in range(arrays)]


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
    return all(spread(lambda k: bool(finite(a[cuts[k]]).all()), len(cuts), sharing(len(cuts), threads)))


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

    spread(one, len(cuts), sharing(len(cuts), threads))
    return out
