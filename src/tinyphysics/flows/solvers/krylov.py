"""How is a linear system of arrays solved without its matrix?  By directions that the operator is applied to.

Conjugate gradients where positions and momenta are apart: then momenta solve (1 + w**2 V'' T'') d = b, an operator that is
symmetric in the inner product x.T''y and positive where V curves up. Else BiCGStab (van der Vorst 1992, SIAM J. Sci. Stat.
Comput. 13, 631) for all states. Both are an inner solution whose rounds end where the residual has fallen enough.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count

from tinyphysics.flows.solvers.solver import TINY, Arrays, Slopes, inner, largest, plus, stacked, unstacked
from tinyphysics.ir import Ops, UOp
from tinyphysics.ir.dtype import bool_
from tinyphysics.rules.calculus.linear import ONE, ZERO, inverse, is_number, less, times
from tinyphysics.rules.calculus.linear import Rows as Matrix

FALLEN = 2.0**-10  # of the residual that a solution begins with: what is left is for the next round
MOST = 1000  # rounds


def until_fallen(name: str, b: Arrays, way: Arrays, step: UOp, goes_on: UOp, shape: tuple[int, ...]) -> UOp:
    """The solution of rounds that subtract `step`, from (0, b, way) on, as long as they go on."""
    zero = [UOp.const(0.0, u.dtype, u.shape) for u in b]
    begin = stacked([*zero, *b, *way])
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
    """Positions and momenta apart: f of positions holds momenta alone, and that of momenta positions alone.

    With the `diagonal` of V'' T'' where each place has its own, rounds go on with that divided out: a stiff or light place
    takes no more rounds than others. It commutes with a T'' that is a number at each place, so the operator stays symmetric.
    """

    f: Slopes
    q: tuple[int, ...]  # the places of positions among the states, and of momenta
    p: tuple[int, ...]
    name: str = "?cg"
    number: count[int] = field(default_factory=count)
    diagonal: Arrays | None = None

    @property
    def told(self) -> str:
        by = "" if self.diagonal is None else ", preconditioned by the diagonal"
        return f"with conjugate gradients for the momenta{by}, products with second derivatives at one state per step"

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
        over = None if self.diagonal is None else [1.0 / (1.0 - square * u) for u in self.diagonal]

        def divided(v: Arrays) -> Arrays:
            return v if over is None else [c * u for c, u in zip(over, v)]

        rho = inner(r, self.of_q(divided(r)))
        alpha = rho / inner(w, a)
        rest = plus(r, -alpha, a)
        way = divided(rest)
        beta = inner(rest, self.of_q(way)) / rho
        moved = [-alpha * u for u in p]
        fallen = [alpha * u for u in a]
        turned = [u - v for u, v in zip(p, plus(way, beta, p))]
        first = inner(b, self.of_q(divided(b)))
        rounds = stacked([*moved, *fallen, *turned])
        return thirds(until_fallen(name, b, divided(b), rounds, FALLEN**2 * first < rho, shape))[0]


@dataclass(frozen=True, eq=False)
class StabilizedGradients:
    """All states at once; `sizes` are one over those of the states, so that no unit counts more than another.

    With a `goal`, rounds end where the root of the mean square of a residual, in parts of these sizes, is not above it.
    With the `local` part of f', what each place does to its own numbers, rounds go on with that part divided out (from
    the right, so that residuals stay what they are): a place whose reaction is fast takes no more rounds than others.
    """

    f: Slopes
    sizes: tuple[UOp, ...]
    goal: float | None = None
    local: Matrix | None = None
    name: str = "?bicg"
    number: count[int] = field(default_factory=count)

    @property
    def told(self) -> str:
        by = "" if self.local is None else ", preconditioned by what each place does to itself"
        return f"with BiCGStab{by}, products with second derivatives at one state per step"

    def divided(self, weight: UOp) -> Callable[[Arrays], Arrays]:
        """By 1 - weight times the local part."""
        if self.local is None:
            return lambda v: v
        rows = [
            [less(ONE if i == k else ZERO, times(weight, x)) for k, x in enumerate(row)]
            for i, row in enumerate(self.local)
        ]
        over = inverse(rows)

        def apply(v: Arrays) -> Arrays:
            products = ([times(c, x) for c, x in zip(row, v)] for row in over)
            return [UOp.sum_of([x for x in row if not is_number(x, 0.0)]) for row in products]

        return apply

    def correction(self, weight: UOp, residual: Sequence[UOp]) -> Arrays:
        b = list(residual)
        n = len(b)
        name, shape = f"{self.name}{next(self.number)}", (3 * n, *b[0].shape)
        x, r, p = thirds(UOp.var(name, shape, b[0].dtype))

        def operator(v: Arrays) -> Arrays:
            return plus(v, -weight, self.f.along(v))

        def weighed(v: Arrays) -> Arrays:
            return [w * w * u for w, u in zip(self.sizes, v)]

        divided = self.divided(weight)
        shadow = weighed(b)
        rho = inner(shadow, r)
        along_p = divided(p)
        v = operator(along_p)
        alpha = rho / inner(shadow, v)
        s = plus(r, -alpha, v)
        along_s = divided(s)
        t = operator(along_s)
        heavy = weighed(t)
        omega = inner(heavy, s) / inner(heavy, t).maximum(TINY)
        rest = plus(s, -omega, t)
        beta = (inner(shadow, rest) / rho) * (alpha / omega)
        moved = [-alpha * u - omega * w for u, w in zip(along_p, along_s)]
        fallen = [u - w for u, w in zip(r, rest)]
        turned = [u - w for u, w in zip(p, plus(rest, beta, plus(p, -omega, v)))]
        left = inner(weighed(r), r)
        goes_on = FALLEN**2 * inner(shadow, b) < left
        if (
            self.goal is not None
        ):  # no rounds follow that would see a right-hand side which is no number: its solution is none
            goal = UOp.const(self.goal**2 * sum(u.size for u in b), left.dtype)
            goes_on = UOp(Ops.NOT, bool_, (), (left <= goal,))
        rounds = stacked([*moved, *fallen, *turned])
        return thirds(until_fallen(name, b, b, rounds, goes_on, shape))[0]
