"""How does a state move by what it does not enter?  Kicks and drifts: J times a derivative of the energy, or a force."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tinyphysics.flows.cotangents import is_zero as is_zero
from tinyphysics.flows.cotangents import pulled_back
from tinyphysics.ir import Ops, UOp
from tinyphysics.rules.calculus.jvp import jvp
from tinyphysics.rules.identities.real import simplify
from tinyphysics.step import AS_WRITTEN, DT, SHEARS, Step, SubFlow
from tinyphysics.structure import BRACKET, FORCE, acted
from tinyphysics.tpir.program.isa import Operand, Register, Word
from tinyphysics.tpir.program.lower import ProgramBuilder


def derivative(u: UOp, way: Mapping[UOp, UOp]) -> UOp | None:
    """Of u along a direction of the states; None where that is zero."""
    (found,) = simplify(jvp([u], list(way), list(way.values())))
    return None if is_zero(found) else found


@dataclass(frozen=True, eq=False)
class Shear:
    """state += weight * dt * J(covector)."""

    state: UOp
    covector: UOp
    kind: (
        str  # pass: dH/dp moves q; negate: dH/dq moves p; bracket: P(z) dH; force: no energy is known for it
    )
    weight: float
    gathers: bool = False  # is a factor that nothing moves multiplied with dt, before the loop?

    def lower(self, b: ProgramBuilder, clock: float, section: str) -> Register:
        """Its flow."""
        covector = self.parted(b.at(self.covector, clock), b)[1]
        target = b.state(self.state)
        flow = b.versioned("F", target.index)
        if self.kind in (FORCE, BRACKET):
            value: Operand = b.operand(covector, section)
            if not isinstance(value, Register) or value.kind != "T":
                copy = b.temporary()
                b.emit(section, "ELEM", copy, Word("mul"), value, 1.0, u=covector)
                value = copy
        else:
            g = b.versioned("G", b.state(b.partner(self.state)).index)
            if covector.op is Ops.FMA and covector not in b.current and b.moves(covector):
                for s in covector.src:
                    b.operand(s, section)
                b.compute(covector, g, section)
            else:
                b.emit(section, "GRAD_INIT", g, b.operand(covector, section), u=covector)
            value = g
        b.emit(section, "POISSON_J", flow, value, Word(self.kind), u=self.state, note=" ")
        carried: Register = b.coordinates.carried(b, flow, self.state, section)
        return carried

    def apply(self, b: ProgramBuilder, flow: Register, section: str) -> None:
        factor, h = self.parted(self.covector, b)[0], DT if self.weight == 1.0 else self.weight * DT
        b.emit(
            section,
            "SYMP_STEP",
            b.state(self.state),
            flow,
            b.operand(h if factor is None else factor * h, section),
            u=self.state,
            note=" ",
        )

    def parted(self, covector: UOp, b: ProgramBuilder) -> tuple[UOp | None, UOp]:
        """p * w as (w, p) where w is one number that no state changes: with dt it is one product less in every step."""
        if self.gathers and covector.op is Ops.MUL:
            for w, rest in (covector.src, covector.src[::-1]):
                one = w.src[0] if w.op is Ops.EXPAND else w
                if one.leaves and not one.shape and not b.moves(one) and b.moves(rest):
                    return one, rest
        return None, covector

    def along(self, way: Mapping[UOp, UOp]) -> Shear | None:
        """How it moves a direction; None where it does not."""
        slope = derivative(self.covector, way)
        if slope is None:
            return None
        return Shear(way[self.state], slope, FORCE, self.signed)

    @property
    def signed(self) -> float:
        """The weight, with the sign of J."""
        return -self.weight if self.kind == "negate" else self.weight

    @property
    def rate(self) -> UOp:
        return acted(self.kind, self.covector) * UOp.const(self.weight).expand(self.covector.shape)


@dataclass(frozen=True, eq=False)
class ScaledShear:
    """state := value, which is the state plus what the state does not enter: a shear with its step inside."""

    state: UOp
    value: UOp
    note: str = ""

    def lower(self, b: ProgramBuilder, clock: float, section: str) -> Register:
        new = b.operand(b.at(self.value, clock), section)
        assert isinstance(new, Register)
        return new

    def apply(self, b: ProgramBuilder, value: Register, section: str) -> None:
        b.emit(section, "SHIFT", b.state(self.state), value, u=self.state, note=self.note)

    def along(self, way: Mapping[UOp, UOp]) -> ScaledShear | None:
        slope = derivative(self.value, way)
        return None if slope is None else ScaledShear(way[self.state], slope)

    @property
    def rate(self) -> UOp:
        return (self.value - self.state) / DT.expand(self.state.shape)


@dataclass(frozen=True, eq=False)
class ShearFlow(SubFlow):
    """Shears whose flows are all evaluated before the first of them is applied.

    `clock` is the time that its flows see, in steps after the beginning of the step. `work` is what it does to p_t.
    """

    shears: tuple[Shear | ScaledShear, ...]
    clock: float = 0.0
    work: tuple[Shear, ...] = ()

    @property
    def plain(self) -> list[Shear]:
        return [s for s in self.shears if isinstance(s, Shear)]

    @property
    def traits(self) -> frozenset[str]:
        # forces or rates; derivatives of an energy are ours
        written = any(s.kind == "force" for s in self.plain)
        return frozenset({SHEARS, AS_WRITTEN} if written else {SHEARS})

    def writes(self) -> tuple[UOp, ...]:
        return tuple(dict.fromkeys(s.state for s in self.shears))

    def expressions(self) -> tuple[UOp, ...]:
        return tuple(s.covector for s in self.plain)

    def private(self) -> tuple[UOp, ...]:
        """The values of scaled shears: what another flow computes is not the same after an update."""
        return tuple(s.value for s in self.shears if isinstance(s, ScaledShear))

    def works(self) -> tuple[UOp, ...]:
        return tuple(s.covector for s in self.work)

    def rebuilt(self, new: Mapping[UOp, UOp]) -> ShearFlow:
        shears = tuple(
            replace(s, covector=new[s.covector]) if isinstance(s, Shear) else replace(s, value=new[s.value])
            for s in self.shears
        )
        return replace(self, shears=shears)

    def followed(self, p_t: UOp, new: Mapping[UOp, UOp]) -> ShearFlow:
        more = (replace(s, state=p_t, covector=new[s.covector]) for s in self.work)
        return replace(self, shears=(*self.shears, *more))

    def weights(self) -> Iterator[float]:
        yield self.clock
        yield from (s.weight for s in (*self.plain, *self.work))

    def lower(self, b: ProgramBuilder, section: str) -> None:
        flows = [s.lower(b, self.clock, section) for s in self.shears]
        for s, flow in zip(self.shears, flows):
            s.apply(b, flow, section)
            b.rewritten(s.state)

    def field(self) -> dict[UOp, UOp]:
        return {x: UOp.sum_of([s.rate for s in self.shears if s.state is x]) for x in self.writes()}

    def inverse(self) -> ShearFlow | None:
        if len(self.plain) < len(self.shears) or self.reads() & {*self.writes()}:
            return None
        shears, work = (
            tuple(replace(s, weight=-s.weight) for s in group) for group in (self.plain, self.work)
        )
        return ShearFlow(shears, self.clock, work)

    def tangent(self, ways: Sequence[Mapping[UOp, UOp]]) -> tuple[SubFlow, ...]:
        """All directions by the states as they are before it; then the states."""
        moves = tuple(found for way in ways for s in self.shears if (found := s.along(way)) is not None)
        return (ShearFlow(moves, self.clock), self) if moves else (self,)

    def adjoint(self, bars: Mapping[UOp, UOp], sums: Mapping[UOp, UOp]) -> tuple[SubFlow, ...] | None:
        """Cotangents of what the moves read grow by those of what they move, times the derivative."""
        if len(self.plain) < len(self.shears):
            return None
        return pulled_back([(s.state, s.covector, s.signed) for s in self.plain], bars, sums, self.clock)

    def joined(self, other: SubFlow) -> ShearFlow:
        """Both, with all flows evaluated before the first is applied."""
        assert isinstance(other, ShearFlow)
        return replace(other, shears=(*self.shears, *other.shears))

    def updates(self) -> int:
        return len(self.shears)


def along(moves: Sequence[tuple[UOp, UOp, str]], weight: float) -> tuple[Shear, ...]:
    """Shears by a weight, of (state, covector, how J acts)."""
    return tuple(Shear(state, covector, kind, weight) for state, covector, kind in moves)


def shears_of(step: Step) -> list[Shear]:
    """All kicks and drifts in the user's units."""
    return [s for f in step.flows if isinstance(f, ShearFlow) for s in f.plain]


Groups = list[list[ShearFlow]]  # of init, body and final


def only_shears(step: Step) -> Groups | None:
    """The flows of a step that is nothing but kicks and drifts by an energy, in the user's units; else None."""
    groups = [
        [
            f
            for f in group
            if isinstance(f, ShearFlow) and not any(s.kind in (FORCE, BRACKET) for s in f.plain)
        ]
        for group in (step.init, step.body, step.final)
    ]
    plain = all(len(f.plain) == len(f.shears) for group in groups for f in group)
    return groups if plain and sum(map(len, groups)) == len(step.flows) else None


def whole(step: Step) -> Step:
    """The step with nothing left to `init` and `final`: the sub-flow merged into the next is split off."""
    if not step.init:
        return step
    (first,), (*middle, last) = step.init, step.body
    assert isinstance(first, ShearFlow) and isinstance(last, ShearFlow)
    rest = tuple(replace(b, weight=b.weight - a.weight) for a, b in zip(first.plain, last.plain))
    return replace(step, init=(), body=(first, *middle, ShearFlow(rest, last.clock)), final=())


def kick_of(flow: SubFlow) -> ShearFlow | None:
    """The flow, if it is one of shears."""
    return flow if isinstance(flow, ShearFlow) else None
