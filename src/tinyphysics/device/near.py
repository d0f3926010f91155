"""Who is near whom?  The list of a run: an order of its points, and for each the blocks of eight that it may see.

The order is that of ir/near.py, to the last bit. Which blocks a row is given changes no bit: what is too far away
adds nothing, so a list may hold more than it must, never less.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinyphysics.device.host import NUMPY_DTYPE
from tinyphysics.ir.near import BLOCK, INSIDE, bits, columns, inverse, limit, reach, skin_of, widths
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import toposort
from tinyphysics.ir.value import evaluate
from tinyphysics.tpir.lists import SHIFTS, ListSpec

Array = Any
GROUPS = (8, 64, 512)  # points in the boxes of each level
ROOM = 16  # blocks of a row that a first list has room for, on average


@dataclass(frozen=True)
class Domain:
    """The numbers of a list: how far it looks, and in which cell; in open space, none."""

    cutoff: float
    skin: float
    cell: tuple[tuple[float, ...], ...] | None


Builder = Callable[[int, bool, bool], Callable[..., int]]  # for points with d coordinates, in a cell, a straight one


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
    return Domain(cutoff, skin_of(cutoff, skin, cell), cell)


def fractions(q: Array, domain: Domain) -> tuple[Array, Array, list[float]]:
    """As in ir/near.py: places between 0 and 1 along each axis, periods from the origin, lengths of the axes."""
    whole = np.where(np.isfinite(q), q, 0.0)
    if domain.cell is None:
        low, high = (whole.min(0), whole.max(0)) if len(q) else (np.zeros(q.shape[1]),) * 2
        lengths = high - low
        at = np.where(lengths > 0.0, (whole - low) / np.where(lengths > 0.0, lengths, 1.0), 0.0)
        return np.minimum(at, INSIDE), np.zeros_like(whole), lengths.tolist()
    back = inverse(domain.cell)
    at = np.empty_like(whole)
    for k in range(q.shape[1]):
        at[:, k] = whole[:, 0] * back[0][k]
        for i in range(1, q.shape[1]):
            at[:, k] = at[:, k] + whole[:, i] * back[i][k]
    periods = np.floor(at)
    return np.minimum(at - periods, INSIDE), periods, widths(domain.cell)


def arranged(q: Array, domain: Domain) -> tuple[Array, Array, Array, list[float]]:
    """(the order; periods; places in that order; lengths of the axes)."""
    at, periods, lengths = fractions(q, domain)
    n = len(q)
    parts = columns(lengths, n)
    index, depth = bits(parts, n)
    column = np.zeros(n, np.int64)
    for k, c in enumerate(parts):
        place = np.minimum((at[:, k] * c).astype(np.int64), c - 1)
        column = column * c + np.where(column % 2 == 1, c - 1 - place, place)
    z = (at[:, -1] * 2.0**depth).astype(np.int64)
    within = np.where(column % 2 == 1, 2**depth - 1 - z, z)
    keys = np.sort((column << depth | within) << index | np.arange(n))
    order = keys & ((1 << index) - 1)
    return order, periods, at[order], lengths


def boxes(low: Array, high: Array, size: int) -> tuple[Array, Array]:
    """The boxes of so many boxes that follow each other: (axes, boxes)."""
    starts = np.arange(0, low.shape[1], size)
    return np.minimum.reduceat(low, starts, 1), np.maximum.reduceat(high, starts, 1)


class NearList:
    """The list of one member, in buffers that its nests read; made when they call for it."""

    def __init__(self, spec: ListSpec, domain: Domain, own: dict[str, Array], build: Builder) -> None:
        self.spec, self.domain, self.own = spec, domain, own
        self.build = build(spec.shape[1], domain.cell is not None, spec.cell is None or spec.is_straight)
        self.blocks = np.empty(spec.shape[0] * ROOM + BLOCK, np.int64)
        self.made = 0
        self.buffer("limit")[0] = limit(domain.skin)
        if spec.is_straight:
            assert domain.cell is not None
            ways = np.stack(np.meshgrid(*[[-1.0, 0.0, 1.0]] * 3, indexing="ij"), -1).reshape(SHIFTS, 3)
            lengths: Array = np.diag(np.array(domain.cell)).astype(NUMPY_DTYPE[spec.dtype.name])
            self.buffer("shifts").reshape(spec.shape[1], -1)[:, :SHIFTS] = (ways[:, 3 - spec.shape[1] :] * lengths).T
        self.planes("ref")[:] = np.inf  # so far away that the first look makes a list

    def buffer(self, what: str) -> Array:
        return self.own[self.spec.name(what)]

    def planes(self, what: str) -> Array:
        """The d rows of an array of points."""
        n, d = self.spec.shape
        return self.buffer(what).reshape(d, -1)[:, :n]

    def copy(self, own: dict[str, Array]) -> NearList:
        new = object.__new__(NearList)
        new.__dict__.update(self.__dict__ | {"own": own, "blocks": self.blocks.copy()})
        return new

    def make(self) -> None:
        """A list of the points as they were stored; done twice, it is as if it was done once."""
        self.planes("ref")[:] = self.planes("points")
        self.refill()

    def refill(self) -> None:
        """Everything that follows from the points at which the list was made."""
        n, d = self.spec.shape
        q = np.array(self.planes("ref").T, float, order="C")
        order, periods, at, lengths = arranged(q, self.domain)
        self.buffer("order")[:n] = order
        self.buffer("inverse")[order] = np.arange(n)
        self.planes("images")[:] = periods.T
        self.fill(np.ascontiguousarray(at.T), lengths)
        self.made += 1

    def fill(self, at: Array, lengths: list[float]) -> None:
        d, n = at.shape
        stride = -(-n // BLOCK) * BLOCK
        f = np.full((d, stride), np.nan)
        f[:, :n] = at
        levels, low, high = [], at, at
        for _ in GROUPS:
            low, high = boxes(low, high, BLOCK)
            levels.append(np.ascontiguousarray(np.concatenate([low, high])))
        cell = np.diag(lengths) if self.domain.cell is None else np.array(self.domain.cell)
        far = reach(self.domain.cutoff, self.domain.skin)
        way = [self.domain.skin / x + 1e-9 if x > 0.0 else 0.0 for x in lengths]
        numbers = np.array([*lengths, *cell.ravel(), far, *way])
        counts = [x.shape[1] for x in levels]
        scratch = [np.empty(size + 1, np.int64) for size in (counts[1], counts[0], counts[0], BLOCK * counts[0])]
        starts = self.buffer("starts")
        while True:
            blocks = self.blocks
            found = self.build(f.ctypes.data, stride, n, *(x.ctypes.data for x in levels), *counts, numbers.ctypes.data,
                               *(x.ctypes.data for x in scratch), starts.ctypes.data, blocks.ctypes.data, len(blocks))
            if found <= len(blocks):
                return
            self.blocks = np.empty(found + found // 8, np.int64)

