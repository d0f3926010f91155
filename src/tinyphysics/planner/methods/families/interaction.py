"""Splittings into oscillators, which are solved, and the rest, which kicks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from tinyphysics.analysis.interaction import NAME as QUADRATIC_PART
from tinyphysics.analysis.interaction import interaction
from tinyphysics.errors import PlanError
from tinyphysics.facts import Fact, Facts
from tinyphysics.planner.methods.method import INTERACTION, Family, Job, Method
from tinyphysics.step import Step
from tinyphysics.synth.methods.interaction import Sequence_, interaction_step, kicks_of
from tinyphysics.system import System


def turns_of(method: Method) -> Sequence_:
    """("L", weight) of turns and ("V", weight) of kicks."""
    assert isinstance(method.family, Interaction)
    return method.family.turns()


@lru_cache(maxsize=16)  # several methods ask
def quadratic_part(system: System, facts: Facts) -> Fact:
    """Looked for where a method asks."""
    return facts[QUADRATIC_PART] if QUADRATIC_PART in facts else interaction(system, facts)


@dataclass(frozen=True, eq=False)
class Interaction(Family):
    turns: Callable[[], Sequence_]
    mollified: bool = False  # kicks see means of positions
    kicks: int = 0  # of one step, where they are known without its weights
    kind = INTERACTION
    symplectic = True

    @property
    def stages(self) -> int:
        return self.kicks or kicks_of(self.turns())

    def more(self, system: System, facts: Facts) -> tuple[Fact, ...]:
        return (interaction(system, facts),)

    def step(self, job: Job) -> Step:
        method, found = job.method, quadratic_part(job.system, job.facts)
        if self.mollified and not found.oscillators:
            raise PlanError(
                f"`{method.name}` needs independent oscillators, one for each number of q; `{job.system.name}` couples them",
                fix='method="interaction" solves coupled oscillators with one matrix.',
            )
        return interaction_step(method.name, job.system, found, self.turns(), job.claims, self.mollified)
