"""How is -div(k grad u) + s*u = f solved where k or s differ from place to place?  By cycles over coarser and coarser grids.

A cycle smooths alike before and after, in opposite orders: it is a symmetric matrix. Solutions to a tolerance are conjugate
gradients with a cycle as their preconditioner; those of red-black sweeps in one order are cycles alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tinyphysics.ir.dtype import bool_
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp, toposort
from tinyphysics.rules.calculus.elliptic import CHEBYSHEV, DIRICHLET, JACOBI, RED_BLACK, Elliptic, cut, joined
from tinyphysics.rules.formulas.grids import Grid, Shift, grids_of, of_rings

MOST_ROUNDS = 1000  # until a residual has fallen
LEFT = 8  # sweeps on the coarsest grid, where that has more than one node
LOW, HIGH = 0.5, 2.0  # of the eigenvalues of D⁻¹A, those that are smoothed by Chebyshev's polynomial
DAMPING = 0.8  # of Jacobi's sweeps, two before and two after
UNKNOWN = "?poisson"


Smoother = Callable[
    [Grid, UOp, "UOp | None", bool], UOp
]  # grid, right-hand side, u (None: 0), in the opposite order?


def chebyshev(grid: Grid, b: UOp, u: UOp | None, opposed: bool) -> UOp:
    """Two steps of Chebyshev's iteration on [LOW, HIGH] of D⁻¹A."""
    middle, half = (HIGH + LOW) / 2, (HIGH - LOW) / 2
    over = 1.0 / grid.smoothed_by
    r = b if u is None else grid.residual(b, u)
    way = r * (over * (1.0 / middle))
    u = way if u is None else u + way
    before = half / middle
    now = 1.0 / (2.0 * middle / half - before)
    way = (now * before) * way + grid.residual(b, u) * (over * (2.0 * now / half))
    return u + way


def jacobi(grid: Grid, b: UOp, u: UOp | None, opposed: bool) -> UOp:
    over = DAMPING / grid.smoothed_by
    u = b * over if u is None else u + grid.residual(b, u) * over
    return u + grid.residual(b, u) * over


def red_black(grid: Grid, b: UOp, u: UOp | None, opposed: bool) -> UOp:
    """Nodes of one colour, then of the other."""
    over, colour = 1.0 / grid.diagonal, is_red(grid.shape)
    for red in (False, True) if opposed else (True, False):
        moved = b * over if u is None else u + grid.residual(b, u) * over
        old = UOp.const(0.0, b.dtype, b.shape) if u is None else u
        u = colour.where(moved, old) if red else colour.where(old, moved)
    assert u is not None
    return u


def is_red(shape: Shift) -> UOp:
    """Where the sum of the indices is even."""
    total = None
    for a, n in enumerate(shape):
        along = UOp.range(n).reshape(tuple(n if a == b else 1 for b in range(len(shape)))).expand(shape)
        total = along if total is None else total + along
    assert total is not None
    one = UOp.const(1, total.dtype, shape)
    return UOp(Ops.AND, total.dtype, shape, (total, one)).eq(UOp.const(0, total.dtype, shape))


SMOOTHERS: dict[int, Smoother] = {CHEBYSHEV: chebyshev, JACOBI: jacobi, RED_BLACK: red_black}


@dataclass(frozen=True, eq=False)
class Cycle:
    """One V-cycle: about what the inverse makes of b; a symmetric matrix if it smooths in opposite orders."""

    grids: Sequence[Grid]
    smooth: Smoother
    singular: UOp | bool  # has the operator no inverse?  True, False or an expression
    symmetric: bool = True

    def __call__(self, b: UOp, k: int = 0) -> UOp:
        grid = self.grids[k]
        if grid.interpolation is None:
            return self.last(grid, b)
        u = self.smooth(grid, b, None, False)
        below = self.grids[k + 1]
        right = below.live(grid.restricted(grid.residual(b, u)))
        u = u + grid.prolonged(self(right, k + 1))
        return self.smooth(grid, b, u, self.symmetric)

    def last(self, grid: Grid, b: UOp) -> UOp:
        if grid.nodes == 1:
            u = grid.live(b / grid.diagonal)
            return chosen(self.singular, UOp.const(0.0, u.dtype, u.shape), u)
        v: UOp | None = None
        for _ in range(LEFT):
            v = chebyshev(grid, b, v, False)
        assert v is not None
        return v


