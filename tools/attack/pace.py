"""How slow is this machine, now?  Limits in CPU seconds are those of the machine on which they were set.

A core that shares its caches and its clock with fifteen busy ones needs more CPU seconds for the same work: the slowness is
measured again and again, in the process that is judged.
"""

from __future__ import annotations

import time
from collections import deque
from statistics import median

REFERENCE = 0.0165  # CPU seconds of `exercise` on one core of a Zen 4 at 3.7 GHz
KEPT = 5  # measurements, of which the median counts
FRESH = 3.0  # CPU seconds of other work, after which a case measures once more
_seconds: deque[float] = deque(maxlen=KEPT)
_last = 0.0  # CPU seconds of this process when it was measured


def exercise() -> int:
    """What a compiler does: small objects, dictionaries of tuples, sums of whole numbers."""
    table: dict[tuple[int, ...], int] = {}
    total = 0
    for k in range(40_000):
        key = (k % 97, k % 89, k % 7)
        total += table.get(key, 0)
        table[key] = total & 1023
    return total + len(sorted(table))


def slowness(times: int = 1, every: float = 0.0) -> float:
    """How many times slower than the reference, at least 1; measured so many times more, if the last is so long ago."""
    global _last
    recent = bool(_seconds) and time.process_time() - _last < every
    for _ in range(0 if recent else times if _seconds else KEPT):
        began = time.process_time()
        exercise()
        _last = time.process_time()
        _seconds.append(_last - began)
    return max(1.0, median(_seconds) / REFERENCE)
