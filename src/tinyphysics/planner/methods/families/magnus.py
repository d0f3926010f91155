"""One matrix exponential a step, for energies of degree 2 that depend on time."""

from __future__ import annotations

from dataclasses import dataclass

from tinyphysics.planner.methods.method import MAGNUS, SYMPLECTIC, Family, Job, Method
from tinyphysics.step import Step
from tinyphysics.synth.methods.magnus import magnus_step


@dataclass(frozen=True, eq=False)
class Magnus(Family):
    times: int  # at which a step looks at A(t)
    kind = MAGNUS

    @property
    def stages(self) -> int:
        return self.times

    def keeps(self, method: Method) -> tuple[str, ...]:
        return (SYMPLECTIC,)

    def step(self, job: Job) -> Step:
        m, quadratic = job.method, job.facts["quadratic"]
        return magnus_step(m.name, job.system, quadratic, m.order, m.keeps, job.goal.precision)
