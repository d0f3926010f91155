"""How is a step tried whose length is its own choice?  A map of all that a run remembers, until its time is reached."""

from __future__ import annotations

from dataclasses import dataclass

from tinyphysics.ir import UOp
from tinyphysics.report import Row
from tinyphysics.step import OWN_STEPS, SubFlow
from tinyphysics.tpir.program.isa import GOING, Pointer
from tinyphysics.tpir.program.lower import ProgramBuilder


@dataclass(frozen=True, eq=False)
class Attempt(SubFlow):
    """Where `going` does not hold a member changes nothing, and a loop may end.

    A step with one is lowered as it is: it says itself what is fused, and what is lost.
    """

    going: UOp
    moves: SubFlow  # a map, or what is solved for

    @property
    def traits(self) -> frozenset[str]:
        return self.moves.traits | {OWN_STEPS}

    @property
    def declares_dt(self) -> bool:
        return self.moves.declares_dt

    def writes(self) -> tuple[UOp, ...]:
        return self.moves.writes()

    def reads(self) -> frozenset[UOp]:
        return self.moves.reads() | self.going.leaves

    def expressions(self) -> tuple[UOp, ...]:
        return self.moves.expressions()

    def lower(self, b: ProgramBuilder, section: str) -> None:
        b.emit(section, "OBSERVE", Pointer(GOING), b.operand(self.going, section), u=self.going, note=" ")
        self.moves.lower(b, section)

    def updates(self) -> int:
        return self.moves.updates()

    def rows(self, alike: int, tried: bool = False) -> list[Row]:
        return self.moves.rows(alike, tried=True)
