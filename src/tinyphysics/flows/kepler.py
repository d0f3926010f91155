"""How do bodies go on along their Kepler orbits?  Exactly, in Jacobi coordinates, which the loop keeps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tinyphysics.flows.cotangents import Cotangents, Total, is_zero
from tinyphysics.flows.map import Map
from tinyphysics.flows.shears import Shear, ShearFlow, kick_of
from tinyphysics.ir import UOp, substitute
from tinyphysics.rules.calculus.jvp import jvp
from tinyphysics.rules.calculus.vjp import vjp
from tinyphysics.rules.formulas import jacobi
from tinyphysics.rules.identities.real import simplify
from tinyphysics.step import DT, ORBITS, Coordinates, SubFlow
from tinyphysics.structure import FORCE, acted
from tinyphysics.tpir.program.isa import Operand, Register, Word
from tinyphysics.tpir.program.lower import ProgramBuilder


@dataclass(frozen=True, eq=False)
class JacobiCoordinates(Coordinates):
    """The loop keeps positions and velocities of bodies as seen from those within.

    A kick in them leaves out the pull of the centres, which `KeplerFlow` has done.
    """

    q: UOp
    p: UOp
    masses: UOp
    order: tuple[int, ...]  # of the bodies, innermost first
    gm: UOp  # G times the mass within, each body's own included

    def operands(self, b: ProgramBuilder, way: str, source: Operand) -> tuple[Operand, ...]:
        """What brings rows of bodies into these coordinates, or back."""
        return Word(way), source, b.operand(self.masses, "once"), self.order

    def change(self, b: ProgramBuilder, section: str, ways: tuple[str, str]) -> None:
        """Both states into these coordinates, or back."""
        for u, way in zip((self.q, self.p), ways):
            b.emit(section, "JACOBI", b.state(u), *self.operands(b, way, b.state(u)), u=u, note=" ")

    def enter(self, b: ProgramBuilder) -> None:
        self.change(b, "init", ("positions", "velocities"))

    def leave(self, b: ProgramBuilder) -> None:
        self.change(b, "final", ("places", "momenta"))

    def seen(self, b: ProgramBuilder, state: UOp, section: str) -> Register | None:
        if state is not self.q and state is not self.p:  # a direction or a cotangent
            return None
        register = b.temporary()
        way = "places" if state is self.q else "momenta"
        b.emit(section, "JACOBI", register, *self.operands(b, way, b.state(state)), u=state, note=" ")
        return register

    def carried(self, b: ProgramBuilder, flow: Register, state: UOp, section: str) -> Register:
        """A flow of the momenta as one of Jacobi velocities, without what the orbits know of it."""
        if state is not self.p:
            return flow
        seen, left = (b.versioned("F", flow.index) for _ in range(2))
        b.emit(section, "JACOBI", seen, *self.operands(b, "velocities", flow), u=state, note=" ")
        gm = b.operand(self.gm, section)
        b.emit(section, "PULL", left, seen, b.state(self.q), gm, u=state, note=" ")
        return left

    def computes(self) -> bool:
        return True

    def changed(self, way: str, x: UOp) -> UOp:
        """Rows of bodies in these coordinates, or back, as an expression."""
        return jacobi.change(way, x, self.masses, self.order)

    @property
    def entered(self) -> list[UOp]:
        """The user's states in these coordinates."""
        return [self.changed("positions", self.q), self.changed("velocities", self.p)]

    def left(self, rows: tuple[UOp, UOp]) -> list[UOp]:
        """The user's states, from positions and velocities in these."""
        return [self.changed("places", rows[0]), self.changed("momenta", rows[1])]

    @property
    def known(self) -> UOp:
        """The forces that orbits know of, on the bodies as the user sees them."""
        none = UOp.const(0.0, self.q.dtype, self.q.shape)
        pull = jacobi.pulled(none, self.changed("positions", self.q), self.gm)
        return -self.changed("momenta", pull)

    def as_seen(self, flow: SubFlow) -> SubFlow:
        """A kick leaves out what orbits do."""
        kick = kick_of(flow)
        if kick is None:
            return flow
        known = self.known
        shears = (Shear(s.state, acted(s.kind, s.covector) - known, FORCE, s.weight) for s in kick.plain)
        return ShearFlow(tuple(shears), kick.clock)


