"""Splittings into Kepler orbits and the rest, for bodies whose first state is a hierarchy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tinyphysics.analysis.hierarchy import hierarchy
from tinyphysics.errors import PlanError
from tinyphysics.facts import Fact, Facts
from tinyphysics.planner.methods.method import ORBITS, SYMPLECTIC, Family, Job, Method
from tinyphysics.step import Step
from tinyphysics.synth.methods.wisdom_holman import Weights, orbit_step
from tinyphysics.system import System

HIERARCHY = "orbits"  # the fact that analysis/hierarchy.py gives


@dataclass(frozen=True, eq=False)
class Orbits(Family):
    weights: Callable[[], Weights]
    corrected: int = 0  # the order of its corrector
    kind = ORBITS
    symplectic = True

    @property
    def stages(self) -> int:
        return len(self.weights()[1])

    def keeps(self, method: Method) -> tuple[str, ...]:
        return (SYMPLECTIC, "consistent") if self.corrected else super().keeps(method)

    def more(self, system: System, facts: Facts) -> tuple[Fact, ...]:
        return (hierarchy(system, facts),)

    def step(self, job: Job) -> Step:
        system, name = job.system, job.method.name
        if job.goal.hierarchy is None:
            raise PlanError(
                f"`{name}` orders the bodies of `{system.name}` by their initial state, which is not known yet",
                fix="Run it first: sim.evolve(...); then sim.explain() shows the order.",
            )
        T, V, bodies = job.facts["separable"].T, job.facts["separable"].V, job.facts[HIERARCHY]
        return orbit_step(
            name, system, T, V, bodies, job.goal.hierarchy.order, self.weights(), self.corrected
        )
