"""How is a nest cut into parts that several processes do, and what does each of them read of the others?

A map is cut along its first axis, where it stores into the row that it is at; a sum over pairs by slabs of rows, which its
shape fixes whatever the number of processes is. What is neither is done by all of them. Rows that are read a known way
off are a halo; what is read anywhere else is needed whole. No number changes: each is computed from the same ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tinyphysics.ir.reduction import slabs
from tinyphysics.tpir.kernels.nests import LINKS, Buffer, LoopKernel, Nest
from tinyphysics.tpir.kernels.wavefront import offset
from tinyphysics.util import prod

SHARED = 20_000  # operations of a nest that are worth a message
Span = tuple[int, int]


@dataclass(frozen=True)
class Held:
    """Which part of a buffer each process has: rows from one of the bounds to the next, or planes; with a halo of rows."""

    bounds: tuple[int, ...]
    planes: bool = False
    halo: int = 0

    def of(self, rank: int) -> Span:
        return self.bounds[rank], self.bounds[rank + 1]


@dataclass(frozen=True, eq=False)
class Part:
    """A nest as several processes do it."""

    bounds: tuple[int, ...] | None  # of the range of each; None: all of it is done by all
    reads: Mapping[str, int | None]  # by buffer: how many rows off, or None: all of it
    writes: Mapping[str, Held | None]  # what each has afterwards; None: all of it


def even(n: int, parts: int) -> tuple[int, ...]:
    return tuple(n * k // parts for k in range(parts + 1))


def part_of(nest: Nest, kernel: LoopKernel, ranks: int) -> Part:
    stored = [s for p in nest.pieces for s in p.stores]
    loaded = {u.arg[0] for u in nest.loads()}
    # an item of a sum joins what is there
    loaded |= {s.buffer for s in stored if s.combine is not None and nest.kind != "pairs"}
    whole = dict.fromkeys(loaded)
    if nest.items * max(nest.operations, 1) >= SHARED:
        if nest.kind == "map" and goes_by_rows(nest):
            n = nest.sizes[0]
            held = Held(even(n, ranks))
            if all(kernel.buffers[s.buffer].axes[:1] == (n,) for s in stored):
                reads = {name: reach(nest, name, kernel.buffers[name]) for name in loaded}
                for name in {s.buffer for s in stored} - {
                    *filled(nest, kernel)
                }:  # what it leaves has to be there
                    reads.setdefault(name, 0)
                return Part(held.bounds, reads, {s.buffer: held for s in stored})
        if nest.kind == "pairs" and nest.near is None:
            return pairs(nest, kernel, ranks, whole)
    return Part(None, whole | dict.fromkeys(s.buffer for s in stored), {s.buffer: None for s in stored})


def goes_by_rows(nest: Nest) -> bool:
    """Does each index of the first axis store into its own row alone?"""
    if not nest.sizes:
        return False
    row = nest.variables[0]
    return all(
        s.index and s.index[0] is row and s.combine is None and s.shift is None
        for p in nest.pieces
        for s in p.stores
    )


def filled(nest: Nest, kernel: LoopKernel) -> set[str]:
    """The buffers whose rows a map writes wholly."""
    last, found = nest.sizes[-1], set()
    for name in {s.buffer for s in nest.pieces[0].stores}:
        b = kernel.buffers[name]
        planes = [{s.plane for s in p.stores if s.buffer == name} for p in nest.pieces]
        own = [s for p in nest.pieces for s in p.stores if s.buffer == name]
        # not shifted, so that each number has its turn
        at = all(len(s.index) == len(nest.variables) for s in own)
        at = at and all(x is v for s in own for x, v in zip(s.index, nest.variables))
        covered = sum(p.hi - p.lo for p in nest.pieces) == last and b.axes == nest.sizes
        if at and covered and all(x == set(range(b.planes)) for x in planes):
            found.add(name)
    return found


def reach(nest: Nest, name: str, b: Buffer) -> int | None:
    """How many rows off a map reads a buffer; None if that is not a matter of rows."""
    row, n = nest.variables[0], nest.sizes[0]
    if b.axes[:1] != (n,):
        return None
    furthest = 0
    for u in nest.loads():
        if u.arg[0] == name:
            away = offset(u.src[0], row, n) if u.src else None
            if away is None:
                return None
            furthest = max(furthest, abs(away))
    return furthest


def pairs(nest: Nest, kernel: LoopKernel, ranks: int, whole: Mapping[str, None]) -> Part:
    """Slabs are of about equal work; each has planes of its own for its sums over rows."""
    cuts, count = slabs(nest.sizes[0]), nest.parts
    mine = even(count, ranks)
    i = nest.variables[0]
    writes: dict[str, Held | None] = {}
    reads = dict(whole)
    stored: dict[str, set[int]] = {}
    for p in nest.pieces:
        for s in p.stores:
            stored.setdefault(s.buffer, set()).add(s.plane)
            if s.index[0] is i:
                writes[s.buffer] = Held(tuple(cuts[k] for k in mine))
            else:
                each = kernel.buffers[s.buffer].planes // count
                writes[s.buffer] = Held(tuple(k * each for k in mine), True)
    for name, held in writes.items():
        planes = kernel.buffers[name].planes // (count if held is not None and held.planes else 1)
        if stored[name] != set(range(planes)):  # what it leaves has to be there
            reads[name] = None
    return Part(tuple(k * LINKS for k in mine), reads, writes)


def missing(b: Buffer, held: Held | None, reads: int | None, bounds: Sequence[int] | None) -> bool:
    """Has a process to be sent something before it reads a buffer so far off?"""
    if held is None or not b.axes:
        return False
    inside = not held.planes and bounds is not None and tuple(bounds) == held.bounds
    return not (inside and reads is not None and reads <= held.halo)


def wanted(n: int, reads: int | None, bounds: Sequence[int] | None, rank: int) -> list[Span]:
    """The rows of a buffer that a process reads; the first one follows the last."""
    if reads is None or bounds is None:
        return [(0, n)]
    lo, hi = bounds[rank], bounds[rank + 1]
    if lo == hi:
        return []
    if hi - lo + 2 * reads >= n:
        return [(0, n)]
    a, b = lo - reads, hi + reads
    return [(a % n, n), (0, b)] if a < 0 else [(a, n), (0, b - n)] if b > n else [(a, b)]


def messages(
    b: Buffer, held: Held, reads: int | None, bounds: Sequence[int] | None, ranks: int
) -> Iterator[tuple[int, int, Span, Span]]:
    """(from, to, planes, rows) of all that is sent so that everyone has what he reads."""
    n = b.axes[0]
    for to in range(ranks):
        for rows in wanted(n, reads, bounds, to):
            for source in range(ranks):
                if source == to:
                    continue
                a, e = held.of(source)
                planes, there = ((a, e), (0, n)) if held.planes else ((0, b.planes), (a, e))
                low, high = max(rows[0], there[0]), min(rows[1], there[1])
                if low < high and planes[0] < planes[1]:
                    yield source, to, planes, (low, high)


def refusal(kernel: LoopKernel) -> str:
    """Why processes cannot share a kernel; "" if they can."""
    nests = [n for s in kernel.sections.values() for n in s.nests]
    if kernel.lists:
        return "it goes by lists of neighbours"
    if kernel.tree is not None:
        return "it sums through a tree"
    if any(n.kind == "fft" for n in nests):
        return "it has Fourier transforms"
    if any(n.kind in ("spread", "interpolate") for n in nests):
        return "it spreads particles on a mesh"
    if any(n.way.calls for n in nests):
        return "its step calls functions of this machine"
    return ""


def shares_work(kernel: LoopKernel, ranks: int) -> bool:
    """Is a part of a step done by one process alone?"""
    return any(part_of(n, kernel, ranks).bounds is not None for n in kernel.sections["step"].nests)


def row_size(b: Buffer) -> int:
    """Numbers of a row in a plane."""
    return prod(b.axes[1:])
