"""How does a bath with a memory change momenta?  Each with some numbers beside it, by one matrix; the heat is booked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tinyphysics.flows.baths import booked
from tinyphysics.flows.map import Map
from tinyphysics.ir import UOp, substitute
from tinyphysics.report import Row
from tinyphysics.rules.formulas.memory import GLE, Rows, coefficients, remembered, unit
from tinyphysics.rules.functions.random import draw
from tinyphysics.step import DRAWS, DT, SubFlow
from tinyphysics.tpir.program.isa import Register
from tinyphysics.tpir.program.lower import ProgramBuilder


@dataclass(frozen=True, eq=False)
class Remembering:
    """A momentum with the numbers beside it, 1/m, and the first stream of its noise."""

    own: tuple[UOp, ...]
    inverse: UOp
    stream: int


@dataclass(frozen=True, eq=False)
class MemoryFlow(SubFlow):
    """What rules/formulas/memory.py makes of each momentum in weight * dt."""

    momenta: tuple[Remembering, ...]
    kT: UOp
    A: Rows
    C: Rows
    weight: float
    energy: UOp  # the kinetic energy, whose change is the heat
    clock: float = 0.0
    ledger: UOp | None = None
    given: UOp | None = None
    traits = frozenset({DRAWS})
    books = "heat"

    def writes(self) -> tuple[UOp, ...]:
        return tuple(x for m in self.momenta for x in m.own)

    def reads(self) -> frozenset[UOp]:
        return frozenset(v for u in self.values().values() for v in u.leaves)

    def values(self) -> dict[UOp, UOp]:
        out: dict[UOp, UOp] = {}
        for m in self.momenta:
            drawn = [draw("normal", m.stream + k, m.own[0].shape) for k in range(len(m.own))]
            new = remembered(m.own, self.kT, m.inverse, self.A, self.C, self.weight, drawn, DT)
            out |= dict(zip(m.own, new))
        return out

    def works(self) -> tuple[UOp, ...]:
        (after,) = substitute([self.energy], self.values())
        return (self.energy - after,)

    def followed(self, p_t: UOp, new: Mapping[UOp, UOp]) -> MemoryFlow:
        return replace(self, ledger=p_t, given=new[self.works()[0]])

    def weights(self) -> Iterator[float]:
        yield self.weight
        if self.clock:
            yield self.clock
        yield from coefficients(self.A, self.C)

    def rows(self, alike: int, tried: bool = False) -> list[Row]:
        beside = len(self.A) - 1
        other = "" if self.C == unit(len(self.A)) else "; C is not k_B T: not canonical"
        return [
            Row("bath", GLE, f"k_B T = {self.kT}; {beside} numbers beside each number of a momentum{other}"),
            Row(
                "degrees of freedom",
                str(sum(m.own[0].size for m in self.momenta)),
                "g, all numbers of the momenta",
            ),
        ]

    def tangent(self, ways: Sequence[Mapping[UOp, UOp]]) -> tuple[SubFlow, ...] | None:
        return Map(tuple(self.values().items()), clock=self.clock).tangent(ways)[0], self

    def adjoint(self, bars: Mapping[UOp, UOp], sums: Mapping[UOp, UOp]) -> tuple[SubFlow, ...] | None:
        return Map(tuple(self.values().items()), clock=self.clock).adjoint(bars, sums)

    def lower(self, b: ProgramBuilder, section: str) -> None:
        booked(b, section, self.ledger, self.given, self.clock)
        values = self.values()
        matrices = tuple(
            tuple((x.numerator, x.denominator) for row in m for x in row) for m in (self.A, self.C)
        )
        lines = []
        for m in self.momenta:
            told = tuple(b.operand(b.at(u, self.clock), section) for u in (self.kT, m.inverse))
            for x in m.own:
                value = b.operand(b.at(values[x], self.clock), section)
                assert isinstance(value, Register) and value.kind != "S"
                lines.append((x, (value, float(self.weight), *told, *matrices)))
        for x, args in lines:
            b.emit(section, "MEMORY", b.state(x), *args, u=x, note="bath")
            b.rewritten(x)
