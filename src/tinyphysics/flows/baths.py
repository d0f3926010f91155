"""How does a bath change momenta?  Each by itself, so that Maxwell's law stays as it is; the heat is booked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tinyphysics.flows.map import Map
from tinyphysics.ir import UOp, substitute
from tinyphysics.report import Row
from tinyphysics.rules.formulas.baths import LANGEVIN, draws_of, in_bath
from tinyphysics.rules.functions.random import draw
from tinyphysics.step import DRAWS, DT, SubFlow
from tinyphysics.structure import FORCE
from tinyphysics.tpir.program.isa import Word
from tinyphysics.tpir.program.lower import ProgramBuilder
from tinyphysics.util import one_of


@dataclass(frozen=True, eq=False)
class Coupled:
    """A momentum in a bath: the rate at which it forgets, 1/m of each of its numbers, and the stream of its noise."""

    p: UOp
    rate: UOp
    inverse: UOp
    stream: int


@dataclass(frozen=True, eq=False)
class BathFlow(SubFlow):
    """What a bath makes of each momentum in weight * dt: rules/formulas/baths.py has the formula of its word."""

    way: str
    momenta: tuple[Coupled, ...]
    kT: UOp
    weight: float
    energy: UOp  # the kinetic energy, whose change is the heat
    clock: float = 0.0
    ledger: UOp | None = None  # the state that it is booked in
    given: UOp | None = None  # the energy that goes, as it is computed where it is booked
    held: int = 0  # numbers that constraints hold
    traits = frozenset({DRAWS})
    books = "heat"

    def writes(self) -> tuple[UOp, ...]:
        return tuple(m.p for m in self.momenta)

    def reads(self) -> frozenset[UOp]:
        return frozenset(v for u in self.values().values() for v in u.leaves)

    def values(self) -> dict[UOp, UOp]:
        return {m.p: self.value(m) for m in self.momenta}

    def value(self, m: Coupled) -> UOp:
        own = [
            draw(kind, m.stream + k, shape) for k, (kind, shape) in enumerate(draws_of(self.way, m.p.shape))
        ]
        found = in_bath(self.way, m.p, m.rate, self.weight, self.kT, m.inverse, own, DT)
        assert found is not None, "a bath draws what its formula takes"
        return found

    def works(self) -> tuple[UOp, ...]:
        if not self.energy.leaves:
            return ()  # it is booked beside it
        (after,) = substitute([self.energy], self.values())
        return (self.energy - after,)

    def followed(self, p_t: UOp, new: Mapping[UOp, UOp]) -> BathFlow:
        return self if not self.works() else replace(self, ledger=p_t, given=new[self.works()[0]])

    def weights(self) -> Iterator[float]:
        yield self.weight
        if self.clock:
            yield self.clock

    def rows(self, alike: int, tried: bool = False) -> list[Row]:
        g = sum(m.p.size for m in self.momenta) - self.held
        less = f" less {self.held} that are held" if self.held else ""
        rates = one_of(list(dict.fromkeys(str(m.rate) for m in self.momenta)), "and")
        return [
            Row("bath", self.way, f"k_B T = {self.kT}; momenta forget at the rate {rates}"),
            Row(
                "degrees of freedom",
                str(g),
                f"g, all numbers of the momenta{less}: the bath heats the motion of the whole too",
            ),
        ]

    def tangent(self, ways: Sequence[Mapping[UOp, UOp]]) -> tuple[SubFlow, ...] | None:
        """Directions see the same noise: what is left of them is the factor. Whether a body collides has no derivative."""
        return None if self.way != LANGEVIN else self.moved(ways)

    def moved(self, ways: Sequence[Mapping[UOp, UOp]]) -> tuple[SubFlow, ...]:
        return Map(tuple(self.values().items()), clock=self.clock).tangent(ways)[0], self

    def adjoint(self, bars: Mapping[UOp, UOp], sums: Mapping[UOp, UOp]) -> tuple[SubFlow, ...] | None:
        return (
            None
            if self.way != LANGEVIN
            else Map(tuple(self.values().items()), clock=self.clock).adjoint(bars, sums)
        )

    @property
    def without_adjoint(self) -> str:
        return "" if self.way == LANGEVIN else "whether a body collides in a step has no derivative"

    def lower(self, b: ProgramBuilder, section: str) -> None:
        booked(b, section, self.ledger, self.given, self.clock)
        values = {p: b.at(u, self.clock) for p, u in self.values().items()}
        kT = b.at(self.kT, self.clock)
        lines = []
        for m in self.momenta:
            value, *given = (
                b.operand(u, section) for u in (values[m.p], kT, m.inverse, b.at(m.rate, self.clock))
            )
            lines.append((m.p, (value, Word(self.way), float(self.weight), *given)))
        for p, args in lines:
            b.emit(section, "BATH", b.state(p), *args, u=p, note="bath")
            b.rewritten(p)


@dataclass(frozen=True, eq=False)
class Booked(SubFlow):
    """Moves nothing: sign times an energy is booked as heat, where a bath begins and where it has ended."""

    energy: UOp
    sign: float
    ledger: UOp | None = None
    given: UOp | None = None
    traits: frozenset[str] = frozenset()
    books = "heat"

    def writes(self) -> tuple[UOp, ...]:
        return ()

    def reads(self) -> frozenset[UOp]:
        return frozenset()

    def works(self) -> tuple[UOp, ...]:
        return (self.sign * self.energy,)

    def followed(self, p_t: UOp, new: Mapping[UOp, UOp]) -> Booked:
        return replace(self, ledger=p_t, given=new[self.works()[0]])

    def tangent(self, ways: Sequence[Mapping[UOp, UOp]]) -> tuple[SubFlow, ...]:
        return (self,)

    def adjoint(self, bars: Mapping[UOp, UOp], sums: Mapping[UOp, UOp]) -> tuple[SubFlow, ...]:
        return ()

    def lower(self, b: ProgramBuilder, section: str) -> None:
        booked(b, section, self.ledger, self.given)


def along(bath: SubFlow, off: Callable[[], SubFlow], kinetic: UOp, held: int) -> list[SubFlow]:
    """A bath of momenta along constraints, where `off` takes what leads off them and `held` numbers are held.

    What a bath with noise of its own for each momentum gives is the kinetic energy after it, less that before. One factor
    for all momenta leads off no constraint.
    """
    if not isinstance(bath, BathFlow):
        return [off(), bath]
    own = replace(bath, energy=UOp.const(0.0), held=held)
    return [off(), Booked(kinetic, 1.0), own, off(), Booked(kinetic, -1.0)]


def booked(
    b: ProgramBuilder, section: str, ledger: UOp | None, given: UOp | None, clock: float = 0.0
) -> None:
    """The energy that goes, added to what the run keeps the books in."""
    if ledger is None or given is None:
        return
    flow = b.versioned("F", b.state(ledger).index)
    b.emit(section, "POISSON_J", flow, b.operand(b.at(given, clock), section), Word(FORCE), u=ledger)
    b.emit(section, "SYMP_STEP", b.state(ledger), flow, 1.0, u=ledger)
    b.rewritten(ledger)
