"""How do bodies turn?  About one of their axes, exactly: how fast depends on what stays the same meanwhile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tinyphysics.flows.map import Map
from tinyphysics.flows.shears import Shear
from tinyphysics.ir import UOp
from tinyphysics.ir.vectors import from_columns
from tinyphysics.rules.calculus.jvp import jvp
from tinyphysics.rules.formulas.turns import turned
from tinyphysics.rules.identities.real import simplify
from tinyphysics.step import DT, SubFlow
from tinyphysics.tpir.program.lower import ProgramBuilder
from tinyphysics.turning import Turning

TURN = "turns bodies"


@dataclass(frozen=True, eq=False)
class Body:
    """What turns together: the kind of body, its momentum, what it carries, and how fast it turns."""

    kind: Turning
    momentum: UOp
    carried: UOp | None
    speed: UOp


@dataclass(frozen=True, eq=False)
class UnitFlow(SubFlow):
    """Unit quaternions are brought back to length 1, as far as rounding has taken them from it: R (3 - |R|²)/2."""

    attitudes: tuple[UOp, ...]
    traits = frozenset({TURN})

    def writes(self) -> tuple[UOp, ...]:
        return self.attitudes

    def reads(self) -> frozenset[UOp]:
        return frozenset(self.attitudes)

    def values(self) -> tuple[tuple[UOp, UOp], ...]:
        """What the states become."""
        squares = [(R * R).sum(-1, keepdims=True) for R in self.attitudes]
        return tuple((R, R * (s * -0.5 + 1.5).expand(R.shape)) for R, s in zip(self.attitudes, squares))

    def lower(self, b: ProgramBuilder, section: str) -> None:
        for R, value in self.values():
            b.emit(section, "TURN", b.state(R), b.operand(value, section), u=R, note=" ")
            b.rewritten(R)

    def field(self) -> Mapping[UOp, UOp]:
        return {R: UOp.const(0.0, R.dtype, R.shape) for R in self.attitudes}

    def inverse(self) -> UnitFlow:
        return self

    def tangent(self, ways: Sequence[Mapping[UOp, UOp]]) -> tuple[SubFlow, ...]:
        """What is along an attitude goes, and the rest stays."""
        return Map(self.values()).tangent(ways)[0], self

    def adjoint(self, bars: Mapping[UOp, UOp], sums: Mapping[UOp, UOp]) -> tuple[SubFlow, ...]:
        return Map(self.values()).adjoint(bars, sums)

    def updates(self) -> int:
        return len(self.attitudes)


@dataclass(frozen=True, eq=False)
class TurnFlow(SubFlow):
    """Bodies turn about their axis number `axis`, for weight * dt; `work` is what that does to p_t."""

    weight: float
    axis: int
    bodies: tuple[Body, ...]
    clock: float = 0.0
    work: tuple[Shear, ...] = ()
    booked: tuple[Shear, ...] = ()  # the same, where p_t is a state
    traits = frozenset({TURN})

    def writes(self) -> tuple[UOp, ...]:
        return tuple(u for b in self.bodies for u in (b.momentum, b.carried) if u is not None)

    def expressions(self) -> tuple[UOp, ...]:
        return tuple(b.speed for b in self.bodies)

    def rebuilt(self, new: Mapping[UOp, UOp]) -> TurnFlow:
        return replace(self, bodies=tuple(replace(b, speed=new[b.speed]) for b in self.bodies))

    def reads(self) -> frozenset[UOp]:
        return frozenset(self.writes()).union(*(b.speed.leaves for b in self.bodies))

    def works(self) -> tuple[UOp, ...]:
        return tuple(s.covector for s in self.work)

    def followed(self, p_t: UOp, new: Mapping[UOp, UOp]) -> TurnFlow:
        return replace(self, booked=tuple(replace(s, state=p_t, covector=new[s.covector]) for s in self.work))

    def weights(self) -> Iterator[float]:
        yield self.clock
        yield from (self.weight, *(s.weight for s in self.work))

    def values(self) -> dict[UOp, UOp]:
        """What the states become."""
        out: dict[UOp, UOp] = {}
        for b in self.bodies:
            share = self.weight / 2 if b.kind.half else self.weight
            h = DT if share == 1.0 else share * DT
            angle = b.speed * h.expand(b.speed.shape)
            out |= turned(b.kind, b.momentum, b.carried, self.axis, angle)
        return out

    def lower(self, b: ProgramBuilder, section: str) -> None:
        for shear in self.booked:  # by what the turn leaves as it is
            shear.apply(b, shear.lower(b, self.clock, section), section)
            b.rewritten(shear.state)
        values = {s: b.at(u, self.clock) for s, u in self.values().items()}
        for state, register in [(s, b.operand(u, section)) for s, u in values.items()]:
            b.emit(section, "TURN", b.state(state), register, u=state, note=" ")
            b.rewritten(state)

    def field(self) -> Mapping[UOp, UOp]:
        out: dict[UOp, UOp] = {}
        for b in self.bodies:
            weight = UOp.const(self.weight).expand(b.speed.shape)
            zero = UOp.const(0.0, b.speed.dtype, b.speed.shape)
            slope = from_columns([weight * b.speed if k == self.axis else zero for k in range(3)])
            out |= b.kind.rates({b.momentum: slope})
        return out

    def inverse(self) -> TurnFlow:
        work = tuple(replace(s, weight=-s.weight) for s in self.work)
        return replace(self, weight=-self.weight, work=work)

    def tangent(self, ways: Sequence[Mapping[UOp, UOp]]) -> tuple[SubFlow, ...]:
        """Directions by the derivative of the turn, where the states are before it; then the states."""
        new, moved = self.values(), []
        for way in ways:
            slopes = simplify(jvp(list(new.values()), list(way), list(way.values())))
            moved += list(zip((way[s] for s in new), slopes))
        return Map(tuple(moved), clock=self.clock), self

    def adjoint(self, bars: Mapping[UOp, UOp], sums: Mapping[UOp, UOp]) -> tuple[SubFlow, ...]:
        return Map(tuple(self.values().items()), clock=self.clock).adjoint(bars, sums)

    def updates(self) -> int:
        return 3 * len(self.writes())
