"""How do momenta decay?  Each at its own rate, exactly: p becomes exp(-rate*h) p, and the energy that goes is booked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tinyphysics.flows.map import Map
from tinyphysics.ir import Ops, UOp, substitute
from tinyphysics.step import DT, SubFlow
from tinyphysics.structure import FORCE
from tinyphysics.tpir.program.isa import Word
from tinyphysics.tpir.program.lower import ProgramBuilder

Rates = tuple[tuple[UOp, UOp], ...]  # (state, rate): one number, or one for each of the state's


def factor_of(rate: UOp, weight: float) -> UOp:
    """exp(-rate*h) for h = weight*dt; no state enters it."""
    h = DT if weight == 1.0 else weight * DT
    if rate.op is Ops.CONST:  # in a register: a number of the user's is no coefficient of the method
        rate = rate * UOp.const(1.0)
    return (-(rate * h.expand(rate.shape))).exp()


@dataclass(frozen=True, eq=False)
class RelaxFlow(SubFlow):
    """state := exp(-rate * weight * dt) * state, for each of them."""

    rates: Rates
    weight: float
    energy: UOp | None = None  # what is booked is how much of it goes; None: of directions, which have none
    ledger: UOp | None = None  # the state that it is booked in
    given: UOp | None = None  # the energy that goes, as it is computed where it is booked
    traits: frozenset[str] = frozenset()
    books = "friction"

    def writes(self) -> tuple[UOp, ...]:
        return tuple(state for state, _ in self.rates)

    def reads(self) -> frozenset[UOp]:
        return frozenset(self.writes()).union(*(rate.leaves for _, rate in self.rates))

    def values(self) -> dict[UOp, UOp]:
        return {p: p * factor_of(rate, self.weight).expand(p.shape) for p, rate in self.rates}

    def works(self) -> tuple[UOp, ...]:
        if self.energy is None:
            return ()
        (after,) = substitute([self.energy], self.values())
        return (self.energy - after,)

    def followed(self, p_t: UOp, new: Mapping[UOp, UOp]) -> RelaxFlow:
        return replace(self, ledger=p_t, given=new[self.works()[0]]) if self.energy is not None else self

    def weights(self) -> Iterator[float]:
        yield self.weight

    def lower(self, b: ProgramBuilder, section: str) -> None:
        if self.ledger is not None and self.given is not None:
            flow = b.versioned("F", b.state(self.ledger).index)
            b.emit(section, "POISSON_J", flow, b.operand(self.given, section), Word(FORCE), u=self.ledger)
            b.emit(section, "SYMP_STEP", b.state(self.ledger), flow, 1.0, u=self.ledger)
            b.rewritten(self.ledger)
        values = self.values()
        found = [(p, b.operand(values[p], section), b.operand(rate, section)) for p, rate in self.rates]
        for p, value, rate in found:
            b.emit(section, "RELAX", b.state(p), value, rate, u=p, note="friction")
            b.rewritten(p)

    def field(self) -> Mapping[UOp, UOp]:
        return {p: -self.weight * (rate.expand(p.shape) * p) for p, rate in self.rates}

    def inverse(self) -> RelaxFlow:
        return replace(self, weight=-self.weight)

    def tangent(self, ways: Sequence[Mapping[UOp, UOp]]) -> tuple[SubFlow, ...]:
        """Directions decay as the momenta do: no state enters a rate."""
        if any(
            v in way for _, rate in self.rates for v in rate.leaves for way in ways
        ):  # a parameter that is one
            return Map(tuple(self.values().items())).tangent(ways)[0], self
        moved = tuple((way[p], rate) for way in ways for p, rate in self.rates)
        return RelaxFlow(moved, self.weight), self

    def adjoint(self, bars: Mapping[UOp, UOp], sums: Mapping[UOp, UOp]) -> tuple[SubFlow, ...]:
        """Cotangents decay as the momenta do, where nothing is asked of the rates."""
        if DT not in sums and not any(v in bars or v in sums for _, rate in self.rates for v in rate.leaves):
            return (RelaxFlow(tuple((bars[p], rate) for p, rate in self.rates), self.weight),)
        return Map(tuple(self.values().items())).adjoint(bars, sums)
