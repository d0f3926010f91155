"""Steps of turning bodies whose energy does not split, or is not to be split: equations that keep the bracket."""

from __future__ import annotations

from dataclasses import dataclass

from tinyphysics.facts import Facts
from tinyphysics.planner.methods.families.lengths import check_solved
from tinyphysics.planner.methods.method import ROUNDS, SPHERICAL, Family, Job
from tinyphysics.step import ExactPart, Step
from tinyphysics.synth.methods.rotations import kick
from tinyphysics.synth.methods.solved_turns import by_cayley, spherical_midpoint
from tinyphysics.system import System
from tinyphysics.turning import BodyFrame, SpaceFrame

MOST_NUMBERS = 96  # that are solved for, each written out


def too_many(system: System) -> str:
    numbers = sum(s.var.size for s in system.states)
    return (
        f"{numbers} numbers are too many to be solved for: {MOST_NUMBERS} at most"
        if numbers > MOST_NUMBERS
        else ""
    )


@dataclass(frozen=True, eq=False)
class SphericalMidpoint(Family):
    """Of angular momenta or spins alone, and any energy of them."""

    weights: tuple[float, ...]
    kind = SPHERICAL
    symplectic = True

    @property
    def stages(self) -> int:
        return len(self.weights) * ROUNDS

    def lacking(self, system: System, facts: Facts) -> str | None:
        if not isinstance(system.structure, (BodyFrame, SpaceFrame)):
            return "it is for angular momenta or spins alone, without attitudes and positions"
        return too_many(system) or None

    def step(self, job: Job) -> Step:
        check_solved(job)
        return spherical_midpoint(job.method.name, job.system, self.weights, job.claims)


def in_cayley_steps(system: System, facts: Facts) -> list[ExactPart] | str:
    """A kick, and turns of all bodies at once; or why there are none."""
    found = facts["turns"]
    if "T" not in found.parts:
        return found.because
    kinds = system.structure.turning
    if len(kinds) != 1 or kinds[0].sign < 0:
        return "it is for bodies with angular momenta in their own frames, all of one kind"
    if why := too_many(system):
        return why
    parts = [kick(system, u, label) for u, label in ((found.V, "V"), (found.K, "K")) if u is not None]
    return [*parts, by_cayley(system, found.T)]
