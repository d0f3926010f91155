"""Methods that keep the energy: a discrete gradient between the ends of a step, which are solved for."""

from __future__ import annotations

from dataclasses import dataclass

from tinyphysics.errors import PlanError
from tinyphysics.facts import Facts
from tinyphysics.planner.methods.families.lengths import check_solved
from tinyphysics.planner.methods.method import DISCRETE_GRADIENT, ROUNDS, Family, Job, Method
from tinyphysics.report import Row
from tinyphysics.step import Step
from tinyphysics.synth.methods.discrete_gradient import energy_step
from tinyphysics.system import System


@dataclass(frozen=True, eq=False)
class DiscreteGradient(Family):
    points: int  # at which a step looks at the energy
    linear: bool = False  # does it keep linear momenta?
    kind = DISCRETE_GRADIENT
    conserves = True
    takes = (*Family.takes, "tensor")

    def lacking(self, system: System, facts: Facts) -> str | None:
        if system.bracket and (system.bracket != "poisson" or self.points == 2):
            return "it is written for positions and momenta"
        return None

    @property
    def stages(self) -> int:
        return self.points * ROUNDS

    def step(self, job: Job) -> Step:
        name = job.method.name
        if job.system.clock is not None:
            raise PlanError(
                f"`{name}` would conserve a different energy than H with time=", fix="Leave time= out."
            )
        polynomial = job.facts["polynomial"]
        check_solved(job, points=self.points)
        return energy_step(name, job.system, polynomial.degree if polynomial else None)

    def rows(self, method: Method, facts: Facts) -> list[Row]:
        """Whatever its energy is."""
        momenta = "angular momenta, but not linear ones:" if self.linear else "momenta, linear and angular:"
        return [
            Row(
                "keeps",
                "the energy",
                "to the residual of its equations: one system of them is solved a step, in iterations that "
                'out.metrics["solver"] counts',
            ),
            Row(
                "gives up",
                "symplectic",
                f"tp.measure_symplectic measures by how much; and {momenta} their errors are those of a "
                "method of its order",
            ),
            Row(
                "accuracy",
                "error=",
                "conserving energy does not make the trajectory accurate: give error=, or halve dt and compare",
            ),
        ]
