"""Which watches does a run have, and how often do they look?  So rarely that they cost a few per cent of the run.

The stride follows from counts of operations alone: it is the same on every machine, and so are the steps at which runs stop.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tinyphysics.runtime.stages.setup import Setup
from tinyphysics.runtime.state.run import NearPoles, Run, Watch

WORTH = 0.1  # seconds of a run that is watched unasked: its charges have to be found and compiled first
SHORTEST = 1e-8  # seconds of a step of one member, whose operations wait for each other
LANES = 16  # operations at a time, where there are many
GPU_LANES, GPU_ALONE = 2_500, 10_000  # the same there, and members that take no longer than one
CALL = 1e-3  # seconds of a look, however few members there are
NUMBER = 2e-8  # seconds of a look for each number of a state
SHARE = 0.03  # of the time of a run
FEWEST = 64  # steps between two looks
MOST = 1 << 20


def seconds_a_step(setup: Setup, r: Run) -> float:
    """At most, of all members."""
    if r.target.backend == "cuda":
        return max(r.given.members, GPU_ALONE) * setup.compiled.step_seconds / GPU_LANES
    return max(r.given.members * setup.compiled.step_seconds / LANES, SHORTEST)


def stride(setup: Setup, r: Run) -> int:
    """Steps between two looks, a power of two: so many that looks take SHARE of the run."""
    if r.looks:
        return r.looks
    if setup.check_every is not None:
        return setup.check_every
    numbers = r.given.members * sum(s.var.size for s in r.system.states)
    steps = (CALL + NUMBER * numbers) / (SHARE * seconds_a_step(setup, r))
    return min(MOST, max(FEWEST, 1 << math.ceil(math.log2(max(steps, 1.0)))))


def is_asked(setup: Setup, r: Run) -> bool:
    """By checks="strict" or thresholds, check_every= or a fault: then a run is watched however short it is."""
    asked = setup.checks == "strict" or bool(setup.thresholds) or setup.check_every is not None
    return asked or any(a.since is not None for a in r.acts)


def is_watched(setup: Setup, r: Run) -> bool:
    """Long runs, and those of which it is asked."""
    steps = r.schedule.steps - r.schedule.first
    if setup.checks == "off" or steps < 1 or not r.given.members:
        return False
    if r.looks is not None:
        return r.looks > 0
    if is_asked(setup, r):
        return True
    # a look at the beginning and one at the end have to be worth it, too
    looks = 2 if r.target.backend == "cuda" else 1
    return steps * seconds_a_step(setup, r) >= WORTH and steps >= looks * stride(setup, r)


def watches(setup: Setup, r: Run) -> Sequence[Watch]:
    if not is_watched(setup, r):
        return ()
    from tinyphysics.runtime.measure.watched_charges import watch_charges
    from tinyphysics.runtime.measure.watched_energy import watch_energy

    every = stride(setup, r)
    charges, energy = watch_charges(setup, r, every), watch_energy(setup, r, every, is_asked(setup, r))
    return (*(() if charges is None else charges[1:]), *(() if energy is None else (energy,)))


def poles(setup: Setup, r: Run) -> NearPoles | None:
    if setup.checks == "off" or not setup.compiled.poles:
        return None
    from tinyphysics.runtime.measure.near_poles import near_poles

    return near_poles(setup, r)
