"""How is a run drawn?  Its frames on this machine and its system are handed to view/."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tinyphysics.errors import BackendError, PlanError
from tinyphysics.runtime.engines.caller_arrays import to_host
from tinyphysics.system import System
from tinyphysics.trajectory import Trajectory


def drawn(out: Trajectory) -> tuple[Trajectory, System]:
    """The run with its frames on this machine, and what it is a run of."""
    if out.origin is None:
        raise PlanError(
            "this run was loaded without its program, so its system is not known", fix="Plot out.q yourself."
        )
    if getattr(out.t, "ndim", 1) > 1:
        raise PlanError(
            "the members of this run are at different times, and a picture has one time axis",
            fix="Plot out.t[:, k] and out.q[:, k] yourself, or run one member alone.",
        )
    return to_host(out), out.origin.run.system.seen


def without_matplotlib(call: str, error: ImportError) -> BackendError:
    return BackendError(f"out.{call}() needs matplotlib: {error}", fix='pip install "tinyphysics[plot]"')


def figure(out: Trajectory, *args: Any, **options: Any) -> Any:
    run, system = drawn(out)
    try:
        from tinyphysics.view.figures import plot
    except ImportError as error:
        raise without_matplotlib("plot", error) from None
    return plot(run, system, *args, **options)


def film(out: Trajectory, path: Any = None, **options: Any) -> Any:
    run, system = drawn(out)
    try:
        from tinyphysics.view.films import animate
    except ImportError as error:
        raise without_matplotlib("animate", error) from None
    return animate(run, system, path, **options)


def page(out: Trajectory) -> str:
    """What a notebook shows of a run."""
    from tinyphysics.view.page import run_page

    return str(run_page(out))


PICTURES: Mapping[str, Callable[..., Any]] = {"figure": figure, "film": film, "page": page}
