"""How does a run go on from event to event?  By rounds: each tries a length, and keeps what it has found in a few numbers.

A round is a map of the user's states and of what the search remembers. Its expressions are decided when it is made; what it
does to directions, and what bounces take of the energy, are further assignments of the same kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from tinyphysics.flows.map import Assignments, Map
from tinyphysics.ir import UOp
from tinyphysics.report import Row
from tinyphysics.step import MEETS, NO_ENERGY, SubFlow
from tinyphysics.tpir.program.lower import ProgramBuilder

# for each direction of the states, how a round moves it
Along = Callable[[Mapping[UOp, UOp]], Assignments]


@dataclass(frozen=True, eq=False)
class Rounds(SubFlow):
    """New values of states and of what the search remembers, all at once."""

    values: Assignments
    taken: UOp | None  # the energy that a bounce takes in this round; None: there is no energy
    along: Along | None  # None: its derivative is not known
    told: tuple[Row, ...] = ()
    traits: frozenset[str] = frozenset({MEETS, NO_ENERGY})
    books = "bounces"

    def writes(self) -> tuple[UOp, ...]:
        return tuple(state for state, _ in self.values)

    def reads(self) -> frozenset[UOp]:
        return frozenset(v for _, u in self.values for v in u.leaves)

    def works(self) -> tuple[UOp, ...]:
        return () if self.taken is None else (self.taken,)

    def followed(self, p_t: UOp, new: Mapping[UOp, UOp]) -> Rounds:
        if self.taken is None:
            return self
        return replace(self, values=(*self.values, (p_t, p_t + new[self.taken])))

    def lower(self, b: ProgramBuilder, section: str) -> None:
        Map(self.values).lower(b, section)

    def tangent(self, ways: Sequence[Mapping[UOp, UOp]]) -> tuple[SubFlow, ...] | None:
        if self.along is None:
            return None
        moved = tuple(pair for way in ways for pair in self.along(way))
        return (replace(self, values=(*self.values, *moved)),)

    @property
    def without_adjoint(self) -> str:
        return "walls and events have derivatives along directions: tp.jvp, tp.jacobian"

    def rows(self, alike: int, tried: bool = False) -> list[Row]:
        return list(self.told)
