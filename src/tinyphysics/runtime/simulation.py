"""The compiled system: explain it, print it at any level, run it."""
from __future__ import annotations

import math
import time as clock
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tinyphysics.device.backend import engine_for
from tinyphysics.errors import InputError, PhysicsIntegrityError, PlanError, ShapeError
from tinyphysics.front.trace import observable
from tinyphysics.ir import Ops, UOp, dump
from tinyphysics.pipeline import Build, build
from tinyphysics.plan import Goal
from tinyphysics.planner.cite import cite
from tinyphysics.report import Report
from tinyphysics.runtime.digest import state_hash
from tinyphysics.runtime.ensemble import Inputs, inputs, sizes_from
from tinyphysics.runtime.loop import Record, run, shaped
from tinyphysics.runtime.progress import progress_bar
from tinyphysics.runtime.schedule import Schedule, count_steps, time_at, whole
from tinyphysics.system import Family, System
from tinyphysics.target import Target
from tinyphysics.tpir.isa import Program
from tinyphysics.tpir.probe import probe
from tinyphysics.trajectory import Frame, Trajectory
from tinyphysics.util import one_of

BITS = 1  # changes when a release changes results
LEVELS = ("uop", "tpir")
LATER_LEVELS = ("kernel", "llvm", "c", "asm", "ptx", "cuda", "opencl", "wgsl")
LATER_ARGUMENTS = ("save", "checkpoint", "checkpoint_every", "resume")


@dataclass(frozen=True, eq=False)
class Run:
    """Everything that decides the bits of a run, so that it can be done again."""

    built: Build
    given: Inputs
    schedule: Schedule
    dt: float
    t0: float


