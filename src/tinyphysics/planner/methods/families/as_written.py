"""A map, as its user wrote it."""

from __future__ import annotations

from tinyphysics.planner.methods.method import AS_WRITTEN, Family, Job
from tinyphysics.step import Step
from tinyphysics.synth.methods.as_written import explicit_map


class AsWritten(Family):
    kind = AS_WRITTEN

    def step(self, job: Job) -> Step:
        return explicit_map(job.system)
