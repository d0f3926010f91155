"""RATTLE and its compositions, for energies T(p) + V(q) whose positions are held by constraints g(q) = 0."""

from __future__ import annotations

from dataclasses import dataclass

from tinyphysics.facts import Facts
from tinyphysics.planner.methods.families.lengths import check_solved
from tinyphysics.planner.methods.method import CONSTRAINED, HELD_BATH, Family, Job, Method
from tinyphysics.report import Row
from tinyphysics.rules.formulas.constraints import WRITTEN
from tinyphysics.step import Step
from tinyphysics.synth.methods.long_chains import arrays_of
from tinyphysics.synth.methods.rattle import in_loops, rattle, rattle_in_bath
from tinyphysics.system import System
from tinyphysics.util import plural


def held_numbers(system: System) -> int:
    return sum(g.size for g in system.tensor)


@dataclass(frozen=True, eq=False)
class Rattle(Family):
    weights: tuple[float, ...]
    kind = CONSTRAINED
    symplectic = True
    kicks_once = True
    takes = ("energy", "tensor", "motion", "stiffness", "fixman")

    @property
    def stages(self) -> int:
        return len(self.weights)

    def lacking(self, system: System, facts: Facts) -> str | None:
        held, numbers = held_numbers(system), sum(q.size for q in system.q)
        if held >= numbers:
            return f"{held} constraints leave nothing free of {plural(numbers, 'number')} of position"
        if in_loops(system) and facts["separable"]:
            found = arrays_of(system, facts["separable"].T)
            told = f"{held} constraints are too many to be written out, {WRITTEN} at most; in loops, "
            return f"{told}{found}" if isinstance(found, str) else None
        return None

    def step(self, job: Job) -> Step:
        if not in_loops(job.system):
            check_solved(job)
        split = job.facts["separable"]
        return rattle(job.method.name, job.system, split.T, split.V, self.weights, job.claims)

    def rows(self, method: Method, facts: Facts) -> list[Row]:
        what = "are kept along g(q) = 0 in every drift, momenta where one looks"
        return [Row("constraints", "to rounding", f"positions {what}")]


@dataclass(frozen=True, eq=False)
class RattleInBath(Family):
    """The same with a bath between two drifts."""

    moves: tuple[tuple[str, float], ...]
    kind = HELD_BATH
    kicks_once = True
    takes = ("energy", "tensor", "stiffness", "fixman", "heat", "bias")

    @property
    def stages(self) -> int:
        return 1

    def keeps(self, method: Method) -> tuple[str, ...]:
        return ("canonical", "symmetric", "consistent")

    def lacking(self, system: System, facts: Facts) -> str | None:
        return Rattle((1.0,)).lacking(system, facts)

    def step(self, job: Job) -> Step:
        if not in_loops(job.system):
            check_solved(job)
        split = job.facts["separable"]
        return rattle_in_bath(job.method.name, job.system, split.T, split.V, self.moves, job.claims)

    def rows(self, method: Method, facts: Facts) -> list[Row]:
        return Rattle((1.0,)).rows(method, facts)
