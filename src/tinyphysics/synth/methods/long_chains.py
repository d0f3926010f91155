"""How are many constraints kept, each of which is coupled to a few others?  As whole arrays, in loops.

The equations are those of synth/methods/rattle.py. The matrix G A Gᵀ of a chain has three diagonals, which are products with
vectors that are 1 at every third place; corrections are found by cyclic reduction, with as many levels as leave nothing.
Other patterns are found from the graph of the products, and eliminated by levels (flows/solvers/elimination.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from tinyphysics.flows.implicit import ImplicitFlow
from tinyphysics.flows.map import Map
from tinyphysics.flows.solvers.cyclic import along_a_line, diagonals
from tinyphysics.flows.solvers.elimination import MOST, Elimination, column, eliminated, planned
from tinyphysics.flows.solvers.reach import reach
from tinyphysics.flows.solvers.solver import stacked, unstacked
from tinyphysics.flows.solvers.supports import supports
from tinyphysics.ir import Ops, UOp, substitute, toposort
from tinyphysics.ir.dtype import f64
from tinyphysics.rules.calculus.solve import ROUNDS
from tinyphysics.rules.formulas.constraints import ArrayConstraints, in_a_row
from tinyphysics.step import DT
from tinyphysics.synth.methods.derivative import derivative
from tinyphysics.synth.methods.implicit import TINY
from tinyphysics.system import System
from tinyphysics.util import plural

OP = "CONSTRAIN"
LEAST = 5  # rows of a chain: with fewer, every third place is no pattern


@dataclass(frozen=True, eq=False)
class Chain:
    """How corrections are made where neighbours alone are coupled."""

    told: str = (
        "with G M⁻¹ Gᵀ as a system of three diagonals by cyclic reduction, where a drift ends without them"
    )

    def some(self, shape: tuple[int, ...]) -> UOp:
        return every_third(shape)

    def solved(self, operator: Callable[[UOp], UOp], factor: UOp, right: UOp) -> UOp:
        low, middle, high = (u * factor for u in diagonals(operator, right))
        return along_a_line(low, middle, high, right)


@dataclass(frozen=True, eq=False)
class Sparse:
    """How corrections are made of rings, trees, molecules side by side, and of other patterns with few couplings."""

    plan: Elimination

    @property
    def told(self) -> str:
        return f"{self.plan.told}, where a drift ends without them; {plural(len(self.plan.levels), 'level')}"

    def some(self, shape: tuple[int, ...]) -> UOp:
        return column(self.plan, 0)

    def solved(self, operator: Callable[[UOp], UOp], factor: UOp, right: UOp) -> UOp:
        return eliminated(self.plan, lambda v: operator(v) * factor, right)


def arrays_of(system: System, T: UOp) -> ArrayConstraints | str:
    """The constraints of one array of positions as a row of numbers; or why they are not kept in loops."""
    if len(system.q) != 1:
        return "constraints of one array of positions are kept in loops"
    (q,), (p,) = system.q, system.p
    c = ArrayConstraints(q, p, in_a_row(system.tensor), T)
    way = way_of(c)
    return way if isinstance(way, str) else c


@lru_cache(maxsize=8)
def way_of(c: ArrayConstraints) -> Chain | Sparse | str:
    """How corrections are made; or why they are not."""
    v = UOp.var("direction", c.g.shape)
    if c.g.shape[0] >= LEAST and not any(u.op is Ops.ROLL for u in toposort([c.g, c.kinetic])):
        found = reach([c.slope(c.moved(c.pushed(v)))], v)
        if found is not None and found <= {-1, 0, 1}:
            return Chain()
    plan = plan_of(c)
    return plan if isinstance(plan, str) else Sparse(plan)


@lru_cache(maxsize=8)
def plan_of(c: ArrayConstraints) -> Elimination | str:
    """In which order rows are eliminated; or why they are not."""
    v = UOp.var("direction", c.g.shape)
    sets = supports(c.slope(c.moved(c.pushed(v))), v)
    if sets is None:
        return "which rows are coupled is not seen, as where indices are parameters"
    return (
        planned(sets)
        or f"rows are coupled so densely that elimination takes more than {MOST} products for each"
    )


def every_third(shape: tuple[int, ...]) -> UOp:
    place = UOp.range(shape[0])
    return (place % 3).eq(0).where(UOp.const(1.0, f64, shape), UOp.const(0.0, f64, shape))


def solved_along(
    c: ArrayConstraints,
    at: UOp,
    name: str,
    residual: Callable[[UOp], UOp],
    size: UOp,
    moves: Callable[[UOp], Map],
) -> ImplicitFlow:
    """Multipliers that make residuals vanish, whose slope is -G A Gᵀ with the first G at other positions."""
    unknown = UOp.var(name, (1, *c.g.shape))
    (k,) = unstacked(unknown)
    way = way_of(c)
    assert not isinstance(way, str), "what is not kept in loops is not chosen"
    push = c.moved(c.pushed(way.some(c.g.shape)))

    def operator(v: UOp) -> UOp:
        w = c.moved(c.pushed(v))
        direction = UOp.var("direction", w.shape)
        return substitute(substitute([c.slope(direction)], {c.q: at}), {direction: w})[0]

    factor = 1.0 / abs(c.slope(push)).max().maximum(TINY)
    scale = 1.0 / (size / abs(push).max().maximum(TINY)).maximum(TINY)
    left = residual(k) * factor
    correction = way.solved(operator, factor, -left)
    return ImplicitFlow(
        unknown,
        UOp.const(0.0, shape=unknown.shape),
        stacked([left]),
        scale.expand(unknown.shape),
        moves(k),
        stacked([correction]),
        ROUNDS,
        way,  # type: ignore[arg-type]
    )


def drift(c: ArrayConstraints, weight: float, name: str) -> ImplicitFlow:
    h = DT if weight == 1.0 else weight * DT
    ahead = c.ahead(h)
    size = abs(c.q).max().maximum(abs(ahead).max())

    def moves(k: UOp) -> Map:
        there, momenta = c.drift(k, h)
        return Map(((c.q, there), (c.p, momenta)), op=OP, declares_dt=True)

    return solved_along(c, ahead, name, lambda k: c.held(c.drift(k, h)[0]), size, moves)


def projection(c: ArrayConstraints) -> ImplicitFlow:
    return solved_along(
        c,
        c.q,
        "?along",
        lambda k: c.rates(c.along(k)),
        abs(c.v).max(),
        lambda k: Map(((c.p, c.along(k)),), op=OP, declares_dt=True),
    )


def multipliers(c: ArrayConstraints, V: UOp, weight: float) -> UOp:
    """λ at a state: the mean of those of half a step of weight*dt forth and back."""
    (force,) = derivative(V, [c.q])
    ways = []
    for name, w in (("?forth", weight), ("?back", -weight)):
        flow, h = drift(c, w, name), w * DT
        assert flow.matrix is not None
        sources = (flow.start, flow.scale, flow.residual, flow.matrix)
        roots = substitute(list(sources), {c.p: c.p - (0.5 * h) * force})
        k = UOp(Ops.SOLVE, flow.unknown.dtype, flow.unknown.shape, tuple(roots), (name, flow.rounds))
        ways.append(unstacked(k)[0] * (2.0 / (h * h)))
    return 0.5 * (ways[0] + ways[1])
