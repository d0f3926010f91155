"""How is a placed run carried out?  Its store and its checkpoints are opened, it is executed, and its times are taken."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from tinyphysics.device.cuda.dlpack import here
from tinyphysics.given import path as a_path
from tinyphysics.ir import UOp
from tinyphysics.runtime.engines.backend import transferred
from tinyphysics.runtime.stages.bind import Bound
from tinyphysics.runtime.stages.description import acts_data, described
from tinyphysics.runtime.stages.elsewhere import Left, Took, elsewhere
from tinyphysics.runtime.stages.energy_so_far import EnergySoFar
from tinyphysics.runtime.stages.execute import execute
from tinyphysics.runtime.stages.origin import looking_between
from tinyphysics.runtime.stages.progress import progress_bar
from tinyphysics.runtime.stages.resolve import Resolved, on_host
from tinyphysics.runtime.stages.schedule import Scheduled
from tinyphysics.runtime.state.ensemble import shaped
from tinyphysics.runtime.state.first_state import first_state
from tinyphysics.runtime.state.record import Record
from tinyphysics.runtime.state.run import Identity, Run, told
from tinyphysics.runtime.state.windows import Windows
from tinyphysics.runtime.storage.open_store import begun
from tinyphysics.runtime.storage.resume import Keeper, identity
from tinyphysics.runtime.storage.writer_thread import Stream


@dataclass(frozen=True, eq=False)
class Ran:
    took: Took
    windows: Windows | None  # where frames were handed on to
    prepared: float  # seconds from the call until the run began
    running: float
    moved: Mapping[str, int]  # between this machine and a GPU, until then

    @property
    def record(self) -> Record:
        return self.took.record


def run(r: Resolved, s: Scheduled, b: Bound, one: Run, began: float) -> Ran:
    setup, compiled, save = r.setup, r.setup.compiled, r.request.save
    others = elsewhere(r, one)
    keeper, windows = None, None
    if s.checkpoint is not None or save is not None:
        who = identity_of(r, one)
        if s.checkpoint is not None:
            start = on_host(b.given.states, r.arrays) if r.begun is None else r.begun.start
            across = None if b.across is None else b.across.data
            keeper = Keeper(s.checkpoint, who, b.given, start, acts_data(b.acts), across)
        windows = None if save is None else opened(r, b, one, who, others is not None)
    if setup.began is None and r.begun is None and r.arrays is None:
        setup.began = first_state(b.given, r.dt, s.schedule.steps)
    wander = EnergySoFar(one, b.record, b.values, of_frames_too=setup.goal.approximate is None)
    steps = s.schedule.steps
    compiled.tell_of_length(steps - r.first, b.given.members)
    setup._acts = told(b.acts)
    ready = time.perf_counter()
    before = transferred(one.target) if r.arrays is None else r.arrays.moved
    observation = r.request.observation
    if observation is not None:
        observation.begin(one, b.record, keeper, windows)
    with signs_of_life(r, b, one, wander, steps) as tick, closing(windows):
        if others is not None:
            took = others.execute(r, b, one, tick, r.request.verify, Left(keeper, windows))
        else:
            took = Took(*execute(
                one, b.record, b.values, tick, None if observation is None else observation.summary, keeper,
                windows, one.poles, observation,
            ))  # fmt: skip
    if observation is not None:
        observation.end()
    running = max(time.perf_counter() - ready - took.compiling, 1e-9)
    return Ran(took, windows, ready - began, running, before)


def signs_of_life(
    r: Resolved, b: Bound, one: Run, wander: EnergySoFar, steps: int
) -> AbstractContextManager[Callable[[int], None]]:
    """What is called after every block: a bar, or what is watched of the run."""
    system, view = r.setup.system, r.request.view
    if view is None:
        return progress_bar(r.request.progress, system.name, steps, wander)
    from tinyphysics.runtime.stages.live import shown_live  # pictures, which most runs do not need

    return shown_live(view, system.seen, b.record, one.dt, one.t0, steps, wander)


def identity_of(r: Resolved, one: Run) -> Identity:
    if one.begun is not None:
        return one.begun.run
    seen, program = shaped(one.given)(one.given.states), r.setup.compiled.known.program
    return identity(
        one.system, program, one.dt, one.t0, r.seed, seen, one.given.params, told(one.acts, one.across)
    )


def opened(r: Resolved, b: Bound, one: Run, who: Identity, in_blocks: bool) -> Windows:
    """Where frames and observables are handed on to."""
    setup, stream, since = r.setup, r.request.save, -1
    if not hasattr(stream, "put"):  # replays hand them on to something else than a store
        told = described(
            setup.system, setup.goal, setup.requested, setup.checks, setup.compiled.known.program, b.acts
        )
        stream, since = begun(a_path("save", stream, "run.zarr"), one, b.values, who, told, in_blocks)
    look = partial(observe_frames, one, b.values) if one.gridless and b.values else None
    return Windows(b.record, stream, one.dt, one.t0, one.given.is_ensemble, since, look)


def observe_frames(
    one: Run, values: Mapping[str, UOp], frames: Any, steps: Any, times: Any
) -> dict[str, Any]:
    """What is observed of frames, of a run that has no steps to observe."""
    return looking_between(one, values, {n: here(v) for n, v in frames.items()}, steps.tolist(), times, {})


@contextmanager
def closing(windows: Windows | None) -> Iterator[Any]:
    """The thread of a stream ends with the run."""
    try:
        yield
    finally:
        if windows is not None and isinstance(windows.target, Stream):
            windows.target.close()
