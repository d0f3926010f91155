"""How many members has a thread of a GPU, and how many threads a block?  By an estimate; for long runs by trying, once.

What was fastest is kept for later processes, by the program, the device and its driver. No bit depends on it: a member is the
same whoever computes it. Runs that are not much longer than the trying take the estimate, or what was kept.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from threading import RLock
from typing import Any

from tinyphysics.context import CUDA_TUNE
from tinyphysics.device import cache
from tinyphysics.device.cuda import driver as cuda
from tinyphysics.errors import BackendError
from tinyphysics.util import digest

MEMBERS = (1, 2, 4)  # of a thread: what is tried
BLOCKS = (64, 128, 256)  # threads of a block
RATE = 2e11  # operations a second of one multiprocessor at best: pendulums have 1.4e11 on an H200, Hénon–Heiles 1.7e11
COST = 0.6  # seconds: two more kernels are made in 0.1 to 0.25 s each, and all are tried in less than 0.1 s
WORTH = 20  # a run is long if it takes so often what trying costs
SPAN = 2e-3  # seconds on the device of one try
ROUNDS = 3  # of all, after one in which clocks rise; the shortest time of each counts
BETTER = 0.98  # of the time of the estimate: what gains less than that may be noise


@dataclass(frozen=True)
class ThreadLayout:
    """How members are laid over the threads of a device."""

    members: int  # of a thread
    threads: int  # of a block
    chosen: str = "estimated"  # or "tuned" in this process, or "cached": in an earlier one


def seconds(operations: int, members: int, processors: int) -> float:
    """Of one step of all members, at least."""
    return operations * members / (RATE * processors)


def is_long(one_step: float, steps: int) -> bool:
    return one_step * steps > WORTH * COST


def steps_of_a_try(one_step: float, most: int) -> int:
    return max(1, min(most, int(SPAN / max(one_step, 1e-12))))


def candidates(first: ThreadLayout, members: int, lanes: int, processors: int) -> list[ThreadLayout]:
    """The estimate, and all else that divides the lanes and leaves no processor without a block."""
    able = [n for n in MEMBERS if lanes % n == 0 and members >= n * processors * first.threads]
    return [first, *(f for n in able for b in BLOCKS if (f := ThreadLayout(n, b)) != first)]


def fastest(
    forms: Sequence[ThreadLayout], milliseconds: Callable[[ThreadLayout], float]
) -> ThreadLayout | None:
    """The one that takes least time, the first if others are hardly better; None where nothing could be tried.

    A form that cannot be built or launched is left out.
    """
    best: dict[ThreadLayout, float] = {}
    left = list(forms)
    for turn in range(1 + ROUNDS):
        for form in list(left):
            try:
                time = milliseconds(form)
            except BackendError:
                left.remove(form)
                best.pop(form, None)
                continue
            if turn:
                best[form] = min(best.get(form, time), time)
    if not best:
        return None
    winner = min(best, key=lambda form: best[form])
    first = forms[0]
    return replace(first if first in best and best[winner] > BETTER * best[first] else winner, chosen="tuned")


def key(program: str, section: str, varying: tuple[bool, ...], members: int, device: str, driver: int) -> str:
    """Under which a form is kept; ensembles of about one size share it."""
    return (
        digest(repr(["form", 1, program, section, varying, members.bit_length(), device, driver]).encode())
        + ".form"
    )


def kept(name: str) -> ThreadLayout | None:
    """What an earlier process found; None if there is nothing, or nothing that can be meant."""
    try:
        members, threads = json.loads(cache.read(name) or b"null")
    except (ValueError, TypeError):
        return None
    return ThreadLayout(members, threads, "cached") if members in MEMBERS and threads in BLOCKS else None


def keep(name: str, form: ThreadLayout) -> None:
    cache.write(name, json.dumps([form.members, form.threads]).encode())


class Tuner:
    """What an engine of a GPU knows of how its members lie there (device/engines/cuda_lanes.py)."""

    def __init__(self, engine: Any) -> None:
        self.engine = engine
        self.long: set[int] = set()  # members of runs that are worth trying before them
        self.forms: dict[
            tuple[int, tuple[bool, ...]], ThreadLayout | None
        ] = {}  # by members and which parameters vary
        self.used: dict[int, ThreadLayout] = {}  # the last, by members
        self.lock = RLock()

    @cached_property
    def program(self) -> str:
        known = getattr(self.engine.kernel, "key", None)
        return digest(str(self.engine.kernel).encode()) if known is None else str(known)

    def name(self, members: int, mask: tuple[bool, ...]) -> str:
        return key(self.program, self.engine.loop, mask, members, cuda.device().name, cuda.driver_version())

    def choice(self, members: int) -> bool:
        """Is there more than one form?  With fewer members a thread has one, and few processors more than a block."""
        return bool(members >= cuda.device().processors * self.engine.estimate(members).threads)

    def possible(self, members: int) -> tuple[int, ...]:
        """Members of a thread in every form that a run may have."""
        return self.engine.estimate(members).members, *(MEMBERS if self.choice(members) else ())

    def form(self, members: int, mask: tuple[bool, ...]) -> ThreadLayout:
        """What was found by trying, here or in an earlier process; or else the estimate."""
        known = (members, mask)
        if CUDA_TUNE.value and self.choice(members) and known not in self.forms:
            self.forms[known] = kept(self.name(*known))
        found = self.forms.get(known) if CUDA_TUNE.value else None
        self.used[members] = found or self.engine.estimate(members)
        return self.used[members]

    def one_step(self, members: int) -> float:
        """Seconds, at least."""
        return seconds(
            self.engine.kernel.section(self.engine.loop).operations, members, cuda.device().processors
        )

    def expect(self, members: int, steps: int) -> None:
        long = CUDA_TUNE.value > 1 or CUDA_TUNE.value == 1 and is_long(self.one_step(members), steps)
        (self.long.add if long and self.choice(members) else self.long.discard)(members)

    def told(self, members: int) -> dict[str, Any]:
        f = self.used.get(members) or self.engine.estimate(members)
        return {"interleave": f.members, "block": f.threads, "chosen": f.chosen}

    def tuned(self, m: Any, most: int) -> ThreadLayout:
        """The form of a loop state that is about to do so many steps; at the beginning of a long run the fastest."""
        if m.members not in self.long:
            return m.form  # type: ignore[no-any-return]
        with self.lock:  # who comes at the same time waits and takes what was found
            self.long.discard(m.members)
            known = (m.members, m.mask)
            found = self.forms.get(known) or self.tried(m, most)
            if found is None or m.carried.lanes % found.members:
                return m.form  # type: ignore[no-any-return]
            self.forms[known] = self.used[m.members] = found
            return found

    def tried(self, m: Any, most: int) -> ThreadLayout | None:
        try:
            milliseconds = self.engine.trial(m, steps_of_a_try(self.one_step(m.members), most))
        except BackendError:  # no room for a copy: the run itself may need none
            return None
        found = fastest(
            candidates(m.form, m.members, m.carried.lanes, cuda.device().processors), milliseconds
        )
        if found is not None:
            keep(self.name(m.members, m.mask), found)
        return found