Pair = tuple[UOp, UOp]  # positions and velocities in these coordinates


def pair(c: JacobiCoordinates, name: str) -> Pair:
    """Names of what instructions give; no state has a question mark."""
    return UOp.var(f"?q {name}", c.q.shape), UOp.var(f"?v {name}", c.q.shape)


@dataclass(frozen=True, eq=False)
class Line:
    """An instruction that gives positions and velocities, as expressions know them."""

    op: str
    result: Pair
    sources: tuple[UOp, ...]  # as the states are moved
    way: tuple[UOp, ...] = ()  # decided with the other expressions of a step


@dataclass(frozen=True, eq=False)
class OrbitSlopes(SubFlow):
    """What moves directions and cotangents by derivatives of orbits; `begin` is the states in their coordinates."""

    coordinates: JacobiCoordinates
    begin: Pair
    lines: tuple[Line, ...]
    moves: tuple[SubFlow, ...]
    traits = frozenset()

    def writes(self) -> tuple[UOp, ...]:
        return tuple(x for f in self.moves for x in f.writes())

    def expressions(self) -> tuple[UOp, ...]:
        return *(u for x in self.lines for u in x.way), *(u for f in self.moves for u in f.expressions())

    def rebuilt(self, new: Mapping[UOp, UOp]) -> OrbitSlopes:
        lines = tuple(replace(x, way=tuple(new[u] for u in x.way)) for x in self.lines)
        return replace(self, lines=lines, moves=tuple(f.rebuilt(new) for f in self.moves))

    def weights(self) -> Iterator[float]:
        for f in self.moves:
            yield from f.weights()

    @property
    def without_adjoint(self) -> str:
        return "Kepler orbits have no second derivatives here"

    def lower(self, b: ProgramBuilder, section: str) -> None:
        c = self.coordinates
        b.current[self.begin[0]], b.current[self.begin[1]] = b.state(c.q), b.state(c.p)
        for x in self.lines:
            sources = [b.operand(u, section) for u in (*x.sources, *x.way)]
            for k, u in enumerate(x.result):
                register = b.temporary()
                b.emit(section, x.op, register, *sources, (k,), u=u, note=" ")
                b.current[u] = register
        for f in self.moves:
            f.lower(b, section)
        for u in (*self.begin, *(u for x in self.lines for u in x.result)):
            b.current.forget(u)


