"""A run whose state begins and ends on a GPU, in arrays of the user's library: nothing of it comes to this machine.

Only the final state is kept. What else a run can tell (frames, energies, observables) needs the state here, and is asked for
with NumPy arrays; bits are the same.
"""
from __future__ import annotations

import time as clock
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tinyphysics.device import cuda, exchange
from tinyphysics.device.host import NUMPY_DTYPE
from tinyphysics.errors import InputError, PlanError
from tinyphysics.pipeline import on_orbits
from tinyphysics.planner.catalog import BY_NAME, TURNING
from tinyphysics.runtime.backend import engine_for, transferred
from tinyphysics.runtime.digest import state_hash
from tinyphysics.runtime.ensemble import inputs
from tinyphysics.runtime.indices import check_indices
from tinyphysics.runtime.replay import Failure, locate
from tinyphysics.runtime.schedule import checked_time, count_steps, time_at
from tinyphysics.runtime.simulation import check_clock, checked_step
from tinyphysics.system import Family
from tinyphysics.trajectory import Frame, Stop

NOT_HERE = "Pass NumPy arrays: then it is computed where the run is, and comes here."


@dataclass(eq=False)
class OnDevice:
    """What such a run returns: `out.final.q` is an array of the library that `q` was of."""

    final: Frame
    stops: tuple[Stop, ...]
    metrics: dict[str, Any]
    there: Mapping[str, Any] = field(repr=False)
    marked: str = ""  # before a hash that is not one of exact arithmetic

    @property
    def t(self) -> Any:
        return self.final.t

    @property
    def stopped(self) -> Stop | None:
        return min(self.stops, key=lambda s: s.step) if self.stops else None

    @property
    def hash(self) -> str:
        """Of the final state, which is copied here for it."""
        return self.marked + state_hash({name: a.numpy() for name, a in self.there.items()})

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"a run on arrays of a GPU keeps its final state alone, and has no `{name}`. {NOT_HERE}")


def trouble(sim: Any) -> str:
    """What of a simulation looks at the state before it runs, or besides; empty if nothing does."""
    goal, system = sim.goal, sim.system
    if goal.is_accurate:  # before anything is compiled: pilots decide what
        return "a goal such as energy_drift="
    found = {
        "parts that are fast and slow": bool(system.levels), "bodies in the order of their orbits": on_orbits(goal),
        "time=": system.clock is not None, "project=": bool(goal.project), "scale=": goal.scale != "off",
        "a random number": sim.compiled.draws, "a monitor": bool(sim.monitors), 'checks="strict"': sim.checks == "strict",
    }  # fmt: skip
    method = sim.compiled.known.method
    if method in TURNING or method in BY_NAME and BY_NAME[method].family == "exponential":
        return f"the method {method}"
    return next((what for what, there in found.items() if there), "")


