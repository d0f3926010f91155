"""How do processes that mpiexec started talk to each other?  This file alone imports mpi4py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mpi4py import MPI


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
        MPI.Request.Waitall(waits)
        self.sent += sum(a.nbytes for _, a in out)
        self.messages += len(out)

    def any(self, flag: bool) -> bool:
        return bool(self.world.allreduce(int(flag), MPI.MAX))

    def agree(self, word: str) -> bool:
        """Has every process the same word?"""
        first = self.world.bcast(word, root=0)
        return not self.any(first != word)
