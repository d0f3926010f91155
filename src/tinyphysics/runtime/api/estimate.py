"""What will a run cost?  Seconds and bytes, from a short trial on this machine."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinyphysics.errors import PlanError
from tinyphysics.pipeline import adjoint
from tinyphysics.planner.cost.cost import operations
from tinyphysics.runtime.measure.course import loop_bytes
from tinyphysics.runtime.measure.plan_past import choose_past
from tinyphysics.runtime.stages.setup import Setup
from tinyphysics.runtime.state.frames import most_frames
from tinyphysics.runtime.state.schedule import whole
from tinyphysics.tpir.precision.precision import PRECISIONS

CALL = 1.5e-4  # seconds of a step that is pulled back alone, besides its work
ENDS = {"frames": 2}  # the first and the last


def estimate(sim: Setup, steps: Any, members: Any, frames: Any) -> dict[str, Any]:
    """What `sim.estimate` returns."""
    steps, members = whole("steps", steps, 0), whole("members", members, 0)
    frames = None if frames is None else whole("frames", frames, 0)
    if sim.goal.is_accurate and sim.goal.decision is None:
        raise PlanError(
            "the cost of a run is not known before its method is chosen",
            fix='Pass pilot={"q": ..., "p": ...} to compile, or run it first.',
        )
    if sim.system.levels and not sim.goal.inner and sim.goal.propagator in (None, "loop"):
        raise PlanError(
            "the cost of a run is not known before the number of fast kicks in a step is",
            fix='Pass inner=10, or pilot={"q": ..., "p": ...} to compile, or run it first.',
        )
    if sim.compiled.adaptive and sim.goal.dt is None:
        raise PlanError(
            "the number of steps is not known before the run",
            fix="Pass dt to compile: then steps= counts output times dt apart.",
        )
    quiet = sim.settled()
    quiet.checks = "off"  # a trial is of no state that goals were made for
    rows = sum(s.var.size for s in sim.system.states)
    trial: dict[str, Any] = {
        s.name: np.ones(
            (min(members, 4096), *s.var.shape), None if s.var.dtype.is_float else s.var.dtype.numpy
        )
        for s in sim.system.states
    }
    given = {p.name: 1.0 if p.default is None else p.default for p in sim.system.parameters}
    size = PRECISIONS[sim.goal.precision].bits / 8  # of all words
    if frames is None:
        frames = min(most_frames(steps, int(size * rows * members)), steps + 1)
    if sim.goal.dt is None and sim.system.kind != "map" and not sim.goal.is_accurate:
        given["dt"] = 1.0  # what a step costs does not depend on it
    quiet.evolve(steps=1, progress=False, **trial, **given)  # compiles
    jumps = sim.compiled.known.way != "loop"
    n, seconds = 1, 0.0
    while seconds < 0.02 and n < steps:
        n = steps if jumps else min(2 * n, steps)
        runs = [quiet.evolve(steps=n, options=ENDS, progress=False, **trial, **given) for _ in range(2)]
        seconds = min(out.metrics["seconds"]["run"] for out in runs)  # one alone may have had to wait
    if jumps:  # a frame costs the same wherever it is
        per_step = seconds * max(frames - 1, 1) / max(steps * min(members, 4096), 1)
    else:
        per_step = seconds / max(n * min(members, 4096), 1)
    return {"seconds": per_step * steps * members, "bytes": size * rows * members * frames}


def estimate_gradient(
    sim: Setup, steps: Any, members: Any, past: Any, memory: Any, snapshots: Any
) -> dict[str, Any]:
    """The same of value_and_grad by all states and parameters."""
    forward = estimate(sim, steps, members, 2)
    found = choose_past(sim, steps, loop_bytes(sim, members), past, memory, snapshots)
    parameters = [p.var for p in sim.system.parameters if p.var.dtype.is_float]
    if sim.compiled.jump is not None:  # one back, one along each parameter
        told = {"past": found.kind, "snapshots": found.snapshots, "forward_steps": 0}
        return {**forward, "seconds": forward["seconds"] * (2 + sum(v.size for v in parameters)), **told}
    back = adjoint(sim.built, parameters, found.kind == "reverse" or sim.goal.precision == "lattice")
    own = sum(operations(sim.built.program.step, sim.built.program).values())
    ratio = sum(operations(back.step, back).values()) / max(own, 1)
    once = forward["seconds"] / max(steps, 1)
    seconds = once * (found.forward_steps + ratio * steps) + (
        0.0 if found.kind == "reverse" else CALL * steps
    )
    return {
        "seconds": seconds,
        "bytes": found.bytes,
        "past": found.kind,
        "snapshots": found.snapshots,
        "forward_steps": found.forward_steps,
    }
