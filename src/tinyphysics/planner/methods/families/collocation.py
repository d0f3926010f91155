"""Methods for any energy, by stages that are solved for."""

from __future__ import annotations

from dataclasses import dataclass

from tinyphysics.analysis.lone_potential import apart
from tinyphysics.facts import Facts
from tinyphysics.planner.methods.families.lengths import check_solved
from tinyphysics.planner.methods.method import COLLOCATION, ROUNDS, Family, Job, Method
from tinyphysics.step import Step
from tinyphysics.synth.coefficients.coefficients import COMPOSITION
from tinyphysics.synth.methods.implicit import collocate, gauss, generated, kicked
from tinyphysics.system import System


@dataclass(frozen=True, eq=False)
class Collocation(Family):
    """Stages of Gauss; with `lengths`, steps by generating functions, or kicks and the midpoint rule, of such lengths."""

    slopes: int
    lengths: str = ""  # a row of synth/coefficients/coefficients.py
    kind = COLLOCATION
    takes = (*Family.takes, "tensor")
    symplectic = True

    @property
    def stages(self) -> int:
        return self.slopes * ROUNDS

    def requires(self, method: Method) -> tuple[str, ...]:
        return ("an energy", *method.needs)

    def lacking(self, system: System, facts: Facts) -> str | None:
        if self.lengths and not system.p:
            return "it is for positions and momenta"
        return None

    def step(self, job: Job) -> Step:
        from tinyphysics.synth.methods.implicit_arrays import collocate_arrays, in_arrays  # only now needed

        method = job.method
        if not self.lengths and in_arrays(job.system, self.slopes):
            return collocate_arrays(method.name, job.system, gauss(self.slopes), job.claims)
        check_solved(job, self.slopes)
        if "a potential apart" in method.needs:
            found, lengths = apart(job.system), COMPOSITION[self.lengths]
            return kicked(method.name, job.system, found.V, found.rest, lengths, job.claims)
        if self.lengths:
            return generated(method.name, job.system, COMPOSITION[self.lengths], job.claims)
        return collocate(method.name, job.system, gauss(self.slopes), job.claims)
