"""What is known about a system that is being observed?  Its energy by term, its masses, its velocities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from tinyphysics.analysis.masses import masses
from tinyphysics.analysis.separable import terms
from tinyphysics.constrained import BRACKET as CONSTRAINED
from tinyphysics.errors import InputError
from tinyphysics.ir import UOp
from tinyphysics.planner.methods.families.rates import kinetic
from tinyphysics.rules.calculus.jvp import jvp
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.rules.equality.normal import same
from tinyphysics.rules.formulas.overdamped import BROWNIAN
from tinyphysics.rules.formulas.thermostats import TOGETHER
from tinyphysics.rules.identities.real import simplify
from tinyphysics.step import DT
from tinyphysics.system import System

FEW = 4096  # numbers that are worth writing out for a proof
OWN = "Observe a function of your own: observe={name: lambda q, p: ...}."


@dataclass(frozen=True, eq=False)
class Observed:
    """A Subject of tinyphysics.front.measure."""

    system: System

    @property
    def name(self) -> str:
        return self.system.name

    @property
    def positions(self) -> tuple[UOp, ...]:
        return self.system.q

    @property
    def held(self) -> int:
        return sum(g.size for g in self.system.tensor) if self.system.bracket == CONSTRAINED else 0

    @property
    def momenta(self) -> tuple[UOp, ...]:
        if not self.system.p:
            what = (
                "has angular momenta alone"
                if self.system.structure.turning
                else "is a map, and has no momenta"
            )
            raise InputError(f"`{self.name}` {what}", fix=OWN)
        return self.system.p

    @cached_property
    def terms(self) -> list[tuple[UOp, bool]]:
        """The addends of H, and whether each holds a momentum."""
        energy = self.system.energy
        if energy is None:
            raise InputError(
                f"`{self.name}` is given by its {self.system.kind}: no energy is known for it", fix=OWN
            )
        q, p = frozenset(self.system.q), frozenset(self.system.p)

        def mixed(u: UOp) -> bool:
            return bool(u.leaves & q and u.leaves & p)

        out = []
        for term, minus in terms(energy, mixed):
            if mixed(term):
                raise InputError(
                    f"the term {term} of `{self.name}` is neither kinetic nor potential: "
                    "it contains both positions and momenta",
                    site=self.system.sites.get(term),
                    fix=OWN,
                )
            out.append((-term if minus else term, bool(term.leaves & p)))
        return out

    @property
    def kinetic(self) -> list[UOp]:
        if self.system.kind == "forces":
            return [kinetic(self.system)]
        return [u for u, moves in self.terms if moves]

    @property
    def potential(self) -> list[UOp]:
        return [u for u, moves in self.terms if not moves]

    @cached_property
    def inverse_masses(self) -> tuple[UOp, ...]:
        assert self.momenta
        fact = masses(self.system, UOp.sum_of(self.kinetic))
        if not fact:
            raise InputError(f"`{self.name}` has no masses: {fact.because}", fix=OWN)
        out: tuple[UOp, ...] = fact.inverse
        return out

    @property
    def velocities(self) -> tuple[UOp, ...]:
        momenta, energy = self.momenta, self.system.energy
        return tuple(
            simplify(gradient(UOp.sum_of(self.kinetic) if energy is None else energy, list(momenta)))
        )

    @property
    def heats_drift(self) -> bool:
        """A bath that scales momenta leaves that of the whole as it is, where forces keep it: along all axes, or some."""
        if self.system.bath not in TOGETHER:
            return bool(self.system.heat)
        axes = len(self.system.heat) - 3  # after k_BT, tau and g
        if axes and axes < self.system.p[0].shape[-1] in (2, 3):
            raise InputError(
                f"the bath of `{self.name}` leaves the motion of the whole as it is along {axes} of its axes",
                fix=f"Compute 2K/(g kB) with g = {self.system.heat[2].arg:g} yourself: explain() prints it.",
            )
        return not axes

    @property
    def momenta_in_bath(self) -> tuple[UOp, ...]:
        """A step ends by half a kick: without it, the drift before it leaves momenta as the bath has left them."""
        if not self.system.heat:
            raise InputError(
                f'temperature(at="bath"): `{self.name}` has no bath',
                fix='Leave at="bath" out, or pass temperature= to compile.',
            )
        if self.held:
            raise InputError(
                f'temperature(at="bath"): rods turn the momenta of `{self.name}` between the bath and a frame',
                fix='Leave at="bath" out.',
            )
        if self.system.bath == BROWNIAN:  # drawn at its end
            return self.momenta
        slopes = simplify(gradient(UOp.sum_of(self.potential), list(self.positions)))
        return tuple(p + (0.5 * DT).expand(p.shape) * g for p, g in zip(self.momenta, slopes))

    def parameter(self, name: str) -> UOp | None:
        return next((p.var for p in self.system.parameters if p.name == name), None)

    def shown_equal(self, u: UOp, v: UOp) -> bool:
        """As arrays, or number by number where they are few."""
        if same(u, v):
            return True
        return u.shape == v.shape and u.size <= FEW and all(map(same, *map(simplify, unroll([u, v]))))

    def work_of_scaling(self, lengths: Sequence[UOp]) -> UOp:
        """By forward mode: of a sum over pairs it is a sum over pairs of differences, in which no origin enters."""
        if self.system.kind == "forces":
            if lengths:
                raise InputError(
                    f"it is not known how the forces of `{self.name}` depend on its box",
                    fix="Write it as a Hamiltonian.",
                )
            return UOp.sum_of((q * f).sum() for q, f in zip(self.positions, self.system.forces))
        moving = [*self.positions, *lengths]
        (slope,) = simplify(jvp([UOp.sum_of(self.potential)], moving, moving))
        return -slope
