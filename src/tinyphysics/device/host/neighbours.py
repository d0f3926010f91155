"""Who is near whom?  The list of a run: an order of its points, and for each the blocks of eight that it may see.

The order is that of ir/neighbours.py, to the last bit. Which blocks a row is given changes no bit: what is too far away
adds nothing, so a list may hold more than it must, never less.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinyphysics.device.host.copies import copy
from tinyphysics.device.host.threads import spread
from tinyphysics.device.numbers import NUMPY_DTYPE
from tinyphysics.ir.neighbours import (
    BLOCK,
    COLUMNS,
    INSIDE,
    MORTON,
    bits,
    columns,
    inverse,
    levels,
    limit,
    reach,
    skin_of,
    widths,
)
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.reduction import slabs
from tinyphysics.ir.uop import toposort
from tinyphysics.ir.value import evaluate
from tinyphysics.tpir.kernels.neighbours import FIRST, MADE, SHIFTS, ListSpec
from tinyphysics.tpir.kernels.nests import Buffer

Array = Any
GROUPS = (8, 64, 512)  # points in the boxes of each level
ROOM = 16  # blocks of a row that a first list has room for, on average
WORTH_A_PART = 2048  # points
WORTH_A_CALL = (
    1 << 15
)  # the same where a part is many short calls of NumPy, between which threads wait for each other
PARTS_PER_THREAD = 4


@dataclass(frozen=True)
class Domain:
    """The numbers of a list: how far it looks, and in which cell; in open space, none."""

    cutoff: float
    skin: float
    cell: tuple[tuple[float, ...], ...] | None
    curve: int = COLUMNS


Builder = Callable[
    [int, bool, bool], Callable[..., int]
]  # for points with d coordinates, in a cell, a straight one


def domain_of(spec: ListSpec, params: Mapping[str, Any], member: int) -> Domain:
    """The numbers of a list in one member; an InputError if they make no sense."""
    roots = [spec.cutoff, spec.skin, *([] if spec.cell is None else [spec.cell])]
    env: dict[str, Any] = {}
    for v in toposort(roots):
        if v.op is Ops.VAR:
            given = params[str(v.arg)[1:]]
            one = np.asarray(given[member if len(given) > 1 else 0], float)
            env[str(v.arg)] = one.ravel().tolist() if v.shape else float(one)
    cutoff, skin, *box = evaluate(roots, env)
    cell = None
    if spec.cell is not None:
        d = spec.shape[1]
        rows = np.reshape(box[0], (d, d)) if spec.cell.ndim == 2 else np.diag(box[0])
        cell = tuple(tuple(row) for row in rows.tolist())
    return Domain(cutoff, skin_of(cutoff, skin, cell), cell, spec.curve)


def finite_numbers(points: Array) -> Array:
    """In float64, what is no number as 0: (d, n), which may be the points themselves."""
    whole = points.astype(np.float64, copy=False)
    good = np.isfinite(whole)
    return whole if good.all() else np.where(good, whole, 0.0)


def axes_of(points: Array, domain: Domain) -> tuple[Array, list[float]]:
    """(where the axes begin, how long they are); in open space they reach as far as points do."""
    if domain.cell is not None:
        return np.zeros(len(points)), widths(domain.cell)
    whole = finite_numbers(points)
    low = whole.min(1) if whole.size else np.zeros(len(whole))
    return low, ((whole.max(1) if whole.size else low) - low).tolist()


def fractions(points: Array, domain: Domain, periods: Array, axes: tuple[Array, list[float]]) -> Array:
    """As in ir/neighbours.py: places between 0 and 1 along each axis; `periods` is filled."""
    whole = finite_numbers(points)
    if domain.cell is None:
        periods[:] = 0.0
        apart = [(x - first) / (length if length > 0.0 else 1.0) for x, first, length in zip(whole, *axes)]
        return np.minimum(apart, INSIDE)
    back, at = inverse(domain.cell), np.empty_like(whole)
    for k, x in enumerate(at):
        some = [i for i in range(len(whole)) if back[i][k] != 0.0]  # of a straight cell one
        np.multiply(whole[some[0]], back[some[0]][k], out=x)
        for i in some[1:]:
            x += whole[i] * back[i][k]
        floors = np.floor(x)
        periods[k] = floors
        x -= floors
    return np.minimum(at, INSIDE, out=at)


def arranged(
    points: Array, domain: Domain, periods: Array, threads: int = 1
) -> tuple[Array, Array, list[float]]:
    """(the order; places in that order along each axis, NaN behind the last; lengths of the axes); `periods` is filled."""
    d, n = points.shape
    axes = axes_of(points, domain)
    parts = columns(axes[1], n)
    index, depth = bits(parts, n)
    at, keys = np.empty((d, n)), np.empty(n, np.int64)
    cuts = cuts_of(n, n, threads, WORTH_A_CALL)

    def some(k: int) -> None:
        here = slice(cuts[k], cuts[k + 1])
        x = at[:, here] = fractions(points[:, here], domain, periods[:, here], axes)
        own = by_bits(x, levels(d, n)) if domain.curve == MORTON else by_columns(x, parts, depth)
        keys[here] = own << index | np.arange(cuts[k], cuts[k + 1])

    spread(some, len(cuts) - 1, threads)
    order = in_order(keys, threads) & (1 << index) - 1
    placed = np.full((d, -(-n // BLOCK) * BLOCK), np.nan)

    def place(k: int) -> None:
        part, axis = divmod(k, d)
        here = slice(cuts[part], cuts[part + 1])
        np.take(
            at[axis], order[here], out=placed[axis, here], mode="clip"
        )  # else what is taken is copied twice

    spread(place, d * (len(cuts) - 1), threads)
    return order, placed, axes[1]


def in_order(keys: Array, threads: int) -> Array:
    """Sorted: ranges of values apart, which threads share."""
    parts = max(1, min(threads, len(keys) // WORTH_A_CALL))
    sample = np.sort(keys[:: max(1, len(keys) // (64 * parts))])
    ends = sample[len(sample) * np.arange(1, parts) // parts]

    def part(k: int) -> Array:
        inside: Any = np.ones(len(keys), bool) if k == 0 else keys >= ends[k - 1]
        if k < parts - 1:
            inside &= keys < ends[k]
        return np.sort(keys[inside])

    return np.concatenate(spread(part, parts, threads)) if parts > 1 else np.sort(keys)


def cuts_of(points: int, extent: int, threads: int, worth: int) -> list[int]:
    """Where a range of so many points is cut for threads."""
    parts = max(1, min(threads * PARTS_PER_THREAD, points // worth))
    return [extent * k // parts for k in range(parts + 1)]


def by_columns(at: Array, parts: list[int], depth: int) -> Array:
    column: Any = None
    for x, c in zip(at, parts):
        place = np.minimum((x * c).astype(np.int64), c - 1)
        column = place if column is None else column * c + np.where(column & 1, c - 1 - place, place)
    if column is None:
        column = np.zeros(at.shape[1], np.int64)
    z = (at[-1] * 2.0**depth).astype(np.int64)
    return column << depth | np.where(column & 1, 2**depth - 1 - z, z)


def by_bits(at: Array, depth: int) -> Array:
    """Keys of Morton."""
    places = [(x * 2.0**depth).astype(np.int64) for x in at]
    keys = np.zeros(at.shape[1], np.int64)
    for level in reversed(range(depth)):
        for x in places:
            keys = keys << 1 | x >> level & 1
    return keys


def boxes(low: Array, high: Array, size: int, threads: int = 1) -> Array:
    """The boxes of so many boxes that follow each other: their lower ends along each axis, then the upper ones."""
    d, n = low.shape
    out = np.empty((2 * d, -(-n // size)))
    cuts = cuts_of(n, out.shape[1], threads, WORTH_A_CALL)
    rows = [(np.minimum, x) for x in low] + [(np.maximum, x) for x in high]

    def some(k: int) -> None:
        part, row = divmod(k, 2 * d)
        first, end = cuts[part : part + 2]
        least, x = rows[row]
        mine, whole = x[first * size : end * size], min(end, n // size)
        out[row, first:whole] = of_each(least, mine[: (whole - first) * size], size)
        if whole < end:
            out[row, whole] = least.reduce(mine[(whole - first) * size :])

    spread(some, 2 * d * (len(cuts) - 1), threads)
    return out


def of_each(least: Any, x: Array, size: int) -> Array:
    """The least of each so many numbers, by halves: all of them at once, and other threads go on meanwhile."""
    assert size & (size - 1) == 0, "a power of two"
    while size > 1:
        x, size = least(x[0::2], x[1::2]), size // 2
    return x


class NearList:
    """The list of one member. What was made is never changed: copies of a run share it until one makes another."""

    def __init__(
        self, spec: ListSpec, domain: Domain, own: dict[str, Array], build: Builder, threads: int = 1
    ) -> None:
        self.spec, self.domain, self.own, self.threads = spec, domain, own, threads
        self.build = build(spec.shape[1], domain.cell is not None, spec.cell is None or spec.is_straight)
        self.buffers = {b.name: b for b in spec.buffers()}
        self.times = 0  # that it was made
        self.filled = self.spec.shape[0] * ROOM  # blocks of the last one, or a guess
        own["limit"][0] = limit(domain.skin)
        if spec.is_straight:
            assert domain.cell is not None
            ways = np.stack(np.meshgrid(*[[-1.0, 0.0, 1.0]] * 3, indexing="ij"), -1).reshape(SHIFTS, 3)
            lengths: Array = np.diag(np.array(domain.cell)).astype(NUMPY_DTYPE[spec.dtype.name])
            own["shifts"].reshape(spec.shape[1], -1)[:, :SHIFTS] = (ways[:, 3 - spec.shape[1] :] * lengths).T
        self.made = {what: self.room(what) for what in MADE if what != "blocks"}
        self.made["blocks"] = np.zeros(1, np.int32)
        self.planes(self.made["ref"])[:] = np.inf  # so far away that the first look makes a list

    def room(self, what: str) -> Array:
        return aligned(self.buffers[self.spec.name(what)])

    def planes(self, data: Array) -> Array:
        """The d rows of an array of points."""
        n, d = self.spec.shape
        return data.reshape(d, -1)[:, :n]

    @property
    def points(self) -> Array:
        """The points at which it was made: (d, n)."""
        return self.planes(self.made["ref"])

    def copy(self) -> NearList:
        new = object.__new__(NearList)
        new.__dict__.update(self.__dict__)
        return new

    def make(self) -> None:
        """A list of the points as they were stored; done twice, it is as if it was done once."""
        self.make_at(self.planes(self.own["points"]))

    def make_at(self, points: Array) -> None:
        n = self.spec.shape[0]
        new = {what: self.room(what) for what in MADE if what != "blocks"}
        copy(points, self.planes(new["ref"]), self.threads)
        ref, images = self.planes(new["ref"]), self.planes(new["images"])
        order, at, lengths = arranged(ref, self.domain, images, self.threads)
        cuts = cuts_of(n, n, self.threads, WORTH_A_CALL)

        def keep(k: int) -> None:
            here = slice(cuts[k], cuts[k + 1])
            new["order"][here] = order[here]
            new["inverse"][order[here]] = np.arange(cuts[k], cuts[k + 1])

        spread(keep, len(cuts) - 1, self.threads)
        new["blocks"] = self.near(at, lengths, new["starts"])
        new["spans"][:] = self.spans(new["starts"], new["blocks"], len(new["spans"]))
        self.made = new
        self.times += 1

    def near(self, at: Array, lengths: list[float], starts: Array) -> Array:
        """The blocks of every row; where each begins goes to `starts`."""
        n, stride = self.spec.shape[0], at.shape[1]
        levels, low, high = [], at[:, :n], at[:, :n]
        for _ in GROUPS:
            levels.append(boxes(low, high, BLOCK, self.threads if low.shape[1] > WORTH_A_PART else 1))
            low, high = levels[-1][: len(low)], levels[-1][len(low) :]
        cell = np.diag(lengths) if self.domain.cell is None else np.array(self.domain.cell)
        far = reach(self.domain.cutoff, self.domain.skin)
        way = [self.domain.skin / x + 1e-9 if x > 0.0 else 0.0 for x in lengths]
        numbers = np.array([*lengths, *cell.ravel(), far, *way])
        counts = [x.shape[1] for x in levels]
        cuts = cuts_of(n, counts[1], self.threads, WORTH_A_PART)
        parts = len(cuts) - 1

        def part(k: int) -> Array:
            """The blocks of some rows, whose starts are counted from the first of them."""
            scratch = [
                np.empty(m + 1, np.int64) for m in (counts[1], counts[0], counts[0], BLOCK * counts[0])
            ]
            room = self.filled // parts
            while True:
                blocks = np.empty(room + room // 32 + BLOCK, np.int32)
                room = self.build(
                    *(at.ctypes.data, stride, n, *(x.ctypes.data for x in levels), *counts),
                    *(numbers.ctypes.data, *(x.ctypes.data for x in scratch), starts.ctypes.data),
                    *(blocks.ctypes.data, len(blocks), cuts[k], cuts[k + 1]),
                )
                if room <= len(blocks):
                    return blocks[:room]

        found = spread(part, parts, self.threads)
        ends = np.cumsum([len(blocks) for blocks in found]).tolist()
        self.filled = starts[n] = ends[-1]
        if parts == 1:
            return found[0]
        whole = np.empty(ends[-1], np.int32)

        def join(k: int) -> None:
            first = ends[k] - len(found[k])
            whole[first : ends[k]] = found[k]
            starts[cuts[k] * GROUPS[1] : min(cuts[k + 1] * GROUPS[1], n)] += first

        spread(join, parts, self.threads)
        return whole

    def spans(self, starts: Array, blocks: Array, count: int) -> Array:
        """For each slab of rows, from where to where there are columns that it adds to; of the first, all."""
        n = self.spec.shape[0]
        cuts, out = slabs(n, True), np.zeros(count, np.int64)

        def span(k: int) -> None:
            seen = blocks[starts[cuts[k]] : starts[cuts[k + 1]]]
            if len(seen):
                out[2 * k : 2 * k + 2] = (seen.min() >> FIRST) * BLOCK, ((seen.max() >> FIRST) + 1) * BLOCK

        spread(span, len(cuts) - 1, self.threads if len(blocks) > WORTH_A_CALL else 1)
        out[:2] = 0, -(-n // BLOCK) * BLOCK
        return out


def aligned(b: Buffer) -> Array:
    """Zeros that begin at a cache line."""
    dtype = np.dtype(NUMPY_DTYPE[b.dtype.name])
    raw = np.zeros(b.size + 64 // dtype.itemsize, dtype)
    shift = -raw.ctypes.data % 64 // dtype.itemsize
    return raw[shift : shift + b.size]
