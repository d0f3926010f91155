"""Split steps of complex fields: waves turn in Fourier space, numbers turn in space, both exactly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tinyphysics.analysis.phases import NAME
from tinyphysics.planner.methods.method import PHASES, Family, Job, Sequence_
from tinyphysics.step import Step
from tinyphysics.synth.methods.split_steps import split_turns


@dataclass(frozen=True, eq=False)
class SplitSteps(Family):
    moves: Callable[[], Sequence_]
    kind = PHASES
    symplectic = True

    @property
    def stages(self) -> int:
        """Turns of all waves, each of which is a transform and its inverse."""
        return max(sum(part == "T" for part, _ in self.moves()) - self.merges, 1)

    @property
    def merges(self) -> bool:
        moves = self.moves()
        return moves[0][0] == moves[-1][0] == "T"

    def step(self, job: Job) -> Step:
        return split_turns(
            job.method.name, job.system, job.facts[NAME].parts["parts"], self.moves(), job.claims
        )
