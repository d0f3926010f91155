"""`sim.explore(html="run.html")`: which window onto a simulation is opened?"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tinyphysics.errors import InputError
from tinyphysics.explorer.page import write
from tinyphysics.explorer.state import FRAMES, state_of
from tinyphysics.runtime.api.simulation import Simulation


def explore(sim: Simulation, start: Mapping[str, Any], html: Any, steps: int | None = None) -> Path:
    """Writes the page of a simulation and of a run from a start."""
    states = [s.name for s in sim.system.states]
    missing = [name for name in states if name not in start]
    if missing:
        raise InputError(
            f"a page shows a run, and `{missing[0]}` is not given",
            fix=f'Write sim.explore({", ".join(f"{n}=..." for n in states)}, html="run.html").',
        )
    return write(state_of(sim, start, FRAMES if steps is None else steps), html)
