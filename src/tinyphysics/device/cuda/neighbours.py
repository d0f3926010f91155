"""Who is near whom on a CUDA device?  The list of a member, made there by kernels.

The kernels are those of emit/kinds/neighbours/ptx_order.py and emit/kinds/neighbours/ptx_lists.py.
The order is that of ir/neighbours.py, to the last bit. What comes here is how many blocks and rows there are, to see
whether there was room for them; in open space also how far the points reach.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from tinyphysics.device.cuda import driver as cuda
from tinyphysics.device.cuda.sort import Kernels, ordered, summed, words
from tinyphysics.device.host.neighbours import Domain
from tinyphysics.device.numbers import NUMPY_DTYPE
from tinyphysics.ir.dtype import f32
from tinyphysics.ir.neighbours import BLOCK, MORTON, bits, columns, inverse, levels, limit, reach, widths
from tinyphysics.ir.reduction import slabs
from tinyphysics.tpir.kernels.neighbours import ListSpec
from tinyphysics.util import prod

NEAR, ROOM = 96, 16  # blocks near a block, blocks of a row: what a first list has room for, on average
MORE = 16  # a part of what was needed, beside it: room for the next list
APART = 1 << 26  # bytes of a list that are copied
EXTREMES = 1024  # threads that look how far points reach
Array = Any
Builder = Callable[[ListSpec], Kernels]


class DeviceList:
    """The list of one member. What copies of a run share is never changed; what is its own alone is written over."""

    def __init__(self, spec: ListSpec, domain: Domain, build: Builder) -> None:
        self.spec, self.domain, self.kernels = spec, domain, build(spec)
        self.buffers = {b.name: b for b in spec.buffers()}
        n = spec.shape[0]
        self.blocks = -(-n // BLOCK)
        self.times = 0  # that it was made
        each = n * min(ROOM, self.blocks)
        self.room = {"near": self.blocks * min(NEAR, self.blocks), "blocks": each, "rows": each}
        self.shape = shape_of(self.blocks)
        self.cuts = [-(-c // BLOCK) for c in slabs(n, True)]
        self.given = Given(self)
        self.made = {}
        ref = self.empty("ref")
        self.kernels("nowhere", ref.size // 8, ref)  # so far away that the first look makes a list
        self.made = {spec.name("ref"): ref}

    @property
    def made(self) -> dict[str, cuda.Buffer]:
        """What was made last, by the names of buffers; who takes it may keep it if it was said that this is not `alone`."""
        return self._made

    @made.setter
    def made(self, made: dict[str, cuda.Buffer]) -> None:
        self._made, self.alone = made, False  # it was handed out

    @property
    def limit(self) -> Array:
        return np.array([limit(self.domain.skin)])

    def empty(self, what: str) -> cuda.Buffer:
        b = self.buffers[self.spec.name(what)]
        return self.place(what, b.size * b.dtype.bits // 8)

    def place(self, what: str, size: int) -> cuda.Buffer:
        """Where something is made: in its old place if nothing else holds that, so that graphs go on finding it."""
        old = self.made.get(self.spec.name(what)) if self.alone else None
        return old if old is not None and old.size == size else cuda.Buffer(size)

    @property
    def plane(self) -> int:
        """Numbers from one coordinate of the points to the next."""
        return self.buffers[self.spec.name("ref")].plane

    @property
    def points(self) -> Array:
        """The points at which it was made: (d, n)."""
        n, d = self.spec.shape
        out: Array = np.empty(d * self.plane, NUMPY_DTYPE[self.spec.dtype.name])
        return cuda.read(self.made[self.spec.name("ref")], out).reshape(d, -1)[:, :n]

    def copy(self) -> DeviceList:
        new = object.__new__(DeviceList)
        new.__dict__.update(self.__dict__)
        new.alone = self.alone = False
        return new

    def apart(self) -> DeviceList | None:
        """A copy in places of its own; None if that is much, or if others look at these places."""
        if not self.alone or sum(b.size for b in self.made.values()) > APART:
            return None
        alone, new = self.alone, self.copy()
        new._made = {name: cuda.copy(b, cuda.Buffer(b.size)) for name, b in self._made.items()}
        self.alone, new.alone = alone, True
        return new

    def forget(self) -> None:
        """As it began: the first look makes a list."""
        ref = self.empty("ref")
        self.kernels("nowhere", ref.size // 8, ref)
        self._made, self.times = {**self._made, self.spec.name("ref"): ref}, 0

    def make_at(self, points: Array) -> None:
        """A list of points that are here: (d, n)."""
        n, d = self.spec.shape
        whole: Array = np.zeros((d, self.plane), NUMPY_DTYPE[self.spec.dtype.name])
        whole[:, :n] = points
        self.make(cuda.upload(whole))

    def make(self, points: cuda.Buffer) -> None:
        """A list of points that are there; done twice, it is as if it was done once."""
        new = {what: self.empty(what) for what in ("ref", "order", "inverse", "images", "starts")}
        cuda.copy(points, new["ref"])
        slots = self.arranged(new)
        boxes = self.boxes(slots)
        while True:
            new |= {what: self.place(what, 4 * max(self.room[what], 1)) for what in ("blocks", "rows")}
            needed = self.found(slots, boxes, new)
            if all(needed[what] <= self.room[what] for what in needed):
                break
            self.room = {what: max(self.room[what], x + x // MORE) for what, x in needed.items()}
        self._made, self.alone = {self.spec.name(what): b for what, b in new.items()}, True
        self.times += 1

    def arranged(self, new: dict[str, cuda.Buffer]) -> cuda.Buffer:
        """Order, inverse and images; returned are places along the axes in that order, by blocks."""
        n, d = self.spec.shape
        if self.domain.cell is None:
            self.given.reaching(self.extremes(new["ref"]))
            cuda.zero(new["images"])
        given, k = self.given, self.kernels
        at, keys, slots = words(d * n), words(n), words(d * BLOCK * self.blocks)
        k("keys", n, new["ref"], self.plane, given.numbers, given.whole, new["images"], at, keys)
        keys = ordered(k, keys, n, given.index, given.index + given.bits)
        k(
            "placed",
            BLOCK * self.blocks,
            keys,
            (1 << given.index) - 1,
            at,
            new["order"],
            new["inverse"],
            slots,
            n,
        )
        return slots

    def extremes(self, points: cuda.Buffer) -> Array:
        """The least and the largest coordinates: (2, d)."""
        n, d = self.spec.shape
        threads = min(n, EXTREMES)
        out = words(2 * d * threads)
        self.kernels("extremes", threads, points, self.plane, n, out)
        low, high = cuda.read(out, np.empty((threads, 2, d))).transpose(1, 0, 2)
        return np.stack([low.min(0), high.max(0)])

    def boxes(self, slots: cuda.Buffer) -> cuda.Buffer:
        """Of blocks, of eight blocks, and so on."""
        out = words(2 * self.spec.shape[1] * sum(count for _, count in self.shape))
        self.kernels("blocks", self.blocks, slots, out)
        for (source, n), (to, count) in zip(self.shape, self.shape[1:]):
            self.kernels("boxes", count, out, source, n, to)
        return out

    def found(self, slots: cuda.Buffer, boxes: cuda.Buffer, new: dict[str, cuda.Buffer]) -> dict[str, int]:
        """Fills rows and columns as far as there is room; how much is needed."""
        k, given, n, room = self.kernels, self.given, self.spec.shape[0], self.room
        parts = len(self.cuts) - 1
        count = self.blocks * parts
        near, starts = cuda.Buffer(4 * max(room["near"], 1)), words(self.blocks + 1)
        rows, new["columns"] = new["starts"], self.place("columns", 8 * (count + 1))
        listed = starts, near, cuda.Buffer(max(room["near"], 1)), room["near"]
        walk = boxes, given.shape, len(self.shape), given.numbers, *listed
        k("near_count", self.blocks, *walk)
        summed(k, starts, self.blocks + 1)
        k("near_fill", self.blocks, *walk)
        k("seen", BLOCK * self.blocks, slots, given.numbers, *listed)
        k("mirrored", BLOCK * self.blocks, *listed)
        by_row = *listed, rows, new["blocks"], room["blocks"]
        k("rows_count", n, *by_row)
        summed(k, rows, n + 1)
        k("rows_fill", n, *by_row)
        by_block = *listed, given.cuts, parts, new["columns"], new["rows"], room["rows"]
        k("columns_count", count, *by_block)
        summed(k, new["columns"], count + 1)
        k("columns_fill", count, *by_block)
        totals = words(3)
        k("totals", 1, starts, self.blocks, rows, n, new["columns"], count, totals)
        return dict(zip(("near", "blocks", "rows"), cuda.read(totals, np.empty(3, np.int64)).tolist()))


def shape_of(blocks: int) -> list[tuple[int, int]]:
    """(where the boxes of a level begin, how many they are), from blocks up to a handful."""
    out = [(0, blocks)]
    while out[-1][1] > BLOCK:
        begin, count = out[-1]
        out.append((begin + count, -(-count // BLOCK)))
    return out


class Given:
    """The numbers of a list as its kernels read them, in one piece on the device: floats, then whole numbers."""

    def __init__(self, near: DeviceList) -> None:
        (n, d), self.domain = near.spec.shape, near.domain
        self.n, self.d = n, d
        self.parts, self.depth, self.index, self.bits = [1] * (d - 1), 0, 0, 0
        fixed = [x for level in near.shape for x in level] + near.cuts
        floats = d + d * d + 1 + (2 * d if self.domain.cell is None else d * d)
        self.here = np.zeros(floats + d + 1 + len(fixed), np.int64)
        self.floats = self.here[:floats].view(np.float64)
        self.here[floats + d + 1 :] = fixed
        self.there = words(len(self.here))
        places = (0, floats, floats + d + 1, floats + d + 1 + 2 * len(near.shape))
        self.numbers, self.whole, self.shape, self.cuts = (
            ctypes.c_uint64(self.there.pointer + 8 * p) for p in places
        )
        if self.domain.cell is not None:
            self.sent(
                widths(self.domain.cell), self.domain.cell, np.ravel(inverse(self.domain.cell)).tolist()
            )

    def reaching(self, extremes: Array) -> None:
        """In open space the axes are as long as points reach."""
        low, high = extremes
        lengths = (high - low).tolist()
        self.sent(lengths, np.diag(lengths), [*low.tolist(), *(x if x > 0.0 else 1.0 for x in lengths)])

    def sent(self, lengths: list[float], cell: Any, ways: list[float]) -> None:
        d, n = self.d, self.n
        self.parts = columns(lengths, n)
        self.index, self.depth = bits(self.parts, n)
        self.bits = self.depth + prod(self.parts).bit_length()
        if self.domain.curve == MORTON:
            self.depth = levels(d, n)
            self.bits = d * self.depth
        self.floats[:] = [*lengths, *np.ravel(cell), reach(self.domain.cutoff, self.domain.skin), *ways]
        self.here[len(self.floats) : len(self.floats) + d + 1] = [*self.parts, self.depth, self.index]
        cuda.write(self.there, self.here)


def space_of(spec: ListSpec) -> tuple[int, bool, bool, bool, bool]:
    """What the kernels of a list depend on (emit/kinds/neighbours/ptx_order.py)."""
    periodic = spec.cell is not None
    return spec.shape[1], spec.dtype == f32, periodic, not periodic or spec.is_straight, spec.curve == MORTON
