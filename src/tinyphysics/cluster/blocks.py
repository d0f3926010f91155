"""How large are the blocks of an ensemble?  So that the scheduler is at most half busy, and the last block idles few workers.

Blocks change no bit, so their size is chosen from what was measured: the first ones are small and tell what a member costs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

SCHEDULER = 3e-3  # seconds that a scheduler needs for a block: bench/cluster.py measures it
BUSY = 0.5  # of its time, at most
TAIL = 0.05  # of the time of a run, in which workers may have nothing to do at its end
SHORTEST = 0.1  # seconds of a block: below it what a block takes beside its steps would count
FIRST = 0.2  # seconds that the first blocks are to take, as far as is known
FEWEST = 64  # members of a block: below it lanes stay empty


@dataclass(frozen=True)
class Sizes:
    """Members of a block, and what cannot be had with them."""

    members: int
    seconds: float  # of a block, as far as is known
    note: str = ""


def first_size(members: int, workers: int, guess: float) -> int:
    """Members of the blocks that are measured; `guess` is the seconds of one, by the planner's count of operations."""
    known = FIRST / max(guess, 1e-12)
    return int(min(members, max(1, min(math.ceil(members / (4 * workers)), max(FEWEST, known)))))


def sizes(members: int, workers: int, seconds: float) -> Sizes:
    """For so many members that are left, each of which takes so many seconds on one worker."""
    whole = members * seconds / workers
    least, most = max(SCHEDULER * workers / BUSY, SHORTEST), TAIL * whole
    wanted = max(least, most / 2)
    size = min(max(1, round(wanted / max(seconds, 1e-12))), math.ceil(members / workers))
    took = size * seconds
    note = ""
    if took < SCHEDULER * workers / BUSY:
        note = f"the scheduler is busier than {BUSY:.0%}: blocks take {took:.2g} s for {workers} workers"
    elif took > most:
        idle = min(took / max(whole, 1e-12), 1.0)
        note = f"workers idle for up to {idle:.0%} of the run: it is short for {workers} of them"
    return Sizes(size, took, note)


def cut(begin: int, end: int, size: int, grain: int = 1) -> list[slice]:
    size = max(1, round(size / grain)) * grain
    return [slice(k, min(k + size, end)) for k in range(begin, end, size)]


def equal(members: int, count: int, grain: int = 1) -> list[slice]:
    """So many blocks, of nearly equal size; they end at multiples of `grain` members."""
    ends = [members * k // count // grain * grain for k in range(count)] + [members]
    return [slice(a, b) for a, b in zip(ends, ends[1:]) if b > a]