def evolve_there(
    sim: Any, given: Mapping[str, Any], dt: float | None, steps: int | None, until: float | None, t0: float,
    refused: Mapping[str, Any],
) -> OnDevice:  # fmt: skip
    """The run; `refused` are options that need the state here."""
    for name, value in refused.items():
        if value is not None:
            raise PlanError(f"{name}= does not go with arrays on a GPU", fix=NOT_HERE)
    if isinstance(sim.source, Family):
        raise PlanError(f"the sizes of `{sim.source.name}` are still open, and arrays on a GPU do not say them",
                        fix=f"Pass sizes={{{', '.join(f'{n!r}: ...' for n in sim.source.letters)}}} to compile.")  # fmt: skip
    if what := trouble(sim):
        raise PlanError(f"{what} does not go with arrays on a GPU", fix=NOT_HERE)
    began = clock.perf_counter()
    system, compiled, target = sim.system, sim.compiled, sim.target
    states = {s.name: given[s.name] for s in system.states if s.name in given}
    if target.backend != "cuda":
        raise PlanError(f"a state is on a GPU, and this simulation runs on `{target.backend}`",
                        fix='Compile it with backend="cuda", or pass NumPy arrays.')  # fmt: skip
    if not states or not all(map(exchange.is_there, states.values())):
        raise InputError("some states are on a GPU and some are not", fix="Pass all of them from the same place.")
    if compiled.adaptive or compiled.jump is not None or len(compiled.encoding.precision.kept(system.states[0])) > 1:
        raise PlanError("arrays on a GPU go with methods of fixed steps in float64 or float32", fix=NOT_HERE)
    if len(cuda.taken()) > 1:
        raise PlanError("arrays on a GPU stay where they are, and several GPUs are taken",
                        fix="Set TINYPHYSICS_CUDA_DEVICE to the number of one.")  # fmt: skip
    taken = {name: exchange.taken(name, v) for name, v in states.items()}
    i = inputs(system, {**given, **{name: np.broadcast_to(0.0, a.shape) for name, a in taken.items()}}, compiled.encoding)
    if compiled.in_loops(i.members):
        raise PlanError("arrays on a GPU go with ensembles of small systems, not yet with loops along axes", fix=NOT_HERE)
    wanted = NUMPY_DTYPE[compiled.encoding.precision.state.name]
    for name, a in taken.items():
        if a.dtype != wanted:
            raise InputError(f"`{name}` is {a.dtype}, and the run is in {np.dtype(wanted)}",
                             fix=f'Convert it, or choose precision="{a.dtype}".')  # fmt: skip
    step, start = (1.0 if system.kind == "map" else checked_step(dt)), checked_time(t0)
    count = count_steps(steps, until, step, start)
    if compiled.selects:
        check_indices(compiled.roots, i)
    check_clock(compiled.encoding.precision, compiled.known.timed, count, step, start)
    moved = transferred(target)
    engine: Any = engine_for(target, compiled.program)
    launches = engine.launches
    m = engine.start(taken, i.params, i.members, step, start)
    if engine.bad(m):
        raise InputError("the initial state is not finite", fix="Check the initial values.")
    stops: list[Stop] = []
    failed: dict[int, Failure] = {}
    n = 0
    size, before = engine.block(i.members), m
    try:
        while n < count and len(failed) < i.members:
            over, before = min(n + size, count), engine.snapshot(m)
            engine.advance(m, over - n)
            if suspects := [k for k in engine.bad(m) if k not in failed]:
                failed |= locate(engine, before, suspects, n, over, 0)
                well = next((k for k in range(i.members) if k not in failed), None)
                if well is not None:
                    engine.overwrite(m, list(failed), well)
            n, before = over, m
    except KeyboardInterrupt as stop:  # the last whole block counts
        m = before
        stops.append(Stop("interrupted", n, time_at(n, step, start), error=stop))
    there = taken if n == 0 else engine.synchronised_there(m)
    for k, failure in failed.items():
        stops.append(Stop(compiled.encoding.failure, failure.step, time_at(failure.step, step, start),
                          k if i.is_ensemble else None, failure.where))  # fmt: skip
        for name, v in failure.before.items():
            cuda.write_at(there[name].pointer + k * v.nbytes, np.ascontiguousarray(v, wanted))
    cuda.synchronise()
    if not i.is_ensemble:
        there = {name: exchange.DeviceArray(a.pointer, taken[name].shape, a.dtype, a.owner) for name, a in there.items()}
    final = Frame({name: exchange.given_back(a, states[name]) for name, a in there.items()}, n, time_at(n, step, start))
    metrics = {"backend": {"requested": sim.requested, "used": target.backend}, "device": cuda.device().name,
               "steps": n, "members": i.members, "launches": engine.launches - launches,
               "seconds": {"run": clock.perf_counter() - began},
               **{name: x - moved[name] for name, x in transferred(target).items()}}  # fmt: skip
    return OnDevice(final, tuple(sorted(stops, key=lambda s: (s.step, s.member or 0))), metrics, there,
                    "" if target.bit_exact else "fast:")  # fmt: skip
