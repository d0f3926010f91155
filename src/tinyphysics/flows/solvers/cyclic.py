"""How is a chain solved where neighbours alone are coupled?  By cyclic reduction: every level doubles the distance.

With momenta and positions apart and masses of their own, momenta solve a system with three diagonals,
d[i] + a[i] d[i-1] + c[i] d[i+1] = b[i]. Adding the equations of both neighbours leaves one of the same form between numbers
twice as far apart, at all places at once (Hockney 1965, J. ACM 12, 95). The couplings get smaller where the diagonal is the
larger, so a fixed number of levels is enough: what they leave is for the next round. On a ring the neighbours are those of
the ring; an open chain has no couplings across its ends.

The diagonals are products of the operator with vectors that are 1 at places far enough apart, one for each colour.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tinyphysics.flows.solvers.krylov import ConjugateGradients
from tinyphysics.flows.solvers.solver import Arrays, Slopes
from tinyphysics.ir import Ops, UOp
from tinyphysics.ir.dtype import i64
from tinyphysics.ir.ops import ELEMENTWISE

LEVELS = 10  # at most: 1,024 places apart
BEYOND = 2  # levels after the distance is that of the whole ring
FAR_BEYOND = 8  # such levels where no rounds follow: a system may be coupled over 30 times its length
PATTERN = 3  # colours of a chain whose neighbours are coupled


def reach(roots: Sequence[UOp], states: Sequence[UOp]) -> frozenset[int] | None:
    """How far along their one axis expressions look at states, of either side; None if that is not seen."""
    memo: dict[UOp, frozenset[int] | None] = {}

    def shifted(x: frozenset[int] | None, k: int) -> frozenset[int] | None:
        return None if x is None else frozenset(i + k for i in x)

    def of(u: UOp) -> frozenset[int] | None:
        if not any(s in u.leaves for s in states):
            return frozenset()
        if u in memo:
            return memo[u]
        found: frozenset[int] | None = None
        if any(u is s for s in states):
            found = frozenset({0})
        elif u.op in ELEMENTWISE:
            found = joined([of(s) for s in u.src])
        elif u.op is Ops.ELEMENT and len(u.src[0].shape) == 1:
            found = shifted(of(u.src[0]), u.arg)
        elif u.op is Ops.RESHAPE and u.size == 1 and len(u.src[0].shape) <= 1:
            found = of(u.src[0])
        elif u.op is Ops.ROLL and len(u.shape) == 1:
            found = of(u.src[0])
            for k, _ in u.arg:
                found = shifted(found, -k)
        elif u.op is Ops.SLICE and len(u.shape) == 1 and u.arg[0][2] == 1:
            found = shifted(of(u.src[0]), u.arg[0][0])
        elif u.op is Ops.PAD and len(u.shape) == 1 and u.arg[0][2] == 0:
            found = shifted(of(u.src[0]), -u.arg[0][0])
        elif u.op is Ops.CONCAT and len(u.shape) == 1:
            parts, begin = [], 0
            for s in u.src:
                parts.append(shifted(of(s), -begin))
                begin += s.shape[0]
            found = joined(parts)
        memo[u] = found
        return found

    def joined(parts: Sequence[frozenset[int] | None]) -> frozenset[int] | None:
        known = [p for p in parts if p is not None]
        return frozenset().union(*known) if len(known) == len(parts) else None

    return joined([of(u) for u in roots])


def couples_neighbours(f: Slopes, q: Sequence[int], p: Sequence[int]) -> bool:
    """One chain, whose momenta move their own positions, and whose forces look at neighbours."""
    if len(q) != 1 or len(f.states[0].shape) != 1:
        return False
    n = f.states[0].shape[0]
    own, far = (reach([f.slopes[of]], [f.states[by]]) for of, by in ((q[0], p[0]), (p[0], q[0])))
    near = {k % n for k in (-1, 0, 1)}
    return own is not None and far is not None and own <= {0} and {k % n for k in far} <= near


def colours(n: int) -> list[tuple[int, int]]:
    """(first place, how many, each PATTERN further) of each colour: no two within PATTERN places on a ring share one."""
    whole = n // PATTERN
    return [(k, whole) for k in range(PATTERN)] + [(k, 1) for k in range(whole * PATTERN, n)]


def is_at(place: UOp, first: int, count: int) -> UOp:
    if count == 1:
        return place.eq(first)
    return (place % PATTERN).eq(first % PATTERN) & (place < PATTERN * count)


def diagonals(apply: Callable[[UOp], UOp], like: UOp) -> list[UOp]:
    """The entries at i-1, i and i+1 of each row of an operator that couples neighbours."""
    n = like.shape[0]
    place = UOp(Ops.RANGE, i64, (n,))
    near = [UOp.const(0.0, like.dtype, (n,)) for _ in range(3)]
    for first, count in colours(n):
        here = [is_at((place + k) % n, first, count) for k in (-1, 0, 1)]
        column = apply(here[1].where(1.0, 0.0))
        near = [at.where(column, old) for at, old in zip(here, near)]
    return near


def level(a: UOp, c: UOp, d: UOp, far: int) -> tuple[UOp, UOp, UOp]:
    """The same equations between numbers twice as far apart."""

    def below(u: UOp) -> UOp:
        return u.roll(far, 0)

    def above(u: UOp) -> UOp:
        return u.roll(-far, 0)

    k = 1.0 / (1.0 - a * below(c) - c * above(a))
    return -k * (a * below(a)), -k * (c * above(c)), k * (d - a * below(d) - c * above(d))


def along_a_line(low: UOp, middle: UOp, high: UOp, right: UOp) -> UOp:
    """The d with low d[i-1] + middle d[i] + high d[i+1] = right, which no coupling leads around: nothing is left out."""
    a, c, d = low / middle, high / middle, right / middle
    n = right.shape[0]
    for k in range((n - 1).bit_length()):
        a, c, d = level(a, c, d, 1 << k)
    return d


def on_a_ring(diagonals: Sequence[UOp], weight: UOp, right: UOp, most: int) -> UOp:
    """The d with d - weight times the operator of these diagonals times d = right, by so many levels at most."""
    n = right.shape[0]
    low, middle, high = diagonals
    over = 1.0 / (1.0 - weight * middle)
    a, c, d = (-weight * low) * over, (-weight * high) * over, right * over
    for k in range(most):
        if 1 << k >= n and n & (n - 1) == 0:  # then every number is coupled to itself alone
            return d / (1.0 + a + c)
        a, c, d = level(a, c, d, (1 << k) % n)
    return d


@dataclass(frozen=True, eq=False)
class CyclicReduction(ConjugateGradients):
    @property
    def told(self) -> str:
        return (
            "with a system of three diagonals by cyclic reduction, second derivatives at one state per step"
        )

    def momenta(self, weight: UOp, b: Arrays) -> Arrays:
        (right,) = b
        near = diagonals(lambda v: self.of_p(self.of_q([v]))[0], right)
        most = min(LEVELS, (right.shape[0] - 1).bit_length() + BEYOND)
        return [on_a_ring(near, weight * weight, right, most)]


@dataclass(frozen=True, eq=False)
class ChainElimination:
    """One state along a chain whose rates look at neighbours: as many levels as leave nothing."""

    f: Slopes
    told = "with a system of three diagonals by cyclic reduction"

    def correction(self, weight: UOp, residual: Sequence[UOp]) -> Arrays:
        (right,) = residual
        near = diagonals(lambda v: self.f.along([v])[0], right)
        return [on_a_ring(near, weight, right, (right.shape[0] - 1).bit_length() + FAR_BEYOND)]


def is_one_chain(f: Slopes) -> bool:
    if len(f.states) != 1 or len(f.states[0].shape) != 1:
        return False
    n, found = f.states[0].shape[0], reach(f.slopes, f.states)
    return found is not None and {k % n for k in found} <= {k % n for k in (-1, 0, 1)}
