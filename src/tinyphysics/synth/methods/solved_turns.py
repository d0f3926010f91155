"""How is a turning body stepped where its energy does not split?  By the spherical midpoint, or by the step of Cayley."""

from __future__ import annotations

from collections.abc import Sequence

from tinyphysics.flows.implicit import ImplicitFlow
from tinyphysics.flows.map import Map
from tinyphysics.ir import UOp, elements, graph_rewrite, substitute
from tinyphysics.rules.calculus.linear import Rows
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.rules.formulas.solved_turns import cayley, middle, rows_by_cayley, turned_by_cayley
from tinyphysics.rules.identities.exact import exact
from tinyphysics.rules.identities.real import simplify
from tinyphysics.step import DT, ExactPart, Step, SubFlow, Term
from tinyphysics.synth.methods.derivative import derivative
from tinyphysics.synth.methods.implicit import BY_NEWTON, sizes_of, solving
from tinyphysics.system import System

Numbers = list[UOp]


class Turned:
    """The numbers of states that are solved for, and functions of them at other numbers."""

    def __init__(self, states: Sequence[UOp], functions: Sequence[UOp]) -> None:
        self.states = list(states)
        self.z = [e for s in self.states for e in elements(s)]
        self.values = simplify(graph_rewrite([u for group in unroll(functions) for u in group], exact))

    def at(self, z: Sequence[UOp]) -> Numbers:
        return substitute(self.values, dict(zip(self.z, z)))

    def slopes(self, functions: Sequence[UOp], z: Sequence[UOp]) -> Rows | None:
        """The derivatives of functions of the numbers, at others, row by row; None where that would be too long."""
        n = len(self.z)
        if n > BY_NEWTON:
            return None
        rows = simplify([d for f in functions for d in gradient(f, self.z)])
        flat = substitute(rows, dict(zip(self.z, z)))
        return [flat[k * n : (k + 1) * n] for k in range(n)]

    def solved(
        self, name: str, residuals: Sequence[UOp], start: Sequence[UOp], moves: Map, rows: Rows | None
    ) -> ImplicitFlow:
        sizes = sizes_of(self.states, [self.z, list(start)])
        return solving(UOp.var(name, (len(self.z),)), start, residuals, sizes, moves, rows)


def in_arrays(states: Sequence[UOp], numbers: Sequence[UOp]) -> list[tuple[UOp, UOp]]:
    out, at = [], 0
    for s in states:
        out.append((s, UOp.stack(list(numbers[at : at + s.size]), s.shape)))
        at += s.size
    return out


def spherical_midpoint(name: str, system: System, weights: Sequence[float], claims: tuple[str, ...]) -> Step:
    """z1 - z0 = h f(m), m half way between both on the sphere, for each weight."""
    assert system.energy is not None
    structure = system.structure
    by = structure.by
    rates = structure.rates(dict(zip(by, derivative(system.energy, by))))
    t = Turned(structure.states, [rates[s] for s in structure.states])
    body: list[SubFlow] = []
    for k, w in enumerate(weights):
        h = DT if w == 1.0 else w * DT
        unknown = UOp.var(f"?{k}", (len(t.z),))
        x = elements(unknown)
        f = t.at(middle(t.z, x))
        ahead = [z + (0.5 * h) * v for z, v in zip(t.z, t.at(t.z))]
        start = [z + h * v for z, v in zip(t.z, t.at(ahead))]
        residuals = [a - z - h * v for a, z, v in zip(x, t.z, f)]
        ends = Map(tuple(in_arrays(t.states, x)), op="TURN")
        rows = t.slopes([z - (0.5 * h) * v for z, v in zip(t.z, t.values)], ahead)
        body.append(t.solved(f"?{k}", residuals, start, ends, rows))
    return Step.of(system, name, (Term("H", system.energy),), claims, len(weights), body=tuple(body))


def by_cayley(system: System, energy: UOp) -> ExactPart:
    """The turns of an energy of angular momenta alone: not exact, but of the bracket, symmetric and of order 2."""
    (kind,) = system.structure.turning
    momenta = [L for L, _ in kind.bodies]
    t = Turned(momenta, derivative(energy, momenta))

    def flow(weight: float) -> SubFlow:
        h = DT if weight == 1.0 else weight * DT
        name = f"?{weight!r}"
        M = elements(UOp.var(name, (len(t.z),)))
        w = t.at(M)
        residuals = [a - z for a, z in zip(cayley(M, w, h), t.z)]
        moves = in_arrays(momenta, cayley(M, w, -h))
        at = 0
        for L, x in kind.bodies:
            own = w[at : at + L.size]
            at += L.size
            if x is not None:
                R = elements(x)
                new = turned_by_cayley(R, own, h) if kind.half else rows_by_cayley(R, own, h, L.size // 3)
                moves += in_arrays([x], new)
        start = t.z
        for _ in range(2):  # by the residuals themselves, which is as good as h*h
            start = [a - (b - z) for a, b, z in zip(start, cayley(start, t.at(start), h), t.z)]
        rows = t.slopes(cayley(t.z, t.values, h), start)
        return t.solved(name, residuals, start, Map(tuple(moves), op="TURN"), rows)

    return ExactPart(Term("T", energy), flow, exact=False)
