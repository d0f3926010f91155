"""What is handed out of a run, and what did each stage of it take?  evolve(observer=...).

"none" hands out nothing until `out.final` is read, "metrics" a few numbers a stride, "snapshots" the frames, "visualize" the
frames and a picture. None of them changes a bit of the run.
"""

from __future__ import annotations

import inspect
import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from tinyphysics.errors import InputError, PhysicsWarning, PlanError
from tinyphysics.front.functions import total
from tinyphysics.given import shown
from tinyphysics.runtime.measure.flags import flags_of
from tinyphysics.runtime.stages.observation import (
    LEAN,
    METRICS,
    NONE,
    SNAPSHOTS,
    VISUALIZE,
    Observation,
    Summary,
)
from tinyphysics.runtime.stages.outcome import shown as as_seen
from tinyphysics.runtime.stages.resolve import Request
from tinyphysics.runtime.stages.setup import Setup
from tinyphysics.runtime.state.digest import as_marked, state_hash
from tinyphysics.runtime.state.ensemble import shaped
from tinyphysics.runtime.state.frames import MOST, stride_of
from tinyphysics.runtime.state.schedule import times_at
from tinyphysics.system import SizedFamily
from tinyphysics.trajectory import Frame, Trajectory
from tinyphysics.util import frames_to_user, one_of

OBSERVERS = (NONE, METRICS, SNAPSHOTS, VISUALIZE)
# Options that need what an observer does not hand out, or that run elsewhere: what to write instead.
NEED_FRAMES = ("save", "checkpoint", "resume", "events", "acts", "exchange", "save_at", "frames", "view")
ELSEWHERE = ("on", "verify", "parallel")
Run = Callable[[Request], Trajectory]


def observed(
    setup: Setup, observer: Any, request: Request, run: Run, watch: Callable[[Any, Request], Trajectory]
) -> Trajectory:
    """The run of a request, of which only so much is handed out; `watch` shows it in a terminal."""
    began = time.perf_counter()
    check(setup, observer, request)
    observation = Observation(observer)
    known = setup._compiled
    request = replace(request, observation=observation)
    if observer == METRICS:
        observation.summary = Summary(observation.count)
        request = with_energies(setup, request)
    if observation.is_lean:
        request = replace(request, save_every=None, frames=2)  # blocks need not end at frames
    view, request = view_of(setup, request)
    if observer == VISUALIZE and view is None:
        view = "terminal"
    out = run(request) if view is None else watch(view, request)
    if observation.is_lean:
        hand_out_less(out, observation, setup)
        warn_of_poles(setup, observation)
    whole = time.perf_counter() - began
    planned = setup.compiled.seconds if setup._compiled is not known else 0.0
    told(out, observation, setup, whole, planned)
    return out


def view_of(setup: Setup, r: Request) -> tuple[Any, Request]:
    """(where the run is to be watched, the request without that)."""
    named = dict(r.options) if isinstance(r.options, Mapping) else {}
    view, left = named.pop("view", None), r
    if "view" not in setup.own_names and r.view is not None:
        view, left = r.view, replace(r, view=None)
    return view, replace(left, options=named or None) if isinstance(r.options, Mapping) else left


def check(setup: Setup, observer: Any, r: Request) -> None:
    if observer not in OBSERVERS:
        raise InputError(
            f"observer={shown(observer)} is not known", fix=f"observer may be {one_of(OBSERVERS)}."
        )
    named = r.options if isinstance(r.options, Mapping) else {}
    for name in (*ELSEWHERE, *NEED_FRAMES):
        value = getattr(r, name) if getattr(r, name) is not None else named.get(name)
        if value is None or value is False or name in setup.own_names:
            continue
        if name in ELSEWHERE:
            raise PlanError(
                f"observer={observer!r} cannot be combined with {name}=: other processes hand their own frames out",
                fix=f"Leave observer= or {name}= out.",
            )
        if observer in LEAN:
            raise PlanError(
                f"{name}= needs the states of a run, which observer={observer!r} does not hand out",
                fix=f'Leave {name}= out, or pass observer="snapshots".',
            )
    if observer not in LEAN:
        return
    asked_to_check = {
        "checks=": setup.checks == "strict" or bool(setup.thresholds), "check_every=": setup.check_every is not None
    }  # fmt: skip
    for what, asked in asked_to_check.items():
        if asked:
            raise PlanError(
                f"{what} of tp.compile asks for looks at the states of a run, and observer={observer!r} reads none",
                fix=f'Leave {what} out of tp.compile, or pass observer="snapshots".',
            )
    source = setup.source if setup._compiled is None else setup.system
    if observer == NONE and r.save_every is not None:
        raise PlanError(
            'save_every= keeps frames, and observer="none" hands out none',
            fix='Leave it out, or pass observer="metrics" for a few numbers on that stride.',
        )
    if observer == NONE and r.observe_every != 1:
        raise PlanError(
            'observe_every= is a stride of values, and observer="none" hands out none',
            fix='Leave it out, or pass observer="metrics" for a few numbers on that stride.',
        )
    if observer == NONE and (r.observe or setup.monitors):
        raise PlanError(
            'observe= needs values of a run, which observer="none" does not hand out',
            fix='Pass observer="metrics".',
        )
    if isinstance(source, SizedFamily):
        return
    refused = {
        "time=": source.clock is not None, "events and walls": bool(source.guards or source.jumps),
        "a bias": bool(source.biased_by), "a barostat": bool(source.barostat),
        "complex states": any(c.is_state for c in source.complexes),
    }  # fmt: skip
    for what, there in refused.items():
        if there:
            raise PlanError(
                f"observer={observer!r} does not work with {what} yet", fix='Pass observer="snapshots".'
            )


