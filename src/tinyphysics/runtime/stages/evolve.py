"""How does a call become a trajectory?  By seven stages, each a function from what is known to what is known then."""

from __future__ import annotations

import time
from collections.abc import Sequence

from tinyphysics.runtime.stages.bind import bind
from tinyphysics.runtime.stages.diagnose import Diagnostic, diagnose, examine, with_watches
from tinyphysics.runtime.stages.encode import encode
from tinyphysics.runtime.stages.place import place
from tinyphysics.runtime.stages.resolve import Decider, Request, resolve
from tinyphysics.runtime.stages.run import run
from tinyphysics.runtime.stages.schedule import schedule
from tinyphysics.runtime.stages.setup import Setup
from tinyphysics.trajectory import Trajectory


def evolve(
    setup: Setup, request: Request, deciders: Sequence[Decider], diagnostics: Sequence[Diagnostic]
) -> Trajectory:
    began = time.perf_counter()
    resolved = resolve(setup, request, deciders)
    encoded = encode(resolved)
    scheduled = schedule(resolved, encoded)
    bound = bind(resolved, encoded, scheduled)
    placed = with_watches(setup, place(resolved, scheduled, bound), diagnostics)
    known = examine(setup, placed.run, diagnostics)
    ran = run(resolved, scheduled, bound, placed.run, began)
    return diagnose(resolved, encoded, bound, placed, ran, known, diagnostics)
