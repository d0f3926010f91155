"""Which tolerance of a step makes the state as accurate as was asked, where a method chooses its own steps?

Measured as everywhere: a run from the user's state against one whose tolerance is a thousand times smaller. The error of
a state at the end is not the error of a step, and by how much they differ depends on the motion. Tolerances are powers
of ten, so that runs that ask for about the same have one program.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinyphysics.errors import PlanError
from tinyphysics.plan import Decision, Goal, Trial
from tinyphysics.planner.choice.longest import AIM, LOOKS, MARGIN
from tinyphysics.runtime.measure.pilot import WORK, Pilots, apart, as_arguments, last_row
from tinyphysics.runtime.stages.setup import Setup
from tinyphysics.runtime.state.ensemble import Inputs

FINER = 1e-3  # of a tolerance: the error of a run with that is not seen beside
LOOSEST = 1e-2
TIGHTEST = 1e-15  # what float64 still tells
MOST_TRIES = 4
CLOSE = 30.0  # a tolerance that could be so many times larger is large enough: a step would be little longer
FIRST_PART = 32  # of the time of a run, in which steps are counted


@dataclass(eq=False)
class Tolerances:
    """Runs of one method with several tolerances, on some members from t0 on."""

    pilots: Pilots

    @property
    def given(self) -> Inputs:
        return self.pilots.given

    def run(self, tolerance: float, span: float, looks: int = LOOKS) -> Any:
        given = {**as_arguments(self.given), "t0": self.pilots.t0, "dt": span / looks}
        return self.pilots.with_tolerance(tolerance).evolve(
            **given, steps=looks, save_every=1, progress=False
        )

    def substeps(self, tolerance: float, span: float) -> float:
        """How many steps the members take on average."""
        return float(np.sum(self.run(tolerance, span, 1).metrics["substeps"])) / max(self.given.members, 1)

    def error(self, tolerance: float, span: float) -> float:
        """Of the state, the largest at eight times, against a run with a smaller tolerance."""
        finer = max(tolerance * FINER, TIGHTEST)
        finer = finer if finer < tolerance else 10.0 * tolerance  # as far apart, the other way round
        mine, other = (self.pilots.states(self.run(x, span)) for x in (tolerance, finer))
        return math.inf if mine is None or other is None else apart(mine, other)


def affordable(t: Tolerances, goal: float, reach: float) -> float:
    """The time of the pilots: that of the run, or as much of it as a pilot may cost."""
    steps = t.substeps(in_tens(goal), reach / FIRST_PART) * FIRST_PART
    operations = max(t.pilots.sim.compiled.known.operations, 1) * t.given.members
    return reach * min(1.0, WORK / max(steps * operations, 1.0))


def in_tens(x: float) -> float:
    """The power of ten at or below x that a tolerance may be."""
    return float(f"1e{math.floor(math.log10(min(max(x, TIGHTEST), LOOSEST)) + 1e-9)}")


def choose_tolerance(t: Tolerances, goal: Goal, reach: float) -> Decision:
    """The largest that was measured to meet the goal, or a PlanError with all that was measured."""
    assert goal.error is not None
    method = t.pilots.sim.compiled.known.method
    span = affordable(t, goal.error, reach)
    grows = max(reach / span, 1.0) ** 2
    tolerance, tried = in_tens(goal.error), dict[float, float]()
    for _ in range(MOST_TRIES):
        tried[tolerance] = found = t.error(tolerance, span) * grows
        meets = found <= MARGIN * goal.error
        new = in_tens(tolerance * AIM * goal.error / found) if math.isfinite(found) else tolerance * FINER
        if meets and new < CLOSE * tolerance or new in tried or not TIGHTEST <= new <= LOOSEST:
            break
        tolerance = new
    good = [x for x, found in tried.items() if found <= MARGIN * goal.error]
    trials = tuple(
        Trial(method, span, found, None, -math.log(x), x in good, f"tolerance = {x:g}")
        for x, found in tried.items()
    )
    if not good:
        raise PlanError(
            f"no tolerance of `{method}` keeps the state to {goal.error:g} over a time of {reach:g} for "
            f"`{t.pilots.sim.system.name}`. Tried:\n  "
            + "\n  ".join(f"tolerance = {x:g}: error {found:.1e}" for x, found in tried.items()),
            fix="Allow a larger error or a shorter time: in chaotic motion errors grow exponentially.",
        )
    best = max(good)
    return Decision(method, span, tried[best], None, span, reach, None, trials, best)


def error_of_run(sim: Setup, out: Any, some: Inputs, who: list[int]) -> float:
    """Of the last state of a run, against one with a smaller tolerance."""
    run, steps = out.origin.run, out.origin.last
    assert sim.goal.tolerance is not None
    t = Tolerances(Pilots(sim, some, run.t0))
    tolerance = max(sim.goal.tolerance * FINER, TIGHTEST)
    tolerance = tolerance if tolerance < sim.goal.tolerance else 10.0 * sim.goal.tolerance
    other = t.pilots.states(t.run(tolerance, run.dt * steps))
    if other is None:
        return math.inf
    last = last_row(out.final.states, who, run.given.is_ensemble)
    return apart({name: np.concatenate([v[:-1], last[name]]) for name, v in other.items()}, other)
