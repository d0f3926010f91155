"""Kicks and drifts of two copies of the state, for any energy."""

from __future__ import annotations

from dataclasses import dataclass

from tinyphysics.planner.methods.families.lengths import check_solved
from tinyphysics.planner.methods.method import DOUBLED, Family, Job
from tinyphysics.step import Step
from tinyphysics.synth.coefficients.coefficients import COMPOSITION
from tinyphysics.synth.methods.extended_phase_space import doubled


@dataclass(frozen=True, eq=False)
class Doubled(Family):
    lengths: str  # of the leapfrogs: a row of synth/coefficients/coefficients.py
    kicks: int  # of one step
    kind = DOUBLED
    symplectic = True

    @property
    def stages(self) -> int:
        return self.kicks

    def step(self, job: Job) -> Step:
        check_solved(job, self.kicks, points=2)  # each kick also moves a copy
        return doubled(job.method.name, job.system, COMPOSITION[self.lengths], job.claims)
