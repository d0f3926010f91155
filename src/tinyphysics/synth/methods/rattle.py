"""How is an energy stepped whose positions are held by constraints?  Kicks, and drifts along g(q) = 0 between them.

A kick is that of leapfrog. A drift solves for the positions on g(q) = 0, by Newton's method with the Jacobian where the drift
would end without constraints. In the loop momenta are known up to Gᵀλ, which the next drift absorbs; on the copy that is
looked at that part is taken off. That is RATTLE, and its compositions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tinyphysics.flows.baths import along
from tinyphysics.flows.implicit import ImplicitFlow
from tinyphysics.flows.map import Map
from tinyphysics.ir import Ops, UOp, elements, substitute
from tinyphysics.rules.calculus.linear import Rows, is_number
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.rules.formulas.constraints import WRITTEN, Constraints, dot, jacobian
from tinyphysics.step import DT, ExactPart, Step, SubFlow, Term
from tinyphysics.synth.methods import long_chains
from tinyphysics.synth.methods.baths import in_bath
from tinyphysics.synth.methods.implicit import NEGLIGIBLE, TINY, largest_of, solving
from tinyphysics.synth.methods.long_chains import OP
from tinyphysics.synth.methods.parts import strang_step
from tinyphysics.synth.methods.rotations import kick
from tinyphysics.synth.methods.solved_turns import in_arrays
from tinyphysics.system import System

MIDDLE = 0.5  # of a step, where the bath acts


def in_loops(system: System) -> bool:
    """Are there so many constraints that they stay arrays?"""
    return sum(g.size for g in system.tensor) > WRITTEN


def constraints_of(system: System, T: UOp) -> Constraints:
    return Constraints(system.q, system.p, system.tensor, T)


def one_over(rows: Rows, groups: Sequence[Sequence[UOp]]) -> list[UOp]:
    """One over the size of each G_j z, number by number; what is nothing beside the largest is as good as that needs."""
    sizes = [largest_of([abs(group[k]) for group in groups]) for k in range(len(rows[0]))]
    least = largest_of(sizes) * NEGLIGIBLE
    floors = [s.maximum(least) for s in sizes]
    return [
        1.0 / UOp.sum_of([abs(x) * s for x, s in zip(row, floors) if not is_number(x, 0.0)]).maximum(TINY)
        for row in rows
    ]


def drift(c: Constraints, weight: float, name: str) -> ImplicitFlow:
    """Along g(q) = 0 for a time weight*dt."""
    h = DT if weight == 1.0 else weight * DT
    unknown = UOp.var(name, (c.count,))
    there, momenta = c.drift(elements(unknown), h)
    ahead = c.ahead(h)
    G = [c.at(row, ahead) for row in c.G]
    slopes = [[-(dot(row, moved) / d) for moved, d in zip(c.AG, c.d)] for row in G]
    moves = Map((*in_arrays(c.positions, there), *in_arrays(c.momenta, momenta)), op=OP, declares_dt=True)
    start = UOp.const(0.0, shape=(c.count,))
    return solving(unknown, start, c.at(c.g, there), one_over(c.G, [c.q, ahead]), moves, slopes)


def projection(c: Constraints) -> ImplicitFlow:
    """Momenta without what no motion along g(q) = 0 has."""
    unknown = UOp.var("?along", (c.count,))
    y = elements(unknown)
    slopes = [[-(dot(row, moved) / d) for moved, d in zip(c.AG, c.d)] for row in c.G]
    moves = Map(tuple(in_arrays(c.momenta, c.along(y))), op=OP, declares_dt=True)
    start = UOp.const(0.0, shape=(c.count,))
    return solving(unknown, start, c.rates(c.along(y)), one_over(c.G, [c.v]), moves, slopes)


def rattle(
    name: str, system: System, T: UOp, V: UOp, weights: Sequence[float], claims: tuple[str, ...]
) -> Step:
    long = in_loops(system)
    chain = long_chains.arrays_of(system, T) if long else None
    assert not isinstance(chain, str), "what is no chain is not chosen"
    c = constraints_of(system, T)

    def along(weight: float) -> SubFlow:
        name = f"?{weight!r}"
        return drift(c, weight, name) if chain is None else long_chains.drift(chain, weight, name)

    moves = ExactPart(Term("T", T), along, exact=False)
    still = not any(q in V.leaves for q in system.q)
    parts = [moves] if still else [kick(system, V), moves]
    step = strang_step(name, system, parts, weights, claims)
    ends = projection(c) if chain is None else long_chains.projection(chain)
    final: tuple[SubFlow, ...] = (*step.final, ends)
    terms = (Term("T", T), Term("V", V)) if still else step.terms
    return replace(step, terms=terms, final=final, coefficients=tuple(weights))


def rattle_in_bath(
    name: str, system: System, T: UOp, V: UOp, sequence: Sequence[tuple[str, float]], claims: tuple[str, ...]
) -> Step:
    """Kicks, drifts along g(q) = 0, and a bath between two drifts, of momenta along the constraints.

    What the bath gives is booked as the kinetic energy after it, less that before, both of momenta along the constraints.
    """
    chain = long_chains.arrays_of(system, T) if in_loops(system) else None
    assert not isinstance(chain, str), "what is no chain is not chosen"
    c = constraints_of(system, T)
    still = not any(q in V.leaves for q in system.q)
    kicks, held = kick(system, V), sum(g.size for g in system.tensor)

    def off() -> SubFlow:
        return projection(c) if chain is None else long_chains.projection(chain)

    def flows(part: str, weight: float, number: int) -> list[SubFlow]:
        if part == "V":
            return [] if still else [kicks.flow(weight)]
        if part == "T":
            unknown = f"?{number}"
            return [drift(c, weight, unknown) if chain is None else long_chains.drift(chain, weight, unknown)]
        return along(in_bath(system, T, weight, 0, MIDDLE), off, T, held)

    (first, begin), *inner, (_, end) = sequence
    init = flows(first, begin, 0)
    body = [f for k, (part, w) in enumerate(inner) for f in flows(part, w, k)]
    body += flows(first, begin + end, 0)
    final = [*flows(first, -begin, 0), off()]
    terms = (Term("T", T), Term("V", V))
    return Step.of(system, name, terms, claims, 1, tuple(init), tuple(body), tuple(final))


def multipliers(system: System, T: UOp, V: UOp, weight: float) -> UOp:
    """λ at a state, with p' = -dV/dq - Gᵀλ: the mean of those of half a step of weight*dt forth and back.

    Each of both is wrong by a multiple of dt, and with the other sign.
    """
    c = constraints_of(system, T)
    forces = c.at([d for row in jacobian(unroll([V])[0], c.q) for d in row], c.q)
    ways = []
    for name, w in (("?forth", weight), ("?back", -weight)):
        flow, h = drift(c, w, name), w * DT
        kicked = {p: p - (0.5 * h) * f for p, f in zip(c.p, forces)}
        assert flow.matrix is not None
        roots = substitute([flow.start, flow.scale, flow.residual, flow.matrix], kicked)
        x = UOp(Ops.SOLVE, flow.unknown.dtype, flow.unknown.shape, tuple(roots), (name, flow.rounds))
        ways.append([2.0 * a / (d * h * h) for a, d in zip(elements(x), c.d)])
    return UOp.stack([0.5 * (a + b) for a, b in zip(*ways)], (c.count,))
