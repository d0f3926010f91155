"""What are the coarser grids of -div(k grad u) + s*u = f, their operators, and the way between them?

Every axis is a ring: one that ends in zeros has a node more, index 0, where u is held at 0 and which couples to both ends.
An operator is a table of coefficients by shifts, the half of them that symmetry does not give. A node of a finer grid takes
its value from coarser ones by its own equation, summed over the axes along which it lies between none (Dendy 1982, J.
Comput. Phys. 48, 366); coarse operators are what this makes of fine ones, so jumps of k by any factor are seen on all grids.
Where k and s are numbers and lengths are right, each grid has the same differences instead, with h² rescaled.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp
from tinyphysics.rules.calculus.elliptic import (
    DIRICHLET,
    NEUMANN,
    PERIODIC,
    Elliptic,
    cut,
    faces,
    joined,
    padded,
)

Shift = tuple[int, ...]
Table = dict[Shift, UOp]  # coefficients by shifts; a number stands for an array of it


# --- arrays by shifts ------------------------------------------------------------------------------------------------
def at(u: UOp, t: Shift) -> UOp:
    """What is at i + t, at i."""
    moved = [(-k, a) for a, k in enumerate(t) if k and u.shape and u.shape[a] > 1]
    return u.roll(tuple(k for k, _ in moved), tuple(a for _, a in moved)) if moved else u


def opposite(t: Shift) -> Shift:
    return tuple(-k for k in t)


def is_kept(t: Shift) -> bool:
    """Of two opposite shifts one is kept: the one whose first number that is not 0 is above it."""
    return next((k > 0 for k in t if k), True)


def both_ways(table: Table) -> Table:
    return table | {opposite(t): at(a, opposite(t)) for t, a in table.items() if any(t)}


def joined_in(table: Table, t: Shift, a: UOp) -> None:
    table[t] = table[t] + a if t in table else a


def times(a: UOp, b: UOp) -> UOp:
    """Factors that are the number 1 cost nothing."""
    if a.op is Ops.CONST and a.arg == 1.0:
        return b
    return a if b.op is Ops.CONST and b.arg == 1.0 else a * b


def is_at(shape: Shift, axis: int, k: int) -> UOp:
    """Where an index along an axis is k; of one axis, to be spread over the others."""
    n = shape[axis]
    here = UOp.range(n).eq(UOp.const(k % n, UOp.range(n).dtype, (n,)))
    return here.reshape(tuple(n if a == axis else 1 for a in range(len(shape))))


# --- one grid ----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class Grid:
    """An operator on rings."""

    shape: Shift
    ends: tuple[int, ...]
    table: Table
    interpolation: (
        dict[Shift, Table] | None
    )  # to this grid from the next, by the parities of a node; None: the last

    @property
    def diagonal(self) -> UOp:
        return self.table[(0,) * len(self.shape)]

    @property
    def smoothed_by(self) -> UOp:
        """D: the diagonal, or half the sum of all sizes in a row where that is more: no eigenvalue of D⁻¹A is above 2."""
        rest = None
        for t, a in self.table.items():
            if any(t):
                both = abs(a) + abs(at(a, opposite(t)))
                rest = both if rest is None else rest + both
        own = self.diagonal
        return own if rest is None else own.maximum(0.5 * (own + rest))

    def halved(self, axis: int) -> bool:
        return is_halved(self.shape[axis], self.ends[axis])

    @property
    def coarse_shape(self) -> Shift:
        return tuple((n + 1) // 2 if self.halved(a) else n for a, n in enumerate(self.shape))

    @property
    def nodes(self) -> int:
        """That are not held."""
        out = 1
        for n, end in zip(self.shape, self.ends):
            out *= n - (end == DIRICHLET)
        return out

    def live(self, u: UOp) -> UOp:
        """With zeros where u is held."""
        for a, end in enumerate(self.ends):
            if end == DIRICHLET:
                held = is_at(self.shape, a, 0).expand(self.shape)
                u = held.where(UOp.const(0.0, u.dtype, u.shape), u)
        return u

    def applied(self, u: UOp) -> UOp:
        out = None
        for t, a in self.table.items():
            one = a * at(u, t)
            if any(t):
                one = one + at(a, opposite(t)) * at(u, opposite(t))
            out = one if out is None else out + one
        assert out is not None
        return out

    def residual(self, b: UOp, u: UOp) -> UOp:
        return self.live(b - self.applied(u))

    # --- to the next grid and back ----------------------------------------------------------------------------------
    def of_parity(self, u: UOp, p: Shift) -> UOp:
        """The nodes of a parity, in the shape of the next grid."""
        if not u.shape:
            return u
        for a, n in enumerate(self.shape):
            if self.halved(a):
                u = cut(u, a, p[a], n, 2)
                short = (n + 1) // 2 - u.shape[a]
                u = padded(u, a, 0, short) if short else u
        return u

    def restricted(self, r: UOp) -> UOp:
        assert self.interpolation is not None
        out = None
        for p, row in self.interpolation.items():
            own = self.of_parity(r, p)
            for t, w in row.items():
                one = at(times(w, own), opposite(t))
                out = one if out is None else out + one
        assert out is not None
        return out

    def prolonged(self, u: UOp) -> UOp:
        assert self.interpolation is not None
        out = None
        for p, row in self.interpolation.items():
            own = UOp.sum_of([times(w, at(u, t)) for t, w in row.items()])
            one = self.spread(own, p)
            out = one if out is None else out + one
        assert out is not None
        return out

    def spread(self, u: UOp, p: Shift) -> UOp:
        """The nodes of a parity where they are, with zeros between them."""
        amounts = []
        for a in range(u.ndim):
            own = self.halved(a)
            amounts.append((p[a], 1 - p[a], 1) if own else (0, 0, 0))
        u = u.pad(amounts)
        for a, n in enumerate(self.shape):
            u = cut(u, a, 0, n) if u.shape[a] > n else u
        return u


def is_halved(n: int, end: int) -> bool:
    """Has the next grid half as many nodes along an axis?  A ring of an odd length has no such grid."""
    return n > 2 if end == DIRICHLET else n > 1 and (end != PERIODIC or n % 2 == 0)


def parities(grid: Grid) -> list[Shift]:
    """Of nodes along the axes that are halved, those on the next grid first."""
    every = product(*((0, 1) if grid.halved(a) else (0,) for a in range(len(grid.shape))))
    return sorted(every, key=lambda p: (sum(p), p))


def neighbour(grid: Grid, p: Shift, t: Shift) -> tuple[Shift, Shift]:
    """(parity of the node a shift away, how far it is on the next grid)."""
    own = [((q + k) % 2, (q + k) // 2) if grid.halved(a) else (0, k) for a, (q, k) in enumerate(zip(p, t))]
    return tuple(x for x, _ in own), tuple(y for _, y in own)


def added(s: Shift, t: Shift) -> Shift:
    return tuple(a + b for a, b in zip(s, t))


def interpolation_of(grid: Grid, own: dict[Shift, Table]) -> dict[Shift, Table]:
    """By the equations of the nodes: `own` are their coefficients, by parity."""
    shape, axes = grid.coarse_shape, range(len(grid.shape))
    out: dict[Shift, Table] = {}
    for p in parities(grid):
        if not any(p):
            out[p] = {p: UOp.const(1.0)}
            continue
        line: Table = {}
        for t, a in own[p].items():  # what lies along other axes counts as if it were here
            joined_in(line, tuple(k if q else 0 for k, q in zip(t, p)), a)
        middle = line.pop((0,) * len(p))
        beyond = [is_at(shape, a, -1).expand(shape) for a in axes if p[a] and grid.shape[a] % 2]
        for last in beyond:
            middle = last.where(UOp.const(1.0, middle.dtype, shape), middle)
        over = 1.0 / middle
        row: Table = {}
        for t, a in line.items():
            q, far = neighbour(grid, p, t)
            for s, w in out[q].items():
                joined_in(row, added(s, far), -times(at(w, far), a * over))
        for axis in axes:  # a node beyond the end of a ring is its first, which is held or does not couple
            if p[axis] and grid.shape[axis] % 2:
                first = tuple(int(b == axis) for b in axes)
                here = is_at(shape, axis, -1).expand(shape)
                for s, w in row.items():
                    row[s] = here.where(UOp.const(float(s == first), w.dtype, shape), w)
        out[p] = row
    return out


def coarse_table(grid: Grid, own: dict[Shift, Table], rows: dict[Shift, Table]) -> Table:
    """The transpose of the interpolation times the operator times the interpolation."""
    out: Table = {}
    for p in parities(grid):
        half: Table = {}
        for t, a in own[p].items():
            q, far = neighbour(grid, p, t)
            for s, w in rows[q].items():
                joined_in(half, added(s, far), times(at(w, far), a))
        for s, w in rows[p].items():
            for t, a in half.items():
                m = tuple(y - x for x, y in zip(s, t))
                short = tuple(0 if n == 1 else k for k, n in zip(m, grid.coarse_shape))
                if is_kept(m) or short != m:
                    joined_in(out, short, at(times(w, a), opposite(s)))
    return kept_half(out, grid.coarse_shape)


def kept_half(table: Table, shape: Shift) -> Table:
    return {t: a for t, a in sorted(table.items()) if is_kept(t)}


# --- from a node to its grids ------------------------------------------------------------------------------------------
def of_rings(e: Elliptic, u: UOp, edge: bool = False) -> UOp:
    """A field with the nodes that are held: zeros there, or what is beside them."""
    for a, end in enumerate(e.ends):
        if end == DIRICHLET:
            u = joined([cut(u, a, 0, 1), u], a) if edge else padded(u, a, 1, 0)
    return u


def first_grid(e: Elliptic) -> tuple[Shift, Table]:
    d = e.f.ndim
    shape = tuple(n + (end == DIRICHLET) for n, end in zip(e.f.shape, e.ends))
    k = e.k if e.k is not None else UOp.const(1.0, e.f.dtype, e.f.shape)
    s = of_rings(e, e.shift.expand(e.f.shape), edge=True) if e.shift.shape else e.shift.expand(shape)
    table: Table = {(0,) * d: s}
    for a, (w, end) in enumerate(zip(e.weights, e.ends)):
        others = k
        for b in range(d):
            if b != a and e.ends[b] == DIRICHLET:
                others = joined([cut(others, b, 0, 1), others], b)
        flow = w.expand(()) * faces(others, a, end)
        flow = padded(flow, a, 0, 1) if end == NEUMANN else flow
        way = tuple(int(b == a) for b in range(d))
        table[(0,) * d] = table[(0,) * d] + flow + at(flow, opposite(way))
        table[way] = -flow
    return shape, table


def is_regular(e: Elliptic) -> bool:
    """May each grid have the same differences?  k and s are numbers, and every other node of a ring is a ring again."""
    if e.k is not None or e.shift.shape:
        return False
    for n, end in zip(e.f.shape, e.ends):
        ring = n + (end == DIRICHLET)
        if end == NEUMANN or ring & (ring - 1):
            return False
    return True


def grids_of(e: Elliptic) -> list[Grid]:
    return rescaled_grids(e) if is_regular(e) else galerkin_grids(e)


def galerkin_grids(e: Elliptic) -> list[Grid]:
    shape, table = first_grid(e)
    out: list[Grid] = []
    while True:
        grid = Grid(shape, e.ends, table, None)
        if not any(grid.halved(a) for a in range(len(shape))):
            return [*out, grid]
        full = both_ways(table)
        own = {p: {t: grid.of_parity(a, p) for t, a in full.items()} for p in parities(grid)}
        rows = interpolation_of(grid, own)
        out.append(Grid(shape, e.ends, table, rows))
        table, shape = coarse_table(grid, own, rows), grid.coarse_shape


def rescaled_grids(e: Elliptic) -> list[Grid]:
    """The same differences on each grid: of linear interpolation, and 4 h² where its transpose gathers 2^d times as much."""
    d = e.f.ndim
    shape = tuple(n + (end == DIRICHLET) for n, end in zip(e.f.shape, e.ends))
    weights, s = list(e.weights), e.shift
    out: list[Grid] = []
    while True:
        table: Table = {(0,) * d: s + 2.0 * UOp.sum_of(weights)}
        for a, w in enumerate(weights):
            table[tuple(int(b == a) for b in range(d))] = -w
        grid = Grid(shape, e.ends, table, None)
        halved = [a for a in range(d) if grid.halved(a)]
        if not halved:
            return [*out, grid]
        rows = {p: linear_row(p) for p in parities(grid)}
        out.append(Grid(shape, e.ends, table, rows))
        gain = 2.0 ** len(halved)
        weights = [w * (gain / 4.0 if a in halved else gain) for a, w in enumerate(weights)]
        s, shape = s * gain, grid.coarse_shape


def linear_row(p: Shift) -> Table:
    every = product(*((0, 1) if q else (0,) for q in p))
    return {t: UOp.const(0.5 ** sum(p)) for t in every}
