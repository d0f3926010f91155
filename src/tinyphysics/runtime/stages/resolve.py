"""What does a call of evolve mean?  Names, times, arrays and checkpoints sorted out, and what was left open decided.

What only a state can decide (the order of bodies, the step of a goal) is decided by the `Decider`s that are handed in, for
every run anew: what a run computes follows from its call and from that of compile, not from the runs before it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tinyphysics.device.cuda.dlpack import is_there
from tinyphysics.errors import InputError, PlanError
from tinyphysics.given import FROM_FRAME, number
from tinyphysics.planner.conflicts import Ask, check
from tinyphysics.planner.cost.target import choose_target, in_series
from tinyphysics.planner.systems.bias import springs_of
from tinyphysics.runtime.engines.caller_arrays import CallerArrays, adopt_arrays, check_arrays, host_copies
from tinyphysics.runtime.stages.going_on import begun_before
from tinyphysics.runtime.stages.setup import Setup
from tinyphysics.runtime.state.ensemble import sizes_from
from tinyphysics.runtime.state.frames import Wanted, named_options, wanted
from tinyphysics.runtime.state.from_frame import BEGINS, opened
from tinyphysics.runtime.state.run import Checkpoint
from tinyphysics.runtime.state.schedule import checked_time
from tinyphysics.runtime.storage.resume import agreed, sizes_given
from tinyphysics.system import SizedFamily
from tinyphysics.target import Target
from tinyphysics.trajectory import Frame

NOWHERE = Path()


@dataclass(frozen=True, eq=False)
class Request:
    """The arguments of a call of evolve, as they were given."""

    given: Mapping[str, Any]  # states and parameters
    steps: Any = None
    until: Any = None
    t0: Any = BEGINS
    save_every: Any = None
    save_at: Any = None
    frames: Any = None
    observe: Mapping[str, Callable[..., Any]] | None = None
    observe_every: Any = 1
    hash_every: Any = None
    seed: Any = 0
    progress: Any = "auto"
    threads: Any = None
    speculate: Any = None
    save: Any = None
    checkpoint: Any = None
    checkpoint_every: Any = None
    resume: Any = None
    events: Mapping[str, Callable[..., Any]] | None = None
    options: Mapping[str, Any] | None = None
    acts: Any = None
    exchange: Any = None
    on: Any = None
    verify: Any = None
    parallel: Any = None
    view: Any = None
    observer: Any = None
    observation: Any = None  # of a run with an observer: what it is handed is counted


@dataclass(frozen=True, eq=False)
class Beginning:
    """What a decider looks at: where a run begins, and how long it is."""

    given: Mapping[str, Any]
    arrays: CallerArrays | None
    dt: Any  # None if no step is known yet
    t0: Any
    request: Request  # with the end that follows from save_at=
    begun: Checkpoint | None

    @property
    def on_host(self) -> Mapping[str, Any]:
        """What was given, on this machine."""
        return on_host(self.given, self.arrays)


@dataclass(frozen=True)
class Decider:
    """Something about a simulation that is left open until a state is known."""

    name: str
    is_open: Callable[[Setup, Beginning], bool]
    decide: Callable[[Setup, Beginning], Any]  # changes the setup; the step of the run is what it returns


@dataclass(frozen=True, eq=False)
class Resolved:
    """A call, with everything decided."""

    setup: Setup
    request: Request
    given: Mapping[str, Any]
    wants: Wanted
    dt: float
    t0: Any
    until: Any
    seed: Any
    hash_every: Any
    begun: Checkpoint | None = None  # where it goes on from
    path: Path = NOWHERE  # of that
    arrays: CallerArrays | None = None  # where its states lie, if that is a GPU
    lent: CallerArrays | None = None  # where states came from that are copied here: a jump is done here
    gridless: bool = False  # without dt: its frames alone say which times are looked at
    decided: bool = False  # was something left open that the state of this run decided?

    @property
    def first(self) -> int:
        return 0 if self.begun is None else self.begun.step


def resolve(
    setup: Setup, request: Request, deciders: Sequence[Decider], keep_decisions: bool = False
) -> Resolved:
    if not keep_decisions:
        setup.reopen()
    own, frame = setup.own_names, request.given.get(FROM_FRAME)
    given, later = named_options(own, request.given, request, request.options)
    request = replace(
        request, **{name: later[name] for name in ("acts", "exchange", "on", "verify", "view", "observer")}
    )
    given = {**springs_of(setup.source), **given}
    given, t0 = opened(own, given, request.t0)
    wants = wanted(request.save_every, later["save_at"], later["frames"])
    until, seed, hash_every = request.until, request.seed, request.hash_every
    if wants.at is not None and request.steps is None and until is None:
        until = float(wants.at[-1])
    dt = given.pop("dt", setup.goal.dt)
    arrays = None
    if any(map(is_there, given.values())):
        given, arrays = adopt_arrays(given, request.resume)
    c, path = None, NOWHERE
    if request.resume is not None:
        c, path = begun_before(request.resume)
        t0 = agreed("t0", checked_time(t0), 0.0, c.run.t0, path)
        seed = agreed("seed", seed, 0, c.run.seed, path)
        hash_every = agreed("hash_every", hash_every, None, c.hash_every, path)
        if wants.unsaid and c.save_every is not None:
            wants = replace(wants, every=c.save_every, told_every=True)
    source = setup.source
    if isinstance(source, SizedFamily):
        sizes = sizes_from(source, sizes_given(source, c, path, given))
        setup.bind(source, sizes)
        source = source.bind(sizes)
    check("run", Ask.of(setup.goal, source, dt=dt))
    begin = Beginning(given, arrays, dt, t0, replace(request, until=until, hash_every=hash_every), c)
    begin = decide(setup, begin, deciders, frame if isinstance(frame, Frame) else None)
    decided = setup._asked is not None
    gridless = setup.compiled.adaptive and dt is None
    dt = 1.0 if setup.system.kind == "map" else checked_step(begin.dt)
    call = setup, request, given, wants
    out = Resolved(*call, dt, t0, until, seed, hash_every, c, path, gridless=gridless, decided=decided)
    return out if arrays is None else with_arrays(out, arrays)


def decide(setup: Setup, begin: Beginning, deciders: Sequence[Decider], frame: Frame | None) -> Beginning:
    """The beginning with its step. A run that goes on keeps what was decided; others do not depend on earlier ones."""
    if begin.begun is not None:
        setup.take_decided(begin.begun.run.program)
    elif frame is not None:
        setup.continue_from(frame, begin.given, begin.dt)
    for d in deciders:
        if d.is_open(setup, begin):
            setup.keep_asked()
            begin = replace(begin, dt=d.decide(setup, begin))
    if setup._asked is not None:
        setup.keep_decided()
    return begin


def with_arrays(r: Resolved, arrays: CallerArrays) -> Resolved:
    """States that lie on a GPU stay there; a jump is done on this machine."""
    given, kept = check_arrays(r.setup.system, r.given, arrays)
    if kept is None:
        return replace(r, given=given)
    kept = replace(kept, target=target_of(r.setup))
    if r.setup.compiled.jump is not None:
        return replace(r, given=on_host(given, kept), lent=kept)
    return replace(r, given=given, arrays=kept)


def target_of(setup: Setup) -> Target:
    """The GPU, if it was asked for or nothing was."""
    found = setup.target
    if found.backend == "cuda":
        return found
    if setup.requested != "auto" or found.backend != "llvm" or not found.bit_exact:
        raise PlanError(
            f"a state is on a GPU, and this simulation runs on `{found.backend}`",
            fix='Compile it with backend="cuda", or pass NumPy arrays.',
        )
    if setup.compiled.series is not None:
        return in_series(setup.tpir, "cuda")[0]
    return choose_target(setup.tpir, "cuda", setup.goal.precision)[0]


def on_host(given: Mapping[str, Any], arrays: CallerArrays | None) -> Mapping[str, Any]:
    """What was given, for whatever looks at it before a run: states that are on a GPU as copies."""
    return given if arrays is None else host_copies(given)


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
