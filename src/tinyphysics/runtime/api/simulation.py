"""The compiled system: explain it, print it at any level, run it."""

from __future__ import annotations

import inspect
import pickle
import time as clock
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np

from tinyphysics.device.cuda.dlpack import empty_like, is_there, sent
from tinyphysics.errors import (
    InputError,
    PhysicsIntegrityError,
    PlanError,
    ShapeError,
    StoreError,
    TinyPhysicsError,
)
from tinyphysics.front.measure import as_measure
from tinyphysics.front.trace import OPTIONS, observable
from tinyphysics.given import number, shown
from tinyphysics.given import path as a_path
from tinyphysics.ir import UOp, dump, f64
from tinyphysics.options import COMING, COMPILE, heeds
from tinyphysics.philox import checked
from tinyphysics.pipeline import Build, on_orbits, stepped
from tinyphysics.plan import Decision, Goal
from tinyphysics.planner.choice.multirate import split_rows
from tinyphysics.planner.choice.stiff import stiffest
from tinyphysics.planner.conflicts import FIXED_STEP, NO_DT, Ask, check
from tinyphysics.planner.cost.rounding import never
from tinyphysics.planner.explain import stability_rows
from tinyphysics.planner.methods.catalog import TURNING
from tinyphysics.planner.methods.cite import Citations, cite
from tinyphysics.planner.summary import summarised
from tinyphysics.report import Report, Row, Summary
from tinyphysics.rules.functions.random import draws
from tinyphysics.runtime.api.by_name import takes_names
from tinyphysics.runtime.engines.backend import (
    layout,
    listing,
    named_processor,
    notes,
    placed,
    processor_rows,
    running_on,
    series_listing,
    transferred,
)
from tinyphysics.runtime.engines.events import gathered
from tinyphysics.runtime.measure.alarms import judge
from tinyphysics.runtime.measure.commutators import Commutators, commutators
from tinyphysics.runtime.measure.convergence import check_converges
from tinyphysics.runtime.measure.solver import solver_report
from tinyphysics.runtime.measure.subject import Observed
from tinyphysics.runtime.stages.check_scaling import check_units
from tinyphysics.runtime.stages.compiled import Compiled
from tinyphysics.runtime.stages.description import described
from tinyphysics.runtime.stages.energy_so_far import Wander
from tinyphysics.runtime.stages.execute import clock_of, execute
from tinyphysics.runtime.stages.flow_matrices import flows_of, with_flows
from tinyphysics.runtime.stages.going_on import begun_before
from tinyphysics.runtime.stages.invariants import with_invariants
from tinyphysics.runtime.stages.loop import shaped
from tinyphysics.runtime.stages.order_bodies import check_orbits, hierarchy_of
from tinyphysics.runtime.stages.origin import Asked, Origin
from tinyphysics.runtime.stages.outcome import jumped, trajectory
from tinyphysics.runtime.stages.own_time import (
    begun_in_time,
    end_at,
    steps_until,
    with_times,
)
from tinyphysics.runtime.stages.progress import progress_bar
from tinyphysics.runtime.state.digest import BITS as BITS
from tinyphysics.runtime.state.digest import marked
from tinyphysics.runtime.state.encoding import Encoding
from tinyphysics.runtime.state.ensemble import Inputs, addressed, inputs, sizes_from
from tinyphysics.runtime.state.first_state import FirstState, first_state
from tinyphysics.runtime.state.frames import (
    count_steps,
    most_frames,
    named_options,
    no_part,
    scheduled,
    wanted,
)
from tinyphysics.runtime.state.from_frame import BEGINS, opened
from tinyphysics.runtime.state.indices import check_indices, selects
from tinyphysics.runtime.state.record import Record, beginning
from tinyphysics.runtime.state.run import Checkpoint, Identity, Run, made
from tinyphysics.runtime.state.schedule import Schedule, checked_time, time_at, whole
from tinyphysics.runtime.state.windows import Windows, fitting
from tinyphysics.runtime.state.workers import available, copy
from tinyphysics.runtime.storage.open_store import begun
from tinyphysics.runtime.storage.resume import (
    Keeper,
    agreed,
    check_program,
    check_target,
    identity,
    restored_inputs,
    sizes_given,
)
from tinyphysics.runtime.storage.writer_thread import Stream
from tinyphysics.system import OF_A_RUN, SLOTS, Family, System
from tinyphysics.target import BUILT, Target
from tinyphysics.tpir.precision.precision import PRECISIONS, ROUNDING, Precision, fits
from tinyphysics.tpir.program.isa import Program
from tinyphysics.trajectory import Metrics, Trajectory
from tinyphysics.util import did_you_mean, one_of

EXPLICIT = ("taylor", "dop853")  # with steps of their own, which stability may keep short
CHECKS = ("on", "off", "strict")
STIFF = 'method="radau" may take fewer'
LEVELS = ("uop", "tpir", "kernel", "llvm", "asm", "c", "opencl", "ptx", "cuda")
LATER_LEVELS = ("wgsl",)
COMMENT = {"kernel": ";", "llvm": ";", "asm": "#"}  # what a line of a level begins with, if it is not code
NO_LOOP = 'the loop was deleted, and runs jump: this is what propagator="loop" would run'
NOWHERE = Path()
ENDS = {"frames": 2}  # the first and the last