def chosen(condition: UOp | bool, this: UOp, that: UOp) -> UOp:
    if isinstance(condition, bool):
        return this if condition else that
    return condition.expand(this.shape).where(this, that)


def without_mean(u: UOp, singular: UOp | bool) -> UOp:
    if singular is False:
        return u
    return chosen(singular, u - (u.sum() * (1.0 / u.size)).expand(u.shape), u)


def is_singular(e: Elliptic) -> UOp | bool:
    """Where no end holds u, and s is 0 everywhere."""
    if DIRICHLET in e.ends:
        return False
    if e.shift.op is Ops.CONST:
        return bool(e.shift.arg == 0)
    return abs(e.shift).max().eq(0.0) if e.shift.shape else e.shift.eq(0.0)


def by_cycles(e: Elliptic) -> UOp:
    singular = is_singular(e)
    grids = grids_of(e)
    symmetric = (
        e.cycles > 0 or e.smoother != RED_BLACK
    )  # colours in one order make fewer rounds, of another kind
    cycle = Cycle(grids, SMOOTHERS[e.smoother], singular, symmetric)
    b = of_rings(e, without_mean(e.f, singular))
    if e.cycles:
        u = cycle(b)
        for _ in range(e.cycles - 1):
            u = u + cycle(grids[0].residual(b, u))
    else:
        u = (conjugate_gradients if symmetric else repeated_cycles)(grids[0], cycle, b, e.tolerance)
    for a, end in enumerate(e.ends):
        u = cut(u, a, 1, u.shape[a]) if end == DIRICHLET else u
    return without_mean(u, singular)


def conjugate_gradients(grid: Grid, cycle: Cycle, b: UOp, tolerance: float) -> UOp:
    """Rounds of conjugate gradients with a cycle as their preconditioner."""
    x = unknown(grid, b, 3)
    u, r, p = (cut(x, 0, k, k + 1).reshape(b.shape) for k in range(3))
    moved = grid.live(grid.applied(p))
    rho = (r * p).sum()
    alpha = rho / (p * moved).sum()
    rest = r - alpha * moved
    z = cycle(rest)
    beta = (rest * z).sum() / rho
    return until_fallen(
        x, [b * 0.0, b, cycle(b)], [-alpha * p, alpha * moved, p - (z + beta * p)], r, b, tolerance
    )


def repeated_cycles(grid: Grid, cycle: Cycle, b: UOp, tolerance: float) -> UOp:
    """Rounds of cycles alone."""
    x = unknown(grid, b, 2)
    u, r = (cut(x, 0, k, k + 1).reshape(b.shape) for k in range(2))
    z = cycle(r)
    return until_fallen(x, [b * 0.0, b], [-z, r - grid.residual(b, u + z)], r, b, tolerance)


def unknown(grid: Grid, b: UOp, count: int) -> UOp:
    """Some fields that rounds change, under a name that no solution in what they read has."""
    roots = [b, *grid.table.values()]
    taken = {str(u.arg[0]) for u in toposort(roots) if u.op is Ops.SOLVE}
    name = next(name for k in range(len(taken) + 1) if (name := f"{UNKNOWN}{k}") not in taken)
    return UOp.var(name, (count, *b.shape), b.dtype)


def until_fallen(x: UOp, start: list[UOp], steps: list[UOp], r: UOp, b: UOp, tolerance: float) -> UOp:
    """The first field after rounds, until the root of the mean square of the residual r is `tolerance` times that of b."""
    stop = UOp.const(tolerance * tolerance, b.dtype) * (b * b).sum()
    goes_on = UOp(
        Ops.NOT, bool_, (), ((r * r).sum() <= stop,)
    )  # a b that is no number goes on, and arrives nowhere
    step = goes_on.expand(x.shape).where(stack(steps), UOp.const(0.0, b.dtype, x.shape))
    scale = (1.0 / abs(b).max().maximum(2.0**-1000)).expand(x.shape)
    found = UOp(Ops.SOLVE, b.dtype, x.shape, (stack(start), scale, step), (str(x.arg), MOST_ROUNDS))
    return cut(found, 0, 0, 1).reshape(b.shape)


def stack(arrays: Sequence[UOp]) -> UOp:
    return joined([u.reshape((1, *u.shape)) for u in arrays], 0)
