"""`sim.explore(html="run.html")`: which window onto a simulation is opened?"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tinyphysics.errors import BackendError, InputError
from tinyphysics.explorer.page import write
from tinyphysics.explorer.state import FRAMES, state_of
from tinyphysics.given import whole
from tinyphysics.runtime.api.simulation import Simulation


def explore(sim: Simulation, start: Mapping[str, Any], html: Any, steps: int | None = None) -> Path:
    """Writes the page of a simulation and of a run from a start."""
    return write(shown_run(sim, start, steps, "explore", ', html="run.html"'), html)


def widget(sim: Simulation, start: Mapping[str, Any], steps: int | None, height: Any) -> Any:
    """The same page as a widget of a notebook."""
    tall = whole("height", height, 100)
    state = shown_run(sim, start, steps, "widget", "")
    try:
        from tinyphysics.explorer.widget import widget as made
    except ImportError as error:
        raise BackendError(
            f"sim.widget() needs anywidget: {error}", fix='pip install "tinyphysics[widget]"'
        ) from None
    return made(state, tall)


def shown_run(
    sim: Simulation, start: Mapping[str, Any], steps: int | None, call: str, more: str
) -> Mapping[str, Any]:
    states = [s.name for s in sim.system.states]
    missing = [name for name in states if name not in start]
    if missing:
        raise InputError(
            f"a page shows a run, and `{missing[0]}` is not given",
            fix=f"Write sim.{call}({', '.join(f'{n}=...' for n in states)}{more}).",
        )
    return state_of(sim, start, FRAMES if steps is None else steps)
