"""One run of a program on an engine, with some values observed: all that decides its bits is in a Run."""
from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tinyphysics.ir import UOp
from tinyphysics.runtime.backend import engine_for
from tinyphysics.runtime.ensemble import Inputs
from tinyphysics.runtime.loop import Record, Running, Sink
from tinyphysics.runtime.plans import Recipe, probe_key
from tinyphysics.runtime.schedule import Schedule
from tinyphysics.system import System
from tinyphysics.target import Target
from tinyphysics.tpir.isa import Program
from tinyphysics.tpir.probe import probe


@dataclass(frozen=True, eq=False)
class Run:
    """Enough to do a run again, bit for bit."""

    program: Program | Recipe
    system: System
    target: Target
    given: Inputs
    schedule: Schedule
    dt: float
    t0: float
    threads: int | None


def clock_of(system: System) -> UOp:
    """The variable that stands for time in an observable."""
    return UOp.var("t") if system.time is None else system.time


def watcher(r: Run, values: Mapping[str, UOp]) -> Program | Recipe:
    def make() -> Program:
        return probe(r.system.states, r.system.parameters, clock_of(r.system), values)

    key = probe_key(r.program.key, r.system, values) if isinstance(r.program, Recipe) else None
    return make() if key is None else Recipe(key, make)


def execute(
    r: Run, schedule: Schedule, values: Mapping[str, UOp], tick: Callable[[int], None], sink: Sink | None = None
) -> tuple[Record, int, float, str]:
    """(what was recorded, how often the engine was launched, seconds it spent compiling, where its code is from)."""
    began = time.perf_counter()
    engine = engine_for(r.target, r.program, watcher(r, values) if values else None, r.threads)
    engine.block(r.given.members)  # writes the kernel out
    built = time.perf_counter() - began
    launches, compiling, made, found = engine.launches, engine.compiling, engine.made, engine.found
    running = Running(engine, r.given, schedule, r.dt, r.t0, looking(r, values) if values else None, sink)
    record = running.go(tick)
    code = "made" if engine.made > made else "disk" if engine.found > found else "memory"
    return record, engine.launches - launches, built + engine.compiling - compiling, code


def looking(r: Run, values: Mapping[str, UOp]) -> Callable[[Mapping[str, Any], int], Mapping[str, Any]]:
    """Observables of a synchronised state at a step, by a program of their own."""
    engine = engine_for(r.target, watcher(r, values), None, r.threads)

    def at(state: Mapping[str, Any], n: int) -> Mapping[str, Any]:
        m = engine.start(state, r.given.params, r.given.members, r.dt, r.t0)
        m.steps = n
        out: Mapping[str, Any] = engine.synchronised(m)
        return out

    return at
