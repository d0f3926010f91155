"""How slow is this machine, now?  Limits in CPU seconds are those of the machine on which they were set."""

from __future__ import annotations

import time

REFERENCE = 0.040  # CPU seconds of `exercise` on one core of a Zen 4 with nothing beside it


def exercise() -> int:
    """What a compiler does: small objects, dictionaries of tuples, sums of whole numbers."""
    table: dict[tuple[int, ...], int] = {}
    total = 0
    for k in range(40_000):
        key = (k % 97, k % 89, k % 7)
        total += table.get(key, 0)
        table[key] = total & 1023
    return total + len(sorted(table))


def slowness() -> float:
    """How many times slower than the reference, at least 1; the fastest of three."""
    seconds = []
    for _ in range(3):
        began = time.process_time()
        exercise()
        seconds.append(time.process_time() - began)
    return max(1.0, min(seconds) / REFERENCE)
