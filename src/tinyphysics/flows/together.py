"""How are several sub-flows done in one pass?  All that they move by is evaluated before the first of them is applied."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tinyphysics.ir import UOp
from tinyphysics.step import SubFlow
from tinyphysics.tpir.program.lower import ProgramBuilder


@dataclass(frozen=True, eq=False)
class Together(SubFlow):
    """Sub-flows none of which writes what another reads: all is evaluated first, in one pass over the states."""

    flows: tuple[SubFlow, ...]

    @property
    def traits(self) -> frozenset[str]:
        return frozenset(trait for f in self.flows for trait in f.traits)

    def writes(self) -> tuple[UOp, ...]:
        return tuple(x for f in self.flows for x in f.writes())

    def expressions(self) -> tuple[UOp, ...]:
        return tuple(u for f in self.flows for u in f.expressions())

    def rebuilt(self, new: Mapping[UOp, UOp]) -> Together:
        return Together(tuple(f.rebuilt(new) for f in self.flows))

    def weights(self) -> Iterator[float]:
        for f in self.flows:
            yield from f.weights()

    def lower(self, b: ProgramBuilder, section: str) -> None:
        for f in self.flows:
            for u in f.expressions():
                b.operand(b.at(u, f.clock), section)
        for f in self.flows:
            f.lower(b, section)
