"""What is -div(k grad u) + s*u on a grid, and how does the u that it makes f of change with f, k and s?

On faces between nodes, k is the harmonic mean of the two. A periodic axis has as many faces as nodes. At a Dirichlet end u
is zero one spacing beyond the last node. At a Neumann end nothing flows through a face half a spacing beyond it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tinyphysics.errors import TraceError
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp

PERIODIC, DIRICHLET, NEUMANN = ENDS = range(3)
TRANSFORMS, MULTIGRID = METHODS = range(2)
CHEBYSHEV, JACOBI, RED_BLACK = SMOOTHERS = range(3)


@dataclass(frozen=True)
class Elliptic:
    """A node u = A⁻¹ f, taken apart."""

    f: UOp
    shift: UOp  # s: one number, or one for each node
    weights: tuple[UOp, ...]  # along each axis: 1/h², times k where that is one number
    k: UOp | None  # one for each node
    tolerance: float  # of the residual, in parts of f
    ends: tuple[int, ...]
    method: int
    cycles: int  # of multigrid; 0: as many as the tolerance needs
    smoother: int

    @property
    def node(self) -> UOp:
        more = () if self.k is None else (self.k,)
        sources = (self.f, self.shift, *self.weights, *more)
        arg = (self.tolerance, (*self.ends, self.method, self.cycles, self.smoother))
        return UOp(Ops.ELLIPTIC, self.f.dtype, self.f.shape, sources, arg)

    @property
    def is_singular(self) -> bool:
        """May the mean of f be what no u has?  Where no end holds u, and s is not known to be other than 0."""
        held = DIRICHLET in self.ends or self.shift.op is Ops.CONST and self.shift.arg
        return not held

    def applied(self, u: UOp) -> UOp:
        """-div(k grad u) + s*u."""
        out = self.shift.expand(u.shape) * u
        for a, w in enumerate(self.weights):
            flow = w * differences(u, a, self.ends[a])
            if self.k is not None:
                flow = faces(self.k, a, self.ends[a]) * flow
            out = out + gathered(flow, a, self.ends[a])
        return out

    def form(self, u: UOp, v: UOp) -> UOp:
        """The sum of v A u, which is symmetric."""
        out = (self.shift.expand(u.shape) * u * v).sum()
        for a, w in enumerate(self.weights):
            flow = differences(u, a, self.ends[a]) * differences(v, a, self.ends[a])
            if self.k is not None:
                flow = faces(self.k, a, self.ends[a]) * flow
            out = out + w * flow.sum()
        return out


def elliptic(u: UOp) -> Elliptic:
    """A node taken apart."""
    f, shift, *rest = u.src
    n = f.ndim
    tolerance, numbers = u.arg
    k = rest[n] if len(rest) > n else None
    return Elliptic(f, shift, tuple(rest[:n]), k, tolerance, tuple(numbers[:n]), *numbers[n:])


def per_number(shape: Sequence[int], numbers: Any) -> int:
    """Operations for each number of u, about."""
    n = len(shape)
    *ends, method, cycles, _ = numbers
    if method == TRANSFORMS:  # there and back, twice as long where ends are no period
        return sum(2 * (5 + 3 * (end != PERIODIC)) * max(m.bit_length(), 1) for m, end in zip(shape, ends))
    turns: int = cycles or 10
    points: int = 3 ** (n - 1)
    return 20 * turns * points


# --- along one axis -----------------------------------------------------------------------------------------------
def padded(u: UOp, axis: int, before: int, after: int) -> UOp:
    return u.pad([(before, after, 0) if a == axis else (0, 0, 0) for a in range(u.ndim)])


def cut(u: UOp, axis: int, lo: int, hi: int, step: int = 1) -> UOp:
    return u.slice([(lo, hi, step) if a == axis else (0, n, 1) for a, n in enumerate(u.shape)])


def joined(parts: Sequence[UOp], axis: int) -> UOp:
    shape = list(parts[0].shape)
    shape[axis] = sum(p.shape[axis] for p in parts)
    return UOp(Ops.CONCAT, parts[0].dtype, tuple(shape), tuple(parts), axis)


def differences(u: UOp, axis: int, end: int) -> UOp:
    """Of neighbours, a number for each face."""
    n = u.shape[axis]
    if end == PERIODIC:
        return u.roll(-1, axis) - u
    if end == DIRICHLET:
        return padded(u, axis, 0, 1) - padded(u, axis, 1, 0)
    return cut(u, axis, 1, n) - cut(u, axis, 0, n - 1)


def gathered(flow: UOp, axis: int, end: int) -> UOp:
    """The transpose of differences: what leaves each node."""
    n = flow.shape[axis]
    if end == PERIODIC:
        return flow.roll(1, axis) - flow
    if end == DIRICHLET:
        return cut(flow, axis, 0, n - 1) - cut(flow, axis, 1, n)
    return padded(flow, axis, 1, 0) - padded(flow, axis, 0, 1)


def faces(k: UOp, axis: int, end: int) -> UOp:
    """k on the faces: twice the product over the sum; at an end that of the last node."""
    n = k.shape[axis]
    first, last = cut(k, axis, 0, 1), cut(k, axis, n - 1, n)
    if end == PERIODIC:
        a, b = k, k.roll(-1, axis)
    else:
        a, b = cut(k, axis, 0, n - 1), cut(k, axis, 1, n)
    inside = 2.0 * (a * b) / (a + b)
    return joined([first, inside, last], axis) if end == DIRICHLET else inside


# --- derivatives ----------------------------------------------------------------------------------------------------
def names(u: UOp) -> list[UOp]:
    """Variables that stand for all sources but f."""
    return [UOp.var(f"?source {k}", s.shape, s.dtype) for k, s in enumerate(u.src[1:])]


def check_moving(u: UOp, moving: Sequence[bool]) -> None:
    """So many cycles are a matrix, whose derivatives by k, s and the spacing are not those of the inverse."""
    if elliptic(u).cycles and any(moving[1:]):
        raise TraceError.here(
            "tp.poisson with cycles= is differentiated by its coefficient, shift or spacing",
            "Write tolerance= in place of cycles=: derivatives are solutions too then.",
        )
