"""How do particles and the nodes of a periodic mesh see each other?  By splines of some order along each axis; a definition.

A particle at f, in units of the mesh, has weights at `order` nodes along an axis: M(f - g) at the node g, where M is the
cardinal B-spline, which is zero outside 0 to `order`. Its derivatives are differences of splines of lower order. Items are
added in the order of particles, then of nodes along the first, second and third axis: results have the same bits everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tinyphysics.ir.dtype import DType, i64
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import Shape, UOp

SPREAD, INTERPOLATE, CONVOLVE, ENERGY, SPECTRUM = (
    "spread",
    "interpolate",
    "convolve",
    "half_square",
    "spectrum",
)
AWAY = 2.0**52  # a particle beyond is at node 0, and makes NaN
AXES = 3
Along = tuple[int, int, int]  # derivatives along each axis


def spline(u: UOp, order: int) -> list[UOp]:
    """M(u + order - 1 - j) for j < order, where 0 <= u < 1; the recurrence is that of de Boor."""
    if order < 1:
        return []
    w = [UOp.const(1.0, u.dtype, u.shape)]
    for k in range(2, order + 1):
        scale = 1.0 / (k - 1)
        new = []
        for j in range(k):  # M of order k - 1 at x, and at x - 1
            terms = [(u + float(k - 1 - j)) * w[j - 1]] if j else []
            if j < k - 1:
                terms.append((UOp.const(j + 1.0, u.dtype, u.shape) - u) * w[j])
            new.append((terms[0] if len(terms) == 1 else terms[0] + terms[1]) * scale)
        w = new
    return w


def weights(u: UOp, order: int, derivative: int) -> list[UOp]:
    """Of the nodes that a particle sees along an axis, or their derivatives."""
    zero = UOp.const(0.0, u.dtype, u.shape)
    w = spline(u, order - derivative)
    for _ in range(derivative):
        w = [b - a for a, b in zip([*w, zero], [zero, *w])] if w else [zero]
    return [*w, *[zero] * (order - len(w))][:order]


def nodes(f: UOp, size: int) -> tuple[UOp, UOp]:
    """(the node below it, how far it is beyond that): it sees that node and `order` - 1 before it."""
    base = f.floor()
    known = abs(base) < AWAY
    k = known.where(base, 0.0).cast(i64)
    n = UOp.const(size, i64, k.shape)
    rest = k - UOp(Ops.TDIV, i64, k.shape, (k, n)) * n
    return (rest < UOp.const(0, i64, k.shape)).where(rest + n, rest), f - base


def at_nodes(f: Sequence[UOp], order: int, grid: Shape, along: Sequence[Along]) -> list[UOp]:
    """For each axis the node, then for each derivative that is asked for the weights: all that one particle needs."""
    out: list[UOp] = []
    for a in range(AXES):
        k, u = nodes(f[a], grid[a])
        out.append(k)
        for d in derivatives(along, a):
            out += weights(u, order, d)
    return out


def derivatives(along: Sequence[Along], axis: int) -> list[int]:
    return sorted({d[axis] for d in along})


# --- on numbers -------------------------------------------------------------------------------------------------------
Numbers = Callable[..., Any]


@dataclass(frozen=True)
class Arithmetic:
    """Operations of a type of numbers, and expressions of one particle as a function of its place."""

    add: Numbers
    times: Numbers
    join: Numbers  # a*b + c
    weights: Numbers

    def seen(self, f: Sequence[Any], order: int, grid: Shape) -> list[list[tuple[int, Any]]]:
        """For each axis the nodes and their weights."""
        found = self.weights({f"f{a}": x for a, x in enumerate(f)})
        out = []
        for a, n in enumerate(grid):
            k, *w = found[a * (order + 1) : (a + 1) * (order + 1)]
            out.append([((int(k) - (order - 1) + j) % n, x) for j, x in enumerate(w)])
        return out

    def spread(self, f: Sequence[Any], c: Sequence[Any], order: int, grid: Shape) -> list[Any]:
        """Row-major, on a mesh that is empty."""
        out = [0.0] * math.prod(grid)
        for p, charge in enumerate(c):
            x, y, z = self.seen(f[AXES * p : AXES * p + AXES], order, grid)
            for i, a in x:
                for j, b in y:
                    ab = self.times(self.times(a, charge), b)
                    for k, w in z:
                        at = flat(i, j, k, grid)
                        out[at] = self.add(out[at], self.times(ab, w))
        return out

    def interpolate(self, f: Sequence[Any], values: Sequence[Any], order: int, grid: Shape) -> list[Any]:
        """For each particle the sum of weights times values: along the third axis, then the second, then the first."""
        out = []
        for p in range(len(f) // AXES):
            x, y, z = self.seen(f[AXES * p : AXES * p + AXES], order, grid)
            total = 0.0
            for i, a in x:
                plane = 0.0
                for j, b in y:
                    line = 0.0
                    for k, w in z:
                        line = self.join(w, values[flat(i, j, k, grid)], line)
                    plane = self.join(b, line, plane)
                total = self.join(a, plane, total)
            out.append(total)
        return out


def flat(i: int, j: int, k: int, grid: Shape) -> int:
    return (i * grid[1] + j) * grid[2] + k


def of_particle(dtype: DType) -> list[UOp]:
    """Variables for where a particle is."""
    return [UOp.var(f"f{a}", (), dtype) for a in range(AXES)]
