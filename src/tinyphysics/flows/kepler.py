"""How do bodies go on along their Kepler orbits?  Exactly, in Jacobi coordinates, which the loop keeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tinyphysics.ir import UOp
from tinyphysics.step import DT, ORBITS, Coordinates, SubFlow
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

    def seen(self, b: ProgramBuilder, state: UOp, section: str) -> Register:
        register = b.temporary()
        way = "places" if state is self.q else "momenta"
        b.emit(section, "JACOBI", register, *self.operands(b, way, b.state(state)), u=state, note=" ")
        return register

    def carried(self, b: ProgramBuilder, flow: Register, state: UOp, section: str) -> Register:
        """A flow of the momenta as one of Jacobi velocities, without what the orbits know of it."""
        seen, left = (b.versioned("F", flow.index) for _ in range(2))
        b.emit(section, "JACOBI", seen, *self.operands(b, "velocities", flow), u=state, note=" ")
        gm = b.operand(self.gm, section)
        b.emit(section, "PULL", left, seen, b.state(self.q), gm, u=state, note=" ")
        return left

    def computes(self) -> bool:
        return True


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

    def updates(self) -> int:
        return 1
