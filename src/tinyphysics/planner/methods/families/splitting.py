"""Splittings into kicks and drifts, for energies T(p) + V(q) and for forces of positions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from tinyphysics.analysis.inverse_distance import FORM, inverse_distance
from tinyphysics.errors import PlanError
from tinyphysics.facts import Facts
from tinyphysics.ir.reduction import FEW
from tinyphysics.planner.methods.families.rates import kinetic
from tinyphysics.planner.methods.method import SPLITTING, SYMPLECTIC, Family, Job, Method, Sequence_
from tinyphysics.planner.methods.stability import PARTS, of_splitting
from tinyphysics.report import Row
from tinyphysics.step import Step
from tinyphysics.synth.coefficients.clocks import in_three_parts
from tinyphysics.synth.methods.mesh_forces import DifferentiatedWaves
from tinyphysics.synth.methods.splitting import Approximate, split_step
from tinyphysics.util import plural


@dataclass(frozen=True, eq=False)
class Splitting(Family):
    moves: Callable[[], Sequence_]
    kicks: int = 0  # of one step, where they are known without its weights
    processor: Callable[[], Sequence_] | None = None  # before the first step, undone where one looks
    kind = SPLITTING
    symplectic = True
    takes = (*Family.takes, "friction")

    def sequence(self) -> Sequence_:
        return self.moves()

    def in_three_parts(self) -> bool:
        return in_three_parts(self.moves(), self.processor is not None)

    @property
    def stages(self) -> int:
        if self.kicks:
            return self.kicks
        parts = [part for part, *_ in self.moves()]
        merged = len(parts) > 2 and parts[0] == parts[-1]
        return parts.count("V") - (merged and parts[0] == "V")

    @property
    def limit(self) -> float | None:
        return limit_of(self)

    def requires(self, method: Method) -> tuple[str, ...]:
        return ("separable", "one clock", "friction", *method.needs)

    def step(self, job: Job) -> Step:
        system, name, time = job.system, job.method.name, job.facts["explicit time"]
        claims = tuple(c for c in job.claims if c != SYMPLECTIC)
        processor = None if self.processor is None else self.processor()
        if system.kind == "forces":
            volume = "volume-factor" if system.friction else "volume-preserving"
            claims, inside = (volume, *claims), ["V"] if time else []
            return split_step(
                name, system, kinetic(system), None, self.moves(), claims, inside, None, processor
            )
        approximate: Approximate | DifferentiatedWaves | None = None
        if job.goal.approximate is not None:
            approximate = approximated(job, job.goal.approximate)
        elif system.long_range is not None and system.long_range.settings.by_waves:
            approximate = DifferentiatedWaves(job.facts["separable"].V)
        split, inside = job.facts["separable"], time.inside if time else []
        claims = (SYMPLECTIC if approximate is None else "volume-preserving", *claims)
        if system.friction:
            shown = ("volume-factor",) if approximate is not None else system.structure.claims[:2]
            claims = (*shown, *(c for c in job.claims if c not in system.structure.claims[:2]))
        return split_step(
            name, system, split.T, split.V, self.moves(), claims, inside, approximate, processor
        )

    @property
    def processed(self) -> bool:
        return self.processor is not None

    def rows(self, method: Method, facts: Facts) -> list[Row]:
        out = []
        if method.gradients:
            count = sum(part == "W" for part, _ in self.moves())
            what = "a step: of |dV/dq|**2 in the metric of T, along the force; no Hessian is formed"
            out.append(Row("force gradients", str(count), what))
        if self.processor is not None:
            kicks = plural(sum(part == "V" for part, _ in self.processor()), "kick")
            when = "before the first step, and undone on the copy that frames and observables use"
            out.append(Row("processor", kicks, when))
        if "explicit time" in facts and facts["explicit time"] and len(facts["explicit time"].inside) > 1:
            why = "T and V both depend on time, which advances between them"
            out.append(Row("time", "a third part", why))
        return out


@cache
def limit_of(family: Splitting) -> float | None:
    """Found on demand, once for each method."""
    sequence = family.moves()
    plain = all(len(entry) == 2 and entry[0] in PARTS for entry in sequence)
    return of_splitting(sequence) if plain else None


def approximated(job: Job, error: float) -> Approximate:
    """What a tree sums, or a PlanError that says what was looked for."""
    system, facts = job.system, job.facts
    found = inverse_distance(system, facts["separable"].V)
    if not found:
        raise PlanError(
            f"approximate={error:g}, and no sum of this form was found in `{system.name}`:\n  {FORM}\n"
            f"  {found.because}",
            site=found.site,
            fix="Leave approximate= out: then all forces are exact.",
        )
    bodies = system.q[0].shape[0]
    if bodies <= FEW:
        raise PlanError(
            f"approximate= for n = {bodies}",
            fix="Leave it out: for so few bodies the direct sum is faster, and exact.",
        )
    return Approximate(found, error)
