"""Exponential integrators of fields: the part that is diagonal in Fourier space is solved, the rest is stepped."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from tinyphysics.analysis.spectral import NAME, spectral_part
from tinyphysics.facts import Fact, Facts
from tinyphysics.planner.methods.method import SPECTRAL, Family, Job
from tinyphysics.step import Step
from tinyphysics.synth.methods.exponential import exponential_step
from tinyphysics.system import System


@lru_cache(maxsize=16)  # several methods ask
def linear_part(system: System, facts: Facts) -> Fact:
    return facts[NAME] if NAME in facts else spectral_part(system)


@dataclass(frozen=True, eq=False)
class Exponential(Family):
    kind = SPECTRAL

    @property
    def stages(self) -> int:
        return 4

    def more(self, system: System, facts: Facts) -> tuple[Fact, ...]:
        return (linear_part(system, facts),)

    def step(self, job: Job) -> Step:
        return exponential_step(job.method.name, job.system, linear_part(job.system, job.facts).groups)
