"""Explicit Runge–Kutta methods: by name only, never certified."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from tinyphysics.planner.methods.families.rates import kinetic
from tinyphysics.planner.methods.method import TABLEAU, Family, Job
from tinyphysics.planner.methods.stability import of_tableau
from tinyphysics.step import Step
from tinyphysics.synth.methods.rungekutta import Tableau, runge_kutta

limit_of = cache(of_tableau)


@dataclass(frozen=True, eq=False)
class RungeKutta(Family):
    tableau: Tableau
    kind = TABLEAU
    takes = (*Family.takes, "tensor", "friction")

    @property
    def stages(self) -> int:
        return len(self.tableau.b)

    @property
    def limit(self) -> float | None:
        return limit_of(self.tableau)

    def step(self, job: Job) -> Step:
        T = kinetic(job.system) if job.system.kind == "forces" else None
        return runge_kutta(job.method.name, job.system, T, self.tableau)
