"""How do states get new values at once?  All values are computed before the first is put in its place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tinyphysics.ir import UOp
from tinyphysics.step import AS_WRITTEN, SubFlow
from tinyphysics.tpir.program.isa import Register, Word
from tinyphysics.tpir.program.lower import ProgramBuilder

Assignments = tuple[tuple[UOp, UOp], ...]  # (state, value)


@dataclass(frozen=True, eq=False)
class Map(SubFlow):
    """state := value, for all of them: an explicit map."""

    values: Assignments
    as_written: bool = False  # did a user write it, to be run?
    declares_dt = False

    @property
    def traits(self) -> frozenset[str]:
        return frozenset({AS_WRITTEN} if self.as_written else ())

    def writes(self) -> tuple[UOp, ...]:
        return tuple(state for state, _ in self.values)

    def expressions(self) -> tuple[UOp, ...]:
        return tuple(value for _, value in self.values)

    def rebuilt(self, new: Mapping[UOp, UOp]) -> Map:
        return replace(self, values=tuple((state, new[value]) for state, value in self.values))

    def lower(self, b: ProgramBuilder, section: str) -> None:
        values = [b.operand(b.at(value, 0.0), section) for _, value in self.values]
        for k, ((state, _), value) in enumerate(zip(self.values, values)):
            if isinstance(value, Register) and value.kind == "S":  # its old value, whatever is assigned first
                values[k] = copy = b.temporary()
                b.emit(section, "MOVE", copy, Word("reshape"), value, u=state)
        for (state, _), value in zip(self.values, values):
            b.emit(section, "MAP", b.state(state), value, u=state)
            b.rewritten(state)
