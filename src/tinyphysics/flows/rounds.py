"""How does a run go on from event to event?  By rounds: each tries a length, and keeps what it has found in a few numbers.

A round is a map of the user's states and of what the search remembers. Its expressions are decided when it is made; what it
does to directions, and what bounces take of the energy, are further assignments of the same kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tinyphysics.flows.cotangents import Cotangents, Total
from tinyphysics.flows.map import Assignments, Map
from tinyphysics.ir import UOp
from tinyphysics.report import Row
from tinyphysics.step import MEETS, NO_ENERGY, SubFlow
from tinyphysics.system import State
from tinyphysics.tpir.program.lower import ProgramBuilder

# for a direction of the states, and the delay of events in a step, how a round moves them
Along = Callable[[Mapping[UOp, UOp], UOp], Assignments]
# for the cotangents of states and the sums of parameters: (how a round pulls the first back, what it adds to the second)
Back = Callable[[Mapping[UOp, UOp], Mapping[UOp, UOp]], tuple[Assignments, tuple[Total, ...]]]


@dataclass(frozen=True, eq=False)
class Rounds(SubFlow):
    """New values of states and of what the search remembers, all at once."""

    values: Assignments
    taken: UOp | None  # the energy that a bounce takes in this round; None: there is no energy
    along: Along | None  # None: its derivative is not known
    back: Back | None = None  # the same, of cotangents
    how: Callable[[], Row] | None = None  # says how sure it is that what is met is found
    # the same where nothing can happen, and nothing else
    clear: Callable[[], Assignments] | None = None
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
        moved = tuple(pair for k, way in enumerate(ways) for pair in self.along(way, self.late(k).var))
        return (replace(self, values=(*self.values, *moved), along=None, back=None),)

    def beside(self, ways: int) -> tuple[State, ...]:
        return tuple(map(self.late, range(ways)))

    def late(self, k: int) -> State:
        """By how much the events of a step come later along a direction."""
        name = f"run.search late {k}"
        return State(name, UOp.var(name), "auxiliary")

    def adjoint(self, bars: Mapping[UOp, UOp], sums: Mapping[UOp, UOp]) -> tuple[SubFlow, ...] | None:
        if self.back is None:
            return None
        return (PulledRound(*self.back(bars, sums)),)

    @property
    def without_adjoint(self) -> str:
        return "steps that move directions and are cut at walls or events have none yet"

    def rows(self, alike: int, tried: bool = False) -> list[Row]:
        return [] if self.how is None else [self.how()]


@dataclass(frozen=True, eq=False)
class PlainRounds(SubFlow):
    """Whole steps where a round would find nothing, by its own expressions."""

    values: Assignments
    traits = frozenset({MEETS, NO_ENERGY})

    def writes(self) -> tuple[UOp, ...]:
        return tuple(state for state, _ in self.values)

    def reads(self) -> frozenset[UOp]:
        return frozenset(v for _, u in self.values for v in u.leaves)

    def lower(self, b: ProgramBuilder, section: str) -> None:
        Map(self.values).lower(b, section)


@dataclass(frozen=True, eq=False)
class PulledRound(SubFlow):
    """Cotangents on their way back through a round: by its own expressions, so that it decides as the round did."""

    values: Assignments
    totals: tuple[Total, ...]
    traits = frozenset()

    def writes(self) -> tuple[UOp, ...]:
        return (*Cotangents((), self.totals).writes(), *(bar for bar, _ in self.values))

    def reads(self) -> frozenset[UOp]:
        return frozenset(
            v for u in (*(u for _, u in self.values), *(t.value for t in self.totals)) for v in u.leaves
        )

    def added(self) -> Iterator[tuple[UOp, UOp]]:
        yield from ((bar, value - bar) for bar, value in self.values)
        yield from ((t.total, t.value) for t in self.totals)

    def lower(self, b: ProgramBuilder, section: str) -> None:
        Cotangents((), self.totals).lower(b, section)
        Map(self.values).lower(b, section)


def clear_of(flow: SubFlow) -> PlainRounds:
    """What rounds do where they would find nothing; nothing, where there is no such step."""
    assert isinstance(flow, Rounds)
    return PlainRounds(() if flow.clear is None else flow.clear())
