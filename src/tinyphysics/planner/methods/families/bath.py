"""Kicks, drifts and a bath between them, for energies p**2/2m + V(q) at a temperature."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tinyphysics.analysis.masses import masses
from tinyphysics.facts import Facts
from tinyphysics.flows.baths import Booked
from tinyphysics.flows.overdamped import BrownianFlow, Diffusing
from tinyphysics.flows.shears import Shear, ShearFlow
from tinyphysics.ir import UOp
from tinyphysics.planner.methods.method import BATH, BODIES_BATH, Family, Job, Method, Sequence_
from tinyphysics.rules.formulas.baths import stream_of
from tinyphysics.rules.formulas.thermostats import energy_of_stretch, pushes
from tinyphysics.step import ExactPart, Step, SubFlow, Term
from tinyphysics.structure import FORCE
from tinyphysics.synth.methods.baths import in_bath, of_bodies, thermostat_of
from tinyphysics.synth.methods.derivative import derivative
from tinyphysics.synth.methods.parts import strang_step
from tinyphysics.synth.methods.rotations import in_turns, of_length_one
from tinyphysics.synth.methods.splitting import flows, split_step
from tinyphysics.system import System

MIDDLE = 0.5  # of a step: the time at which a Brownian one sees its temperature and its rates
LIMIT = 2.0  # of omega*dt: that of the kicks and drifts, whatever the bath does between them


@dataclass(frozen=True, eq=False)
class InBath(Family):
    moves: tuple[tuple[str, float], ...]
    kind = BATH
    takes = ("energy", "heat", "bias")

    def sequence(self) -> Sequence_:
        return list(self.moves)

    @property
    def stages(self) -> int:
        kicks = [part for part, _ in self.moves].count("V")
        return kicks - (self.moves[0][0] == self.moves[-1][0] == "V")

    @property
    def limit(self) -> float | None:
        return LIMIT

    def keeps(self, method: Method) -> tuple[str, ...]:
        return ("canonical", "symmetric", "consistent") if method.symmetric else ("consistent",)

    def step(self, job: Job) -> Step:
        split, time = job.facts["separable"], job.facts["explicit time"]
        inside = time.inside if time else []
        return split_step(job.method.name, job.system, split.T, split.V, list(self.moves), job.claims, inside)


@dataclass(frozen=True, eq=False)
class Overdamped(Family):
    """Positions alone, pushed by forces and noise."""

    kind = BATH
    takes = ("energy", "heat")

    def keeps(self, method: Method) -> tuple[str, ...]:
        return ("canonical", "consistent")

    def step(self, job: Job) -> Step:
        system, split = job.system, job.facts["separable"]
        kT, *rates = system.heat
        inverse = masses(system, split.T).inverse
        slopes = derivative(split.V, system.q)
        pairs = tuple(
            Diffusing(q, p, -slope, rate, w, stream_of(k, 0))
            for k, (q, p, slope, rate, w) in enumerate(zip(system.q, system.p, slopes, rates, inverse))
        )
        terms = (Term("T", split.T), Term("V", split.V))
        assert system.energy is not None
        timed = system.time is not None and any(system.time in u.leaves for u in system.heat)
        flow = BrownianFlow(pairs, kT, system.energy, MIDDLE if timed else 0.0)
        return Step.of(system, job.method.name, terms, job.claims, 1, (), (flow,), ())


@dataclass(frozen=True, eq=False)
class Stretching(Family):
    """Half a kick, half a drift, s stretched, and both again: a thermostat whose energy is a Hamiltonian."""

    kind = BATH
    takes = ("energy", "heat")

    @property
    def limit(self) -> float | None:
        return LIMIT

    def keeps(self, method: Method) -> tuple[str, ...]:
        return ("symplectic", "symmetric", "reversible", "consistent")

    def step(self, job: Job) -> Step:
        system, split = job.system, job.facts["separable"]
        bath = thermostat_of(system, masses(system, split.T).inverse)
        moves = flows(system, split.T, split.V)
        p_eta, beside = bath.hidden[1], dict(zip("VT", pushes(bath, split.V)))

        def shear(part: str, weight: float) -> ShearFlow:
            own = [Shear(state, covector, kind, weight) for state, covector, kind in moves[part]]
            return ShearFlow((*own, Shear(p_eta, beside[part], FORCE, weight)))

        def booked(*inside: SubFlow) -> tuple[SubFlow, ...]:
            energy = energy_of_stretch(bath)
            return Booked(energy, -1.0), *inside, Booked(energy, 1.0)

        stretch = in_bath(system, split.T, 1.0, 0)
        body = (shear("T", 0.5), stretch, shear("T", 0.5), shear("V", 1.0))
        terms = (Term("T", split.T), Term("V", split.V))
        parts = booked(shear("V", 0.5)), booked(*body), booked(shear("V", -0.5))
        return Step.of(system, job.method.name, terms, job.claims, 1, *parts)


@dataclass(frozen=True, eq=False)
class TurnsInBath(Family):
    """Kicks, drifts and turns about axes in order, the bath, and all of them back."""

    kind = BODIES_BATH
    takes = ("energy", "heat", "tensor")

    def keeps(self, method: Method) -> tuple[str, ...]:
        return ("canonical", "symmetric", "consistent")

    def lacking(self, system: System, facts: Facts) -> str | None:
        found = in_turns(system, facts)
        return found if isinstance(found, str) else None

    def step(self, job: Job) -> Step:
        system, turns = job.system, job.facts["turns"]
        parts = in_turns(system, job.facts)
        assert not isinstance(parts, str), "what lacks its parts is not chosen"
        kinetic = UOp.sum_of([u for u in (turns.T, turns.K) if u is not None])
        bath = ExactPart(parts[0].term, lambda weight: of_bodies(system, kinetic, weight))
        step = strang_step(job.method.name, system, [*parts, bath], (1.0,), job.claims)
        return replace(step, body=(*step.body, *of_length_one(system)))
