"""The compiled system: explain it, print it at any level, run it."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tinyphysics import up
from tinyphysics.errors import InputError, PlanError, StoreError, TinyPhysicsError
from tinyphysics.given import shown
from tinyphysics.line import Line
from tinyphysics.options import COMING, COMPILE, heeds
from tinyphysics.pipeline import TANGENTS
from tinyphysics.planner.methods.cite import Citations
from tinyphysics.planner.systems.heat import TEMPERATURE, at_temperature, default_temperature
from tinyphysics.report import Report
from tinyphysics.runtime.api.by_name import takes_names
from tinyphysics.runtime.api.differentiated import Differentiated
from tinyphysics.runtime.measure.deciders import DECIDERS
from tinyphysics.runtime.measure.diagnostics import DIAGNOSTICS
from tinyphysics.runtime.stages.compiled import Compiled
from tinyphysics.runtime.stages.description import save
from tinyphysics.runtime.stages.evolve import evolve
from tinyphysics.runtime.stages.resolve import Request
from tinyphysics.runtime.stages.subject import Observed
from tinyphysics.runtime.state.complex_numbers import in_parts, joined, with_complex_names
from tinyphysics.runtime.state.digest import BITS as BITS
from tinyphysics.runtime.state.from_frame import BEGINS
from tinyphysics.system import ComplexNumbers, SizedFamily, System
from tinyphysics.trajectory import Trajectory
from tinyphysics.util import did_you_mean, one_of, record_of

if TYPE_CHECKING:
    from tinyphysics.runtime.api.stepper import Stepper  # imported when one is made
    from tinyphysics.runtime.api.taken_kernel import TakenKernel

CHECKS = ("on", "off", "strict")
PLAIN = (int, float, str, bool, np.ndarray)  # no quantities with units


@dataclass(eq=False, repr=False)
class Simulation(Differentiated):
    """A compiled system, made by tp.compile: explain it, print its program at any level, run it.

    `sim.evolve(q=..., p=..., steps=1000)` runs it, `print(sim.explain())` shows what was found, chosen and proved, and
    `sim.certificate` what was proved about its program. `source`, `goal`, `requested` and `checks` are what tp.compile was
    given; `monitors` are observed in every run; `frequency`, `commutators`, `paces` and `split` are measured in trial runs.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        """Only what a simulation has: anything else would be kept and never read."""
        if name == TEMPERATURE and name not in self._own_states:
            self._warm(value)
            return
        if name not in self.__dataclass_fields__:
            raise self.not_set(name, value)
        if name == "checks" and value not in CHECKS:
            raise InputError(f"checks={shown(value)} is not known", fix=f"checks may be {one_of(CHECKS)}.")
        object.__setattr__(self, name, value)

    @property
    def _own_states(self) -> tuple[str, ...]:
        return () if isinstance(self.source, SizedFamily) else tuple(s.name for s in self.source.states)

    @property
    def temperature(self) -> float:
        """The temperature of the bath in runs that give none; `sim.temperature = 300.0` sets it."""
        return default_temperature(self.source if self._compiled is None else self.system)

    def _warm(self, temperature: Any) -> None:
        """Another temperature for runs that give none."""
        object.__setattr__(self, "source", at_temperature(self.source, temperature))
        self._forms, self._beside = {}, {}
        if self._compiled is not None:
            system = at_temperature(self.system, temperature)
            assert isinstance(system, System)
            self._compiled = Compiled(system, self.goal, self.requested)

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

    def takes(self) -> dict[str, Any]:
        """What a run takes by name, for editors: states, velocities of a Lagrangian, parameters with their defaults."""
        empty, source = inspect.Parameter.empty, self.source if self._compiled is None else self.system.seen
        if isinstance(source, SizedFamily):
            return with_complex_names(source.complexes, {n: empty for n in source.shapes if n != "t"})
        rates = () if source.motion is None else (str(v.arg) for v in source.motion.v)
        return with_complex_names(
            source.complexes,
            {s.name: empty for s in source.states}
            | dict.fromkeys(rates, None)
            | {x.name: empty if x.default is None else x.default for x in source.parameters},
        )

    def in_numbers(self, given: dict[str, Any]) -> dict[str, Any]:
        """What a call passes by name, with numbers for quantities of pint's, in the units of the system."""
        if self.source_complexes:
            given = in_parts(self.source_complexes, given)
        for v in given.values():
            kind = type(v)
            if kind in PLAIN or v is None or kind is list and all([type(x) in PLAIN for x in v]):
                continue
            break
        else:
            return given
        from tinyphysics.runtime.api.quantities import as_numbers

        return as_numbers(self.source if self._compiled is None else self.system, given)

    @property
    def source_complexes(self) -> tuple[ComplexNumbers, ...]:
        """Its complex states and parameters."""
        known = self._compiled
        return self.source.complexes if known is None else known.system.seen.complexes

    # --- looking ------------------------------------------------------------------------------
    @property
    def certificate(self) -> Any:
        """What was shown about the program, property by property, with reasons; `sim.certificate.level` in one word."""
        return self.built.certificate

    @property
    def subject(self) -> Observed:
        """The system as the ready-made observables see it."""
        return Observed(self.system.seen)

    def explain(self, form: str = "short") -> Report:
        """What was found, chosen and proved, in plain words; `explain("full")` has all of the evidence.

        form  "short", ten to fifteen lines; or "full": facts with evidence, the plan and the methods that
            were not chosen, the certificate, the cost, the machine. `to_dict()` is that of the full form.
        """
        from tinyphysics.runtime.api.reports import explain

        return explain(self, form)

    def cite(self) -> Citations:
        """Returns the sources of the method, a BibTeX entry each; `print(sim.cite())` is a .bib file."""
        from tinyphysics.planner.methods.cite import cite

        return cite(self.built.plan, self.goal, self.system.clock)

    @heeds("ir", 'sim.ir("tpir")')
    def ir(self, level: str = "tpir") -> str:
        """Returns the program as text; `level` goes from the graph as traced ("uop") down to machine code ("asm").

        While a size is open, "uop" is the graph for small sizes, and says so; the others raise.
        "c" and "cuda" are complete programs: compiled, they print the hash of a run.
        """
        from tinyphysics.runtime.api.levels import text_at

        return text_at(self, level)

    @heeds("lines", 'sim.lines("tpir")')
    def lines(self, level: str = "tpir") -> tuple[Line, ...]:
        """Returns a record for each line of a level: its text, your lines, the lines one level up, and the rule that made it.

        level   "source", "uop", "facts", "plan", "tpir", "kernel", "c", "cuda", "opencl", "llvm", "asm", "ptx", "wasm" or
                "wgsl"
        """
        from tinyphysics.runtime.api.lines import lines_at

        return lines_at(self, level)

    @heeds("explore", 'sim.explore(q=1.0, p=0.0, html="run.html")')
    def explore(self, *, html: Any, steps: int | None = None, **start: Any) -> Any:
        """Writes one HTML file that shows every level of the compiler and runs here, without Python or a network.

        html   the file
        steps  of the run in Python that the page's own run is compared with; 600 where it is left out
        start  states and parameters, as in evolve
        """
        return up.explore(self, start, html, steps)

    @heeds("widget", "sim.widget(q=1.0, p=0.0)")
    def widget(self, *, steps: int | None = None, height: int = 680, **start: Any) -> Any:
        """Returns a widget for notebooks: the page of explore, which computes in the browser, in a saved notebook too.

        steps   of the run in Python that the widget's own run is compared with; 600 where it is left out
        height  of the widget, in pixels
        start   states and parameters, as in evolve
        """
        return up.widget(self, start, steps, height)

    @heeds("kernel", 'sim.kernel(target="c")')
    def kernel(self, target: str = "c", *, members: int = 1) -> TakenKernel:
        """Returns the kernel to take away: text or module, what it reads, and a call that runs it on arrays that stay.

        target   "c", "llvm", "wasm", "opencl", "cuda", "ptx", "spirv"; in float32 "wgsl" and "glsl"
        members  how many members are advanced side by side
        """
        from tinyphysics.runtime.api.taken_kernel import taken_kernel

        return taken_kernel(self, target, members)

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

    @heeds("save", 'sim.save("pendulum.json")')
    def save(self, path: Any) -> None:
        """Writes the system and its compile options to a file; `tp.load(path)` compiles it to the same program.

        That is the program of the last run, whose checkpoints it continues. What compile left open, such as `inner=` or the
        method of a goal, is decided anew by the next run, as it is here.
        """
        save(self, path)

    @heeds("rewind", "sim.rewind(out, 100)")
    def rewind(self, out: Trajectory, steps: int, checkpoint: Any = None) -> Trajectory:
        """Returns the run up to `steps` steps before the end of `out`, as a Trajectory that ends there.

        With precision="lattice" the steps are undone, to the last bit. Otherwise the run is repeated up to that step, from
        its beginning or from a `checkpoint` of it, with the same bits; `.metrics["rewind"]` says which.
        """
        from tinyphysics.runtime.measure.rewind import rewind

        return rewind(self, out, steps, checkpoint)

    @takes_names
    @heeds("stepper", "sim.stepper(q=..., p=...)")
    def stepper(
        self, *, t0: float = BEGINS, seed: int = 0, threads: int | None = None, **given: Any
    ) -> Stepper:
        """Returns a Stepper, to be stepped in a loop of your own: `s.step()`, then `s.q`, `s.t`, and so on.

        It begins with the states and parameters `given` by name, at the time `t0`. After n steps its states have the bits of
        `sim.evolve(..., steps=n).final`. `seed` is that of random numbers, `threads` the most threads of one call.
        """
        from tinyphysics.runtime.api.stepper import stepper

        return stepper(self, given, t0, seed, threads, self.source_complexes)

    def __repr__(self) -> str:
        if self._compiled is None:
            return f"<Simulation of {self.source!r}, sizes still open>"
        provisional = " (provisional)" if self.goal.is_accurate and self.goal.decision is None else ""
        return f"<Simulation of {self.system.name}: {self.compiled.known.method}{provisional}, {self.target.backend}>"

    def _repr_html_(self) -> str:
        """The equation, what was chosen and shown, and the report folded away: for notebooks."""
        from tinyphysics.view.page import simulation_page

        return simulation_page(self)

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
        return self.__dict__ | {"source": self.system, "_forms": {}, "_beside": {}, "_decided": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """A simulation of an older release had no patterns of short runs, and no thresholds."""
        missing: dict[str, Any] = {"thresholds": {}, "check_every": None, "_asked": None, "_decided": {}}
        self.__dict__.update({"_forms": {}, "_beside": {}, **missing, **state})

    def __copy__(self) -> Simulation:
        """Monitors of its own; the rest is frozen, and shared."""
        new = object.__new__(Simulation)
        new.__dict__.update(
            self.__dict__
            | {"monitors": dict(self.monitors), "_sizes": dict(self._sizes), "_decided": dict(self._decided)}
            | {"_forms": {}, "_beside": {}}
        )
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
        speculate: int | None = None,
        save: Any = None,
        checkpoint: Any = None,
        checkpoint_every: int | None = None,
        resume: Any = None,
        events: Mapping[str, Callable[..., Any]] | None = None,
        acts: Mapping[str, Any] | None = None,
        exchange: Any = None,
        on: Any = None,
        verify: float | None = None,
        parallel: Any = None,
        view: str | None = None,
        observer: str | None = None,
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
        `events={"name": function}` finds the times at which a function of the state changes sign, to rounding, and
        changes nothing of the run: `out.events("name")`.
        `acts={"kick": tp.act(every=100, map=f)}` changes the state by a map after step 100, 200, and so on: `out.acts`.
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
        speculate         of walls and events: how many steps are tried at once before one looks; 0 tests every step
        save              a directory for a zarr store with the frames
        checkpoint        a file from which the run can be continued
        checkpoint_every  the number of steps between two checkpoints
        resume            a checkpoint to continue from, or a run: resume=out
        events            functions whose sign changes are located, {"apsis": lambda q, p: q @ p}
        acts              what changes the state between steps: {"kick": tp.act(every=100, map=lambda p: -p)}
        exchange          replicas exchange temperatures: exchange=100, every 100 steps; or tp.exchange("k", every=100)
        on                a Dask client, cluster or address: the members of an ensemble run there
        verify            with on=: the share of the blocks that a second worker computes too
        parallel          slices of time side by side: tp.Parareal(slices=20)
        view              "terminal": watch the run there; q ends it, and what there is comes back
        observer          what is handed out of the run: "none", "metrics", "snapshots" or "visualize"
        options           {"frames": 400}: for a system that has a state or a parameter of that name
        given             states and parameters by name: q=[1.0, 0.0], mu=2.0; one more leading axis makes an ensemble
        """
        said = locals()
        del said["self"]
        request = record_of(Request, said)
        named = options if isinstance(options, Mapping) else {}
        if observer is not None or "observer" in named:
            handed = self._observer(request, named)
            if handed is not None:
                return handed
        asked = named.get("view")
        if asked is None and view is None:
            return self._run(request)
        own = "view" in self.own_names
        asked = view if view is not None and not own else asked
        if asked is None:
            return self._run(request)
        return self._watched(asked, replace(request, view=request.view if own else None, options=named))

    def _observer(self, request: Request, named: Mapping[str, Any]) -> Trajectory | None:
        """The run with an observer; None where `observer` is a state or a parameter, and no option."""
        own = "observer" in self.own_names
        by = named.get("observer") if own or request.observer is None else request.observer
        if by is None:
            return None
        from tinyphysics.runtime.api.observers import observed  # which most runs do not have

        left = {name: value for name, value in named.items() if name != "observer"}
        request = replace(request, options=left or None, observer=request.observer if own else None)
        return observed(self, by, request, self._run, self._watched)

    def _watched(self, view: Any, request: Request) -> Trajectory:
        from tinyphysics.runtime.api.watched import watched  # pictures, which most runs do not need

        named = request.options or {}
        return watched(view, lambda it: self._run(replace(request, options={**named, "view": it})))

    def _run(self, request: Request) -> Trajectory:
        parallel, observe = request.parallel, request.observe
        if parallel is not None and parallel is not False and "parallel" not in self._own_states:
            return up.in_slices(self, request, parallel)
        if (observe or self.monitors) and observes_chaos(self, observe or {}):
            from tinyphysics.runtime.measure.observed_chaos import evolve_beside

            return joined(evolve_beside(self, request), self.source_complexes)
        diagnostics: Sequence[Any] = DIAGNOSTICS
        if request.observation is not None:
            diagnostics = request.observation.diagnostics(DIAGNOSTICS)
        return joined(evolve(self, request, DECIDERS, diagnostics), self.source_complexes)


def observes_chaos(sim: Simulation, observe: Mapping[str, Any]) -> bool:
    """Is an indicator of chaos among what is observed, in a run that has no directions yet?"""
    named = any(hasattr(f, "needs_directions") for f in (*observe.values(), *sim.monitors.values()))
    return named and TANGENTS not in dict(sim.goal.more)
