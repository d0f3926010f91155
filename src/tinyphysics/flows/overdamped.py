"""How do positions move by Brownian motion?  By a force and noise, without momenta; all of the energy's change is heat."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tinyphysics.flows.baths import booked
from tinyphysics.flows.map import Map
from tinyphysics.ir import UOp
from tinyphysics.report import Row
from tinyphysics.rules.formulas.overdamped import BROWNIAN, diffused
from tinyphysics.rules.functions.random import draw
from tinyphysics.step import DRAWS, DT, SubFlow
from tinyphysics.tpir.program.isa import Register
from tinyphysics.tpir.program.lower import ProgramBuilder
from tinyphysics.util import one_of


@dataclass(frozen=True, eq=False)
class Diffusing:
    """A position with its momentum, which holds its noise, the force on it, its rate, 1/m, and its stream."""

    q: UOp
    p: UOp
    force: UOp
    rate: UOp
    inverse: UOp
    stream: int


@dataclass(frozen=True, eq=False)
class BrownianFlow(SubFlow):
    """A step of rules/formulas/overdamped.py, of all positions at once."""

    pairs: tuple[Diffusing, ...]
    kT: UOp
    energy: UOp
    clock: float = 0.0  # of what depends on t: the rates and the temperature
    ledger: UOp | None = None
    given: UOp | None = None
    traits = frozenset({DRAWS})
    books = "heat"

    def writes(self) -> tuple[UOp, ...]:
        return tuple(s for x in self.pairs for s in (x.q, x.p))

    def reads(self) -> frozenset[UOp]:
        return frozenset(v for u in self.values().values() for v in u.leaves)

    def expressions(self) -> tuple[UOp, ...]:
        return tuple(x.force for x in self.pairs)

    def rebuilt(self, new: Mapping[UOp, UOp]) -> BrownianFlow:
        return replace(self, pairs=tuple(replace(x, force=new[x.force]) for x in self.pairs))

    def values(self) -> dict[UOp, UOp]:
        out = {}
        for x in self.pairs:
            noise = draw("normal", x.stream, x.p.shape)
            out[x.q], out[x.p] = diffused(x.q, x.p, x.force, self.kT, x.inverse, x.rate, noise, DT)
        return out

    def works(self) -> tuple[UOp, ...]:
        """The energy, which is booked before the step and taken back after it: lists of neighbours are of one place."""
        return (self.energy,)

    def followed(self, p_t: UOp, new: Mapping[UOp, UOp]) -> BrownianFlow:
        return replace(self, ledger=p_t, given=new[self.energy])

    def rows(self, alike: int, tried: bool = False) -> list[Row]:
        rates = one_of(list(dict.fromkeys(str(x.rate) for x in self.pairs)), "and")
        return [
            Row("bath", BROWNIAN, f"k_B T = {self.kT}; momenta are forgotten at once, at the rate {rates}"),
            Row(
                "degrees of freedom", str(sum(x.p.size for x in self.pairs)), "g, all numbers of the momenta"
            ),
        ]

    def weights(self) -> Iterator[float]:
        if self.clock:
            yield self.clock

    def tangent(self, ways: Sequence[Mapping[UOp, UOp]]) -> tuple[SubFlow, ...] | None:
        return Map(tuple(self.values().items()), clock=self.clock).tangent(ways)[0], self

    def adjoint(self, bars: Mapping[UOp, UOp], sums: Mapping[UOp, UOp]) -> tuple[SubFlow, ...] | None:
        return Map(tuple(self.values().items()), clock=self.clock).adjoint(bars, sums)

    def lower(self, b: ProgramBuilder, section: str) -> None:
        booked(b, section, self.ledger, self.given)
        values = {s: b.at(u, self.clock) for s, u in self.values().items()}
        told = {}
        for x in self.pairs:
            told[x.q] = told[x.p] = tuple(
                b.operand(b.at(u, self.clock), section) for u in (self.kT, x.inverse, x.rate, x.force)
            )
        lines = [(s, b.operand(values[s], section), told[s]) for s in self.writes()]
        for s, value, args in lines:
            assert isinstance(value, Register) and value.kind != "S"
            b.emit(section, "DIFFUSE", b.state(s), value, *args, u=s, note="bath")
            b.rewritten(s)
        booked(b, section, self.ledger, None if self.given is None else -self.given)
