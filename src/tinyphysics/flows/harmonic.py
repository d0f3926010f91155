"""How do oscillators go on?  Exactly: pair by pair by three shears, or all at once by a matrix that is handed in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tinyphysics.flows.cotangents import Cotangents, Total, rest_of
from tinyphysics.flows.map import Map
from tinyphysics.ir import UOp, elements, graph_rewrite
from tinyphysics.rules.calculus.jvp import jvp
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.rules.formulas.coupled import flowed, matrix_shape
from tinyphysics.rules.formulas.harmonic import turned
from tinyphysics.rules.formulas.oscillators import Oscillator
from tinyphysics.rules.identities.exact import exact
from tinyphysics.rules.identities.real import simplify
from tinyphysics.step import DT, TURNS, Step, SubFlow
from tinyphysics.structure import Canonical
from tinyphysics.tpir.program.isa import FLOW, Operand, Param, Register
from tinyphysics.tpir.program.lower import ProgramBuilder

Pairs = tuple[tuple[UOp, UOp], ...]  # (q, p)


def rotate(b: ProgramBuilder, new: Sequence[tuple[UOp, UOp]], section: str) -> None:
    """Values for states, all computed before the first is put in its place."""
    for u, register in [(u, b.operand(value, section)) for u, value in new]:
        b.emit(section, "ROTATE", b.state(u), register, u=u, note=" ")
        b.rewritten(u)


@dataclass(frozen=True, eq=False)
class OscillatorFlow(SubFlow):
    """Pairs go on as oscillators do, for weight * dt."""

    weight: float
    pairs: Pairs
    traits = frozenset({TURNS})

    def writes(self) -> tuple[UOp, ...]:
        return tuple(x for pair in self.pairs for x in pair)

    def inverse(self) -> OscillatorFlow:
        return replace(self, weight=-self.weight)

    def updates(self) -> int:
        return 3


@dataclass(frozen=True, eq=False)
class HarmonicFlow(OscillatorFlow):
    """Every pair by its own oscillator: what no state changes of that is computed once."""

    oscillators: tuple[Oscillator, ...]

    def reads(self) -> frozenset[UOp]:
        known = [u for o in self.oscillators for u in (o.a, o.b, o.g, o.f) if u is not None]
        return frozenset(self.writes()).union(*(u.leaves for u in known))

    def turned(self) -> list[tuple[UOp, UOp]]:
        """(state, what it becomes)."""
        h = DT if self.weight == 1.0 else self.weight * DT
        new = [x for (q, p), o in zip(self.pairs, self.oscillators) for x in turned(q, p, o, h)]
        return list(zip(self.writes(), graph_rewrite(new, exact)))

    def lower(self, b: ProgramBuilder, section: str) -> None:
        rotate(b, self.turned(), section)

    def field(self) -> Mapping[UOp, UOp]:
        out = {}
        for (q, p), o in zip(self.pairs, self.oscillators):
            weight = UOp.const(self.weight).expand(q.shape)
            out[q] = weight * (o.a * p if o.g is None else o.a * p + o.g)
            out[p] = -weight * (o.b * q if o.f is None else o.b * q + o.f)
        return out

    def as_map(self) -> Map:
        return Map(tuple(self.turned()), declares_dt=True)

    def adjoint(self, bars: Mapping[UOp, UOp], sums: Mapping[UOp, UOp]) -> tuple[SubFlow, ...]:
        return self.as_map().adjoint(bars, sums)

    def tangent(self, ways: Sequence[Mapping[UOp, UOp]]) -> tuple[SubFlow, ...]:
        """Directions turn as the states do, around the origin, unless an oscillator itself changes along them."""
        own = self.reads() - {*self.writes()} | {DT}
        if any(v in way for v in own for way in ways):
            moved = tuple(v for way in ways for v in self.as_map().along(way).values)
            return Map(moved, declares_dt=True), self
        pairs = tuple((way[q], way[p]) for way in ways for q, p in self.pairs)
        around = tuple(Oscillator(o.a, o.b) for o in self.oscillators) * len(ways)
        return HarmonicFlow(self.weight, pairs, around), self


@dataclass(frozen=True, eq=False)
class CoupledFlow(OscillatorFlow):
    """All positions and momenta by the matrix of the first term; there is one for each time."""

    energy: UOp  # the first term of the step
    directions: Pairs = ()  # that are moved instead, by the linear part of the flow

    def writes(self) -> tuple[UOp, ...]:
        return tuple(x for pair in self.directions or self.pairs for x in pair)

    def reads(self) -> frozenset[UOp]:
        return self.energy.leaves

    @property
    def parameters(self) -> frozenset[UOp]:
        """What its matrix is made of."""
        return self.energy.leaves - {x for pair in self.pairs for x in pair}

    def matrix(self, b: ProgramBuilder, section: str, by: UOp | None = None, k: int = 0) -> UOp:
        """What the program calls its matrix, or how that changes with a number of a parameter."""
        h = DT if self.weight == 1.0 else self.weight * DT
        key = h if by is None else h * UOp.var(f"{by.arg} {k}")
        if key not in b.matrices:
            name = f"{FLOW}{len(b.matrices)}"
            b.matrices[key] = matrix = UOp.var(name, matrix_shape([x for pair in self.pairs for x in pair]))
            b.invariant[matrix] = register = b.temporary()
            own: tuple[Operand, ...] = (Param(name), Register("E", 0), b.operand(h, section))
            if by is None:
                b.emit(b.first, "FLOW", register, *own, u=matrix)
            else:
                b.emit(b.first, "FLOW_ALONG", register, *own, b.operand(by, section), (k,), u=matrix)
        return b.matrices[key]

    def moved(self, matrix: UOp) -> list[UOp]:
        """What it moves, by a matrix in the place of its own."""
        states = [x for pair in self.pairs for x in pair]
        new = flowed(states, matrix)
        return graph_rewrite(jvp(new, states, self.writes()), exact) if self.directions else new

    def lower(self, b: ProgramBuilder, section: str) -> None:
        rotate(b, list(zip(self.writes(), self.moved(self.matrix(b, section)))), section)

    def adjoint(self, bars: Mapping[UOp, UOp], sums: Mapping[UOp, UOp]) -> tuple[SubFlow, ...]:
        """The transposed matrix is J over that of the way back: a quadratic energy has a symplectic flow."""
        inside = tuple(v for v in sums if v in self.parameters)
        own = self.directions or self.pairs
        back = replace(self, weight=-self.weight, directions=tuple((bars[p], bars[q]) for q, p in own))
        turned = Map(tuple((bars[q], -bars[q]) for q, _ in own))
        flows: tuple[SubFlow, ...] = (turned, back, turned)
        if inside:
            flows = (
                CoupledSlopes(
                    self, tuple((v, sums[v]) for v in inside), tuple(map(bars.__getitem__, self.writes()))
                ),
                *flows,
            )
        if DT not in sums:
            return flows
        # the rate at the end is what the matrix makes of the rate at the beginning
        states = [x for pair in self.pairs for x in pair]
        slopes = gradient(UOp.const(self.weight) * self.energy, states)
        field = Canonical(self.pairs).rates(dict(zip(states, slopes)))
        rates = [field[x] for x in states]
        if self.directions:
            rates = jvp(rates, states, self.writes())
        parts = [bars[x] * rate for x, rate in zip(self.writes(), rates)]
        (along,) = simplify([UOp.sum_of([u.sum() if u.shape else u for u in parts])])
        return (*flows, Cotangents((), (Total(sums[DT], along),)))

    def field(self) -> Mapping[UOp, UOp]:
        slopes = gradient(UOp.const(self.weight) * self.energy, list(self.writes()))
        return Canonical(self.pairs).rates(dict(zip(self.writes(), slopes)))

    def tangent(self, ways: Sequence[Mapping[UOp, UOp]]) -> tuple[SubFlow, ...] | None:
        if any(v in way for v in self.parameters for way in ways):
            return CoupledAlong(self, tuple(ways)), self
        moved = (tuple((way[q], way[p]) for q, p in self.pairs) for way in ways)
        return *(replace(self, directions=pairs) for pairs in moved), self


@dataclass(frozen=True, eq=False)
class CoupledAlong(SubFlow):
    """Directions along which the matrix changes, too: by the linear part of the flow, and by how that changes."""

    flow: CoupledFlow
    ways: tuple[Mapping[UOp, UOp], ...]
    traits = frozenset()
    without_adjoint = "how coupled oscillators move along their parameters is not pulled back yet"

    def linear(self, way: Mapping[UOp, UOp]) -> CoupledFlow:
        return replace(self.flow, directions=tuple((way[q], way[p]) for q, p in self.flow.pairs))

    def writes(self) -> tuple[UOp, ...]:
        return tuple(x for way in self.ways for x in self.linear(way).writes())

    def lower(self, b: ProgramBuilder, section: str) -> None:
        for way in self.ways:
            linear = self.linear(way)
            new = linear.moved(linear.matrix(b, section))
            for v in (v for v in way if v in self.flow.parameters):
                for k, e in enumerate(elements(way[v])):
                    more = self.flow.moved(self.flow.matrix(b, section, v, k))
                    new = [x + e.expand(y.shape) * y for x, y in zip(new, more)]
            rotate(b, list(zip(linear.writes(), graph_rewrite(new, exact))), section)


@dataclass(frozen=True, eq=False)
class CoupledSlopes(SubFlow):
    """Gradients by what a matrix is made of, at cotangents of what it moves; before these go back."""

    flow: CoupledFlow
    sums: Pairs  # (parameter, sum of its gradients)
    bars: tuple[UOp, ...]
    traits = frozenset()

    def writes(self) -> tuple[UOp, ...]:
        return tuple(x for _, total in self.sums for x in (total, rest_of(total)))

    def lower(self, b: ProgramBuilder, section: str) -> None:
        for v, total in self.sums:
            slopes = [self.slope(self.flow.matrix(b, section, v, k)) for k in range(v.size)]
            value = UOp.stack(slopes, v.shape) if v.shape else slopes[0]
            Cotangents((), (Total(total, value),)).lower(b, section)

    def slope(self, matrix: UOp) -> UOp:
        parts = [bar * x for bar, x in zip(self.bars, self.flow.moved(matrix))]
        (found,) = graph_rewrite([UOp.sum_of([u.sum() if u.shape else u for u in parts])], exact)
        return found


def oscillators_of(step: Step) -> tuple[Oscillator, ...] | None:
    """Those that a step turns pair by pair; None where one matrix turns them all."""
    found = next(f for f in step.flows if TURNS in f.traits)
    return found.oscillators if isinstance(found, HarmonicFlow) else None
