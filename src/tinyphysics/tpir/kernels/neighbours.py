"""What do loops need of lists of neighbours?  Buffers that a list fills, and the question whether it must be made again.

A list is memory of a run: the points as they were when it was made, the order that they were given, who was near
whom. A nest of kind "list" asks whether a point has gone too far since, and if so calls for a new one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tinyphysics.ir.dtype import DType, f64, i32, i64
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.reduction import slabs
from tinyphysics.ir.uop import Shape, UOp, substitute, toposort
from tinyphysics.tpir.kernels.nests import Buffer

# a block in a list: its number, from bit FIRST on; how it reaches across the edge of the cell; and what is to be heeded:
# not all of it counts, or its pairs reach across the edge in several ways
MASKED, MIXED, WAY, FIRST = 1, 2, 2, 8
MADE = (
    "ref",
    "order",
    "inverse",
    "images",
    "starts",
    "spans",
    "blocks",
)  # what a list is, made anew each time
SHIFTS = 27  # ways to reach across the edges of a cell of up to three dimensions, 13 of them not at all
NOT_ACROSS = 13
SHARED = 4096  # points that one thread looks at to see how far they have gone
WITHIN = 24  # bits of the word in which a GPU says where it waits for a list: how far in a step, and above them which step


@dataclass(frozen=True, eq=False)
class ListSpec:
    """A list by what it is made of: expressions of parameters for its lengths and its cell."""

    number: int
    shape: Shape  # of the points
    dtype: DType
    cutoff: UOp
    skin: UOp
    cell: UOp | None
    curve: int = 0  # the way through space that its order takes

    def name(self, what: str) -> str:
        return f"near{self.number}.{what}"

    @property
    def is_straight(self) -> bool:
        """Is there a cell, with lengths along the axes?"""
        return self.cell is not None and self.cell.ndim == 1

    def buffers(self) -> list[Buffer]:
        n, d = self.shape
        kinds = {
            "ref": (d, (n,), self.dtype),
            "points": (d, (n,), self.dtype),
            "images": (d, (n,), self.dtype),
            "limit": (1, (), f64),
            "order": (1, (n,), i64),
            "inverse": (1, (n,), i64),
            "shifts": (d, (SHIFTS,), self.dtype),
            "starts": (1, (n + 1,), i64),
            "blocks": (1, (), i32),
            "spans": (1, (2 * len(slabs(n, True)),), i64),
            "call": (1, (), i64),
        }
        return [Buffer(self.name(what), *kind) for what, kind in kinds.items()]

    @property
    def reference(self) -> UOp:
        """The points as they were when the list was made."""
        return UOp.var(self.name("ref"), self.shape, self.dtype)


def specs(roots: Sequence[UOp]) -> dict[int, ListSpec]:
    """The lists that expressions ask, by number."""
    out: dict[int, ListSpec] = {}
    for u in toposort(roots):
        if u.op is Ops.NEIGHBOURS and u.arg[1] not in out:
            q, cutoff, skin, *cell = u.src
            out[u.arg[1]] = ListSpec(
                u.arg[1], q.shape, q.dtype, cutoff, skin, cell[0] if cell else None, *u.arg[2:]
            )
    return out


def moved(q: UOp, before: UOp) -> UOp:
    """The largest square of the ways that points have gone, in the order of tpir/program/vm.py."""
    way = q - before
    square: UOp | None = None
    for k in range(q.shape[1]):
        x = way[:, k]
        square = x * x if square is None else x.fma(x, square)
    assert square is not None
    rows, rest = divmod(q.shape[0], SHARED)
    if rows < 2:
        return square.reduce("max", 0).cast(f64)
    # threads share what is taken apart; the largest of squares is the same in any order
    largest = square[: rows * SHARED].reshape(rows, SHARED).reduce("max", 1).reduce("max", 0)
    if rest:
        largest = largest.maximum(square[rows * SHARED :].reduce("max", 0))
    return largest.cast(f64)


def asked(roots: Sequence[UOp], lists: dict[int, ListSpec]) -> list[UOp]:
    """The expressions with every NEAR of two sources: the points, and how far they have gone."""
    new: dict[UOp, UOp] = {}
    for u in toposort(roots):
        if u.op is Ops.NEIGHBOURS:
            q = substitute([u.src[0]], new)[0]
            new[u] = UOp(Ops.NEIGHBOURS, u.dtype, u.shape, (q, moved(q, lists[u.arg[1]].reference)), u.arg)
    return substitute(list(roots), new)


def shift_of(a: UOp) -> UOp:
    """By how much a point of a row is shifted before it meets a block: along the axis that its plane says."""
    assert a.op is Ops.LOAD
    return UOp.var(f"@shift{a.arg[1]}", (), a.dtype)


def shifts_in(u: UOp) -> bool:
    return any(str(v.arg).startswith("@shift") for v in u.leaves)


def list_of(x: UOp) -> int | None:
    """The list in whose order the particles of an expression are."""
    chosen = (s for u in toposort([x]) if u.op is Ops.GATHER for s in u.src[1:])
    return next((s.arg[1] for s in chosen if s.op is Ops.NEIGHBOURS and s.arg[0] == "order"), None)


def unordered(roots: Sequence[UOp]) -> list[UOp]:
    """The expressions with particles in the order that they were given, every one its own image."""
    new: dict[UOp, UOp] = {}
    for u in toposort(roots):
        if u.op is Ops.NEIGHBOURS:
            new[u] = UOp.const(0.0, u.dtype, u.shape) if u.arg[0] == "images" else UOp.range(u.shape[0])
        elif in_order(u):
            new[u] = substitute([u.src[0]], new)[0]
    return substitute(list(roots), new) if new else list(roots)


def in_order(u: UOp) -> bool:
    """Are these particles in the order of a list, or back from it?"""
    return u.op is Ops.GATHER and u.src[1].op is Ops.NEIGHBOURS
