"""The compiled system: explain it, print it at any level, run it."""
from __future__ import annotations

import math
import pickle
import time as clock
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tinyphysics.errors import InputError, PhysicsIntegrityError, PlanError, ShapeError, StoreError
from tinyphysics.front.trace import observable
from tinyphysics.ir import DType, UOp, dump, f64
from tinyphysics.pipeline import Build
from tinyphysics.plan import Goal
from tinyphysics.planner.cite import cite
from tinyphysics.report import Report
from tinyphysics.runtime.backend import layout, listing, notes, running_on
from tinyphysics.runtime.compiled import Compiled
from tinyphysics.runtime.digest import state_hash
from tinyphysics.runtime.ensemble import inputs, sizes_from
from tinyphysics.runtime.execute import Run, clock_of, execute
from tinyphysics.runtime.indices import check_indices
from tinyphysics.runtime.loop import shaped
from tinyphysics.runtime.origin import Origin
from tinyphysics.runtime.progress import progress_bar
from tinyphysics.runtime.record import Record, beginning
from tinyphysics.runtime.schedule import Schedule, count_steps, time_at, times_at, whole
from tinyphysics.runtime.units import check_units
from tinyphysics.runtime.workers import available, copy
from tinyphysics.system import SLOTS, Family, System
from tinyphysics.target import BUILT, Target
from tinyphysics.tpir.isa import Program
from tinyphysics.tpir.precision import PRECISIONS, ROUNDING, fits
from tinyphysics.trajectory import Frame, Trajectory
from tinyphysics.util import one_of

BITS = 3  # changes when a release changes results
LEVELS = ("uop", "tpir", "kernel", "llvm", "asm", "c", "opencl")
LATER_LEVELS = ("ptx", "cuda", "wgsl")
LATER_ARGUMENTS = ("save", "checkpoint", "checkpoint_every", "resume")


