"""Which members run together?  Tiles that fit into a cache, so that a run needs no second copy of an ensemble.

Between two blocks of time the loop states of a large ensemble lie where the last frame will be; a tile is
loaded, advanced, looked at and put back. A small one is a single tile that stays as the engine has it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tinyphysics.runtime.state.digest import LEAF
from tinyphysics.runtime.state.ensemble import Inputs
from tinyphysics.trajectory import Stop
from tinyphysics.util import prod

SMALLEST = 8  # of these are one of the largest tiles
FEW_WORKERS = 4  # threads that seldom wait for each other's Python


def cut(members: int, numbers: int, itemsize: int, room: int, workers: int = 1) -> list[slice]:
    """Members of each tile; the leaves of a hash never lie across two. No numbers: the engine keeps its state.

    What there is room for is one tile: threads take chunks of it, and blocks are long. Tiles of more are a quarter of that
    at most, and the last ones are smaller, so that so many threads end together. None is much smaller, and those of many
    threads are larger: what Python does for a tile is done by one thread at a time.
    """
    if members * numbers <= room:
        return [slice(0, members)] if members else []
    whole = LEAF // itemsize
    share = 4 if workers <= FEW_WORKERS else 2
    most, left, starts = max(1, room // share // numbers // whole), members // whole, [0]
    least = max(1, most // SMALLEST)
    while (size := min(most, max(least, left // workers))) < left:
        starts.append(starts[-1] + size * whole)
        left -= size
    return [slice(a, b) for a, b in zip(starts, [*starts[1:], members])]


@dataclass
class TileStore:
    """The loop states of all members: rows of components, in memory of the size and order of a frame."""

    slots: Mapping[str, Any]  # (members, shape...)
    extra: Any  # (rows, members): what a loop carries beside the state

    def rows(self, here: slice) -> list[Any]:
        """A row for each number that a loop carries."""
        out: list[Any] = []
        for v in self.slots.values():
            size = prod(v.shape[1:])
            flat = v.reshape(-1)[here.start * size : here.stop * size]
            out += [*flat.reshape(size, here.stop - here.start)]
        return [*out, *self.extra[:, here]]


def store(slots: Mapping[str, Any], numbers: int) -> TileStore:
    """In the memory of these arrays, and as much more as a loop carries more than the state."""
    first = next(iter(slots.values()))
    rows = numbers - sum(prod(v.shape[1:]) for v in slots.values())
    return TileStore(slots, np.empty((max(rows, 0), len(first)), first.dtype))


@dataclass
class Tile:
    """Some members: where their loop state is between two blocks, and which of them have stopped."""

    here: slice
    engine: Any
    given: Inputs
    dt: float
    t0: float
    kept: TileStore | None  # None: as the engine has it
    alone: Any = None
    begun: bool = False
    # with the last good state
    frozen: dict[int, tuple[Stop, Mapping[str, Any]]] = field(default_factory=dict)

    @property
    def members(self) -> int:
        return int(self.here.stop - self.here.start)

    def states(self) -> dict[str, Any]:
        return {name: v[self.here] for name, v in self.given.states.items()}

    def params(self) -> dict[str, Any]:
        return {name: v[self.here] if len(v) > 1 else v for name, v in self.given.params.items()}

    def load(self, n: int) -> Any:
        """The loop state at step n, to be changed by the caller."""
        threads = None if self.kept is None else 1  # the tiles themselves are spread over the threads
        if not self.begun:
            return self.engine.start(self.states(), self.params(), self.members, self.dt, self.t0, threads)
        if self.kept is None:
            return self.engine.lent(self.alone)
        rows = [*self.kept.rows(self.here), *self.engine.fresh(self.members)]
        return self.engine.resume(rows, self.params(), self.members, self.dt, self.t0, n, threads)

    def restored(self, registers: Mapping[str, Any], n: int) -> Any:
        """The loop state of these members at step n, from the registers of all."""
        own, threads = {name: v[self.here] for name, v in registers.items()}, None if self.kept is None else 1
        return self.engine.restored(own, self.params(), self.members, self.dt, self.t0, n, threads)

    def put(self, m: Any) -> None:
        if self.kept is None:
            self.alone = m
        else:
            # the last rows may not be kept: they begin anew in each block
            for row, values in zip(self.kept.rows(self.here), self.engine.held(m)):
                assert row.dtype == values.dtype, "a loop carries other numbers than its frames"
                row[:] = values
        self.begun = True
