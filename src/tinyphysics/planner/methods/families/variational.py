"""Methods of a Lagrangian: its action over a step is stationary."""

from __future__ import annotations

from dataclasses import dataclass

from tinyphysics.planner.methods.method import ROUNDS, VARIATIONAL, Family, Job, Method
from tinyphysics.step import Step
from tinyphysics.synth.methods.implicit import gauss
from tinyphysics.synth.methods.variational import variational


@dataclass(frozen=True, eq=False)
class Variational(Family):
    points: int = (
        0  # of a quadrature of the Lagrangian; none for the trapezoidal rule, which looks at both ends
    )
    kind = VARIATIONAL
    unrounded = True

    @property
    def stages(self) -> int:
        return (self.points or 2) * ROUNDS

    def step(self, job: Job) -> Step:
        return variational(job.method.name, job.system, gauss(self.points) if self.points else None)


def velocities_of(method: Method) -> int:
    """How many a step solves for, of each position."""
    assert isinstance(method.family, Variational)
    return max(1, method.family.points)
