"""How is a run drawn?  As orbits, a phase portrait, a space-time image or a field; and how well it kept its energy.

matplotlib is imported here, in view/panels.py and in view/films.py alone. Nothing is shown: a figure is returned, and
notebooks draw it.
"""

from __future__ import annotations

import io
from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from tinyphysics.errors import InputError
from tinyphysics.system import System
from tinyphysics.trajectory import Trajectory
from tinyphysics.view.choice import COLOURS, choose_kind, visible
from tinyphysics.view.panels import (
    INK,
    clouds,
    courses,
    crossed,
    curves,
    dressed,
    energy_error,
    over_time,
    phase,
    portrait,
    scalar,
    scattered,
    spectra,
)
from tinyphysics.view.quantities import Quantity, quantity, together
from tinyphysics.view.space import paths, rows_of_three


def png(fig: Figure) -> bytes:
    out = io.BytesIO()
    fig.savefig(out, format="png", dpi=110)
    return out.getvalue()


def drawing() -> Figure:
    """A figure that a notebook shows, without a window system behind it."""
    fig = Figure(layout="constrained")
    setattr(fig, "_repr_png_", partial(png, fig))  # noqa: B010  what notebooks ask for; no attribute of a Figure's type
    return fig


def plot(
    out: Trajectory,
    system: System,
    figure: Figure | None = None,
    kind: str | None = None,
    x: Any = None,
    y: Any = None,
    z: Any = None,
) -> Figure:
    """The picture that was asked for; by default what suits the system, and beside it its course and its energy."""
    if figure is not None and not hasattr(figure, "add_gridspec"):
        raise InputError(
            f"figure= is a {type(figure).__name__}, not a matplotlib Figure",
            fix='Write out.plot(kind="energy"), or out.plot(figure=plt.figure()).',
        )
    fig = drawing() if figure is None else figure
    if out.metrics.get("members", 1) == 0:
        fig.suptitle(f"{system.name}: an ensemble without members", color=INK)
        return fig
    axes = {name: value for name, value in (("x", x), ("y", y), ("z", z)) if value is not None}
    if axes and kind not in (None, "auto", "3d" if "z" in axes else "phase"):
        raise InputError(
            f"kind={kind!r} and {', '.join(f'{a}=' for a in axes)}: both choose the axes",
            fix="Give one of them.",
        )
    chosen = kind if axes else choose_kind(out, system, kind)
    beside = [] if axes or kind not in (None, "auto") else side_panels(system, str(chosen))
    if figure is None:
        fig.set_size_inches((9.2 if beside else 5.4), 4.4)
    grid = fig.add_gridspec(
        max(len(beside), 1), 2 if beside else 1, width_ratios=(1.15, 1) if beside else (1,)
    )
    if axes:
        along(fig, grid[:, 0], out, system, str(kind or ""), axes)
    else:
        panel(fig, grid[:, 0], out, system, str(chosen))
    for k, draw in enumerate(beside):
        draw(fig.add_subplot(grid[k, 1]), out, system)
    few = len(out.t) < 3 and int(out.steps[-1]) > 2
    note = "  (first and last frame only: pass save_every= to see the way between)" if few else ""
    fig.suptitle(f"{system.name.replace('_', ' ')}{note}", fontsize=9 if few else 12, color=INK)
    return fig


def side_panels(system: System, kind: str) -> list[Any]:
    """What stands beside the picture: the course of single numbers in time, and the energy error."""
    single = visible(system)[0].var.shape == () and (scalar(system) or not system.p)
    course = kind not in ("time", "map") and single
    return [over_time] * course + [energy_error] * (system.energy is not None)


def panel(fig: Figure, where: Any, out: Trajectory, system: System, kind: str) -> None:
    """One picture of one kind."""
    if kind == "3d":
        ax = fig.add_subplot(where, projection="3d")
        paths(ax, *rows_of_three(out, visible(system)), COLOURS, INK)
        return
    ax = fig.add_subplot(where)
    if kind == "energy":
        energy_error(ax, out, system, banded=True)
    elif kind in MEASURED:
        MEASURED[kind](ax, out, system)
    elif kind == "time":
        over_time(ax, out, system)
    elif kind == "phase":
        phase(ax, out, system)
    else:
        portrait(ax, out, system, kind)
    dressed(ax)


def along(fig: Figure, where: Any, out: Trajectory, system: System, kind: str, asked: dict[str, Any]) -> None:
    """Curves along the axes that were named."""
    t, points, names = named_axes(out, system, kind, asked)
    if points.shape[-1] == 3:
        ax = fig.add_subplot(where, projection="3d")
        paths(ax, points, names, COLOURS, INK)
        return
    ax = fig.add_subplot(where)
    if names[0] == "t":
        courses(ax, t, points[..., 1], names[1])
    elif system.kind == "map":
        scattered(ax, points[..., 0], points[..., 1])
        ax.set(xlabel=names[0], ylabel=names[1])
    else:
        curves(ax, points, names[0], names[1], equal=alike(*names))
    dressed(ax)


def named_axes(
    out: Trajectory, system: System, kind: str, asked: dict[str, Any]
) -> tuple[Any, Any, list[str]]:
    """(times, points of shape (times, curves, 2 or 3), names of the axes)."""
    if kind == "phase" and "y" not in asked:
        asked = asked | {"y": conjugate(system, asked["x"])}
    asked = {"x": "t"} | asked if "z" not in asked else asked
    missing = [a for a in ("x", "y") if a not in asked]
    if missing:
        raise InputError(
            f"{', '.join(f'{a}=' for a in asked)} without {' and '.join(f'{a}=' for a in missing)}",
            fix='Name all of them, as in out.plot(x="q[0]", y="p[0]"); y= alone is drawn over time.',
        )
    timed = [a for a, v in asked.items() if isinstance(v, str) and v in TIMES]
    named = together({a: quantity(out, system, a, v) for a, v in asked.items() if a not in timed} or {
        a: quantity(out, system, a, v) for a, v in asked.items()
    })  # fmt: skip
    one = next(iter(named.values()))
    for a in timed:  # at the times of the others: an observable may have more of them than there are frames
        named[a] = Quantity("t", one.t, np.broadcast_to(one.t[:, None], one.values.shape))
    order = sorted(named)
    return one.t, np.stack([named[a].values for a in order], -1), [named[a].label for a in order]


MEASURED = {"spectrum": spectra, "section": crossed, "cloud": clouds}
TIMES = ("t", "time")


def alike(a: str, b: str) -> bool:
    """Two components of one state have one scale: a circle is drawn round."""
    return a.partition("[")[0] == b.partition("[")[0]


def conjugate(system: System, name: Any) -> str:
    """The momentum of a position: "p[0]" for "q[0]"."""
    base, bracket, rest = str(name).partition("[")
    for q, p in system.pairs:
        if str(q.arg) == base:
            return f"{p.arg}{bracket}{rest}"
    raise InputError(f"x={name!r} is not a position", fix="Name y= too: the momentum or the rate to draw.")
