"""What does a method really do on the user's state?  Short runs of it, and of the same with half the step.

The error of a state is relative to its own size: the largest difference of any number of q between the two runs, over
the largest number of q (and so for p), of the worst member. Runs are compared eight times in a pilot; how large a state
becomes is watched all along, since those eight may all be where it passes through zero.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from inspect import Parameter, Signature
from typing import Any

import numpy as np

from tinyphysics.device.cuda.dlpack import here
from tinyphysics.front.functions import absolute
from tinyphysics.planner.choice.longest import LOOKS, Course, Measured
from tinyphysics.planner.methods.method import Method
from tinyphysics.runtime.measure.frequency import Frequency, frequency
from tinyphysics.runtime.stages.setup import Setup
from tinyphysics.runtime.state.ensemble import Inputs
from tinyphysics.step import NO_ENERGY

MOST_MEMBERS = 16  # of an ensemble: those that are piloted
PERIODS = 64  # of the fastest vibration, in the pilot of a run that is as long
SOME_PERIODS = 16  # where nothing says how long a run will be
FEWEST_PERIODS = 2
WORK = 1e9  # operations that one pilot may take: about a second
LAUNCHES = 100_000  # operations in the time that calling the loops of a step takes
STEPS_A_PERIOD = 200  # for which they should do
MOST_WATCHED = 4096  # times at which the size of a state is looked at


def sample(i: Inputs, most: int = MOST_MEMBERS) -> list[int]:
    """Members that stand for all: as many as may be, at even distances."""
    n = min(i.members, most)
    return [k * (i.members - 1) // max(n - 1, 1) for k in range(n)]


def part(i: Inputs, who: list[int]) -> Inputs:
    """Some members of a run."""
    return replace(
        i,
        states={name: np.array(here(v[who])) for name, v in i.states.items()},
        params={name: v[who] if len(v) > 1 else v for name, v in i.params.items()},
        members=len(who),
    )


def as_arguments(i: Inputs) -> dict[str, Any]:
    """What evolve has to be given for these inputs."""
    if not i.is_ensemble:
        return {name: v[0] for name, v in (i.states | i.own).items()}
    return {**i.states, **{name: v if len(v) > 1 or i.members == 1 else v[0] for name, v in i.own.items()}}


def last_row(states: Mapping[str, Any], who: list[int], is_ensemble: bool) -> dict[str, Any]:
    """A state of some members, as the last of frames."""
    arrays = {name: np.asarray(v) for name, v in states.items()}
    return {name: v[who][None] if is_ensemble else v[None, None] for name, v in arrays.items()}


def apart(a: Mapping[str, Any], b: Mapping[str, Any], largest: Mapping[str, Any] | None = None) -> float:
    """The error of the worst state of the worst member: arrays of (times, members, shape...); `largest` by member.

    Two numbers that are shown as one may still differ in what is not shown: no error is smaller than the last digit.
    """
    worst = max((float(np.finfo(x.dtype).eps) for x in a.values()), default=0.0)
    for name in a:
        x, y = (np.asarray(v[name], np.float64).reshape(*v[name].shape[:2], -1) for v in (a, b))
        size = np.maximum(np.abs(x).max(axis=(0, 2), initial=0.0), 0.0 if largest is None else largest[name])
        off = np.abs(x - y).max(axis=(0, 2), initial=0.0) / np.where(size > 0, size, 1.0)
        worst = max(worst, float(np.max(off, initial=0.0)))
    return worst


def extent(name: str) -> Any:
    """An observable: the largest number of a state."""

    def watched(**given: Any) -> Any:
        x = absolute(given[name])
        return x.max() if x.shape else x

    watched.__signature__ = Signature([Parameter(name, Parameter.KEYWORD_ONLY)])  # type: ignore[attr-defined]
    return watched


def looks_in(steps: int) -> int:
    """At how many times two runs of one span can be compared: as many as divide the steps, up to eight."""
    return next(k for k in range(LOOKS, 0, -1) if steps % k == 0)


def estimate(difference: float, order: int, times: float = 2.0) -> float:
    """The error of a step, from the difference to one that is so many times shorter."""
    return difference / (1 - times**-order)


@dataclass(eq=False)
class Pilots:
    """Runs of methods on some members from t0 on."""

    sim: Setup
    given: Inputs
    t0: float
    methods: dict[str, Setup] = field(default_factory=dict)
    seen: dict[str, Any] | None = None  # the largest number of each state, by member

    def simulation(self, method: str) -> Setup:
        """A method as it would run without goals."""
        if method not in self.methods:
            self.methods[method] = self.sim.variant(self.sim.goal.by_method(method, dt=None))
        return self.methods[method]

    def with_tolerance(self, tolerance: float) -> Setup:
        """The method of the simulation, which chooses its own steps, with another tolerance and without goals."""
        name = f"tolerance {tolerance!r}"
        if name not in self.methods:
            plain = replace(self.sim.goal, dt=None, error=None, decision=None, tolerance=tolerance)
            self.methods[name] = self.sim.variant(plain)
        return self.methods[name]

    def operations(self, m: Method) -> int:
        return max(self.simulation(m.name).compiled.known.operations, 1)

    def effort(self, m: Method) -> int:
        """Of a step, in operations: one in loops is called from Python."""
        loops = self.simulation(m.name).compiled.in_loops(self.given.members)
        return self.operations(m) + (LAUNCHES if loops else 0)

    def run(self, method: str, dt: float, steps: int, looks: int = 1) -> Any:
        every = max(steps // looks, 1)
        return self.simulation(method).evolve(
            **as_arguments(self.given), dt=dt, steps=steps, t0=self.t0, save_every=every, progress=False
        )

    def largest(self, method: str, dt: float, steps: int) -> dict[str, Any]:
        """How large each state becomes, by member: watched once, in the first pilot that goes well."""
        if self.seen is None:
            names = [s.name for s in self.sim.system.states]
            out = self.simulation(method).evolve(
                **as_arguments(self.given),
                dt=dt,
                steps=steps,
                t0=self.t0,
                frames=2,
                progress=False,
                observe={f"largest {n}": extent(n) for n in names},
                observe_every=max(steps // MOST_WATCHED, 1),
            )
            found = {
                n: np.asarray(out[f"largest {n}"]).reshape(-1, self.given.members).max(axis=0) for n in names
            }
            if out.stops or not all(np.isfinite(v).all() for v in found.values()):
                return dict.fromkeys(names, 0.0)
            self.seen = found
        return self.seen

    def states(self, out: Any) -> dict[str, Any] | None:
        """(times, members, shape...), the start among them; None if a run has failed."""
        if out.stops:
            return None
        return {name: v if self.given.is_ensemble else v[:, None] for name, v in out.frames.items()}

    def measure(self, m: Method, dt: float, steps: int) -> Measured:
        """A step of a method against half of it, and its energy in every step."""
        looks = looks_in(steps)
        out = self.run(m.name, dt, steps, looks)
        mine = self.states(out)
        finer = None if mine is None else self.states(self.run(m.name, dt / 2, 2 * steps, looks))
        if mine is None or finer is None:
            return Measured(math.inf)
        compiled = self.simulation(m.name).compiled
        unknown = self.sim.system.energy is None or NO_ENERGY in compiled.known.traits
        unknown = unknown or self.sim.goal.energy_drift is None and not compiled.follows_energy
        drift = None if unknown else float(np.max(out.drift("energy")))
        error = estimate(apart(mine, finer, self.largest(m.name, dt, steps)), m.order)
        if not math.isfinite(error) or drift is not None and not math.isfinite(drift):
            return Measured(math.inf)
        return Measured(error, drift)

    def frequency(self) -> Frequency:
        compiled = self.sim.compiled
        return frequency(compiled, compiled.built.facts, self.given, self.t0)

    def course(self, reach: float | None, dt: float | None) -> Course | None:
        """From the fastest vibration: its periods, as many as are affordable; None if nothing says how long."""
        f = self.frequency()
        fastest = f.fastest if math.isfinite(f.fastest) else None
        rate = f.rate if math.isfinite(f.rate) else 0.0
        work = WORK / self.given.members
        enough = work / (max(self.sim.compiled.known.operations, 1) * STEPS_A_PERIOD)
        periods = min(max(enough, FEWEST_PERIODS), PERIODS if reach is not None else SOME_PERIODS)
        if not rate and reach is None:
            return None
        span = periods * 2 * math.pi / rate if rate else abs(reach or 0.0)
        if dt is None:
            reach = span if reach is None else reach
            return Course(reach / max(math.ceil(reach / span * (1 - 1e-9)), 1), reach, fastest, work=work)
        steps = LOOKS * math.ceil(span / abs(dt) / LOOKS)
        steps = steps if reach is None else min(steps, max(round(reach / abs(dt)), 1))
        return Course(steps * abs(dt), max(steps * abs(dt), reach or 0.0), fastest, dt, steps, work)