@dataclass(eq=False)
class Simulation:
    source: System | Family
    goal: Goal
    requested: str
    checks: str = "on"
    monitors: dict[str, Callable[..., Any]] = field(default_factory=dict)
    _compiled: Compiled | None = None
    _sizes: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if isinstance(self.source, System):
            self._compiled = Compiled(self.source, self.goal, self.requested)

    # --- looking ------------------------------------------------------------------------------
    @property
    def compiled(self) -> Compiled:
        if self._compiled is None:
            assert isinstance(self.source, Family)
            letters = ", ".join(self.source.letters)
            raise ShapeError(
                f"`{self.source.name}` is not compiled yet: its size {letters} is unknown",
                fix=f"Pass sizes={{{self.source.letters[0]!r}: 16}} to compile, or run it first.",
            )
        return self._compiled

    @property
    def built(self) -> Build:
        return self.compiled.built

    @property
    def system(self) -> System:
        return self.compiled.system

    @property
    def tpir(self) -> Program:
        return self.built.program

    @property
    def target(self) -> Target:
        return BUILT[self.compiled.known.backend]

    @property
    def certificate(self) -> Any:
        return self.built.certificate

    def explain(self) -> Report:
        """Facts with evidence, the plan and what it turned down, the certificate, the cost."""
        return self.built.report.with_machine(layout(self.target, self.built.program))

    def cite(self) -> tuple[str, ...]:
        """The sources of the method."""
        return cite(self.built.plan)

    def ir(self, level: str = "tpir") -> str:
        """The program as text, from the graph as traced ("uop") down to machine code ("asm").

        While a size is open there is no graph yet, and "uop" is the signature.
        "c" is a complete program: compiled, it prints the hash of a run.
        """
        if level in LATER_LEVELS:
            raise PlanError(f'ir("{level}") does not exist yet', fix=f"Levels: {one_of(LEVELS)}.")
        if level not in LEVELS:
            raise InputError(f"there is no level `{level}`", fix=f"Levels: {one_of(LEVELS)}.")
        if level == "tpir":
            return str(self.built.program)
        if level != "uop":
            return listing(self.built.program, level)
        if self._compiled is None and isinstance(self.source, Family):
            return self.source.signature
        s = self.system
        roots = [s.energy] if s.energy is not None else [*s.forces, *s.update]
        return dump(roots, s.sites)

    def monitor(self, function: Callable[..., Any], name: str | None = None) -> None:
        """Observe a function in every run of this simulation."""
        if not callable(function):
            raise InputError(f"monitor({function!r}) is not a function", fix="Pass lambda q, p: ...")
        self.monitors[name or getattr(function, "__name__", "observable").strip("<>")] = function

    def save(self, path: Any) -> None:
        """Writes the system and what was asked of it; `tp.load(path)` compiles it to the same program."""
        SLOTS["save"](self, path)

    def estimate(self, *, steps: int, members: int = 1, frames: int = 2) -> dict[str, float]:
        """Seconds and bytes of a run before it is started, from a short trial on this machine."""
        rows = sum(s.var.size for s in self.system.states)
        trial = {s.name: np.ones((min(members, 4096), *s.var.shape)) for s in self.system.states}
        given = {p.name: 1.0 if p.default is None else p.default for p in self.system.parameters}
        self.evolve(steps=1, progress=False, **trial, **given)  # compiles
        n, seconds = 1, 0.0
        while seconds < 0.02 and n < steps:
            n = min(2 * n, steps)
            runs = [self.evolve(steps=n, progress=False, **trial, **given) for _ in range(2)]
            seconds = min(out.metrics["seconds"]["run"] for out in runs)  # one alone may have had to wait
        per_step = seconds / max(n * min(members, 4096), 1)
        size = PRECISIONS[self.goal.precision].bits / 8
        return {"seconds": per_step * steps * members, "bytes": size * rows * members * frames}

    def __repr__(self) -> str:
        if self._compiled is None:
            return f"<Simulation of {self.source!r}, sizes still open>"
        return f"<Simulation of {self.system.name}: {self.compiled.known.method}, {self.target.backend}>"

    def __getstate__(self) -> dict[str, Any]:
        """What another process can read: functions that it can import, and a system whose sizes are known."""
        for name, function in self.monitors.items():
            try:
                pickle.dumps(function)
            except Exception as error:
                which = getattr(function, "__qualname__", type(function).__name__)
                raise StoreError(
                    f"the monitor `{name}` cannot be pickled: another process cannot import `{which}`",
                    fix="Write it as a def at the top of a module, or pass it to each run as observe=.",
                ) from error
        return self.__dict__ | {"source": self.system}

    def __copy__(self) -> Simulation:
        """Monitors of its own; the rest is frozen, and shared."""
        new = object.__new__(Simulation)
        new.__dict__.update(self.__dict__ | {"monitors": dict(self.monitors), "_sizes": dict(self._sizes)})
        return new

    def __deepcopy__(self, memo: Any) -> Simulation:
        return self.__copy__()

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
        if isinstance(self.source, Family):
            self.bind(self.source, sizes_from(self.source, given))
        system = self.system
        if system.kind == "map" and dt is not None:
            raise InputError(f"`{system.name}` is a map and has no dt", fix="Leave dt= out.")
        dt = 1.0 if system.kind == "map" else checked_step(dt)
        i = inputs(system, given, self.compiled.stored)
        if observe is not None and not isinstance(observe, Mapping):
            raise InputError("observe= is a dict of functions", fix='Pass observe={"q2": lambda q: q @ q}.')
        watched = {**self.monitors, **(observe or {})}
        schedule = Schedule(
            count_steps(steps, until, dt, checked_time(t0)),
            None if save_every is None else whole("save_every", save_every, 1),
            whole("observe_every", observe_every, 1) if watched else None,
            None if hash_every is None else whole("hash_every", hash_every, 1),
        )
        threads = None if threads is None else whole("threads", threads, 1)
        compiled = self.compiled
        check_clock(compiled.stored, compiled.known.timed, schedule.steps, dt, float(t0))
        record = beginning(i, schedule)
        first = {name: v[0] for name, v in record.frames.items()}
        for name, v in first.items():
            copy(i.states[name], v, threads or available())
            v.flags.writeable = False  # energies and replays come from here
        i = replace(i, states=first)
        r = Run(compiled.program, system, self.target, i, schedule, dt, float(t0), threads, compiled.stored,
                compiled.in_loops(i.members))  # fmt: skip
        values = {n: self.traced(f, n) for n, f in watched.items()}
        own = [u for u in (system.energy, *system.forces, *system.update) if u is not None]
        check_indices([*own, *values.values()], i)
        if schedule.steps and i.members:
            check_units(r, compiled.scales)
        ready = clock.perf_counter()
        with progress_bar(progress, system.name, schedule.steps) as tick:
            record, launches, compiling, code = execute(r, record, values, tick)
        done = clock.perf_counter()
        out = self.trajectory(r, record)
        work = record.last * max(i.members, 1)
        running = max(done - ready - compiling, 1e-9)
        out.metrics.update({
            "backend": {"requested": self.requested, "used": self.target.backend},
            "device": running_on(self.target), "precision": self.goal.precision, "program": compiled.known.program,
            "bits": BITS,
            "seconds": {"plan": compiled.seconds, "prepare": ready - began, "compile": compiling, "run": running},
            "cache": {"plan": compiled.found, "code": code},  # "made" now, or from the "disk" or "memory"
            "steps": record.last, "members": i.members, "seed": seed,
            "ns_per_step": 1e9 * running / work if work else 0.0,
            "steps_per_s": work / running if work else 0.0,
            "launches": launches, "not_finite": sum(s.cause == "not finite" for s in record.stops),
            "notes": notes(self.target),
        })  # fmt: skip
        if self.checks == "strict" and any(s.cause == "not finite" for s in record.stops):
            s = out.stopped
            assert s is not None
            what = s.where if isinstance(s.where[0], str) else f"the force between particles {s.where[0]} and {s.where[1]}"
            raise PhysicsIntegrityError(f"{what} is not finite at step {s.step} (t = {s.t:g})", out=out,
                                        fix="Shorten dt, or soften the potential; the run so far is in .out.")  # fmt: skip
        return out

    def bind(self, source: Family, sizes: dict[str, int]) -> None:
        """The first run decides the sizes; later ones must agree."""
        if self._compiled is None:
            self._compiled, self._sizes = Compiled(source.bind(sizes), self.goal, self.requested), sizes
        for letter, n in self._sizes.items():
            if sizes[letter] != n:
                raise ShapeError(f"`{letter}` was bound to {n} by the first run; this one has {sizes[letter]}",
                                 fix="Compile the system again for another size.")  # fmt: skip

    def traced(self, function: Any, name: str) -> UOp:
        system = self.system
        if isinstance(function, str):
            if function == "energy" and system.energy is not None:
                return system.energy
            why = "" if function != "energy" else f": `{system.name}` has no energy"
            raise InputError(
                f"observe[{name!r}] = {function!r}{why}",
                fix='The one named observable is "energy", of a Hamiltonian; pass a function.',
            )
        known = {s.name: s.var for s in system.states} | {p.name: p.var for p in system.parameters}
        return observable(function, known | {"t": clock_of(system)}, name)

    def trajectory(self, r: Run, record: Record) -> Trajectory:
        steps, view = record.steps, shaped(r.given)
        frames = {name: sealed(v[: len(steps)]) for name, v in record.frames.items()}
        final = view({name: sealed(v) for name, v in record.final.items()})
        at = times_at(record.observed_at, r.dt, r.t0)
        observed = {}
        for name in record.observed:
            rows = record.series(name)
            observed[name] = (at, rows if r.given.is_ensemble else rows[:, 0])
        return Trajectory(
            t=times_at(steps, r.dt, r.t0), steps=np.array(steps),
            frames=frames if r.given.is_ensemble else {name: v[:, 0] for name, v in frames.items()},
            final=Frame(final, record.last, time_at(record.last, r.dt, r.t0)),
            hash=state_hash(final, r.threads or available()), hashes=record.hashes, stops=tuple(record.stops),
            observed=observed, origin=Origin(r, frames, steps, record.last),
        )  # fmt: skip


