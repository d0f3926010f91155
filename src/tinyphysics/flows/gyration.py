"""How does a momentum turn in a magnetic field?  About it, by an angle that the field and the turning itself leave alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tinyphysics.charged import across
from tinyphysics.flows.map import Map
from tinyphysics.ir import UOp
from tinyphysics.rules.calculus.jvp import jvp
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.rules.formulas.gyration import gyrated
from tinyphysics.rules.identities.invariant import fixed_first
from tinyphysics.rules.identities.real import simplify
from tinyphysics.step import DT, SubFlow
from tinyphysics.tpir.program.isa import Word
from tinyphysics.tpir.program.lower import ProgramBuilder


def once(t: UOp, moves: Callable[[UOp], bool]) -> UOp:
    """Half the angle of one charge with its charge, mass and dt multiplied together before the loop."""
    if t.ndim > 1:
        return t
    values = fixed_first(unroll([t])[0], moves)
    return UOp.stack(values) if t.shape else values[0]


@dataclass(frozen=True, eq=False)
class GyrationFlow(SubFlow):
    """momentum := the momentum turned about `axis`, for weight * dt; `axis` is half of the angle that one dt turns it by."""

    weight: float
    momentum: UOp
    axis: UOp  # half of charge*B over the mass, for each row
    way: str = "cayley"
    clock: float = 0.0
    traits: frozenset[str] = frozenset()

    def writes(self) -> tuple[UOp, ...]:
        return (self.momentum,)

    def expressions(self) -> tuple[UOp, ...]:
        return (self.axis,)

    def rebuilt(self, new: Mapping[UOp, UOp]) -> GyrationFlow:
        return replace(self, axis=new[self.axis])

    def reads(self) -> frozenset[UOp]:
        return frozenset({self.momentum}) | self.axis.leaves

    def weights(self) -> Iterator[float]:
        yield self.clock
        yield self.weight

    def turned_by(self) -> UOp:
        h = DT if self.weight == 1.0 else self.weight * DT
        return self.axis * h.expand(self.axis.shape)

    def lower(self, b: ProgramBuilder, section: str) -> None:
        t = once(b.at(self.turned_by(), self.clock), b.moves)
        value = gyrated(self.momentum, t, self.way)
        new, about = b.operand(value, section), b.operand(t, section)
        b.emit(
            section, "GYRATE", b.state(self.momentum), new, Word(self.way), about, u=self.momentum, note=" "
        )
        b.rewritten(self.momentum)

    def field(self) -> Mapping[UOp, UOp]:
        return {
            self.momentum: across(
                self.momentum, self.axis * UOp.const(2 * self.weight).expand(self.axis.shape)
            )
        }

    def inverse(self) -> GyrationFlow:
        return replace(self, weight=-self.weight)

    def tangent(self, ways: Sequence[Mapping[UOp, UOp]]) -> tuple[SubFlow, ...]:
        """Directions by the derivative of the turn, where the states are before it; then the states."""
        value, moved = gyrated(self.momentum, self.turned_by(), self.way), []
        for way in ways:
            (slope,) = simplify(jvp([value], list(way), list(way.values())))
            moved.append((way[self.momentum], slope))
        return Map(tuple(moved), declares_dt=True, clock=self.clock), self

    def adjoint(self, bars: Mapping[UOp, UOp], sums: Mapping[UOp, UOp]) -> tuple[SubFlow, ...]:
        value = gyrated(self.momentum, self.turned_by(), self.way)
        return Map(((self.momentum, value),), declares_dt=True, clock=self.clock).adjoint(bars, sums)

    def updates(self) -> int:
        return 3
