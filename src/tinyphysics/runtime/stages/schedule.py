"""When does a run look at its states?  How many steps it has, and at which of them something is kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tinyphysics.errors import InputError
from tinyphysics.given import path as a_path
from tinyphysics.ir import f64
from tinyphysics.philox import checked
from tinyphysics.planner.conflicts import Ask, check
from tinyphysics.runtime.stages.encode import Encoded, bare_run
from tinyphysics.runtime.stages.observed import watched
from tinyphysics.runtime.stages.own_time import steps_until
from tinyphysics.runtime.stages.resolve import Resolved
from tinyphysics.runtime.state.ensemble import Inputs
from tinyphysics.runtime.state.frames import count_steps, no_part, scheduled
from tinyphysics.runtime.state.run import Checkpoint
from tinyphysics.runtime.state.schedule import Schedule, checked_time, time_at, whole
from tinyphysics.runtime.storage.resume import check_target
from tinyphysics.target import SANDBOXED
from tinyphysics.tpir.precision.precision import ROUNDING, Precision, fits


@dataclass(frozen=True, eq=False)
class Scheduled:
    schedule: Schedule
    watched: dict[str, Callable[..., Any]]  # what is observed
    threads: int | None
    checkpoint: Path | None  # where checkpoints are written


def schedule(r: Resolved, e: Encoded) -> Scheduled:
    setup, request, system, i = r.setup, r.request, r.setup.system, e.words
    ask = Ask.of(setup.goal, system, events=request.events, save_at=r.wants.at, save=request.save)
    check("events", ask)
    seen = watched(setup, request.observe or {})
    last, end = last_step(r, i)
    check("clock", ask)
    setup.compiled.check_length(last - r.first, i.members, r.dt)
    target, kept_every = checkpointing(request.checkpoint, request.checkpoint_every, r.begun)
    s = Schedule(
        last,
        None,
        whole("observe_every", request.observe_every, 1) if seen else None,
        None if r.hash_every is None else whole("hash_every", r.hash_every, 1),
        r.first,
        kept_every,
        end=end,
    )
    size = sum(int(v.nbytes) for v in i.states.values())
    s = scheduled(r.wants, s, r.dt, float(r.t0), size, r.gridless, no_part(system, setup.goal))
    threads = None if request.threads is None else whole("threads", request.threads, 1)
    checked(seed=r.seed)
    known = setup.compiled
    if (threads or 1) > 1 and known.known.backend in SANDBOXED:
        raise InputError(
            f"threads={threads} with backend={known.known.backend!r}, which runs in one thread",
            fix='Leave threads= out, or compile with backend="llvm".',
        )
    check_clock(known.encoding.precision, known.known.timed, s.steps, r.dt, float(r.t0))
    return Scheduled(s, seen, threads, target)


def last_step(r: Resolved, i: Inputs) -> tuple[int, float | None]:
    """(the last step of a run, the time at which it ends if that is between two steps)."""
    system, steps, until = r.setup.system, r.request.steps, r.until
    if system.clock is not None and until is not None and steps is None:
        start = i if r.begun is None else replace(i, states=dict(r.begun.start))
        last, end = steps_until(replace(bare_run(r), given=start), until), None
    else:
        last, end = count_steps(steps, until, r.dt, checked_time(r.t0), no_part(system, r.setup.goal))
        last += r.first if until is None else 0
    if last < r.first:
        raise InputError(
            f"until={until:g} lies before the checkpoint, which is at t = {time_at(r.first, r.dt, r.t0):g}",
            fix="Pass a later time.",
        )
    return last, end


def checkpointing(path: Any, every: Any, c: Checkpoint | None) -> tuple[Path | None, int | None]:
    """(where checkpoints are written, how often), or an error before anything has run."""
    check("checkpoint", Ask({"checkpoint": path, "checkpoint_every": every}))
    if path is None:
        return None, None
    target = a_path("checkpoint", path, "run.checkpoint")
    check_target(target, c)
    return target, None if every is None else whole("checkpoint_every", every, 1)


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
