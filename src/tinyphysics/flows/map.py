"""How do states get new values at once?  All values are computed before the first is put in its place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tinyphysics.flows.cotangents import Cotangents, Total, is_zero
from tinyphysics.ir import UOp
from tinyphysics.rules.calculus.jvp import jvp
from tinyphysics.rules.calculus.vjp import vjp
from tinyphysics.rules.identities.real import simplify
from tinyphysics.step import AS_WRITTEN, SubFlow
from tinyphysics.tpir.program.isa import Register, Word
from tinyphysics.tpir.program.lower import ProgramBuilder

Shorter = Callable[[Sequence[UOp]], list[UOp]]
Assignments = tuple[tuple[UOp, UOp], ...]  # (state, value)


@dataclass(frozen=True, eq=False)
class Map(SubFlow):
    """state := value, for all of them: an explicit map."""

    values: Assignments
    as_written: bool = False  # did a user write it, to be run?
    op: str = "MAP"  # or TURN, where it ends a turn that was solved for
    declares_dt: bool = False  # does it hold the step?
    clock: float = 0.0

    @property
    def traits(self) -> frozenset[str]:
        return frozenset({AS_WRITTEN} if self.as_written else ())

    def writes(self) -> tuple[UOp, ...]:
        return tuple(state for state, _ in self.values)

    def expressions(self) -> tuple[UOp, ...]:
        return tuple(value for _, value in self.values)

    def rebuilt(self, new: Mapping[UOp, UOp]) -> Map:
        return replace(self, values=tuple((state, new[value]) for state, value in self.values))

    def weights(self) -> Iterator[float]:
        yield self.clock

    def along(self, way: Mapping[UOp, UOp], shorter: Shorter = simplify) -> Map:
        """How it moves a direction of the states."""
        states, values = zip(*self.values)
        slopes = shorter(jvp(values, list(way), list(way.values())))
        return Map(tuple(zip((way[x] for x in states), slopes)), clock=self.clock)

    def tangent(self, ways: Sequence[Mapping[UOp, UOp]], shorter: Shorter = simplify) -> tuple[SubFlow, ...]:
        if not self.values:
            return (self,)
        return Map(tuple(v for way in ways for v in self.along(way, shorter).values), clock=self.clock), self

    def adjoint(
        self, bars: Mapping[UOp, UOp], sums: Mapping[UOp, UOp], shorter: Shorter = simplify
    ) -> tuple[SubFlow, ...]:
        """Gradients of parameters first, which read the cotangents as they were; then these."""
        if not self.values:
            return ()
        states, values = zip(*self.values)
        found = shorter(vjp(values, [bars[x] for x in states], [*bars, *sums]))
        slopes = dict(zip((*bars, *sums), found))
        written = set(states)
        totals = tuple(Total(sums[v], slopes[v]) for v in sums if not is_zero(slopes[v]))
        moved = tuple(
            (bar, slopes[x] if x in written else bar + slopes[x])
            for x, bar in bars.items()
            if x in written or not is_zero(slopes[x])
        )
        first = (Cotangents((), totals, self.clock),) if totals else ()
        return *first, Map(moved, declares_dt=self.declares_dt, clock=self.clock)

    def added(self) -> Iterator[tuple[UOp, UOp]]:
        """Of cotangents that have new values."""
        yield from ((bar, value - bar) for bar, value in self.values)

    def joined(self, other: SubFlow) -> Map:
        """Both, with all values computed before the first is put in its place."""
        assert isinstance(other, Map)
        return replace(other, values=(*self.values, *other.values))

    def lower(self, b: ProgramBuilder, section: str) -> None:
        values = [b.operand(b.at(value, self.clock), section) for _, value in self.values]
        for k, ((state, _), value) in enumerate(zip(self.values, values)):
            if isinstance(value, Register) and value.kind == "S":  # its old value, whatever is assigned first
                values[k] = copy = b.temporary()
                b.emit(section, "MOVE", copy, Word("reshape"), value, u=state)
        for (state, _), value in zip(self.values, values):
            b.emit(section, self.op, b.state(state), value, u=state)
            b.rewritten(state)
