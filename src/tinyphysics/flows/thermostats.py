"""How does a bath change all momenta together?  By one factor; what it keeps beside them are states of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tinyphysics.flows.baths import booked
from tinyphysics.flows.map import Map
from tinyphysics.ir import UOp, substitute
from tinyphysics.report import Row
from tinyphysics.rules.formulas.thermostats import (
    NOSE_HOOVER,
    NOSE_POINCARE,
    TRIGGER,
    Thermostat,
    draws_together,
    energy_of_chain,
    pieces,
    together,
)
from tinyphysics.rules.functions.random import draw
from tinyphysics.step import DRAWS, DT, SubFlow
from tinyphysics.tpir.program.isa import Register, Word
from tinyphysics.tpir.program.lower import ProgramBuilder


@dataclass(frozen=True, eq=False)
class ThermostatFlow(SubFlow):
    """What rules/formulas/thermostats.py makes of all momenta in weight * dt."""

    way: str
    bath: Thermostat
    weight: float
    stream: int
    energy: UOp  # the kinetic energy
    clock: float = 0.0
    ledger: UOp | None = None
    given: UOp | None = None
    books = "heat"

    @property
    def traits(self) -> frozenset[str]:
        return frozenset({DRAWS} if draws_together(self.way, self.bath) else ())

    def writes(self) -> tuple[UOp, ...]:
        return (*self.bath.momenta, *self.bath.hidden)

    def reads(self) -> frozenset[UOp]:
        return frozenset(v for u in self.values().values() for v in u.leaves)

    def values(self) -> dict[UOp, UOp]:
        kinds = draws_together(self.way, self.bath)
        own = [draw(kind, self.stream + k, shape) for k, (kind, shape) in enumerate(kinds)]
        found = together(self.way, self.bath, self.weight, own, DT)
        assert found is not None, "a bath draws what its formula takes"
        return found

    def works(self) -> tuple[UOp, ...]:
        """Heat that goes: of a chain what its own energy gains, so that H and it are what is conserved."""
        if self.way == NOSE_POINCARE:
            return ()  # kicks and drifts move its energy too: it is booked around them
        energy = self.energy
        if self.way == NOSE_HOOVER:
            energy = -energy_of_chain(self.bath)
        (after,) = substitute([energy], self.values())
        return (energy - after,)

    def followed(self, p_t: UOp, new: Mapping[UOp, UOp]) -> ThermostatFlow:
        return self if not self.works() else replace(self, ledger=p_t, given=new[self.works()[0]])

    def weights(self) -> Iterator[float]:
        yield self.weight
        if self.clock:
            yield self.clock
        if self.way == NOSE_HOOVER:
            yield from {float(w): w for w in (self.weight * w for _, _, w in pieces(2))}.values()

    def rows(self, alike: int, tried: bool = False) -> list[Row]:
        g, axes = int(self.bath.g), self.bath.axes
        held = sum(p.size for p in self.bath.momenta) - g - len(axes)
        kept = "all numbers of the momenta" + (f" less {held} that are held" if held else "")
        if axes:
            kept += f"{' and' if held else ''} less {len(axes)}: forces and the bath keep the momentum of the whole"
        kept += "; it acts above the temperature alone: not canonical" if self.way == TRIGGER else ""
        chain = f"; a chain of {self.bath.hidden[0].size}" if self.way == NOSE_HOOVER else ""
        chain += "; s = e^eta begins where H and its energy are zero" if self.way == NOSE_POINCARE else ""
        return [
            Row("bath", self.way, f"k_B T = {self.bath.kT}, tau = {self.bath.tau}{chain}"),
            Row("degrees of freedom", str(g), f"g, {kept}"),
        ]

    def tangent(self, ways: Sequence[Mapping[UOp, UOp]]) -> tuple[SubFlow, ...] | None:
        if self.without_adjoint:
            return None
        return Map(tuple(self.values().items()), clock=self.clock).tangent(ways)[0], self

    @property
    def without_adjoint(self) -> str:
        return {
            TRIGGER: "whether it acts in a step has no derivative",
            NOSE_POINCARE: "its `eta` begins with the energy of the first state, whose derivative is not "
            "followed; bath=tp.nose_hoover() has one",
        }.get(self.way, "")

    def adjoint(self, bars: Mapping[UOp, UOp], sums: Mapping[UOp, UOp]) -> tuple[SubFlow, ...] | None:
        if self.without_adjoint:
            return None
        return Map(tuple(self.values().items()), clock=self.clock).adjoint(bars, sums)

    def lower(self, b: ProgramBuilder, section: str) -> None:
        booked(b, section, self.ledger, self.given, self.clock)
        x = self.bath
        values = {s: b.operand(b.at(u, self.clock), section) for s, u in self.values().items()}
        kT, tau = (b.operand(b.at(u, self.clock), section) for u in (x.kT, x.tau))
        lines = []
        for s, w in zip(self.writes(), (*x.inverse, *[UOp.const(1.0)] * len(x.hidden))):
            value = values[s]
            assert isinstance(value, Register) and value.kind != "S"
            told = (Word(self.way), float(self.weight), kT, tau, b.operand(w, section), x.g, x.axes)
            lines.append((s, value, told))
        for s, value, told in lines:
            b.emit(section, "THERMO", b.state(s), value, *told, u=s, note="bath")
            b.rewritten(s)
