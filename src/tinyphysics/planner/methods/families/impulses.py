"""Steps of bodies that touch: leapfrog, with impulses at the contacts that a fixed number of sweeps finds."""

from __future__ import annotations

from dataclasses import dataclass

from tinyphysics.facts import Facts
from tinyphysics.planner.methods.method import IMPULSES, Family, Job, Method
from tinyphysics.report import Row
from tinyphysics.step import Step
from tinyphysics.synth.methods.impulses import impulses


@dataclass(frozen=True, eq=False)
class Impulses(Family):
    kind = IMPULSES
    takes = ("energy", "motion", "gaps", "slips", "rubs")

    def step(self, job: Job) -> Step:
        split = job.facts["separable"]
        return impulses(job.method.name, job.system, split.T, split.V)

    def rows(self, method: Method, facts: Facts) -> list[Row]:
        told = "impulses are found row by row, by a fixed number of sweeps from those of the step before"
        return [Row("contacts", "soft", f"{told}: nothing is certified; see out.losses")]
