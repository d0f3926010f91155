"""How many steps can go through memory at once?  Nests that follow each other row by row, while the rows are in a cache.

A stencil reads its neighbours: a nest that reads up to `reach` rows away follows the one before it by as many
rows, and the next step follows the last nest of this one in the same way. A slab of rows is swept so, each
stage on fewer rows than the one before, since what lies beyond its edges is not done yet; then the rows around
the edges, stage by stage. Slabs are independent of each other, and so are edges: threads share them. Every
number is computed from the same numbers as before, so no bit changes.
"""

from __future__ import annotations

from dataclasses import dataclass

from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp
from tinyphysics.tpir.kernels.nests import Buffer, LoopSection, Nest
from tinyphysics.util import prod

# bytes of rows that are kept at once: most of a first-level cache, half of a second
CACHES = (20 * 1024, 256 * 1024)
MOST_STEPS = 4  # in one pass: more gain little, and a run of fewer steps goes without
WORTH = 4  # rows of work for each row at the edge that has to wait


@dataclass(frozen=True)
class Wavefront:
    """`steps` steps in one pass over `extent` rows, `rows` at a time; the rows are a ring."""

    extent: int
    reach: int
    rows: int
    steps: int
    nests: int

    @property
    def stages(self) -> int:
        return self.steps * self.nests

    def lag(self, stage: int) -> int:
        """By how many rows a stage is behind the first, and away from the edges of its slab."""
        return stage * self.reach

    def slabs(self, wanted: int) -> list[int]:
        """Where the rows are cut into slabs, each high enough for its last stage."""
        count = max(1, min(wanted, self.extent // (WORTH * self.stages * self.reach)))
        return [self.extent * k // count for k in range(count + 1)]


def offset(u: UOp, row: UOp, n: int) -> int | None:
    """By how many rows an index lies off, the shorter way round; None if it is not a row near by."""
    if u is row:
        return 0
    found: int | None = None
    if u.op is Ops.ADD and u.src[0] is row and u.src[1].op is Ops.CONST:
        found = int(u.src[1].arg)
    elif u.op is Ops.WHERE:
        a, b = (offset(s, row, n) for s in u.src[1:])
        found = a if a is not None and b is not None and (a - b) % n == 0 else None
    return None if found is None else (found + n // 2) % n - n // 2


def reach_of(nest: Nest, changing: frozenset[str]) -> int | None:
    """How many rows away a nest reads what the section changes; None if that is not a matter of rows."""
    if nest.kind != "map" or not nest.sizes:
        return None
    row, n = nest.variables[0], nest.sizes[0]
    furthest = 0
    for p in nest.pieces:
        if any(s.index[0] is not row for s in p.stores):
            return None
    for u in nest.loads():
        if u.arg[0] in changing:
            away = offset(u.src[0], row, n) if u.src else None
            if away is None:
                return None
            furthest = max(furthest, abs(away))
    return furthest


def wavefront(section: LoopSection, buffers: dict[str, Buffer]) -> Wavefront | None:
    """The pass that a section allows, if one is worth it."""
    if section.name != "step" or not section.nests or section.swaps or section.rolled or section.ends_early:
        return None
    n = section.nests[0].sizes[0] if section.nests[0].sizes else 0
    changing = frozenset(s.buffer for nest in section.nests for p in nest.pieces for s in p.stores)
    reaches = [reach_of(nest, changing) for nest in section.nests]
    if any(r is None for r in reaches) or any(nest.sizes[0] != n for nest in section.nests):
        return None
    reach = max(1, *(r for r in reaches if r is not None))
    used = {u.arg[0] for nest in section.nests for u in nest.loads()} | changing
    row_bytes = sum(
        b.planes * prod(b.axes[1:]) * b.dtype.bits // 8
        for name in used
        if (b := buffers[name]).axes[:1] == (n,)
    )
    found = None
    for cache in CACHES:
        if found is None or found.steps < MOST_STEPS:
            found = in_cache(cache, row_bytes, n, reach, len(section.nests)) or found
    return found


def in_cache(cache: int, row_bytes: int, n: int, reach: int, nests: int) -> Wavefront | None:
    if row_bytes * n <= cache:  # all of it stays there anyway
        return None
    fitting = cache // row_bytes
    rows = max(1, fitting // 4)
    steps = min(MOST_STEPS, (fitting - rows) // (reach * nests))
    if steps < 1 or n < WORTH * steps * nests * reach + rows:
        return None
    return Wavefront(n, reach, rows, steps, nests)