@dataclass(eq=False)
class Simulation:
    source: System | Family
    goal: Goal
    target: Target
    requested: str
    checks: str = "on"
    monitors: dict[str, Callable[..., Any]] = field(default_factory=dict)
    _built: Build | None = None

    def __post_init__(self) -> None:
        if isinstance(self.source, System):
            self._built = build(self.source, self.goal, self.target, self.requested)

    # --- looking ------------------------------------------------------------------------------
    @property
    def built(self) -> Build:
        if self._built is None:
            assert isinstance(self.source, Family)
            letters = ", ".join(self.source.letters)
            raise ShapeError(
                f"`{self.source.name}` is not compiled yet: its size {letters} is unknown",
                fix=f"Pass sizes={{{self.source.letters[0]!r}: 16}} to compile, or run it first.",
            )
        return self._built

    @property
    def system(self) -> System:
        return self.built.system

    @property
    def tpir(self) -> Program:
        return self.built.program

    @property
    def certificate(self) -> Any:
        return self.built.certificate

    def explain(self) -> Report:
        """Facts with evidence, the plan and what it turned down, the certificate, the cost."""
        return self.built.report

    def cite(self) -> tuple[str, ...]:
        """The sources of the method."""
        return cite(self.built.plan)

    def ir(self, level: str = "tpir") -> str:
        """The program as text: "uop" (the graph as traced) or "tpir"."""
        if level in LATER_LEVELS:
            raise PlanError(f'ir("{level}") does not exist yet', fix=f"Levels: {one_of(LEVELS)}.")
        if level not in LEVELS:
            raise InputError(f"there is no level `{level}`", fix=f"Levels: {one_of(LEVELS)}.")
        if level == "tpir":
            return str(self.built.program)
        s = self.system
        roots = [s.energy] if s.energy is not None else [*s.forces, *s.update]
        return dump(roots, s.sites)

    def monitor(self, function: Callable[..., Any], name: str | None = None) -> None:
        """Observe a function in every run of this simulation."""
        self.monitors[name or getattr(function, "__name__", "observable").strip("<>")] = function

    def __repr__(self) -> str:
        if self._built is None:
            return f"<Simulation of {self.source!r}, sizes still open>"
        return f"<Simulation of {self.system.name}: {self.built.plan.method}, {self.target.backend}>"

    # --- running ------------------------------------------------------------------------------
    def evolve(
        self, *, steps: int | None = None, until: float | None = None, t0: float = 0.0,
        save_every: int | None = None, observe: Mapping[str, Callable[..., Any]] | None = None,
        observe_every: int = 1, hash_every: int | None = None, seed: int = 0,
        progress: str | bool = "auto", threads: int | None = None, **given: Any,
    ) -> Trajectory:  # fmt: skip
        """Runs from an initial state; what is not a run option is a state or a parameter, by name."""
        began = clock.perf_counter()
        for name in LATER_ARGUMENTS:
            if given.pop(name, None) is not None:
                raise PlanError(f"{name}= does not exist yet", fix="Keep the Trajectory, or save its arrays.")
        dt = given.pop("dt", self.goal.dt)
        if self._built is None:
            assert isinstance(self.source, Family)
            bound = self.source.bind(sizes_from(self.source, given))
            self._built = build(bound, self.goal, self.target, self.requested)
        system = self.system
        dt = 1.0 if system.kind == "map" else checked_step(dt)
        i = inputs(system, given)
        watched = {**self.monitors, **(observe or {})}
        schedule = Schedule(
            count_steps(steps, until, dt, checked_time(t0)),
            None if save_every is None else whole("save_every", save_every, 1),
            whole("observe_every", observe_every, 1) if watched else None,
            None if hash_every is None else whole("hash_every", hash_every, 1),
        )
        r = Run(self.built, i, schedule, dt, float(t0))
        values = {n: self.traced(f, n) for n, f in watched.items()}
        ready = clock.perf_counter()
        with progress_bar(progress, system.name, schedule.steps) as tick:
            record, launches = self.execute(r, schedule, values, threads, tick)
        done = clock.perf_counter()
        out = self.trajectory(r, record)
        work = record.last * max(i.members, 1)
        out.metrics.update({
            "backend": {"requested": self.requested, "used": self.target.backend},
            "device": self.target.device, "program": self.built.program.hash, "bits": BITS,
            "seconds": {"prepare": ready - began, "run": done - ready},
            "steps": record.last, "members": i.members, "seed": seed,
            "ns_per_step": 1e9 * (done - ready) / work if work else 0.0,
            "steps_per_s": work / (done - ready) if work else 0.0,
            "launches": launches, "not_finite": sum(s.cause == "not finite" for s in record.stops),
        })  # fmt: skip
        if self.checks == "strict" and any(s.cause == "not finite" for s in record.stops):
            s = out.stopped
            assert s is not None
            raise PhysicsIntegrityError(f"{s.where} is not finite at step {s.step} (t = {s.t:g})", out=out,
                                        fix="Shorten dt, or soften the potential; the run so far is in .out.")  # fmt: skip
        return out

    def traced(self, function: Any, name: str) -> UOp:
        system = self.system
        if isinstance(function, str):
            if function == "energy" and system.energy is not None:
                return system.energy
            raise InputError(f"observe[{name!r}] = {function!r}", fix='The one named observable is "energy".')
        known = {s.name: s.var for s in system.states} | {p.name: p.var for p in system.parameters}
        return observable(function, known | {"t": clock_of(system)}, name)

    def execute(
        self, r: Run, schedule: Schedule, values: Mapping[str, UOp], threads: int | None, tick: Callable[[int], None]
    ) -> tuple[Record, int]:
        """One run with some values observed; how often the engine was launched."""
        s = r.built.system
        watch = probe(s.states, s.parameters, clock_of(s), values) if values else None
        engine = engine_for(self.target, r.built.program, watch, threads)
        look = self.look(r, values) if values else None
        record = run(engine, r.given, schedule, r.dt, r.t0, look, tick)
        return record, engine.launches

    def look(self, r: Run, values: Mapping[str, UOp]) -> Callable[[Mapping[str, Any], int], Mapping[str, Any]]:
        """Observables of a synchronised state, by a program of their own."""
        s, i = r.built.system, r.given
        engine = engine_for(self.target, probe(s.states, s.parameters, clock_of(s), values))

        def at(state: Mapping[str, Any], n: int) -> Mapping[str, Any]:
            m = engine.start(state, i.params, i.members, r.dt, r.t0)
            m.steps = n
            return engine.synchronised(m)

        return at

    def trajectory(self, r: Run, record: Record) -> Trajectory:
        system, view = r.built.system, shaped(r.given)
        frames = [view(f) for f in record.frames]
        arrays = {s.name: np.stack([f[s.name] for f in frames]) for s in system.states}
        t = np.array([time_at(n, r.dt, r.t0) for n in record.steps])
        final = view(record.final)
        observed = {}
        at = np.array([time_at(n, r.dt, r.t0) for n in record.observed_at])
        for name in record.observed[0] if record.observed else ():
            rows = record.series(name)
            observed[name] = (at, rows if r.given.is_ensemble else rows[:, 0])
        has_energy = system.energy is not None
        return Trajectory(
            t=t, steps=np.array(record.steps), frames=arrays,
            final=Frame(final, record.last, time_at(record.last, r.dt, r.t0)),
            hash=state_hash(final), hashes=record.hashes, stops=tuple(record.stops), observed=observed,
            energy_of=(lambda out: self.energies(r, record)) if has_energy else None,
            no_energy=f"`{system.name}` is given by its {system.kind}: no energy is known for it. "
            "Write it as a Hamiltonian, or observe a function of your own",
            series=lambda out, name: self.replay(r, record, name),
        )  # fmt: skip

    # --- energies -----------------------------------------------------------------------------
    def energies(self, r: Run, record: Record) -> Any:
        assert r.built.system.energy is not None
        look = self.look(r, {"energy": r.built.system.energy})
        view = shaped(r.given)
        return np.stack([view(look(f, n))["energy"] for f, n in zip(record.frames, record.steps)])

    def replay(self, r: Run, record: Record, name: str) -> tuple[Any, Any, Any]:
        """(times, values, scale) at every step: the run again, bit for bit, with one thing observed."""
        system = r.built.system
        if name == "energy":
            assert system.energy is not None
            values = {"value": system.energy, "scale": UOp.sum_of(abs(x) for x in addends(system.energy))}
        elif name in self.monitors or name in record.observed[0] if record.observed else False:
            raise InputError(f"the drift of `{name}` is not defined", fix='drift("energy") is.')
        else:
            raise InputError(f"there is no quantity `{name}`", fix='drift("energy") is defined.')
        schedule = Schedule(record.last, None, 1, None)
        again, _ = self.execute(r, schedule, values, None, lambda n: None)
        rows = {n: again.series(n) if r.given.is_ensemble else again.series(n)[:, 0] for n in values}
        t = np.array([time_at(n, r.dt, r.t0) for n in again.observed_at])
        scale = rows["scale"].max(axis=0)
        return t, rows["value"], np.where(scale > 0, scale, 1.0)


def addends(u: UOp) -> list[UOp]:
    """The terms of a sum, without their signs."""
    if u.op in (Ops.ADD, Ops.SUB):
        return addends(u.src[0]) + addends(u.src[1])
    return addends(u.src[0]) if u.op is Ops.NEG else [u]


def clock_of(system: System) -> UOp:
    return UOp.var("t") if system.time is None else system.time


def checked_step(dt: Any) -> float:
    if dt is None:
        raise InputError("dt is missing", fix="Pass a step: tp.compile(system, dt=0.01).")
    try:
        h = float(dt)
    except (TypeError, ValueError):
        raise InputError(f"dt={dt!r} is not a number") from None
    if not math.isfinite(h) or h == 0:
        raise InputError(f"dt={dt!r} is not a step", fix="A step is a finite number other than 0.")
    return h


def checked_time(t0: Any) -> float:
    try:
        t = float(t0)
    except (TypeError, ValueError):
        raise InputError(f"t0={t0!r} is not a time") from None
    if not math.isfinite(t):
        raise InputError(f"t0={t0!r} is not a time")
    return t
