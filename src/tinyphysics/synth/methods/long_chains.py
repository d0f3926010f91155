"""How are many constraints kept, each of which is coupled to its neighbours alone?  As whole arrays, in loops.

The equations are those of synth/methods/rattle.py. The matrix G A Gᵀ of a chain has three diagonals, which are products with
vectors that are 1 at every third place; corrections are found by cyclic reduction, with as many levels as leave nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tinyphysics.flows.implicit import ImplicitFlow
from tinyphysics.flows.map import Map
from tinyphysics.flows.solvers.cyclic import along_a_line, diagonals
from tinyphysics.flows.solvers.reach import reach
from tinyphysics.flows.solvers.solver import stacked, unstacked
from tinyphysics.ir import Ops, UOp, substitute, toposort
from tinyphysics.ir.dtype import f64
from tinyphysics.rules.calculus.solve import ROUNDS
from tinyphysics.rules.formulas.constraints import ArrayConstraints
from tinyphysics.step import DT
from tinyphysics.synth.methods.derivative import derivative
from tinyphysics.synth.methods.implicit import TINY
from tinyphysics.system import System

OP = "CONSTRAIN"
LEAST = 5  # rows of a chain: with fewer, every third place is no pattern


@dataclass(frozen=True, eq=False)
class Chain:
    """What explain() says of how corrections are made."""

    told: str = (
        "with G M⁻¹ Gᵀ as a system of three diagonals by cyclic reduction, where a drift ends without them"
    )


def arrays_of(system: System, T: UOp) -> ArrayConstraints | str:
    """The constraints of a chain as arrays; or why they are not kept in loops."""
    if len(system.tensor) != 1 or len(system.q) != 1 or len(system.tensor[0].shape) != 1:
        return "one constraint with one row for each link, of one array of positions, is kept in loops"
    (g,), (q,), (p,) = system.tensor, system.q, system.p
    if g.shape[0] < LEAST:
        return f"a chain has {LEAST} links at least"
    c = ArrayConstraints(q, p, g, T)
    v = UOp.var("direction", g.shape)
    found = reach([c.slope(c.moved(c.pushed(v)))], v)
    if any(u.op is Ops.ROLL for u in toposort([g, T])):
        return "its ends are joined: a ring is not kept in loops yet"
    if found is None or not found <= {-1, 0, 1}:
        return "its rows are not shown to be coupled to their neighbours alone"
    return c


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
    one = every_third(c.g.shape)
    push = c.moved(c.pushed(one))

    def operator(v: UOp) -> UOp:
        w = c.moved(c.pushed(v))
        direction = UOp.var("direction", w.shape)
        return substitute(substitute([c.slope(direction)], {c.q: at}), {direction: w})[0]

    factor = 1.0 / abs(c.slope(push)).max().maximum(TINY)
    scale = 1.0 / (size / abs(push).max().maximum(TINY)).maximum(TINY)
    left = residual(k) * factor
    low, middle, high = (u * factor for u in diagonals(operator, k))
    correction = along_a_line(low, middle, high, -left)
    return ImplicitFlow(
        unknown,
        UOp.const(0.0, shape=unknown.shape),
        stacked([left]),
        scale.expand(unknown.shape),
        moves(k),
        stacked([correction]),
        ROUNDS,
        Chain(),  # type: ignore[arg-type]
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
