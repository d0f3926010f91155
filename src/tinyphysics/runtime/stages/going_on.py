"""How does a finished run go on?  From the loop state in which it ended, bit for bit as if it had never ended.

A small run keeps that state in memory. For a large one it is computed again when it is needed: the bits are the same, and it
takes as long as the run took. A checkpoint needs neither.
"""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from tinyphysics.device.cuda.dlpack import here
from tinyphysics.errors import InputError
from tinyphysics.given import path, shown
from tinyphysics.runtime.stages.description import acts_data
from tinyphysics.runtime.stages.execute import execute
from tinyphysics.runtime.stages.origin import Origin
from tinyphysics.runtime.state.ensemble import shaped
from tinyphysics.runtime.state.record import Carried, Record
from tinyphysics.runtime.state.run import Checkpoint, Run, told
from tinyphysics.runtime.state.schedule import Schedule
from tinyphysics.runtime.storage.checkpoint import read
from tinyphysics.runtime.storage.resume import checkpoint_at, identity
from tinyphysics.trajectory import Trajectory

OUT = Path("out")  # what messages call it, where they would name a file


@dataclass
class Catch:
    """Takes the loop state of a run instead of a file."""

    found: Carried | None = None

    def keep(self, at: Carried, record: Record) -> None:
        self.found = at


def begun_before(resume: Any) -> tuple[Checkpoint, Path]:
    """(where a run goes on from, what messages call that) of a file or of a run."""
    if isinstance(resume, Trajectory):
        return checkpoint_of(resume), OUT
    if not isinstance(resume, (str, bytes, PathLike)):
        raise InputError(
            f"resume={shown(resume)} is neither a checkpoint nor a run",
            fix='Pass resume="run.checkpoint", or resume=out with what evolve returned.',
        )
    file = path("resume", resume, "run.checkpoint")
    return read(file), file


def checkpoint_of(out: Trajectory) -> Checkpoint:
    """The end of a run, as a file would hold it."""
    origin = out.origin
    if not isinstance(origin, Origin) or origin.asked is None:
        raise InputError(
            "resume=: this trajectory does not contain the data of its run, so it cannot be continued",
            fix="Pass a trajectory that evolve returned, or a checkpoint: resume='run.checkpoint'.",
        )
    r, asked = origin.run, origin.asked
    failed = [s for s in out.stops if s.cause == r.encoding.failure]
    if failed and len(failed) >= r.given.members:
        raise InputError(
            f"resume=: the run failed at step {failed[0].step:,} ({failed[0].cause}), and a failed run cannot be resumed",
            fix="Start again from its last good state, with a shorter dt: sim.evolve(**out.final, ...).",
        )
    carried = origin.carried if origin.carried is not None else computed_again(r, origin.last)
    start = {name: np.asarray(here(v)) for name, v in r.given.states.items()}
    seen = shaped(r.given)(start)
    who = identity(
        r.system, asked.program, r.dt, r.t0, asked.seed, seen, r.given.params, told(r.acts, r.across)
    )
    across = None if r.across is None else r.across.data
    return checkpoint_at(
        carried, who, r.schedule, r.given, start, list(out.hashes), acts_data(r.acts), across
    )


def computed_again(r: Run, last: int) -> Carried:
    """The loop state at a step, by a replay."""
    if last == 0 or not r.given.members:
        return Carried(last, {}, {})
    catch = Catch()
    record = Record(Schedule(last, None, None, None), {})
    execute(r, record, {}, lambda n: None, keeper=catch)[0].raise_error()
    assert catch.found is not None
    return catch.found
