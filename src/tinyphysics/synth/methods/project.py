"""How is a state put back where its invariants are what they were?  Along their gradients, by an equation that ends a step.

z -> z - sum k_i n_i, where n_i is the direction in which invariant i grows, positions and momenta each in parts of their
size; the k are solved for until every g_i is what it was where the run began. A gradient that vanishes moves nothing. What
the method was is lost by that: a projected step is neither symplectic nor symmetric.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tinyphysics.flows.implicit import ImplicitFlow
from tinyphysics.flows.map import Map
from tinyphysics.ir import UOp, elements, substitute
from tinyphysics.rules.calculus.linear import ONE, ZERO, inverse
from tinyphysics.rules.calculus.unroll import rolled, unroll
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.rules.identities.real import simplify
from tinyphysics.step import Step
from tinyphysics.synth.methods.implicit import TINY, VectorField, solving
from tinyphysics.system import Parameter, System


def projected(step: Step, system: System, invariants: Sequence[UOp], names: Sequence[str]) -> Step:
    """A step that ends where the invariants are as large as the parameters of these names say."""
    assert system.energy is not None
    flow = VectorField(system, system.energy)
    z, m = flow.z, len(invariants)
    g = [u for (u,) in unroll(list(invariants))]
    wanted = [UOp.var(name) for name in names]
    sizes = [ONE / x for x in flow.sizes([z])]
    # in parts of what they are slopes by
    slopes = [[s * d for s, d in zip(sizes, simplify(gradient(u, z)))] for u in g]
    lengths = [dot(row, row).sqrt() for row in slopes]
    moves = [(x > TINY) for x in lengths]
    over = [move.where(ONE / x.maximum(TINY), ZERO) for move, x in zip(moves, lengths)]
    directions = [[d * x for d in row] for row, x in zip(slopes, over)]
    between = inverse(
        [[ONE if i == k else dot(directions[i], directions[k]) for k in range(m)] for i in range(m)]
    )
    # the size of an invariant, if it is zero too
    whole = [x.maximum(abs(c)).maximum(TINY) for x, c in zip(lengths, wanted)]
    unknown = UOp.var("?multipliers", (m,))
    mu = elements(unknown)
    parts = [u * s * x for u, s, x in zip(mu, whole, over)]
    along = [UOp.sum_of([b * x for b, x in zip(row, parts)]) for row in between]
    new = [
        x - s * UOp.sum_of([k * row[i] for k, row in zip(along, directions)])
        for i, (x, s) in enumerate(zip(z, sizes))
    ]
    residuals = [(u - c) / s for u, c, s in zip(substitute(g, dict(zip(z, new))), wanted, whole)]
    moving = [move.where(-ONE, ZERO) for move in moves]
    matrix = [moving[i] if i == k else ZERO for i in range(m) for k in range(m)]
    assigned = Map(tuple(zip(flow.states, rolled(new, flow.states))))
    solve = solving(unknown, [ZERO] * m, residuals, [ONE] * m, assigned)
    solve = replace(solve, matrix=UOp.stack(matrix, (m, m)), plain=plain(flow, g, wanted, sizes))
    factors = UOp.stack([k * x for k, x in zip(along, over)], (m,))
    solve = replace(solve, plain_unknown=factors)
    # a step from a state to a state: what merges with its neighbours does not, since a projection is between them
    return replace(
        step,
        init=(),
        body=(*step.init, *step.body, *step.final, solve),
        final=(),
        claims=(),
        evaluations=step.evaluations + bool(step.init),
        parameters=(*step.parameters, *(Parameter(n, c) for n, c in zip(names, wanted))),
    )


def plain(flow: VectorField, g: Sequence[UOp], wanted: Sequence[UOp], sizes: Sequence[UOp]) -> ImplicitFlow:
    """The same state by multiples of slopes as they are: nothing keeps small ones apart, and derivatives stay short."""
    z, unknown = flow.z, UOp.var("?multiples", (len(g),))
    slopes = [[s * s * d for s, d in zip(sizes, simplify(gradient(u, z)))] for u in g]
    new = [x - UOp.sum_of([k * row[i] for k, row in zip(elements(unknown), slopes)]) for i, x in enumerate(z)]
    residuals = [u - c for u, c in zip(substitute(g, dict(zip(z, new))), wanted)]
    assigned = Map(tuple(zip(flow.states, rolled(new, flow.states))))
    return solving(unknown, [ZERO] * len(g), residuals, [ONE] * len(g), assigned)


def dot(a: Sequence[UOp], b: Sequence[UOp]) -> UOp:
    return UOp.sum_of([x * y for x, y in zip(a, b)])