@dataclass(eq=False)
class Simulation:
    """A compiled system, made by tp.compile: explain it, print its program at any level, run it.

    `sim.evolve(q=..., p=..., steps=1000)` runs it, `print(sim.explain())` shows what was found, chosen and proved, and
    `sim.certificate` what was proved about its program. `source`, `goal`, `requested` and `checks` are what tp.compile was
    given; `monitors` are observed in every run; `frequency`, `commutators`, `paces` and `split` are measured in trial runs.
    """

    source: System | Family
    goal: Goal
    requested: str
    checks: str = "on"
    monitors: dict[str, Callable[..., Any]] = field(default_factory=dict)
    frequency: float | None = None  # of the fastest vibration at the state of a pilot
    commutators: Commutators | None = None  # of the parts of a splitting, at the first state of the first run
    paces: Any = None  # of fast and slow parts, what was measured at a state: runtime/measure/multirate.py
    split: Any = None  # of a sum at one pace: which parts are fast at the state of a pilot
    began: FirstState | None = None  # the state of a pilot, or of the first run
    _rounding: tuple[Any, Row | None] | None = None  # what it was measured of, and what was found
    _compiled: Compiled | None = None
    _sizes: dict[str, int] = field(default_factory=dict)
    _bodies: System | None = None  # whose order is not known yet

    def __post_init__(self) -> None:
        if isinstance(self.source, System):
            if on_orbits(self.goal) and self.goal.hierarchy is None:
                check_orbits(self.source, self.goal)  # the rest is decided at the first state
                return
            self._compiled = Compiled(self.source, self.goal, self.requested)

    def __setattr__(self, name: str, value: Any) -> None:
        """Only what a simulation has: anything else would be kept and never read."""
        if name not in self.__dataclass_fields__:
            raise self.not_set(name, value)
        if name == "checks" and value not in CHECKS:
            raise InputError(f"checks={shown(value)} is not known", fix=f"checks may be {one_of(CHECKS)}.")
        object.__setattr__(self, name, value)

    def not_set(self, name: str, value: Any) -> TinyPhysicsError:
        what = f"`sim.{name} = {shown(value)}` would change nothing"
        if name in self.own_names:
            return InputError(what, fix=f"Pass it to each run: sim.evolve({name}={shown(value)}, ...).")
        if name in COMPILE:
            return InputError(what, fix=f"Compile again: tp.compile(system, {name}={shown(value)}).")
        if name in COMING:
            missing, today = COMING[name]
            return PlanError(f"{what}: {missing}", fix=today)
        near = did_you_mean(name, ["checks"])
        return InputError(
            what,
            fix=near.strip()
            or "States and parameters go to sim.evolve(...), options to tp.compile(system, ...).",
        )

    @property
    def own_names(self) -> list[str]:
        """States and parameters of the system."""
        if isinstance(self.source, Family):
            return list(self.source.shapes)
        return [x.name for x in (*self.source.states, *self.source.parameters)]

    def takes(self) -> dict[str, Any]:
        """What a run takes by name, for editors: states, velocities of a Lagrangian, parameters with their defaults."""
        empty, source = inspect.Parameter.empty, self.source if self._compiled is None else self.system.seen
        if isinstance(source, Family):
            return {name: empty for name in source.shapes if name != "t"}
        rates = () if source.motion is None else (str(v.arg) for v in source.motion.v)
        return (
            {s.name: empty for s in source.states}
            | dict.fromkeys(rates, None)
            | {x.name: empty if x.default is None else x.default for x in source.parameters}
        )

    # --- looking ------------------------------------------------------------------------------
    @property
    def compiled(self) -> Compiled:
        """The stages of the compiler for this system; an error while a size is still open."""
        if self._compiled is None and isinstance(self.source, System):
            raise PlanError(
                f"`{self.source.name}` is not compiled yet: the order of its bodies depends on the initial state",
                fix="Run it first: sim.evolve(...).",
            )
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
        """Facts, plan, step, program and certificate."""
        return self.compiled.built

    @property
    def system(self) -> System:
        """The system with its sizes."""
        return self.compiled.system

    @property
    def tpir(self) -> Program:
        """The program, instruction by instruction."""
        return self.built.program

    @property
    def target(self) -> Target:
        """Where it runs."""
        found = BUILT[self.compiled.known.backend]
        return found if self.goal.math == "exact" else replace(found, bit_exact=False)

    @property
    def certificate(self) -> Any:
        """What was shown about the program, property by property, with reasons; `sim.certificate.level` in one word."""
        return self.built.certificate

    def explain(self, form: str = "short") -> Report:
        """What was found, chosen and proved, in plain words; `explain("full")` has all of the evidence.

        form  "short", ten to fifteen lines; or "full": facts with evidence, the plan and the methods that
            were not chosen, the certificate, the cost, the machine. `to_dict()` is that of the full form.
        """
        if form not in ("short", "full"):
            raise InputError(
                f"explain({form!r}): the form is not known", fix='Write explain() or explain("full").'
            )
        full = self._full_report()
        if form == "full":
            return full
        b = self.built
        brief = summarised(full, b.system, b.facts, b.goal, b.plan, b.step, b.certificate)
        return Summary(full.title, full.sections, brief)

    def _full_report(self) -> Report:
        report = self.built.report.with_machine(processor_rows(self.target))
        if self.compiled.known.way != "loop":
            return report
        if self.compiled.series is not None:
            return report
        if (found := self._rounding_row()) is not None:
            report = report.with_row("plan", found)
        report = report.with_machine(layout(self.target, self.built.program))
        rows = stability_rows(self.built.plan.method, self.frequency, self.goal.dt)
        told = [] if self.commutators is None else [self.commutators.row]
        report = report.with_rows(
            "plan", (*told, *rows, *(split_rows(self.split) if self.split is not None else ()))
        )
        return (
            report.with_section(SLOTS["pace_section"](self, self.goal.dt), "plan")
            if self.system.levels
            else report
        )

    def _rounding_row(self) -> Row | None:
        """What is known of rounding at the first state: measured once, when somebody asks."""
        of = self.compiled, self.began
        if self.began is None or self.compiled.adaptive or never(self.system, self.goal, self.built.facts):
            return None
        if self._rounding is None or self._rounding[0] != of:
            self._rounding = of, SLOTS["rounding_row"](self.compiled, self.began)
        return self._rounding[1]

    def cite(self) -> Citations:
        """Returns the sources of the method, a BibTeX entry each; `print(sim.cite())` is a .bib file."""
        return cite(self.built.plan, self.goal, self.system.clock)

    @heeds("ir", 'sim.ir("tpir")')
    def ir(self, level: str = "tpir") -> str:
        """Returns the program as text; `level` goes from the graph as traced ("uop") down to machine code ("asm").

        While a size is open, "uop" is the graph for small sizes, and says so; the others raise.
        "c" and "cuda" are complete programs: compiled, they print the hash of a run.
        """
        if level in LATER_LEVELS:
            raise PlanError(f'ir("{level}") does not exist yet', fix=f"Levels: {one_of(LEVELS)}.")
        if level not in LEVELS:
            raise InputError(f"there is no level `{level}`", fix=f"Levels: {one_of(LEVELS)}.")
        if level == "tpir":
            return str(self.built.program)
        if level != "uop" and self.compiled.known.way != "loop":
            text = listing(stepped(self.built).program, level)
            return f"{COMMENT.get(level, '//')} {NO_LOOP}\n{text}"
        if level in ("c", "cuda") and self.compiled.adaptive:
            raise PlanError(
                f'ir("{level}") is a program with fixed steps of dt, and this method chooses its own steps',
                fix='See ir("llvm") or ir("kernel").',
            )
        if level != "uop" and self.compiled.series is not None:
            return series_listing(self.compiled.series, level)
        if level != "uop":
            return listing(self.built.program, level)
        if self._compiled is None and isinstance(self.source, Family):
            sizes = self.source.sample
            shown = f"; {self.source.signature}; this is the graph for {', '.join(f'{k} = {n}' for k, n in sizes.items())}"
            try:
                return f"{shown}\n{traced_graph(self.source.bind(sizes))}"
            except TinyPhysicsError as error:  # a system may have reasons to want other sizes
                return f"{shown}, but it cannot be traced with that: {error.what}\n; pass sizes= to compile"
        return traced_graph(self.system)

    @heeds("monitor", 'sim.monitor(lambda q: q @ q, name="r2")')
    def monitor(self, function: Callable[..., Any], name: str | None = None) -> None:
        """Adds an observable, a function of the state, to every run of this simulation, under its own name or `name`.

        A name that is used again belongs to the new function.
        """
        if not callable(function):
            raise InputError(f"monitor({shown(function)}) is not a function", fix="Pass lambda q, p: ...")
        if name is not None and (not isinstance(name, str) or not name):
            raise InputError(f"monitor(..., name={shown(name)}) is not a name", fix='Pass name="radius".')
        called = name or getattr(function, "__name__", "observable").strip("<>")
        if name is None and self.monitors.get(called, function) is not function:
            raise InputError(
                f"a monitor named `{called}` exists already",
                fix='Give each its own name: sim.monitor(function, name="radius").',
            )
        self.monitors[called] = function

    def watched(self, observe: Mapping[str, Any]) -> dict[str, Callable[..., Any]]:
        """What a run observes, by name; an error if a name is taken."""
        for name, function in observe.items():
            if self.monitors.get(name, function) is not function:
                raise InputError(
                    f"observe: `{name}` is a monitor of this simulation already",
                    fix=f"Give it another name: observe={{'{name}_2': ...}}.",
                )
        out = {**self.monitors, **observe}
        states = [s.name for s in self.system.seen.states]
        for name, function in out.items():
            if name in states:
                why = f"out.{name} is a state"
            elif name not in OF_A_RUN or name == "energy" and isinstance(function, str):
                continue
            else:
                why = f"out.{name} is {'the energy of the system' if name == 'energy' else 'another thing'}"
            raise InputError(
                f"the observable `{name}` would be hidden: {why}",
                fix=f"Give it another name, such as `{name}_seen`.",
            )
        return out

    @heeds("save", 'sim.save("pendulum.json")')
    def save(self, path: Any) -> None:
        """Writes the system and its compile options to a file; `tp.load(path)` compiles it to the same program."""
        SLOTS["save"](self, path)

    @takes_names
    @heeds("minimise", "sim.minimise(q=...)")
    def minimise(
        self,
        *,
        steps: int = 10_000,
        force: float = 1e-6,
        move: float | None = None,
        t0: float = BEGINS,
        **given: Any,
    ) -> Any:
        """Minimises the energy, starting from the state `given` by name, until no force is larger than `force`.

        Momenta are not changed; they are zero if not given. There are at most `steps` evaluations, and no coordinate moves
        more than `move` in one of them; `t0` is the time.
        """
        given, t0 = opened(self.own_names, given, t0)
        if isinstance(self.source, Family):
            self.bind(self.source, sizes_from(self.source, given))
        self.in_own_time("minimise")
        return SLOTS["minimise"](self, given, steps, force, move, checked_time(t0))

    @heeds("rewind", "sim.rewind(out, 100)")
    def rewind(self, out: Trajectory, steps: int, checkpoint: Any = None) -> Trajectory:
        """Returns the run up to `steps` steps before the end of `out`, as a Trajectory that ends there.

        With precision="lattice" the steps are undone, to the last bit. Otherwise the run is repeated up to that step, from
        its beginning or from a `checkpoint` of it, with the same bits; `.metrics["rewind"]` says which.
        """
        return cast(Trajectory, SLOTS["rewind"](self, out, steps, checkpoint))

    @takes_names
    @heeds("suggest_dt", "sim.suggest_dt(q=..., p=..., error=1e-6)")
    def suggest_dt(
        self,
        *,
        error: float | None = None,
        energy_drift: float | None = None,
        until: float | None = None,
        t0: float = BEGINS,
        **given: Any,
    ) -> float:
        """Returns the longest step of this method that was measured to meet the goals `error` and `energy_drift`.

        The trial runs start from the state `given` by name, at the time `t0`, and end at `until`, if it is given, which
        the step then divides; otherwise they last some dozens of vibrations.
        """
        self.in_own_time("suggest_dt")
        given, t0 = opened(self.own_names, given, t0)
        if isinstance(self.source, Family):
            self.bind(self.source, sizes_from(self.source, given))
        if self.compiled.adaptive:
            raise PlanError(
                "this method chooses its own steps",
                fix="Set their accuracy with tp.compile(..., tolerance=1e-9).",
            )
        if self.compiled.known.way != "loop":
            raise PlanError(
                f"`{self.system.name}` is solved instead of stepped: dt does not change its error",
                fix='Choose dt for the output times you want; for a run in steps, compile with propagator="loop".',
            )
        dt: float = SLOTS["suggest_dt"](self, given, error, energy_drift, until, checked_time(t0))
        return dt

    @takes_names
    @heeds("suggest_split", "sim.suggest_split(q=..., p=...)")
    def suggest_split(self, *, t0: float = BEGINS, **given: Any) -> Any:
        """Says which parts of a sum, or terms of an energy, are fast and which slow, and how to give them different steps.

        The state is `given` by name, at the time `t0`. It is a proposal, and changes nothing.
        `print(sim.suggest_split(q=..., p=...))` shows frequencies and the expression.
        """
        given, t0 = opened(self.own_names, given, t0)
        return SLOTS["suggest_split"](self, given, checked_time(t0))

    @heeds("estimate", "sim.estimate(steps=1_000_000)")
    def estimate(self, *, steps: int, members: int = 1, frames: int | None = None) -> dict[str, float]:
        """Returns the seconds and bytes that a run of so many `steps`, `members` and `frames` will take.

        They come from a short trial on this machine. Without `frames`, a run keeps those of the default.
        """
        steps, members = whole("steps", steps, 0), whole("members", members, 0)
        frames = None if frames is None else whole("frames", frames, 0)
        if self.goal.is_accurate and self.goal.decision is None:
            raise PlanError(
                "the cost of a run is not known before its method is chosen",
                fix='Pass pilot={"q": ..., "p": ...} to compile, or run it first.',
            )
        if self.system.levels and not self.goal.inner and self.goal.propagator in (None, "loop"):
            raise PlanError(
                "the cost of a run is not known before the number of fast kicks in a step is",
                fix='Pass inner=10, or pilot={"q": ..., "p": ...} to compile, or run it first.',
            )
        if self.compiled.adaptive and self.goal.dt is None:
            raise PlanError(
                "the number of steps is not known before the run",
                fix="Pass dt to compile: then steps= counts output times dt apart.",
            )
        quiet = self.__copy__()
        quiet.checks = "off"  # a trial is of no state that goals were made for
        rows = sum(s.var.size for s in self.system.states)
        trial = {s.name: np.ones((min(members, 4096), *s.var.shape)) for s in self.system.states}
        given = {p.name: 1.0 if p.default is None else p.default for p in self.system.parameters}
        size = PRECISIONS[self.goal.precision].bits / 8  # of all words
        if frames is None:
            frames = min(most_frames(steps, int(size * rows * members)), steps + 1)
        if self.goal.dt is None and self.system.kind != "map" and not self.goal.is_accurate:
            given["dt"] = 1.0  # what a step costs does not depend on it
        quiet.evolve(steps=1, progress=False, **trial, **given)  # compiles
        jumps = self.compiled.known.way != "loop"
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

    def __repr__(self) -> str:
        if self._compiled is None:
            return f"<Simulation of {self.source!r}, sizes still open>"
        provisional = " (provisional)" if self.goal.is_accurate and self.goal.decision is None else ""
        return f"<Simulation of {self.system.name}: {self.compiled.known.method}{provisional}, {self.target.backend}>"

    def _repr_html_(self) -> str:
        """The equation, what was chosen and shown, and the report folded away: for notebooks."""
        return str(SLOTS["simulation_page"](self))

    def __getstate__(self) -> dict[str, Any]:
        """What another process can read: functions that it can import, and a system whose sizes are known."""
        for name, function in self.monitors.items():
            try:
                pickle.dumps(function)
            except Exception as error:
                which = getattr(function, "__qualname__", type(function).__name__)
                raise StoreError(
                    f"the monitor `{name}` cannot be pickled: another process could not import `{which}`",
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
    @takes_names
    @heeds("evolve", "sim.evolve(q=..., p=..., steps=1000): states, parameters and options by name")
    def evolve(
        self,
        *,
        steps: int | None = None,
        until: float | None = None,
        t0: float = BEGINS,
        save_every: int | None = None,
        save_at: Any = None,
        frames: int | None = None,
        observe: Mapping[str, Callable[..., Any]] | None = None,
        observe_every: int = 1,
        hash_every: int | None = None,
        seed: int = 0,
        progress: str | bool = "auto",
        threads: int | None = None,
        save: Any = None,
        checkpoint: Any = None,
        checkpoint_every: int | None = None,
        resume: Any = None,
        events: Mapping[str, Callable[..., Any]] | None = None,
        options: Mapping[str, Any] | None = None,
        **given: Any,
    ) -> Trajectory:
        """Runs the simulation from an initial state; states and parameters are passed by name, beside the options below.

        `until=` and `save_at=` take any time. A time between two steps is reached with a shorter step, which
        does not affect the steps after it; `out.metrics["end"]` and `["fractions"]` list such frames. By default a
        run keeps evenly spaced frames, at most 500 and at most 16 MiB of them.
        `checkpoint=path` writes the state of the run there every `checkpoint_every` steps and at the end. `resume=path`
        continues from there, bit for bit as if the run had never ended; `steps` are further steps. `resume=out` continues
        from the end of another run; `evolve(**out.final, ...)` starts a new run from its last state and time,
        with its parameters.
        `events={"name": function}` finds the times at which a function of the state changes sign, with a method that
        chooses its own steps: `out.events("name")`.
        `save="run.zarr"` writes frames and observables there during the run, and keeps none in memory.

        steps             the number of steps; or use until
        until             the final time; any time
        t0                the initial time
        save_every        the number of steps between two frames; or use save_at or frames
        save_at           keep frames at these times, in the order of the run: [0.5, 1.0, 2.0]
        frames            the number of frames, evenly spaced: frames=400; frames=2 keeps the first and the last
        observe           functions of the state, {"r": lambda q: ...}; their values are out["r"]
        observe_every     the number of steps between two values
        hash_every        the number of steps between two digests of the state, out.hashes
        seed              the seed of the random numbers of a map
        progress          "auto", True or False: a bar in the terminal or notebook
        threads           the number of threads; by default all
        save              a directory for a zarr store with the frames
        checkpoint        a file from which the run can be continued
        checkpoint_every  the number of steps between two checkpoints
        resume            a checkpoint to continue from, or a run: resume=out
        events            functions whose sign changes are located, {"apsis": lambda q, p: q @ p}
        options           {"frames": 400}: for a system that has a state or a parameter of that name
        given             states and parameters by name: q=[1.0, 0.0], mu=2.0; one more leading axis makes an ensemble
        """
        began = clock.perf_counter()
        own = self.own_names
        given, save_at, frames = named_options(own, given, save_at, frames, options)
        given, t0 = opened(own, given, t0)
        wants = wanted(save_every, save_at, frames)
        if wants.at is not None and steps is None and until is None:
            until = float(wants.at[-1])
        dt = given.pop("dt", self.goal.dt)
        back = None
        if any(map(is_there, given.values())):
            given, back = SLOTS["there"]().brought(given, resume)
        c, path = None, NOWHERE
        if resume is not None:
            c, path = begun_before(resume)
            t0, seed = (
                agreed("t0", checked_time(t0), 0.0, c.run.t0, path),
                agreed("seed", seed, 0, c.run.seed, path),
            )
            hash_every = agreed("hash_every", hash_every, None, c.hash_every, path)
            if wants.unsaid and c.save_every is not None:
                wants = replace(wants, every=c.save_every, told_every=True)
        if isinstance(self.source, Family):
            self.bind(self.source, sizes_from(self.source, sizes_given(self.source, c, path, given)))
        if on_orbits(self.goal):
            self.order_bodies(here(given, back), c)
        system = self.system
        if system.levels and not self.goal.inner and self.goal.propagator in (None, "loop"):
            SLOTS["set_paces"](
                self, here(given, back), None if dt is None else checked_step(dt), checked_time(t0), c
            )
        check("run", Ask.of(self.goal, system, dt=dt))
        gridless = self.compiled.adaptive and dt is None
        if gridless:
            dt = whole_span(steps, until, checked_time(t0), c)
            if c is None:
                counts = {
                    "save_every": save_every,
                    "hash_every": hash_every,
                    "checkpoint_every": checkpoint_every,
                }
                check("grid", Ask(counts, traits={NO_DT: True}))
        if (
            self.goal.dt is None
            and not self.goal.is_accurate
            and not self.compiled.adaptive
            and dt is not None
        ):
            self.heed_step(checked_step(dt))
        if self.goal.is_accurate:
            dt = SLOTS["step_of_run"](self, here(given, back), dt, steps, until, checked_time(t0), c)
        dt = 1.0 if system.kind == "map" else checked_step(dt)
        lent = None  # where states came from that are brought here: a jump is done on this machine
        if back is not None:
            given, back = SLOTS["there"]().settled(self, given, back)
            if back is not None and self.compiled.jump is not None:
                given, back, lent = here(given, back), None, back
        bare = partial(self.bare, dt, checked_time(t0), back)
        if c is None:
            given = given_momenta(
                system.seen, given if system.motion is None else here(given, back), checked_time(t0)
            )
            i = (
                inputs(system, given, self.compiled.encoding)
                if system.clock is None
                else begun_in_time(bare(), given)
            )
            if back is not None:  # what was made of them here goes there, too
                i = replace(i, states={name: sent(v) for name, v in i.states.items()})
        else:
            check_program(c, path, system, self.compiled.known.program, self.compiled.is_of_its_loop)
            agreed("dt", dt, c.run.dt, c.run.dt, path)
            i = restored_inputs(system, c, path, given, self.compiled.encoding)
        fixed = {FIXED_STEP: not self.compiled.adaptive}
        ask = Ask.of(self.goal, system, fixed, events=events, save_at=wants.at, save=save)
        check("events", ask)
        watched = self.watched(observe or {})
        first = 0 if c is None else c.step
        if system.clock is not None and until is not None and steps is None:
            start = i if c is None else replace(i, states=dict(c.start))
            last, end = steps_until(replace(bare(), given=start), until), None
        else:
            last, end = count_steps(steps, until, dt, checked_time(t0), no_part(system, self.goal))
            last += first if until is None else 0
        if last < first:
            raise InputError(
                f"until={until:g} lies before the checkpoint, which is at t = {time_at(first, dt, t0):g}",
                fix="Pass a later time.",
            )
        check("clock", ask)
        self.compiled.check_length(last - first, i.members, dt)
        target, kept_every = self.checkpointing(checkpoint, checkpoint_every, c)
        schedule = Schedule(
            last,
            None,
            whole("observe_every", observe_every, 1) if watched else None,
            None if hash_every is None else whole("hash_every", hash_every, 1),
            first,
            kept_every,
            end=end,
        )
        size = sum(int(v.nbytes) for v in i.states.values())
        schedule = scheduled(wants, schedule, dt, float(t0), size, gridless, no_part(system, self.goal))
        threads = None if threads is None else whole("threads", threads, 1)
        checked(seed=seed)
        compiled = self.compiled
        check_clock(compiled.encoding.precision, compiled.known.timed, schedule.steps, dt, float(t0))
        streams = save is not None and i.members > 0
        record = beginning(i, schedule, fitting(list(i.states.values())) if streams else None)
        begin = {name: empty_like(v[0]) if streams else v[0] for name, v in record.frames.items()}
        for name, v in begin.items() if c is None else ():
            copy(i.states[name], v, threads or available())
            if back is None:
                v.flags.writeable = False  # energies and replays come from here
            if streams:
                record.frames[name][0] = v
        i = Inputs(begin, i.params, i.members, i.is_ensemble)
        values = with_times(system, {n: self.traced(f, n) for n, f in watched.items()})
        if compiled.selects or values and selects([*values.values()]):
            check_indices([*compiled.roots, *values.values()], i)
        if compiled.draws or any(map(draws, values.values())):
            i = addressed(i, int(seed), compiled.encoding.precision.given)
        if self.goal.project:
            i = with_invariants(i, begin if c is None else c.start, self.goal, bare())
        if compiled.known.method in TURNING and flows_of(made(compiled.program)):
            i = with_flows(i, made(compiled.program), dt)
        apart = (
            compiled.adaptive or compiled.jump is not None or compiled.in_loops(i.members)
        )  # only some engines can
        place, why = (
            placed(
                self.target, self.requested, compiled.program, (i.members, schedule.steps - first), not apart
            )
            if back is None
            else (back.target, "the states are there")
        )
        r = Run(
            compiled.program,
            system,
            place,
            i,
            schedule,
            dt,
            float(t0),
            threads,
            compiled.encoding,
            compiled.in_loops(i.members),
            c,
            compiled.jump,
            compiled.series,
            {n: self.traced(f, n, "event") for n, f in (events or {}).items()},
            compiled.adaptive,
            compiled.watching,
            STIFF if compiled.known.method in EXPLICIT and system.kind == "ode" else "",
            gridless,
        )
        if schedule.steps and i.members:
            check_units(r, compiled.scales)
        converges = check_converges(r, compiled.known.method)
        keeper, windows = None, None
        if target is not None or save is not None:
            run = self.identity(r, seed)
            keeper = (
                None
                if target is None
                else Keeper(target, run, i, here(i.states, back) if c is None else c.start)
            )
            windows = self.windows(save, r, record, values, run)
        if self.began is None and c is None and back is None:
            self.began = first_state(i, dt, last)
        wander = Wander(r, record, values, of_frames_too=self.goal.approximate is None)
        compiled.tell_of_length(schedule.steps - first, i.members)
        ready, moved = clock.perf_counter(), transferred(place) if back is None else back.moved
        with progress_bar(progress, system.name, schedule.steps, wander) as tick, closing(windows):
            record, launches, compiling, code = execute(
                r, record, values, tick, keeper=keeper, windows=windows
            )
        done = clock.perf_counter()
        asked = Asked(self.goal, self.requested, self.checks, compiled.known.program, seed)
        out = trajectory(r, record, windows, values, asked)
        if system.clock is not None and until is not None and not out.stops:
            end_at(r, record, out, float(until))
        if back is not None or lent is not None:
            SLOTS["there"]().hand_back(out, back or lent, here=lent is not None)
        work = (record.last - first) * max(i.members, 1)
        running = max(done - ready - compiling, 1e-9)
        out.metrics.update(
            {
                "backend": {
                    "requested": self.requested,
                    "used": place.backend,
                    **({"why": why} if why else {}),
                },
                "device": running_on(place),
                **({"processor": name} if (name := named_processor(place)) else {}),
                "precision": self.goal.precision,
                "program": compiled.known.program,
                "bits": BITS,
                "seconds": {
                    "plan": compiled.seconds,
                    "prepare": ready - began,
                    "compile": compiling,
                    "run": running,
                },
                "cache": {"plan": compiled.found, "code": code},  # "made" now, or from the "disk" or "memory"
                "steps": record.last - first,
                "members": i.members,
                "seed": int(seed),
                "ns_per_step": 1e9 * running / work if work else 0.0,
                "steps_per_s": work / running if work else 0.0,
                "launches": launches,
                "not_finite": sum(s.cause == compiled.encoding.failure for s in record.stops),
                "notes": (*notes(place), *([compiled.slow] if compiled.slow else [])),
                **converges,
                **{name: n - moved[name] for name, n in transferred(place).items()},
            }
        )
        if self.goal.math == "fast":  # so that nobody compares it with a hash from elsewhere
            out.hash_of = partial(marked, "fast", out.hash_of)
            out.metrics |= {
                "math": "fast",
                "comparable": "with runs of this program, backend and machine alone",
            }
        if record.shape:
            out.metrics["shape"] = dict(record.shape)
        if record.measured:
            found = {name: [m[name] for m in record.measured] for name in record.measured[0]}
            one = {name: x if i.is_ensemble else x[0] for name, x in found.items()}
            out.metrics["approximate"] = {"budget": self.goal.approximate, **one}
        if r.adaptive:
            out.found = gathered(system, list(r.events), record.events)
            for name, parts in (("substeps", record.substeps), ("rejected", record.rejected)):
                every = np.concatenate([np.zeros(0, np.int64), *parts])
                if len(every) or name == "substeps":
                    out.metrics[name] = every if i.is_ensemble else int(every.sum())
        if compiled.known.solves and isinstance(out.metrics, Metrics) and isinstance(out.origin, Origin):
            out.metrics.later["solver"] = partial(solver_report, out.origin)
        if r.jump is not None:
            told = partial(jumped, r, record.last, self.compiled.known.way)
            if r.jump.few is None:
                out.metrics["propagator"] = told()
            else:  # it takes as long as a short run
                cast(Metrics, out.metrics).later["propagator"] = told
        if not compiled.encoding.precision.state.is_float:
            on_lattice = partial(
                rounded, compiled.encoding, {s.name: given.get(s.name) for s in system.states}, back
            )
            if back is None:
                out.metrics["lattice"] = on_lattice()
            else:  # the states would have to come here
                cast(Metrics, out.metrics).later["lattice"] = on_lattice
        if compiled.known.method == "strang" and c is None:
            found = commutators(self.built, r)
            self.commutators = found if self.commutators is None else self.commutators
            out.metrics |= {} if found is None else {"commutators": found.told}
        if self.frequency is not None or self.goal.decision is not None:
            out.metrics |= SLOTS["stability"](self, r.dt)
        if self.paces is not None and self.goal.inner:
            out.metrics |= SLOTS["resonance"](self, r)
        if compiled.known.method in TURNING:
            out.metrics |= SLOTS["resonances"](self, r)
        if self.goal.is_accurate:
            SLOTS["judged"](self, out)
        if self.checks == "strict" and any(s.cause == compiled.encoding.failure for s in record.stops):
            s = out.stopped
            assert s is not None
            what = (
                s.where
                if isinstance(s.where[0], str)
                else f"the force between particles {s.where[0]} and {s.where[1]}"
            )
            if s.cause == "not solved":
                raise PhysicsIntegrityError(
                    f"the equations of step {s.step} (t = {s.t:g}) could not be solved: the "
                    "iteration did not converge, or a slope is not finite there",
                    out=out,
                    fix="Shorten dt; the run so far is in .out.",
                )
            if r.adaptive:
                raise PhysicsIntegrityError(
                    f"{what} is lost before t = {s.t:g}: no step is short enough to go on",
                    out=out,
                    fix="The solution ends there, or a derivative is not a number; the run so far is in .out.",
                )
            told = "not finite" if compiled.encoding.precision.state.is_float else "no number of the lattice"
            raise PhysicsIntegrityError(
                f"{what} is {told} at step {s.step} (t = {s.t:g})",
                out=out,
                fix="Shorten dt, or soften the potential; the run so far is in .out.",
            )
        judge(r, record, out, compiled, self.checks, self.goal.approximate, windows is None)
        return out

    def in_own_time(self, what: str) -> None:
        known = self.source if self._compiled is None else self.system
        clock = known.clock if isinstance(known, System) else None
        check("call", Ask({"time": clock}, traits={what: True}))

    def bare(self, dt: float, t0: float, back: Any) -> Run:
        """A run of nobody yet."""
        x, target = self.compiled, self.target if back is None else back.target
        return Run(
            x.program,
            x.system,
            target,
            Inputs({}, {}, 1, False),
            Schedule(0, None, None, None),
            dt,
            t0,
            None,
            x.encoding,
            x.in_loops(1),
            watching=x.watching,
        )

    def checkpointing(self, path: Any, every: Any, c: Checkpoint | None) -> tuple[Path | None, int | None]:
        """(where checkpoints are written, how often), or an error before anything has run."""
        check("checkpoint", Ask({"checkpoint": path, "checkpoint_every": every}))
        if path is None:
            return None, None
        target = a_path("checkpoint", path, "run.checkpoint")
        check_target(target, c)
        return target, None if every is None else whole("checkpoint_every", every, 1)

    def identity(self, r: Run, seed: int) -> Identity:
        if r.begun is not None:
            return r.begun.run
        shown = shaped(r.given)(r.given.states)
        return identity(r.system, self.compiled.known.program, r.dt, r.t0, seed, shown, r.given.params)

    def windows(
        self, save: Any, r: Run, record: Record, values: Mapping[str, UOp], run: Identity
    ) -> Windows | None:
        """Where frames and observables are handed on to, if they are."""
        if save is None:
            return None
        stream, since = save, -1
        if not hasattr(save, "put"):  # replays hand them on to something else than a store
            told = described(self.system, self.goal, self.requested, self.checks, self.compiled.known.program)
            stream, since = begun(a_path("save", save, "run.zarr"), r, values, run, told)
        return Windows(record, stream, r.dt, r.t0, r.given.is_ensemble, since)

    def bind(self, source: Family, sizes: dict[str, int]) -> None:
        """The first run decides the sizes; later ones must agree."""
        if self._compiled is None and not self._sizes:
            system, self._sizes = source.bind(sizes), sizes
            if on_orbits(self.goal):
                check_orbits(system, self.goal)
                self._bodies = system
            else:
                self._compiled = Compiled(system, self.goal, self.requested)
        for letter, n in self._sizes.items():
            if sizes[letter] != n:
                raise ShapeError(
                    f"`{letter}` is {n} since the first run of this simulation; this run has {sizes[letter]}",
                    fix="Compile the system again for another size.",
                )

    def decide(self, decision: Decision) -> None:
        """The method that pilots have chosen is the one of this simulation from here on."""
        found = self.goal.tolerance if decision.tolerance is None else decision.tolerance
        self.goal = replace(self.goal, decision=decision, tolerance=found)
        self._compiled = Compiled(self.system, self.goal, self.requested)

    def heed_step(self, dt: float) -> None:
        """The step came with the run: what `compile(..., dt=)` would have chosen for one that is too long for leapfrog."""
        goal = replace(self.goal, dt=dt)
        if not self.compiled.goal.stiff and stiffest(self.system, goal):
            self._compiled = Compiled(self.system, goal, self.requested)

    def order_bodies(self, given: Mapping[str, Any], c: Checkpoint | None) -> None:
        """The first run decides the order of bodies on orbits; the states of later ones must be a hierarchy in it."""
        system = self._bodies if self._compiled is None else self._compiled.system
        if system is None:
            assert isinstance(self.source, System)
            system = self.source
        start = (
            inputs(system, given)
            if c is None
            else Inputs(dict(c.start), dict(c.params), c.members, c.is_ensemble)
        )
        known = self.goal.hierarchy
        found = hierarchy_of(system, self.goal, start, None if known is None else known.order)
        if self._compiled is None:
            self.goal = replace(self.goal, hierarchy=found)
            self._compiled = Compiled(system, self.goal, self.requested)

    @property
    def subject(self) -> Observed:
        """The system as the ready-made observables see it."""
        return Observed(self.system.seen)

    def traced(self, function: Any, name: str, what: str = "observable") -> UOp:
        """A function of the state as an expression; `what` it is for is what errors speak of."""
        system = self.system.seen
        if (ready := as_measure(function)) is not None:
            return ready(self.subject)
        if isinstance(function, str):
            if function == "energy" and system.energy is not None:
                return system.energy
            why = "" if function != "energy" else f": `{system.name}` has no energy"
            raise InputError(
                f"{OPTIONS[what]}[{name!r}] = {function!r}{why}",
                fix=f'The one named {what} is "energy", of a Hamiltonian; pass a function.',
            )
        known = {s.name: s.var for s in system.states} | {p.name: p.var for p in system.parameters}
        return observable(function, known | {"t": clock_of(system)}, name, what)


def given_momenta(system: System, given: Mapping[str, Any], t0: float = 0.0) -> Mapping[str, Any]:
    """What a run was given, in states: a Lagrangian's may begin with velocities."""
    out: Mapping[str, Any] = given if system.motion is None else SLOTS["with_momenta"](system, given, t0)
    return out


def here(given: Mapping[str, Any], back: Any) -> Mapping[str, Any]:
    """What was given, for those who look at it before a run: states that are on a GPU as copies."""
    return given if back is None else SLOTS["there"]().here(given)  # type: ignore[no-any-return]


def rounded(encoding: Encoding, states: Mapping[str, Any], back: Any) -> dict[str, Any]:
    """What is told of a lattice."""
    return encoding.rounding(here(states, back))


def traced_graph(s: System) -> str:
    return dump([s.energy] if s.energy is not None else [*s.forces, *s.update], s.sites)


def whole_span(steps: int | None, until: float | None, t0: float, c: Checkpoint | None) -> float:
    """The one step of a run that chooses its own, and was given no times to look at: it leads to the end."""
    if c is not None:
        return c.run.dt
    if until is None:
        raise InputError(
            "steps= needs dt: this method chooses its own steps",
            fix="Pass until=10.0, or the spacing of frames to compile: dt=0.1.",
        )
    span = checked_time(until) - t0
    if span <= 0.0:
        raise InputError(
            f"until={until:g} does not lie after t0={t0:g}",
            fix="A method that chooses its own steps runs forward in time only: pass a later until=.",
        )
    return span


@contextmanager
def closing(windows: Windows | None) -> Iterator[None]:
    """The thread of a stream ends with the run."""
    try:
        yield
    finally:
        if windows is not None and isinstance(windows.target, Stream):
            windows.target.close()


def checked_step(dt: Any) -> float:
    if dt is None:
        raise InputError(
            "dt is missing",
            fix="Pass a step, tp.compile(system, dt=0.01) or evolve(..., dt=0.01); or ask for an accuracy: error=1e-6.",
        )
    h = number("dt", dt, "dt=0.01", "time step")
    if h == 0:
        raise InputError("dt=0 is not a time step: nothing would move", fix="Pass dt=0.01.")
    return h


def check_clock(precision: Precision, timed: bool, steps: int, dt: float, t0: float) -> None:
    """A format with few digits must still tell the steps of a run apart."""
    if precision.given is f64:
        return
    name = precision.name
    if not fits(dt, precision.given):
        raise InputError(f"dt={dt!r} is out of the range of {name}", fix="Choose other units of time.")
    last = max(abs(t0), abs(time_at(steps, dt, t0)))
    if timed and last * ROUNDING[precision.given] > abs(dt) / 2:
        raise InputError(
            f"t reaches {last:g}, where {name} cannot distinguish t from t + dt, and the system depends on t",
            fix='Run for a shorter time, or with precision="float64".',
        )
