"""Which of the steps that were written down covers a time, and how many are written down at once?"""

from __future__ import annotations

from typing import Any

import numpy as np

ROWS_BYTES = 2e6  # of the steps that are kept to look into them: what a cache holds
# steps that are kept of ensembles for which that is more, as far as there is room
LEAST_ROWS, MOST_BYTES = 8, 3e8
NARROW = 1 << 16  # bytes of a step of all members, up to which it is sooner kept than looked at by itself
VECTOR = 64  # members that every vector divides
TO_BEGIN = 16  # steps, after which the pace of a run is known
AHEAD = 1.05  # times as many steps as that pace asks for


def steps_ahead(clocks: Any, size: int, t0: float, until: float) -> int:
    """Steps that the slowest member has still to take, as far as they are known and there is room; one has `size` bytes."""
    high, tried = clocks[0], clocks[5 if len(clocks) > 5 else 3]
    with np.errstate(all="ignore"):
        left = np.nanmax((until - high) * tried / (high - t0), initial=TO_BEGIN)
    room = max(1, int(ROWS_BYTES // size), min(LEAST_ROWS, int(MOST_BYTES // size)))
    return max(1, min(int(min(AHEAD * left, 1e9)) + 2 if tried.min() >= TO_BEGIN else TO_BEGIN, room))


def whole_vectors(count: int) -> Any:
    """Indices of so many numbers; where they are many, the last one fills up the last vector."""
    if count < VECTOR:
        return np.arange(count)
    return np.minimum(np.arange(-(-count // VECTOR) * VECTOR), count - 1)


def is_narrow(numbers: int, members: int) -> bool:
    """Has a step of all members so few numbers that it is sooner kept than looked at by itself?"""
    return 8 * members * numbers <= NARROW


def covered(clock: Any, times: Any, done: Any, who: Any) -> tuple[Any, Any, Any]:
    """(number of the time, lane, row) of the first steps that cover times; of each member `done` were before.

    `who` are the members in the lanes.
    """
    high, low, h = clock[:3]
    out: list[list[Any]] = [[], [], []]
    for k, member in enumerate(who.tolist()):
        a, b, c = high[:, k], low[:, k], h[:, k]
        left = times[done[member] :]
        ends = np.where(np.isnan(c), np.inf, a + (b + c))  # a member that can go no further is not waited for
        row = np.searchsorted(ends, left)
        before = np.maximum(row - 1, 0)  # what counts is the comparison that a step itself makes
        row = np.where((row > 0) & ~((left - a[before]) - b[before] > c[before]), before, row)
        at = np.minimum(row, len(a) - 1)
        row = np.where((row < len(a)) & ((left - a[at]) - b[at] > c[at]), row + 1, row)
        count = int(np.count_nonzero(row < len(a)))
        out[0].append(np.arange(done[member], done[member] + count))
        out[1].append(np.full(count, k))
        out[2].append(row[:count])
        done[member] += count
    which, lane, rows = (np.concatenate(part) for part in out)
    return which, lane, rows