def sealed(a: Any) -> Any:
    """The array, not to be written to: out.final, out.energy and the drift are about these numbers."""
    out = a.view()
    out.flags.writeable = False
    return out


def checked_step(dt: Any) -> float:
    if dt is None:
        raise InputError("dt is missing", fix="Pass a step: tp.compile(system, dt=0.01).")
    try:
        h = float(dt)
    except (TypeError, ValueError):
        raise InputError(f"dt={dt!r} is not a number", fix="Pass dt=0.01.") from None
    if not math.isfinite(h) or h == 0:
        raise InputError(f"dt={dt!r} is not a step", fix="A step is a finite number other than 0.")
    return h


def check_clock(dtype: DType, timed: bool, steps: int, dt: float, t0: float) -> None:
    """A format with few digits must still tell the steps of a run apart."""
    if dtype is f64:
        return
    name = next(n for n, d in PRECISIONS.items() if d is dtype)
    if not fits(dt, dtype):
        raise InputError(f"dt={dt!r} is out of the range of {name}", fix="Choose other units of time.")
    last = max(abs(t0), abs(time_at(steps, dt, t0)))
    if timed and last * ROUNDING[dtype] > abs(dt) / 2:
        raise InputError(f"t reaches {last:g}, where {name} cannot tell t from t + dt, and the system depends on t",
                         fix='Run for a shorter time, or with precision="float64".')  # fmt: skip


def checked_time(t0: Any) -> float:
    try:
        t = float(t0)
    except (TypeError, ValueError):
        t = math.nan
    if not math.isfinite(t):
        raise InputError(f"t0={t0!r} is not a time", fix="Pass t0=0.0.")
    return t
