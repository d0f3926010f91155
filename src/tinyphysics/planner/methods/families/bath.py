"""Kicks, drifts and a bath between them, for energies p**2/2m + V(q) at a temperature."""

from __future__ import annotations

from dataclasses import dataclass

from tinyphysics.analysis.masses import masses
from tinyphysics.flows.overdamped import BrownianFlow, Diffusing
from tinyphysics.planner.methods.method import BATH, Family, Job, Method, Sequence_
from tinyphysics.rules.formulas.baths import stream_of
from tinyphysics.step import Step, Term
from tinyphysics.synth.methods.derivative import derivative
from tinyphysics.synth.methods.splitting import split_step

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
