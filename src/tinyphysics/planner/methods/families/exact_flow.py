"""The exact flow of an energy of degree 2 or less, or of free bodies, of which any number of steps is one."""

from __future__ import annotations

from tinyphysics.planner.methods.method import EXACT_FLOW, Family, Job
from tinyphysics.step import Step
from tinyphysics.synth.methods.propagate import bodies_step, flow_step, power_step


class ExactFlow(Family):
    kind = EXACT_FLOW
    takes = (*Family.takes, "friction")

    def step(self, job: Job) -> Step:
        if job.system.structure.turning:
            return bodies_step(job.system)
        return flow_step(job.system, job.facts["separable"])


def jump_of(job: Job) -> Step:
    """All steps of a run at once: the power of a splitting, or the flow."""
    m, split = job.method, job.facts["separable"]
    if m.splits and not job.system.structure.turning:
        return power_step(m.name, job.system, split, m.sequence(), m.symmetric)
    return m.family.step(job)