def warn_of_poles(setup: Setup, o: Observation) -> None:
    """Of many members that are reduced to a few numbers it is not known whether one passed a pole."""
    reduced = o.summary is not None and o.summary.is_ensemble
    if reduced and setup.checks != "off" and setup.compiled.poles:
        what = (
            f"{setup.system.name}: whether members stepped over a pole of the energy was not looked at: "
            f"observer={o.observer!r} reduces them to a few numbers. "
            'Run with observer="none" or "snapshots", which stop them there, or compile with checks="off"'
        )
        warnings.warn(PhysicsWarning(what), stacklevel=frames_to_user())


def with_energies(setup: Setup, r: Request) -> Request:
    """The energy is observed on the stride of the frames, or the size of each state where there is no energy."""
    every = r.observe_every
    own: dict[str, Any] = dict(r.observe or {})
    if every == 1:
        every = r.save_every if r.save_every is not None else stride(setup, r)
    source = setup.source if setup._compiled is None else setup.system
    sized = isinstance(source, SizedFamily)
    if not own:
        if source.kind == "hamiltonian" if sized else source.energy is not None:
            own = {"energy": "energy"}
        else:
            own = (
                {}
                if sized
                else {f"{s.name}_size": size_of(s.name) for s in source.states if s.var.dtype.is_float}
            )
        if not own:
            raise InputError(
                f"what is observed of `{source.name}` is missing: it has no energy",
                fix='Pass observe={"size": lambda u: tp.sum(u * u)}.',
            )
    return replace(r, observe=own, observe_every=every)


def size_of(name: str) -> Callable[..., Any]:
    """sqrt(sum of the squares) of a state, as an observable."""

    def size(**state: Any) -> Any:
        return total(state[name] * state[name]) ** 0.5

    size.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD)]
    )
    return size


def stride(setup: Setup, r: Request) -> int:
    """Steps from one look to the next: as a run keeps frames that it was not asked for."""
    dt = r.given.get("dt", setup.goal.dt)
    if isinstance(r.steps, int):
        return stride_of(r.steps, MOST)
    if isinstance(r.until, (int, float)) and isinstance(dt, (int, float)) and dt and math.isfinite(r.until):
        return stride_of(max(1, int(abs(r.until / dt))), MOST)
    return 1


class NotHandedOut:
    """In the place of what a trajectory computes energies and replays from."""

    velocities: tuple[str, ...] = ()
    changed: Mapping[str, Any] = {}

    is_ensemble = False  # values are reduced over members

    def __init__(self, observer: str, observed: Sequence[str] = ()) -> None:
        self.observer, self.observed = observer, tuple(observed)

    def glance(self) -> None:
        return None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        there = self.observed
        raise PlanError(
            f"the run has no frames: observer={self.observer!r} hands out {one_of(there, 'and') if there else 'none'}",
            fix=f'Read out["{there[0]}"], or pass observer="snapshots".'
            if there
            else 'Pass observer="snapshots", or read out.final.',
        )


class Fetched(Mapping[str, Any]):
    """States that are read from where the run left them when one of them is first asked for."""

    def __init__(self, names: Sequence[str], fetch: Callable[[], Mapping[str, Any]]) -> None:
        self._names, self._fetch = tuple(names), fetch
        self._there: Mapping[str, Any] | None = None

    def all(self) -> Mapping[str, Any]:
        if self._there is None:
            self._there = dict(self._fetch())
        return self._there

    def __getitem__(self, name: str) -> Any:
        if name not in self._names:
            raise KeyError(name)
        return self.all()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self.all()),)


