"""How do processes that mpiexec started talk to each other?  This file alone imports mpi4py."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from mpi4py import MPI

SPINS = 200  # looks at what is under way, before a process lets others run
SHORTEST, LONGEST = 2e-5, 1e-3  # seconds between two looks then


def done(waits: list[Any]) -> None:
    """Waits without taking a processor from those that compute: MPI itself would look all the time."""
    for _ in range(SPINS):
        if MPI.Request.Testall(waits):
            return
    pause = SHORTEST
    while not MPI.Request.Testall(waits):
        time.sleep(pause)
        pause = min(2 * pause, LONGEST)


class MpiRanks:
    """The processes of MPI's world."""

    def __init__(self) -> None:
        self.world = MPI.COMM_WORLD
        self.rank, self.size = self.world.Get_rank(), self.world.Get_size()
        self.sent = self.messages = 0

    def exchange(self, out: Sequence[tuple[int, Any]], into: Sequence[tuple[int, Any]]) -> None:
        # as bytes: numbers of all types, and the order of messages between two processes is kept
        waits = [self.world.Irecv([a.reshape(-1).view("u1"), MPI.BYTE], source=k) for k, a in into]
        waits += [self.world.Isend([a.reshape(-1).view("u1"), MPI.BYTE], dest=k) for k, a in out]
        done(waits)
        self.sent += sum(a.nbytes for _, a in out)
        self.messages += len(out)

    def any(self, flag: bool) -> bool:
        mine, found = np.array([flag], "i4"), np.zeros(1, "i4")
        done([self.world.Iallreduce(mine, found, MPI.MAX)])
        return bool(found[0])

    def agree(self, word: str) -> bool:
        """Has every process the same word?"""
        first = self.world.bcast(word, root=0)
        return not self.any(first != word)