@dataclass(frozen=True, eq=False)
class KeplerFlow(SubFlow):
    """Every body goes on along its Kepler orbit for weight * dt."""

    weight: float
    coordinates: JacobiCoordinates
    traits = frozenset({ORBITS})

    def writes(self) -> tuple[UOp, ...]:
        return self.coordinates.q, self.coordinates.p

    def reads(self) -> frozenset[UOp]:
        return frozenset(self.writes()) | self.coordinates.gm.leaves

    def lower(self, b: ProgramBuilder, section: str) -> None:
        c = self.coordinates
        h = b.operand(self.weight * DT if self.weight != 1.0 else DT, section)
        gm = b.operand(c.gm, section)
        parts = [(u, b.temporary(), k) for k, u in enumerate((c.q, c.p))]
        for u, register, k in parts:
            b.emit(section, "KEPLER", register, b.state(c.q), b.state(c.p), gm, h, (k,), u=u, note=" ")
        for u, register, _ in parts:
            b.emit(section, "ORBIT", b.state(u), register, u=u, note=" ")
            b.rewritten(u)

    def field(self) -> Mapping[UOp, UOp]:
        """In Jacobi coordinates: v and -gm q/|q|**3, and none for the centre of mass, which is row 0."""
        c = self.coordinates
        weight = UOp.const(self.weight)
        pulls = [UOp.const(0.0, shape=c.q.shape[1:])]
        for k in range(1, c.q.shape[0]):
            q = c.q[k]
            r2 = (q * q).sum((0,))
            pulls.append(q * (-weight * c.gm[k] / (r2 * r2.sqrt())).expand(q.shape))
        stacked = UOp.stack([x[i] for x in pulls for i in range(x.shape[0])], c.q.shape)
        return {c.q: c.p * weight.expand(c.p.shape), c.p: stacked}

    def inverse(self) -> KeplerFlow:
        return replace(self, weight=-self.weight)

    def line(self, weight: float, begin: Pair, end: Pair, *way: UOp) -> Line:
        """Bodies on their orbits for a while, or how they change along a way."""
        h = weight * DT if weight != 1.0 else DT
        return Line("KEPLER_ALONG" if way else "KEPLER", end, (*begin, self.coordinates.gm, h), way)

    def tangent(self, ways: Sequence[Mapping[UOp, UOp]]) -> tuple[SubFlow, ...]:
        """Directions as users see them: into these coordinates, along the orbits, and back; then the states."""
        c, moved = self.coordinates, list[tuple[UOp, UOp]]()
        begin, end = pair(c, "before"), pair(c, "after")
        lines = [self.line(self.weight, begin, end)]
        for k, way in enumerate(ways):
            own, along = (list(way), list(way.values())), pair(c, f"along {k}")
            lines.append(self.line(self.weight, begin, along, *simplify(jvp([*c.entered, c.gm], *own))))
            others = [(v, d) for v, d in way.items() if v is not c.q and v is not c.p]
            inputs, slopes = [*end, *(v for v, _ in others)], [*along, *(d for _, d in others)]
            moved += zip((way[c.q], way[c.p]), simplify(jvp(c.left(end), inputs, slopes)))
        return OrbitSlopes(c, begin, tuple(lines), (Map(tuple(moved)),)), self

    def adjoint(self, bars: Mapping[UOp, UOp], sums: Mapping[UOp, UOp]) -> tuple[SubFlow, ...]:
        """The transposed derivative M is J over the derivative of the way back: orbits are symplectic in q and v."""
        c = self.coordinates
        begin, end, along, by_gm = (pair(c, name) for name in ("before", "after", "along", "by gm"))
        none, one = UOp.const(0.0, c.q.dtype, c.q.shape), UOp.const(1.0, c.gm.dtype, c.gm.shape)
        others = [v for v in sums if v is not DT]
        slopes = vjp(c.left(end), [bars[c.q], bars[c.p]], [*end, *others])
        at_end, parts = simplify(slopes[:2]), {v: [u] for v, u in zip(others, slopes[2:])}
        lines = [self.line(self.weight, begin, end)]
        way = (-at_end[1], at_end[0], UOp.const(0.0, c.gm.dtype, c.gm.shape))
        lines.append(self.line(-self.weight, end, along, *way))
        at_begin = (along[1], -along[0])
        seeds, values = [*at_begin], [*c.entered]
        if any(v in c.gm.leaves for v in others):
            lines.append(self.line(self.weight, begin, by_gm, none, none, one))
            seeds.append((at_end[0] * by_gm[0] + at_end[1] * by_gm[1]).sum((1,)))
            values.append(c.gm)
        found = vjp(values, seeds, [c.q, c.p, *others])
        moved = Map(tuple(zip((bars[c.q], bars[c.p]), simplify(found[:2]))))
        totals = [(sums[v], UOp.sum_of([*parts[v], u])) for v, u in zip(others, found[2:])]
        if DT in sums:
            field = self.field()
            rates = substitute([field[c.q], field[c.p]], dict(zip((c.q, c.p), end)))
            totals.append((sums[DT], UOp.sum_of([(a * r).sum() for a, r in zip(at_end, rates)])))
        sure = [Total(v, u) for (v, _), u in zip(totals, simplify([u for _, u in totals])) if not is_zero(u)]
        first = (Cotangents((), tuple(sure)),) if sure else ()
        return (OrbitSlopes(c, begin, tuple(lines), (*first, moved)),)

    def updates(self) -> int:
        return 1
