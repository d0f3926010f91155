"""A leapfrog of waves with absorbing layers: compile(wave, absorb=20)."""

from __future__ import annotations

from dataclasses import dataclass

from tinyphysics.planner.methods.method import LAYERS, Family, Job
from tinyphysics.step import Step
from tinyphysics.synth.methods.absorbing import absorbing_step


@dataclass(frozen=True, eq=False)
class Absorbing(Family):
    kind = LAYERS

    @property
    def stages(self) -> int:
        return 1

    def step(self, job: Job) -> Step:
        return absorbing_step(job.method.name, job.system)
