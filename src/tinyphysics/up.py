"""What do nouns ask of the layers above them?  `system.compile`, `out.plot`, `out.to_xarray`, `out.stopped.report`, …

These ten functions are the only calls that point up: what they name is imported when it is called.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tinyphysics.runtime.api.simulation import Simulation
    from tinyphysics.trajectory import Stop, Trajectory

AUTOPSY = "tinyphysics.runtime.measure.autopsy"
COMPILE = "tinyphysics.runtime.api.compile"
EXPLORE = "tinyphysics.explorer.open"
ELSEWHERE = "tinyphysics.cluster.machines"
PARAREAL = "tinyphysics.cluster.parareal"
PLOT = "tinyphysics.runtime.api.pictures"
QUANTITY = "tinyphysics.runtime.api.quantities"
REPORT = "tinyphysics.runtime.api.run_report"
STATISTICS = "tinyphysics.physics.statistics"
TO_XARRAY = "tinyphysics.runtime.api.dataset"


def autopsy(stop: Stop) -> Any:
    """Why a run stopped."""
    return import_module(AUTOPSY).autopsy(stop)


def compile(system: Any, dt: float | None = None, **options: Any) -> Simulation:
    """A system, compiled."""
    sim: Simulation = import_module(COMPILE).compile(system, dt, **options)
    return sim


def elsewhere(on: Any) -> Any:
    """The machines that `evolve(on=...)` names."""
    return import_module(ELSEWHERE).on(on)


def explore(sim: Any, start: Any, html: Any, steps: int | None) -> Any:
    """A simulation and a run from a start as a page that is one file."""
    return import_module(EXPLORE).explore(sim, start, html, steps)


def widget(sim: Any, start: Any, steps: int | None, height: int) -> Any:
    """The same as a widget of a notebook."""
    return import_module(EXPLORE).widget(sim, start, steps, height)


def in_slices(sim: Simulation, request: Any, parallel: Any) -> Trajectory:
    """A run in slices of time, `evolve(parallel=...)`."""
    out: Trajectory = import_module(PARAREAL).evolve_in_slices(sim, request, parallel)
    return out


def plot(out: Trajectory, how: str, *args: Any, **options: Any) -> Any:
    """A run as a "figure", a "film" or a "page" for notebooks."""
    return import_module(PLOT).PICTURES[how](out, *args, **options)


def quantity(out: Trajectory, name: str) -> Any:
    """An array of a run with its unit."""
    return import_module(QUANTITY).quantity(out, name)


def report(out: Trajectory, path: Any) -> Any:
    """A run as a page."""
    return import_module(REPORT).report(out, path)


def statistics(array: Any, members: bool = False) -> Any:
    """A mean with its error."""
    return import_module(STATISTICS).statistics(array, members)


def to_xarray(out: Trajectory) -> Any:
    """A run as an xarray.Dataset."""
    return import_module(TO_XARRAY).to_xarray(out)
