"""What is a run in slices of time?  A fine and a coarse simulation of one system, or why there are none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tinyphysics.constrained import BRACKET as CONSTRAINED
from tinyphysics.errors import InputError, PlanError
from tinyphysics.given import whole
from tinyphysics.plan import Goal
from tinyphysics.runtime.api.compile import compile as compiled
from tinyphysics.runtime.api.simulation import Simulation

CHEAP = 100  # fine steps in a coarse one, where nothing is said


@dataclass(frozen=True, eq=False)
class Slices:
    """A run in slices: its fine and its coarse steps."""

    fine: Simulation
    coarse: Simulation
    count: int
    steps: int  # of the fine method in a slice
    wide: int  # of the coarse one
    names: tuple[str, ...]
    params: Mapping[str, Any]

    @property
    def ratio(self) -> float:
        """The cost of a coarse slice over that of a fine one, by counts of operations."""
        return self.wide * self.coarse.compiled.step_seconds / (self.steps * self.fine.compiled.step_seconds)

    def speedup(self, sweeps: int) -> float:
        n = self.count
        return n / (sweeps + n * (sweeps + 1) * self.ratio)


def slices_of(count: int, coarse: Any, sim: Simulation, steps: Any, given: Mapping[str, Any]) -> Slices:
    """The two simulations of a run, or why there are none."""
    if steps is None:
        raise InputError("parallel= needs steps=", fix="Pass steps=, a multiple of the number of slices.")
    steps = whole("steps", steps, 1)
    if steps % count:
        below, above = steps - steps % count, steps - steps % count + count
        near = f"{above}" if not below else f"{below} or {above}"
        raise InputError(
            f"parallel=: {steps:,} steps are not divided by {count} slices", fix=f"Pass steps={near}."
        )
    system = sim.system
    reason = (
        f"`{system.name}` is a map" if system.kind == "map"
        else "it has constraints, off which a sum of states leads" if system.bracket == CONSTRAINED
        else f"`{system.name}` depends on t" if sim.compiled.known.timed or system.clock is not None
        else "its steps draw random numbers" if sim.compiled.known.draws
        else "it has walls or events that change the motion" if system.guards
        else f"precision={sim.goal.precision!r} has no sums of states" if not sim.compiled.encoding.plain
        else next((f"`{s.name}` is {'a direction' if s.role == 'axis' else 'an attitude'}" for s in system.states
                   if s.role in ("rotor", "rotation", "axis")), "")
    )  # fmt: skip
    if reason:
        raise PlanError(f"parallel= cannot be used here: {reason}", fix="Leave parallel= out.")
    if sim.goal.dt is None:
        raise InputError("parallel= needs a dt", fix="Compile with dt=0.001.")
    length = steps // count
    coarse = coarse_of(coarse, sim, length)
    wide = length * sim.goal.dt / float(coarse.goal.dt or 0)
    if abs(wide - round(wide)) > 1e-9 * wide or round(wide) < 1:
        raise InputError(
            f"parallel=: a slice of {length * sim.goal.dt:g} is not a whole number of coarse steps of {coarse.goal.dt:g}",
            fix=f"Pass coarse={{'dt': {length * sim.goal.dt / max(1, round(wide)):g}}}.",
        )
    names = tuple(s.name for s in system.states)
    own = {k: v for k, v in given.items() if k not in names}
    return Slices(sim, coarse, count, length, round(wide), names, own)


def coarse_of(asked: Any, sim: Simulation, length: int) -> Simulation:
    if isinstance(asked, Simulation):
        mine = [(s.name, s.var.shape) for s in asked.system.states]
        if mine != [(s.name, s.var.shape) for s in sim.system.states]:
            raise InputError("coarse= has other states", fix="Compile it of the same system.")
        return asked
    if asked is not None:
        found: Simulation = compiled(sim.system.seen, **asked)
        return found
    assert sim.goal.dt is not None
    every = max(k for k in range(1, min(CHEAP, length) + 1) if length % k == 0)
    return Simulation(
        sim.system,
        Goal(every * sim.goal.dt, method=sim.compiled.known.method, propagator="loop"),
        "auto",
        "off",
    )
