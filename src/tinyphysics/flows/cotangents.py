"""How do cotangents go back through a move?  What a moved state pulls on is added to what moved it, times the step.

A gradient by a parameter is a sum over all steps, and is kept in two words: the second one has what the first has lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tinyphysics.ir import Ops, UOp, toposort
from tinyphysics.ir.ops import MOVEMENT
from tinyphysics.rules.calculus.jvp import jvp
from tinyphysics.rules.calculus.vjp import vjp
from tinyphysics.rules.identities.pair_slopes import slopes_of_pairs
from tinyphysics.rules.identities.real import simplify
from tinyphysics.step import DT, SubFlow
from tinyphysics.tpir.program.isa import Operand, Register, Word
from tinyphysics.tpir.program.lower import ProgramBuilder

BAR, REST = ".bar", ".rest"  # after the name of a state or a parameter, which has no dot


def is_zero(u: UOp) -> bool:
    while u.op in MOVEMENT and len(u.src) == 1:
        (u,) = u.src
    return u.op is Ops.CONST and u.arg == 0


def line_of(b: ProgramBuilder, u: UOp) -> str:
    """The user's line that an expression comes from: that of the last part of it that has one."""
    return next((str(b.sites[x]) for x in reversed(toposort([u])) if x in b.sites), "")


def bar_of(v: UOp) -> UOp:
    """The cotangent of a state, or the sum of the gradients of a parameter."""
    return UOp.var(f"{v.arg}{BAR}", v.shape)


def rest_of(total: UOp) -> UOp:
    """The second word of a sum."""
    return UOp.var(str(total.arg).removesuffix(BAR) + REST, total.shape)


@dataclass(frozen=True, eq=False)
class Pull:
    """cotangent += weight * dt * value."""

    cotangent: UOp
    value: UOp
    weight: float


@dataclass(frozen=True, eq=False)
class Total:
    """total += value, in two words."""

    total: UOp
    value: UOp


