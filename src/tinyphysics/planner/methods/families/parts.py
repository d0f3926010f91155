"""Splittings of an energy into any number of parts, each with an exact flow of whatever kind: in order and back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tinyphysics.facts import Facts
from tinyphysics.planner.methods.method import AXES, PARTS, PIECES, Family, Job
from tinyphysics.step import ExactPart, Step, SubFlow
from tinyphysics.synth.methods.parts import in_shears, strang_step
from tinyphysics.system import System


def sheared(system: System, facts: Facts) -> list[ExactPart] | str:
    """Of an energy with terms that mix q and p."""
    found = facts["shears"]
    return in_shears(system, found.parts["parts"]) if found else found.because


def nothing_after(system: System) -> tuple[SubFlow, ...]:
    return ()


@dataclass(frozen=True, eq=False)
class Parts(Family):
    weights: tuple[float, ...]  # of the products that a step is composed of
    parts: Callable[[System, Facts], list[ExactPart] | str] = sheared  # or why there are none
    kind: str = PARTS
    after: Callable[[System], tuple[SubFlow, ...]] = nothing_after  # what ends each step, and moves nothing
    decay: Callable[[System, Facts], Callable[[float], SubFlow]] | None = None  # of momenta, by friction
    symplectic = True

    @property
    def takes(self) -> tuple[str, ...]:  # type: ignore[override]
        return (*Family.takes, "tensor", *(("friction",) if self.decay is not None else ()))

    @property
    def unrounded(self) -> bool:  # type: ignore[override]
        """A third of a line integral is a third, and no float64 beside it."""
        return self.kind in (AXES, PIECES)

    @property
    def stages(self) -> int:
        return len(self.weights)

    def lacking(self, system: System, facts: Facts) -> str | None:
        found = self.parts(system, facts)
        return found if isinstance(found, str) else None

    def step(self, job: Job) -> Step:
        found = self.parts(job.system, job.facts)
        assert not isinstance(found, str), "what lacks its parts is not chosen"
        decay = self.decay(job.system, job.facts) if self.decay is not None and job.system.friction else None
        step = strang_step(job.method.name, job.system, found, self.weights, job.claims, decay)
        return replace(step, body=(*step.body, *self.after(job.system)))
