"""Methods for fast and slow parts: many fast kicks between two slow ones."""

from __future__ import annotations

from dataclasses import dataclass

from tinyphysics.planner.methods.method import LEVELS, Family, Job, Method
from tinyphysics.step import Step
from tinyphysics.synth.coefficients.schemes import steps
from tinyphysics.synth.methods.multirate import multirate_step


@dataclass(frozen=True, eq=False)
class Multirate(Family):
    composed: str = ""  # the scheme of synth/coefficients/schemes.py that its steps are composed by
    kind = LEVELS
    symplectic = True

    @property
    def weights(self) -> tuple[float, ...]:
        """Of the steps that it is composed of."""
        return steps(self.composed) if self.composed else (1.0,)

    def step(self, job: Job) -> Step:
        # where the numbers of fast kicks are open, what runs is decided at the first state
        inner = job.goal.inner or (1,) * (len(job.system.levels) - 1)
        T = job.facts["separable"].T
        return multirate_step(job.method.name, job.system, T, inner, job.claims, self.weights)


def weights_of(method: Method) -> tuple[float, ...]:
    """Of the steps that a method for fast and slow parts is composed of."""
    assert isinstance(method.family, Multirate)
    return method.family.weights
