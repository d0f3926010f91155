"""How do states move by a term of the energy whose flow has a closed form?  All values at once, for any time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tinyphysics.flows.map import Map
from tinyphysics.ir import UOp, substitute
from tinyphysics.rules.calculus.jvp import jvp
from tinyphysics.rules.identities.real import simplify
from tinyphysics.step import DT, SubFlow
from tinyphysics.tpir.program.lower import ProgramBuilder

Values = Callable[[UOp], tuple[tuple[UOp, UOp], ...]]  # (state, what it becomes) after a time


@dataclass(frozen=True, eq=False)
class ClosedFlow(SubFlow):
    """The flow of the term number `term` of its step, for weight * dt."""

    weight: float
    term: int
    values: tuple[tuple[UOp, UOp], ...]  # for that time
    traits: frozenset[str] = frozenset()

    def writes(self) -> tuple[UOp, ...]:
        return tuple(s for s, _ in self.values)

    def expressions(self) -> tuple[UOp, ...]:
        return tuple(u for _, u in self.values)

    def rebuilt(self, new: Mapping[UOp, UOp]) -> ClosedFlow:
        return replace(self, values=tuple((s, new[u]) for s, u in self.values))

    def reads(self) -> frozenset[UOp]:
        return frozenset(self.writes()).union(*(u.leaves for _, u in self.values))

    def weights(self) -> Iterator[float]:
        yield self.weight

    def lower(self, b: ProgramBuilder, section: str) -> None:
        h = b.operand(time_of(self.weight), section)
        found = [(s, b.operand(u, section)) for s, u in self.values]
        for s, register in found:
            b.emit(section, "EXACT", b.state(s), register, h, (self.term,), u=s, note=" ")
            b.rewritten(s)

    def field(self) -> Mapping[UOp, UOp]:
        slopes = jvp([u for _, u in self.values], [DT], [UOp.const(1.0)])
        return dict(zip(self.writes(), simplify(substitute(slopes, {DT: UOp.const(0.0)}))))

    def inverse(self) -> ClosedFlow:
        back = substitute([u for _, u in self.values], {DT: -DT})
        return replace(self, weight=-self.weight, values=tuple(zip(self.writes(), back)))

    def tangent(self, ways: Sequence[Mapping[UOp, UOp]]) -> tuple[SubFlow, ...]:
        """Directions by the derivative of the flow, where the states are before it; then the states."""
        moved = []
        for way in ways:
            slopes = simplify(jvp([u for _, u in self.values], list(way), list(way.values())))
            moved += list(zip((way[s] for s in self.writes()), slopes))
        return Map(tuple(moved), declares_dt=True), self

    def adjoint(self, bars: Mapping[UOp, UOp], sums: Mapping[UOp, UOp]) -> tuple[SubFlow, ...]:
        return Map(self.values, declares_dt=True).adjoint(bars, sums)


def time_of(weight: float) -> UOp:
    return DT if weight == 1.0 else weight * DT
