"""Methods that estimate their own error, and choose their steps by it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tinyphysics.errors import PlanError
from tinyphysics.ir import toposort
from tinyphysics.ir.reduction import FEW
from tinyphysics.planner.methods.families.lengths import check_written, has_axis, in_steps, once
from tinyphysics.planner.methods.families.rates import rates_of
from tinyphysics.planner.methods.method import EMBEDDED, Family, Job, tolerance_of
from tinyphysics.rules.calculus.unroll import stays_whole
from tinyphysics.step import Step
from tinyphysics.synth.methods.embedded import ROUNDED, AnyRates, Problem, Tolerance, embedded_step
from tinyphysics.synth.methods.embedded import Embedded as EmbeddedMethod
from tinyphysics.synth.methods.given_length import OfGivenLength, embedded_of_given_length
from tinyphysics.synth.methods.radau import radau
from tinyphysics.system import System

Made = Callable[[Problem], tuple[AnyRates, EmbeddedMethod]]
OF_AN_ATTEMPT = 160  # operations of a number in an attempt of order 8, beside the rates
MOST_TRIED = 10_000  # operations of an attempt
# numbers, of which a matrix of pairs is eliminated in every attempt: 3*n**3 operations if it is full
MOST_SOLVED = 14


@dataclass(frozen=True, eq=False)
class Embedded(Family):
    """An explicit pair of methods; or implicit stages, by Gaussian elimination, for stiff systems."""

    relative: float  # the tolerance of a step, if none is asked for
    slopes: int  # of an attempt
    explicit: Made | None = None  # by slopes alone: then it runs on arrays too
    linear: Made | None = None  # by linear systems, on arrays by a solver without a matrix
    kind = EMBEDDED
    takes = (*Family.takes, "tensor", "friction")
    adaptive = True
    each_number = True

    @property
    def stages(self) -> int:
        return self.slopes

    @property
    def implicit(self) -> bool:
        return self.explicit is None and self.linear is None

    def tolerance(self, precision: str) -> float:
        return self.relative

    def step(self, job: Job) -> Step:
        system, name = job.system, job.method.name
        rates, terms = rates_of(system)
        numbers = sum(s.var.size for s in system.states)
        if self.implicit and numbers > MOST_SOLVED:
            raise PlanError(
                f"`{name}` writes out a Gaussian elimination of {numbers} numbers; it can do {MOST_SOLVED} at most",
                fix='method="rodas" steps stiff arrays of any length; method="dop853" needs no elimination.'
                if numbers * OF_AN_ATTEMPT < MOST_TRIED or system.kind == "ode"
                else in_steps(job),
            )
        tolerance = Tolerance(tolerance_of(job.method, job.goal), job.goal.absolute)
        count = once(rates) * self.slopes + numbers * OF_AN_ATTEMPT
        long = count > MOST_TRIED or stays_whole(toposort(rates))
        arrays = self.explicit is not None and long and has_axis(system)
        if self.linear is not None:
            arrays = numbers > MOST_SOLVED
            check_shapes(job, arrays)
        elif not arrays:
            check_written(job, count, MOST_TRIED)
        p = Problem(name, system, terms, rates, tolerance, arrays)
        return embedded_step(p, *(self.linear or self.explicit or radau)(p))

    def of_given_length(self, job: Job) -> OfGivenLength | None:
        """Equations are solved until corrections are as small as rounding, whatever the tolerance of the steps."""
        system, (rates, terms) = job.system, rates_of(job.system)
        numbers = sum(s.var.size for s in system.states)
        arrays = once(rates) * self.slopes + numbers * OF_AN_ATTEMPT > MOST_TRIED and has_axis(system)
        if arrays and self.explicit is None or not arrays and self.implicit and numbers > MOST_SOLVED:
            return None
        p = Problem(job.method.name, system, terms, rates, Tolerance(ROUNDED), arrays)
        return embedded_of_given_length(p, *(self.linear or self.explicit or radau)(p))


def check_shapes(job: Job, arrays: bool) -> None:
    """Whole arrays are solved for as one, so that they have one shape."""
    shapes = {s.var.shape for s in job.system.states}
    if arrays and (len(shapes) > 1 or not has_axis(job.system)):
        told = " and ".join(f"`{s.name}` {list(s.var.shape)}" for s in job.system.states[:3])
        raise PlanError(
            f"`{job.method.name}` solves for all states at once, as arrays of one shape: {told} are not",
            fix='Write them as one array, or expand them to one shape; or choose method="dop853".',
        )


def has_long_axis(system: System) -> bool:
    """Is there a state that loops can go along?"""
    return any(n > FEW for s in system.states for n in s.var.shape)
