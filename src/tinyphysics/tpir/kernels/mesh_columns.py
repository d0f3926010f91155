"""How do the threads of a GPU fill a mesh?  Each has a column of nodes, and what is said of a particle once waits in memory.

A first launch computes nodes and weights of every particle. A thread of the second then looks at where particles are, some at
a time, and takes those that reach its column, in their order: no thread waits for another, and sums are those of a processor.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tinyphysics.ir.dtype import DType, i64
from tinyphysics.ir.mesh import AXES
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp
from tinyphysics.tpir.kernels.loopir import (
    WORKSPACE,
    Body,
    For,
    Statement,
    Store,
    When,
    load,
    number,
    shifted,
)

TOGETHER = 8  # particles that a thread looks at before it takes one
P, ONE = (UOp.var(f"@{n}", (), i64) for n in ("particle", "one"))


@dataclass(frozen=True, eq=False)
class Waiting:
    """What is known of the particles of a nest: arrays one behind the other, in this order."""

    particles: int
    first: int  # how many arrays are before these
    order: int
    derivatives: tuple[tuple[int, ...], ...]  # of the weights along each axis
    dtype: DType

    @property
    def arrays(self) -> int:
        return AXES + 1 + self.order * sum(map(len, self.derivatives))

    def place(self, k: UOp, i: UOp) -> UOp:
        """Of array k, particle i."""
        return (k + number(self.first)) * number(self.particles) + i

    def put(self, i: UOp, below: list[UOp], charge: UOp, weights: list[dict[int, list[UOp]]]) -> Body:
        every = [*below, charge, *(w for own in weights for row in own.values() for w in row)]
        assert len(every) == self.arrays
        return tuple(Store(WORKSPACE, 0, (self.place(number(k), i),), u) for k, u in enumerate(every))

    def below(self, axis: int, i: UOp) -> UOp:
        return load(WORKSPACE, i64, self.place(number(axis), i))

    def charge(self, i: UOp) -> UOp:
        return load(WORKSPACE, self.dtype, self.place(number(AXES), i))

    def weight(self, axis: int, derivative: int, j: UOp, i: UOp) -> UOp:
        before = sum(map(len, self.derivatives[:axis])) + self.derivatives[axis].index(derivative)
        return load(WORKSPACE, self.dtype, self.place(shifted(j, AXES + 1 + self.order * before), i))


def after(first: UOp, at: UOp, size: int) -> UOp:
    """How many nodes it is beyond the first, around the mesh."""
    away = at - first
    return UOp(Ops.WHERE, i64, (), (away < number(0), away + number(size), away))


def over_particles(lo: int, hi: int, reaches: Callable[[UOp], UOp], take: Callable[[UOp], Body]) -> Body:
    """Those that reach a column, in their order: most of them do not, and are passed by some at a time."""
    middle = lo + (hi - lo) // TOGETHER * TOGETHER
    out: list[Statement] = []
    if middle > lo:
        every = [reaches(shifted(P, k)) for k in range(TOGETHER)]
        some = every[0]
        for other in every[1:]:
            some = some | other
        one = (When(reaches(P + ONE), take(P + ONE)),)
        inner = For(ONE, number(0), number(TOGETHER), one)
        out.append(For(P, number(lo), number(middle), (When(some, (inner,)),), TOGETHER))
    if middle < hi:
        out.append(For(P, number(middle), number(hi), (When(reaches(P), take(P)),)))
    return tuple(out)
