"""Splittings of an energy with terms that mix q and p: each part by its exact flow, in order and back."""

from __future__ import annotations

from dataclasses import dataclass

from tinyphysics.planner.methods.method import PARTS, Family, Job
from tinyphysics.step import Step
from tinyphysics.synth.methods.parts import shear_step


@dataclass(frozen=True, eq=False)
class Parts(Family):
    kicks: int  # of one step
    kind = PARTS
    symplectic = True

    @property
    def stages(self) -> int:
        return self.kicks

    def step(self, job: Job) -> Step:
        return shear_step(job.method.name, job.system, job.facts["shears"].parts["parts"], job.method.keeps)
