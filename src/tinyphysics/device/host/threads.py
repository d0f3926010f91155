"""Who does the work?  Threads that take pieces from one queue, the caller among them.

A slow core takes fewer pieces, so that it does not hold up the others. Threads wait for the next call for a moment instead of
being made anew: a step of many bodies has several calls, each shorter than it takes to make a dozen threads.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from contextvars import copy_context
from dataclasses import dataclass
from functools import cache
from itertools import count
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

import numpy as np

from tinyphysics.tpir.kernels import shares
from tinyphysics.tpir.kernels.nests import LINKS
from tinyphysics.tpir.kernels.shares import APART, JOB, Shares

T = TypeVar("T")
IDLE = 0.5  # seconds that a thread waits for work before it ends


class Helpers:
    """Threads that wait for calls; those of a process that was forked are its own."""

    def __init__(self) -> None:
        self.calls: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self.lock = threading.Lock()
        self.free = 0  # threads that wait, less the calls that wait for them

    def ask(self, call: Callable[[], None], times: int) -> None:
        """Lets so many threads make a call, as soon as they can."""
        with self.lock:
            more = max(0, times - max(self.free, 0))
            self.free += more - times
        for _ in range(more):
            threading.Thread(target=self.wait, daemon=True, name="tinyphysics").start()
        for _ in range(times):
            self.calls.put(call)

    def wait(self) -> None:
        while True:
            try:
                call = self.calls.get(timeout=IDLE)
            except Empty:
                with self.lock:
                    if self.free <= 0:  # a call is on its way
                        continue
                    self.free -= 1
                    return
            call()
            del call  # what it holds is not to outlive it
            with self.lock:
                self.free += 1


helpers = Helpers()


def renew() -> None:
    """In a process that was forked there are no threads yet."""
    global helpers
    helpers = Helpers()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=renew)


class Shared:
    """One call of `spread`: threads that come while there is work take part, and all that did are waited for."""

    def __init__(self, take: Callable[[], None]) -> None:
        self.take, self.context = take, copy_context()  # with the flags of the caller
        self.lock, self.over = threading.Lock(), threading.Lock()
        self.busy, self.closed = 0, False
        self.over.acquire()

    def help(self) -> None:
        with self.lock:
            if self.closed:
                return
            self.busy += 1
        try:
            self.context.copy().run(self.take)
        finally:
            with self.lock:
                self.busy -= 1
                last = self.closed and not self.busy
            if last:
                self.over.release()

    def close(self) -> None:
        """Waits for those that are at work. Ctrl-C takes effect when they are done: they write where the caller reads."""
        with self.lock:
            self.closed, waits = True, self.busy > 0
        pressed: BaseException | None = None
        while waits:
            try:
                self.over.acquire()
                waits = False
            except KeyboardInterrupt as error:
                pressed = error
        if pressed is not None:
            raise pressed


def spread(work: Callable[[int], T], pieces: int, threads: int) -> list[T]:
    """work(0), work(1), ... in up to so many threads, this one among them; the first error is raised."""
    if threads <= 1 or pieces <= 1:
        return [work(k) for k in range(pieces)]
    out: list[Any] = [None] * pieces
    errors: list[BaseException] = []
    queue = count()

    def take() -> None:
        while not errors and (k := next(queue)) < pieces:  # next() of a count is one step of the interpreter
            try:
                out[k] = work(k)
            except BaseException as error:
                errors.append(error)

    shared = Shared(take)
    helpers.ask(shared.help, min(threads, pieces) - 1)
    try:
        take()
    finally:
        shared.close()
    if errors:
        raise errors[0]
    return out


@cache
def let_others_run() -> int:
    """The address of the system's function by which a thread does."""
    if os.name == "nt":
        f: Any = ctypes.windll.kernel32.SwitchToThread  # type: ignore[attr-defined]
    else:
        f = ctypes.CDLL(None).sched_yield
    return int(ctypes.cast(f, ctypes.c_void_p).value or 0)


@dataclass(frozen=True)
class Plan:
    """Pieces as a team reads them."""

    pieces: Any
    chains: int

    @classmethod
    def of(cls, made: Shares) -> Plan:
        return cls(np.array(made.pieces, np.int64).reshape(-1, shares.WORDS), made.chains)


@dataclass(frozen=True)
class Threads:
    """A launcher of loop nests: so many threads, each of which calls `team` once for many steps."""

    workers: int
    team: Any
    table: Any  # where buffers are
    uniform: Any
    flags: Any

    def run(self, plan: Plan, first: int, steps: int, stride: int = 1) -> None:
        """All pieces of a plan in order, so many times; `stride` steps each time."""
        n = len(plan.pieces)
        if not n or not steps:
            return
        room = np.zeros(JOB + APART * (plan.chains + 1), np.int64)
        job = room[-room.ctypes.data % 64 // 8 :]
        job[shares.COUNT : shares.YIELD + 1] = (
            *(n, n * steps, first, stride, LINKS),
            *(plan.pieces.ctypes.data, job[JOB:].ctypes.data, self.table.ctypes.data),
            *(self.uniform.ctypes.data, self.flags.ctypes.data, let_others_run()),
        )
        at = job.ctypes.data
        spread(lambda k: self.team(at), self.workers, self.workers)
