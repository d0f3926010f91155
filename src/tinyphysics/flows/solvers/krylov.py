"""How is a linear system of arrays solved without its matrix?  By directions that the operator is applied to.

Conjugate gradients where positions and momenta are apart: then momenta solve (1 + w**2 V'' T'') d = b, an operator that is
symmetric in the inner product x.T''y and positive where V curves up. Else BiCGStab (van der Vorst 1992, SIAM J. Sci. Stat.
Comput. 13, 631) for all states. Both are an inner solution whose rounds end where the residual has fallen enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count

from tinyphysics.flows.solvers.solver import TINY, Arrays, Slopes, inner, largest, plus, stacked, unstacked
from tinyphysics.ir import Ops, UOp

FALLEN = 2.0**-10  # of the residual that a solution begins with: what is left is for the next round
MOST = 1000  # rounds


def until_fallen(name: str, b: Arrays, step: UOp, left: UOp, goal: UOp, shape: tuple[int, ...]) -> UOp:
    """The solution of rounds that subtract `step`, from (0, b, b) on, until `left` is not above its goal."""
    zero = [UOp.const(0.0, u.dtype, u.shape) for u in b]
    begin = stacked([*zero, *b, *b])
    goes_on = goal < left
    nothing = UOp.const(0.0, begin.dtype, shape)
    residual = goes_on.expand(shape).where(step, nothing)
    scale = (1.0 / largest(b).maximum(TINY)).expand(shape)
    return UOp(Ops.SOLVE, begin.dtype, shape, (begin, scale, residual), (name, MOST))


def thirds(u: UOp) -> tuple[Arrays, Arrays, Arrays]:
    every = unstacked(u)
    n = len(every) // 3
    return every[:n], every[n : 2 * n], every[2 * n :]


@dataclass(frozen=True, eq=False)
class ConjugateGradients:
    """Positions and momenta apart: f of positions holds momenta alone, and that of momenta positions alone."""

    f: Slopes
    q: tuple[int, ...]  # the places of positions among the states, and of momenta
    p: tuple[int, ...]
    name: str = "?cg"
    number: count[int] = field(default_factory=count)
    told = "with conjugate gradients for the momenta, products with second derivatives at one state per step"

    def of_q(self, v: Sequence[UOp]) -> Arrays:
        """How the slopes of positions change along momenta."""
        return self.part(v, self.p, self.q)

    def of_p(self, v: Sequence[UOp]) -> Arrays:
        """How the slopes of momenta change along positions."""
        return self.part(v, self.q, self.p)

    def part(self, v: Sequence[UOp], own: Sequence[int], of: Sequence[int]) -> Arrays:
        way: list[UOp | None] = [None] * len(self.f.states)
        for k, x in zip(own, v):
            way[k] = x
        out = self.f.along(way)
        return [out[k] for k in of]

    def correction(self, weight: UOp, residual: Sequence[UOp]) -> Arrays:
        r_q, r_p = ([residual[k] for k in own] for own in (self.q, self.p))
        b = plus(r_p, weight, self.of_p(r_q))
        d_p = self.momenta(weight, b)
        d_q = plus(r_q, weight, self.of_q(d_p))
        out = dict(zip(self.q, d_q)) | dict(zip(self.p, d_p))
        return [out[k] for k in range(len(residual))]

    def momenta(self, weight: UOp, b: Arrays) -> Arrays:
        n = len(b)
        name, shape = f"{self.name}{next(self.number)}", (3 * n, *b[0].shape)
        x, r, p = thirds(UOp.var(name, shape, b[0].dtype))
        w = self.of_q(p)
        square = weight * weight
        a = plus(p, -square, self.of_p(w))
        rho = inner(r, self.of_q(r))
        alpha = rho / inner(w, a)
        rest = plus(r, -alpha, a)
        beta = inner(rest, self.of_q(rest)) / rho
        moved = [-alpha * u for u in p]
        fallen = [alpha * u for u in a]
        turned = [u - v for u, v in zip(p, plus(rest, beta, p))]
        first = inner(b, self.of_q(b))
        rounds = stacked([*moved, *fallen, *turned])
        return thirds(until_fallen(name, b, rounds, rho, FALLEN**2 * first, shape))[0]


@dataclass(frozen=True, eq=False)
class StabilizedGradients:
    """All states at once; `sizes` are one over those of the states, so that no unit counts more than another.

    With a `goal`, rounds end where the root of the mean square of a residual, in parts of these sizes, is not above it.
    """

    f: Slopes
    sizes: tuple[UOp, ...]
    goal: float | None = None
    name: str = "?bicg"
    number: count[int] = field(default_factory=count)
    told = "with BiCGStab, products with second derivatives at one state per step"

    def correction(self, weight: UOp, residual: Sequence[UOp]) -> Arrays:
        b = list(residual)
        n = len(b)
        name, shape = f"{self.name}{next(self.number)}", (3 * n, *b[0].shape)
        x, r, p = thirds(UOp.var(name, shape, b[0].dtype))

        def operator(v: Arrays) -> Arrays:
            return plus(v, -weight, self.f.along(v))

        def weighed(v: Arrays) -> Arrays:
            return [w * w * u for w, u in zip(self.sizes, v)]

        shadow = weighed(b)
        rho = inner(shadow, r)
        v = operator(p)
        alpha = rho / inner(shadow, v)
        s = plus(r, -alpha, v)
        t = operator(s)
        heavy = weighed(t)
        omega = inner(heavy, s) / inner(heavy, t).maximum(TINY)
        rest = plus(s, -omega, t)
        beta = (inner(shadow, rest) / rho) * (alpha / omega)
        moved = [-alpha * u - omega * w for u, w in zip(p, s)]
        fallen = [u - w for u, w in zip(r, rest)]
        turned = [u - w for u, w in zip(p, plus(rest, beta, plus(p, -omega, v)))]
        left = inner(weighed(r), r)
        goal = FALLEN**2 * inner(shadow, b)
        if self.goal is not None:
            goal = UOp.const(self.goal**2 * sum(u.size for u in b), left.dtype)
        rounds = stacked([*moved, *fallen, *turned])
        return thirds(until_fallen(name, b, rounds, left, goal, shape))[0]