def hand_out_less(out: Trajectory, o: Observation, setup: Setup) -> None:
    """The trajectory of a run whose states stay where they are."""
    run, running = o.run, o.running
    assert run is not None and running is not None
    words = list(running.given.states)

    def fetch() -> Mapping[str, Any]:
        kept = shaped(run.given)(o.fetch())
        out.metrics["bytes_read"] = o.bytes_read
        return kept

    kept = Fetched(words, fetch)
    states = Fetched([s.name for s in run.system.seen.states], lambda: frozen(as_seen(run, kept.all())))
    last = out.final
    out.metrics.pop("fractions", None)  # of frames
    out.final = Frame(states, last.step, last.t, kept, last.given, last.decided)
    out.t, out.steps, out.frames, out.kept = out.t[:0], out.steps[:0], {}, {}
    out.hash_of = as_marked(out.hash_of, partial(hash_of, kept, running.threads))
    series = {} if o.summary is None else o.summary.series()
    out.origin = NotHandedOut(o.observer, list(series))
    out._later = {s.name: partial(getattr, out.origin, s.name) for s in run.system.seen.states}
    if o.summary is not None:
        at = times_at(running.schedule.observed(last.step), run.dt, run.t0)
        out.observed = {
            name: (at[: len(v)], v[: len(at)]) for name, v in series.items()
        }  # to where it stopped


def hash_of(states: Mapping[str, Any], threads: int) -> str:
    return state_hash(dict(states), threads)


def frozen(states: Mapping[str, Any]) -> dict[str, Any]:
    out = {}
    for name, v in states.items():
        out[name] = np.asarray(v).view()
        out[name].flags.writeable = False
    return out


# --- what is told of it ---------------------------------------------------------------------------------
GPU = ("cuda",)
HOST = (
    "plan",
    "prepare",
    "hash",
    "check",
    "write",
    "show",
    "bookkeeping",
    "finish",
)  # stages that are Python


def told(out: Trajectory, o: Observation, setup: Setup, whole: float, planned: float) -> None:
    """Entries of out.metrics: bytes, stages with their times and places, flags."""
    m = out.metrics
    seconds, backend = m["seconds"], m["backend"]
    run_itself = seconds["run"]
    inside = o.times.shares(o.compiled)
    stages = {
        "plan": planned,
        "prepare": max(seconds["prepare"] - planned, 0.0),
        "compile": seconds["compile"],
        **{name: inside.get(name, 0.0) for name in ("advance", "read", "check", "hash", "write", "show")},
    }
    stages["bookkeeping"] = max(run_itself - sum(inside.values()), 0.0)
    before = seconds["prepare"] + seconds["compile"] + run_itself
    stages["finish"] = max(whole - before, 0.0)
    launched = m["launches"] > 0
    asked, used = backend["requested"], backend["used"]
    gpu = used in GPU and launched
    fft = used if launched and transforms(o) else None

    def place(stage: str, took: float) -> dict[str, Any]:
        if stage in HOST:
            here = {"requested": "python", "used": "python"}
            return {"seconds": took, "backend": here, "device": {"requested": "cpu", "used": "cpu"}}
        asked_for = "gpu" if asked in GPU else "auto" if asked == "auto" else "cpu"
        device = {"requested": asked_for, "used": "gpu" if gpu else "cpu"}
        return {"seconds": took, "backend": {"requested": asked, "used": used}, "device": device}

    m["observer"] = o.observer
    m["bytes_read"] = o.bytes_read
    if o.gpu:
        m["flag_bytes_read"] = o.flags_read
    m["wall"] = whole
    m["stages"] = {name: place(name, took) for name, took in stages.items()}
    m["fft"] = {"requested": asked if fft else None, "used": fft}
    m["gpu_hotloop_active"] = gpu
    m["flags"] = flags_of(m, out.stops, o)


def transforms(o: Observation) -> bool:
    """Did the engine of the run have a nest that is a Fourier transform?"""
    kernel = getattr(getattr(o.running, "engine", None), "kernel", None)
    sections = getattr(kernel, "sections", {})
    nests = (nest for s in sections.values() for nest in getattr(s, "nests", ()))
    return any(getattr(getattr(nest, "way", None), "name", "") == "fft" for nest in nests)
