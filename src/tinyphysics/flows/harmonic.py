"""How do oscillators go on?  Exactly: pair by pair by three shears, or all at once by a matrix that is handed in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tinyphysics.errors import PlanError
from tinyphysics.flows.cotangents import Cotangents, Total
from tinyphysics.flows.map import Map
from tinyphysics.ir import UOp, graph_rewrite
from tinyphysics.rules.calculus.jvp import jvp
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.rules.formulas.coupled import flowed, matrix_shape
from tinyphysics.rules.formulas.harmonic import turned
from tinyphysics.rules.formulas.oscillators import Oscillator
from tinyphysics.rules.identities.exact import exact
from tinyphysics.rules.identities.real import simplify
from tinyphysics.step import DT, TURNS, Step, SubFlow
from tinyphysics.structure import Canonical
from tinyphysics.tpir.program.isa import FLOW, Param, Register
from tinyphysics.tpir.program.lower import ProgramBuilder
from tinyphysics.util import one_of

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

    def lower(self, b: ProgramBuilder, section: str) -> None:
        h = DT if self.weight == 1.0 else self.weight * DT
        if h not in b.matrices:
            name = f"{FLOW}{len(b.matrices)}"
            b.matrices[h] = matrix = UOp.var(name, matrix_shape([x for pair in self.pairs for x in pair]))
            b.invariant[matrix] = register = b.temporary()
            time = b.operand(h, section)
            b.emit(b.first, "FLOW", register, Param(name), Register("E", 0), time, u=matrix)
        states = [x for pair in self.pairs for x in pair]
        new = flowed(states, b.matrices[h])
        if self.directions:
            new = graph_rewrite(jvp(new, states, self.writes()), exact)
        rotate(b, list(zip(self.writes(), new)), section)

    def adjoint(self, bars: Mapping[UOp, UOp], sums: Mapping[UOp, UOp]) -> tuple[SubFlow, ...]:
        """The transposed matrix is J over that of the way back: a quadratic energy has a symplectic flow."""
        moves = {*self.energy.leaves} - {x for pair in self.pairs for x in pair}
        if inside := [str(v.arg) for v in sums if v in moves]:
            raise PlanError(
                f"the matrix that turns coupled oscillators has no derivative by {one_of(inside, 'and')} yet",
                fix=f'Leave {one_of(inside, "and")} out of wrt, or choose method="leapfrog".',
            )
        own = self.directions or self.pairs
        back = replace(self, weight=-self.weight, directions=tuple((bars[p], bars[q]) for q, p in own))
        turned = Map(tuple((bars[q], -bars[q]) for q, _ in own))
        flows: tuple[SubFlow, ...] = (turned, back, turned)
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
        if any(v in way for v in self.reads() - {*self.writes()} for way in ways):
            return None
        moved = (tuple((way[q], way[p]) for q, p in self.pairs) for way in ways)
        return *(replace(self, directions=pairs) for pairs in moved), self


def oscillators_of(step: Step) -> tuple[Oscillator, ...] | None:
    """Those that a step turns pair by pair; None where one matrix turns them all."""
    found = next(f for f in step.flows if TURNS in f.traits)
    return found.oscillators if isinstance(found, HarmonicFlow) else None