@dataclass(frozen=True, eq=False)
class Cotangents(SubFlow):
    """Pulls and totals, all evaluated before the first of them is applied."""

    pulls: tuple[Pull, ...]
    totals: tuple[Total, ...] = ()
    clock: float = 0.0
    traits = frozenset()

    @property
    def declares_dt(self) -> bool:
        return bool(self.pulls)

    def writes(self) -> tuple[UOp, ...]:
        sums = [x for t in self.totals for x in (t.total, rest_of(t.total))]
        return tuple(dict.fromkeys([*(p.cotangent for p in self.pulls), *sums]))

    def expressions(self) -> tuple[UOp, ...]:
        return (*(p.value for p in self.pulls), *(t.value for t in self.totals))

    def rebuilt(self, new: Mapping[UOp, UOp]) -> Cotangents:
        pulls = tuple(replace(p, value=new[p.value]) for p in self.pulls)
        return replace(self, pulls=pulls, totals=tuple(replace(t, value=new[t.value]) for t in self.totals))

    def weights(self) -> Iterator[float]:
        yield self.clock
        yield from (p.weight for p in self.pulls)

    def lower(self, b: ProgramBuilder, section: str) -> None:
        values = [b.operand(b.at(u, self.clock), section) for u in self.expressions()]
        sums: dict[UOp, Register] = {}
        for p, value in zip(self.pulls, values):
            to = b.state(p.cotangent)
            if p.cotangent not in sums:
                sums[p.cotangent] = b.versioned("G", to.index)
                b.emit(section, "GRAD_INIT", sums[p.cotangent], to, u=p.cotangent, note=" ")
            step = DT if p.weight == 1.0 else p.weight * DT
            h = b.operand(step.expand(p.value.shape), section)
            # d(h*x)/dx times the value
            operands = (sums[p.cotangent], value, Word("mul"), 1.0, h, value)
            b.emit(section, "ACC_GRAD", *operands, u=p.value, note=line_of(b, p.value))
        for t, value in zip(self.totals, values[len(self.pulls) :]):
            self.add(b, section, t, value)
        for cotangent, g in sums.items():
            b.emit(section, "SHIFT", b.state(cotangent), g, u=cotangent, note=" ")
            b.rewritten(cotangent)

    def add(self, b: ProgramBuilder, section: str, t: Total, value: Operand) -> None:
        """TwoSum: what the first word cannot hold goes to the second."""
        rest = rest_of(t.total)
        high, low = b.state(t.total), b.state(rest)

        def made(name: str, *src: Operand) -> Register:
            register = b.temporary()
            b.emit(section, "ELEM", register, Word(name), *src, u=t.value)
            return register

        new = made("add", high, value)
        part = made("sub", new, high)
        lost = made("add", made("sub", high, made("sub", new, part)), made("sub", value, part))
        more = made("add", low, lost)
        for state, register, u in ((high, new, t.total), (low, more, rest)):
            b.emit(section, "MAP", state, register, u=u, note=" ")
            b.rewritten(u)

    def added(self) -> Iterator[tuple[UOp, UOp]]:
        for p in self.pulls:
            yield p.cotangent, p.value * (p.weight * DT).expand(p.value.shape)
        yield from ((t.total, t.value) for t in self.totals)

    def within(self, time: UOp, dt: UOp) -> Cotangents:
        if not self.clock:
            return self
        own = (t for t in self.totals if t.total is time)
        more = tuple(Total(dt, t.value * UOp.const(self.clock, t.value.dtype)) for t in own)
        return replace(self, totals=(*self.totals, *more))

    def tangent(self, ways: Sequence[Mapping[UOp, UOp]]) -> tuple[SubFlow, ...] | None:
        """Of the gradient along directions: each pull and total along each of them."""
        moves: list[Pull] = []
        totals: list[Total] = []
        for way in ways:
            own = list(way), list(way.values())
            for p, slope in zip(self.pulls, simplify(jvp([p.value for p in self.pulls], *own))):
                moves += [] if is_zero(slope) else [Pull(way[p.cotangent], slope, p.weight)]
            for t, slope in zip(self.totals, simplify(jvp([t.value for t in self.totals], *own))):
                totals += [] if is_zero(slope) else [Total(way[t.total], slope)]
        more = Cotangents(tuple(moves), tuple(totals), self.clock)
        return (more, self) if moves or totals else (self,)


def pulled_back(
    moves: Sequence[tuple[UOp, UOp, float]],
    bars: Mapping[UOp, UOp],
    sums: Mapping[UOp, UOp],
    clock: float,
) -> tuple[SubFlow, ...]:
    """The cotangents before state += weight * dt * value, for all (state, value, weight) at once."""
    pulls: list[Pull] = []
    parts: dict[UOp, list[UOp]] = {v: [] for v in sums}
    for weight in dict.fromkeys(w for _, _, w in moves):
        own = [(x, u) for x, u, w in moves if w == weight]
        values, seeds = [u for _, u in own], [bars[x] for x, _ in own]
        inputs = [*bars, *sums]  # dt too: stages of a step are moved by it
        step = DT if weight == 1.0 else weight * DT
        for v, slope in zip(inputs, slopes_of_pairs(vjp(values, seeds, inputs))):
            if is_zero(slope):
                continue
            if v in bars:
                pulls.append(Pull(bars[v], slope, weight))
            else:
                parts[v].append(slope * step.expand(slope.shape))
        if DT in sums:
            along = UOp.sum_of([(b * u).sum() if u.shape else b * u for b, u in zip(seeds, values)])
            parts[DT].append(along * UOp.const(weight))
    totals = tuple(Total(sums[v], x) for v, p in parts.items() if p for x in simplify([UOp.sum_of(p)]))
    return (Cotangents(tuple(pulls), totals, clock),) if pulls or totals else ()
