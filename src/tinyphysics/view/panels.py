"""How is each part of a figure drawn?  Orbits, phase portraits, chains, fields, iterates, courses and energy errors."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.ticker import MaxNLocator

from tinyphysics.system import System
from tinyphysics.trajectory import Trajectory
from tinyphysics.view.choice import COLOURS, FEW, visible
from tinyphysics.view.measured import cloud_of, energy_band, energy_errors, for_spectrum, section, spectrum
from tinyphysics.view.terminal import energy_picture, with_members

MOST_CURVES = FEW  # more bodies or members than this are a cloud
FEW_SITES = 6  # a chain this short is curves over time, not an image
DENSE = 20_000  # more points than this are a density
MOST_STEPS = 200_000  # of all members; the energy of longer runs is drawn at its frames, not replayed
FAINT, INK = "#c9ced6", "#3c4048"


# --- the system itself --------------------------------------------------------------------------------
def scalar(system: System) -> bool:
    """One degree of freedom: beside its portrait there is room for its course in time."""
    return len(system.q) == 1 and system.q[0].shape == () and bool(system.p)


def portrait(ax: Axes, out: Trajectory, system: System, kind: str) -> None:
    states = visible(system)
    first, shape = states[0], states[0].var.shape
    x = with_members(out, first.name, shape)  # (frames, members, shape...)
    if kind == "map":
        values = [with_members(out, s.name, ()) for s in states if s.var.shape == ()]
        iterates(ax, out, values, [s.name for s in states])
    elif kind == "orbit" and shape == ():
        curves(ax, np.stack([x, with_members(out, states[1].name, ())], -1), first.name, states[1].name)
    elif kind == "orbit":
        bodies(ax, x.reshape(len(x), -1, shape[-1]), first.name)
    elif kind == "chain":
        chain(ax, out, x[:, 0], first.name, x.shape[1])
    else:
        field(ax, out, x[-1, 0], first.name, x.shape[1])


def phase(ax: Axes, out: Trajectory, system: System) -> None:
    """Every component of the first position against its momentum."""
    q, p = (str(u.arg) for u in system.pairs[0])
    shape = system.pairs[0][0].shape
    x, y = (with_members(out, name, shape).reshape(len(out.t), -1) for name in (q, p))
    curves(ax, np.stack([x, y], -1), q, p, equal=False)
    ax.set_title("phase portrait")
    if len(shape) == 1 and 1 < x.shape[1] == shape[0] <= MOST_CURVES:
        for k in range(shape[0]):
            ax.plot([], [], color=COLOURS[k], label=f"{q}[{k}], {p}[{k}]")
        ax.legend(fontsize=8, loc="upper right", edgecolor="none", framealpha=0.85)


def curves(ax: Axes, xy: Any, x_name: str, y_name: str, equal: bool = True) -> None:
    """(frames, bodies, 2) as lines from their beginning to a dot at their end; many as a cloud."""
    count = xy.shape[1]
    ax.set(xlabel=x_name, ylabel=y_name)
    if count == 1:
        faded(ax, xy[:, 0])
    elif 0 < count <= MOST_CURVES:
        for k in range(count):
            colour = COLOURS[k % len(COLOURS)]
            ax.plot(xy[:, k, 0], xy[:, k, 1], lw=1.1 if len(xy) > 2 else 0, color=colour)
            ax.plot(*last_finite(xy[:, k]), "o", ms=5, color=colour, mec="white", mew=0.7, zorder=3)
    else:
        cloud(ax, xy[0], xy[-1])
    if equal:
        ax.set_aspect("equal", adjustable="datalim")


def faded(ax: Axes, xy: Any) -> None:
    """One curve, from light to dark in time."""
    ends: Any = np.stack([xy[:-1], xy[1:]], 1) if len(xy) > 2 else np.empty((0, 2, 2))
    lines = LineCollection(ends, array=np.arange(len(ends)), cmap="viridis_r", lw=1.4, capstyle="round")
    ax.add_collection(lines)
    ax.plot(xy[:, 0], xy[:, 1], lw=0)  # for the limits of the axes
    ax.plot(*xy[0], "o", ms=6, mfc="white", mec="#9fbf3b", mew=1.4, zorder=3)
    ax.plot(*last_finite(xy), "o", ms=7, color="#440154", mec="white", mew=0.8, zorder=3)
    ax.autoscale_view()


def last_finite(xy: Any) -> Any:
    good = xy[np.isfinite(xy).all(-1)]
    return good[-1] if len(good) else xy[0]


def cloud(ax: Axes, before: Any, after: Any) -> None:
    """The last frame over the first one; as a density where points would hide each other."""
    after = after[np.isfinite(after).all(-1)]
    if not len(after):
        ax.text(0.5, 0.5, "nothing is left in the last frame", ha="center", color=INK, transform=ax.transAxes)
        return
    if len(after) > DENSE:
        density(ax, after[:, 0], after[:, 1])
        return
    size = float(np.clip(3_000 / max(len(after), 1), 0.6, 14))
    ax.scatter(before[:, 0], before[:, 1], s=size, color=FAINT, lw=0, label="first frame")
    ax.scatter(after[:, 0], after[:, 1], s=size, color=COLOURS[0], lw=0, alpha=0.8, label="last frame")
    ax.legend(loc="upper right", fontsize=8, frameon=False, markerscale=max(1.0, 4 / size**0.5))


def density(ax: Axes, x: Any, y: Any) -> None:
    """How many points where, on a logarithmic scale; a few far ones do not make the rest small."""
    ends = []
    for v in (x, y):
        low, high = np.quantile(v, (3e-3, 1 - 3e-3))
        ends += [low - 0.1 * (high - low), high + 0.1 * (high - low)]
    inside = (x >= ends[0]) & (x <= ends[1]) & (y >= ends[2]) & (y <= ends[3])
    style: dict[str, Any] = {"gridsize": 160, "bins": "log", "cmap": "magma", "mincnt": 1, "linewidths": 0.1}
    ax.hexbin(x[inside], y[inside], extent=tuple(ends), **style)
    ax.set(xlim=ends[:2], ylim=ends[2:], facecolor="#000004")


def bodies(ax: Axes, q: Any, name: str) -> None:
    """Orbits of a few bodies, the last frame of many; of three coordinates the third is a colour, or left out."""
    count = q.shape[1]
    x, y = (f"{name}[{', '.join([':'] * (count > 1) + [c])}]" for c in "01")
    if count > MOST_CURVES and q.shape[2] == 3 and count <= DENSE:
        last = q[-1][np.isfinite(q[-1]).all(-1)]
        last = last[np.argsort(last[:, 2], kind="stable")]  # the nearer ones in front
        size = float(np.clip(6_000 / max(len(last), 1), 0.8, 30))
        dots = ax.scatter(last[:, 0], last[:, 1], c=last[:, 2], s=size, cmap="viridis", lw=0)
        scale(ax, dots, f"{name}[:, 2]")
        ax.set(xlabel=x, ylabel=y, title=f"{count:,} bodies at the end")
        ax.set_aspect("equal", adjustable="datalim")
        return
    curves(ax, q[..., :2], x, y)
    told = "orbit" if count == 1 else f"{count:,} orbits" if count <= MOST_CURVES else f"{count:,} bodies"
    ax.set_title(told + (", seen along the third axis" if q.shape[2] == 3 else ""))


def colour_map(values: Any) -> dict[str, Any]:
    """Blue to red about 0 for what has both signs, else from dark to light."""
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    if low < 0 < high and min(-low, high) > 0.05 * max(-low, high):
        most = float(np.quantile(np.abs(finite), 0.999)) or max(-low, high)
        return {"cmap": "RdBu_r", "vmin": -most, "vmax": most}
    return {"cmap": "magma"}


def scale(ax: Axes, what: Any, label: str) -> None:
    bar = ax.figure.colorbar(what, ax=ax, shrink=0.75, pad=0.02)
    bar.set_label(label, fontsize=9, color=INK)
    bar.ax.tick_params(labelsize=8, color="#9aa0a8", labelcolor=INK)
    bar.outline.set_visible(False)


def chain(ax: Axes, out: Trajectory, x: Any, name: str, members: int) -> None:
    """Sites across, time upwards; two frames are two lines."""
    told = f"{name} in space and time" + (f", the first of {members:,} members" if members > 1 else "")
    sites = np.arange(x.shape[1])
    if len(x) < 3:
        for row, colour, label in ((x[0], FAINT, "first frame"), (x[-1], COLOURS[0], "last frame")):
            ax.plot(sites, row, color=colour, lw=1.4, label=label)
        ax.legend(fontsize=8, frameon=False)
        ax.set(xlabel="site", ylabel=name)
        return
    if len(sites) <= FEW_SITES:
        for k in sites:
            ax.plot(out.t, x[:, k], lw=1.1, color=COLOURS[k], label=f"{name}[{k}]")
        ax.legend(fontsize=8, loc="upper right", edgecolor="none", framealpha=0.85)
        ax.set(xlabel="t", ylabel=name, title=told.replace("space and time", "time"))
        ax.margins(x=0)
        return
    picture = ax.pcolormesh(sites, out.t, x, shading="nearest", rasterized=True, **colour_map(x))
    scale(ax, picture, name)
    ax.set(xlabel="site", ylabel="t", title=told)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))


def field(ax: Axes, out: Trajectory, x: Any, name: str, members: int) -> None:
    """The last frame; of more than two axes the sum over the first ones."""
    told = name
    if x.ndim > 2:
        told = f"sum of {name} over its first {'axis' if x.ndim == 3 else 'axes'}"
        x = x.sum(tuple(range(x.ndim - 2)))
    picture = ax.imshow(x, origin="lower", interpolation="nearest", **colour_map(x))
    scale(ax, picture, told)
    which = f", the first of {members:,} members" if members > 1 else ""
    ax.set(
        xlabel="second axis" if told == name else "last axis",
        ylabel="first axis" if told == name else "last but one",
        title=f"{name} at t = {out.t[-1]:g}{which}",
    )


def iterates(ax: Axes, out: Trajectory, values: list[Any], names: list[str]) -> None:
    """Points of a map in the plane of its first two states, or over the step number."""
    if len(values) == 1:
        for k in range(min(values[0].shape[1], MOST_CURVES)):
            ax.plot(out.steps, values[0][:, k], ".", ms=2.5, color=COLOURS[k])
        ax.set(xlabel="step", ylabel=names[0], title="iterates")
        return
    count = scattered(ax, values[0], values[1])
    ax.set(xlabel=names[0], ylabel=names[1], title=f"{count:,} iterates")


def scattered(ax: Axes, x: Any, y: Any) -> int:
    """Every point of every frame, (frames, members) each; the number of those that are finite."""
    members = x.shape[1]
    colour = np.repeat(np.arange(members)[None], len(x), 0).ravel()
    x, y = x.ravel(), y.ravel()
    good = np.isfinite(x) & np.isfinite(y)
    if good.sum() > 10 * DENSE:
        density(ax, x[good], y[good])
    else:
        size = float(np.clip(9_000 / max(good.sum(), 1), 0.4, 6))
        shade = {"c": COLOURS[0]} if members == 1 else {"c": colour[good], "cmap": "viridis"}
        ax.scatter(x[good], y[good], s=size, lw=0, **shade)
    return int(good.sum())


# --- beside it ------------------------------------------------------------------------------------------
def over_time(ax: Axes, out: Trajectory, system: System) -> None:
    """Each number of the states that are places; those of a system of single numbers by name."""
    states = visible(system)
    if states[0].var.shape == () and len(states) > 1 and not system.p:
        single = [s for s in states if s.var.shape == ()][:MOST_CURVES]
        for k, s in enumerate(single):
            values = with_members(out, s.name, ())
            shown = max(MOST_CURVES // len(single), 1)
            ax.plot(out.t, values[:, :shown], lw=1.1, color=COLOURS[k])
            if values.shape[1] > shown:
                ax.set_title(f"the first {shown} of {values.shape[1]:,} members")
            ax.plot([], [], color=COLOURS[k], label=s.name)
        ax.legend(fontsize=8, loc="upper right", edgecolor="none", framealpha=0.85)
        ax.set(xlabel="t")
        ax.margins(x=0)
    else:
        name = states[0].name
        courses(ax, out.t, with_members(out, name, ()), name)
    dressed(ax)


def courses(ax: Axes, t: Any, values: Any, name: str) -> None:
    """Columns over time; many as their median and their spread."""
    if values.shape[1] > MOST_CURVES:
        low, mid, high = np.nanquantile(values, (0.1, 0.5, 0.9), axis=1)
        ax.fill_between(t, low, high, color=COLOURS[0], alpha=0.25, lw=0)
        ax.plot(t, mid, color=COLOURS[0], lw=1.2)
        ax.set_title("median, and the middle four fifths")
    for k in range(values.shape[1] if values.shape[1] <= MOST_CURVES else 0):
        ax.plot(t, values[:, k], lw=1.1, color=COLOURS[k])
    ax.set(xlabel="t", ylabel=name)
    ax.margins(x=0)


def energy_error(ax: Axes, out: Trajectory, system: System, banded: bool = False) -> None:
    """(E - E0)/S at every step as in drift; of long runs and large ensembles, relative to E0 and at the frames.

    `banded` draws the band that a constant shadow energy leaves the error, where one is known.
    """
    members = max(int(out.metrics.get("members", 1)), 1)
    steps = int(out.steps[-1])
    if steps * members <= MOST_STEPS:
        picture = energy_picture(out, system)
        assert picture is not None
        lines, y_name, title = list(picture.curves), picture.y_name, picture.title
    else:
        off = energy_errors(out)
        largest = "|E0|" if off.shape[1] == 1 else "max |E0|"
        lines = [(out.t, v) for v in off.T]
        y_name = f"(E - E0)/{largest}"
        title = "energy error, at the frames"
    ax.axhline(0.0, color=FAINT, lw=0.8, zorder=0)
    if banded and len(lines) == 1 and not system.books:
        title = with_band(ax, out, system, title)
    if len(lines) > MOST_CURVES:
        values = np.stack([v for _, v in lines], 1)
        low, mid, high = np.nanquantile(values, (0.0, 0.5, 1.0), axis=1)
        ax.fill_between(lines[0][0], low, high, color=COLOURS[1], alpha=0.25, lw=0)
        ax.plot(lines[0][0], mid, color=COLOURS[1], lw=0.9)
        title += ": median and all"
    else:
        for k, (t, v) in enumerate(lines):
            ax.plot(t, v, lw=0.8, color=COLOURS[1] if len(lines) == 1 else COLOURS[k])
    ax.set(xlabel="t", ylabel=y_name)
    ax.set_title(title)
    ax.ticklabel_format(axis="y", scilimits=(-3, 3), useMathText=True)
    ax.margins(x=0)
    dressed(ax)


def with_band(ax: Axes, out: Trajectory, system: System, title: str) -> str:
    """The band of the energy error behind its curve; the title with how far the error was outside of it."""
    at_steps = int(out.steps[-1]) <= MOST_STEPS
    scale = out.every_step("energy")[2] if at_steps else np.abs(np.asarray(out.energy))[:1]
    band = energy_band(out, scale)
    if band is None:
        return title
    ax.axhspan(band.low, band.high, color=COLOURS[0], alpha=0.14, lw=0, zorder=0)
    for edge in (band.low, band.high):
        ax.axhline(edge, color=COLOURS[0], lw=0.8, ls="--", zorder=1)
    return f"{title}\nband of a constant shadow energy; at frames outside by at most {band.outside:.1e}"


def spectra(ax: Axes, out: Trajectory, system: System) -> None:
    name, values = for_spectrum(out, system)
    f, power = spectrum(out.t, values)
    for k in range(power.shape[1]):
        label = f"{name}[{k}]" if power.shape[1] > 1 else name
        ax.semilogy(f, power[:, k], lw=1.0, color=COLOURS[k], label=label)
    if power.shape[1] > 1:
        ax.legend(fontsize=8, loc="upper right", edgecolor="none", framealpha=0.85)
    top = float(power.max()) or 1.0
    ax.set(
        xlabel="frequency",
        ylabel=f"power of {name}",
        title="spectrum",
        ylim=(max(power.min(), 1e-16 * top), 2 * top),
    )
    ax.margins(x=0)


def crossed(ax: Axes, out: Trajectory, system: System) -> None:
    found = section(out, system)
    size = float(np.clip(9_000 / max(len(found.t), 1), 0.6, 8))
    for rising, colour in ((True, COLOURS[0]), (False, COLOURS[1])):
        x, y = found.points[found.rising == rising].T
        if len(x):
            ax.scatter(x, y, s=size, lw=0, color=colour, label="upwards" if rising else "downwards")
    ax.legend(fontsize=8, loc="upper right", edgecolor="none", framealpha=0.85)
    title = f"{len(found.t):,} crossings of `{found.event}`"
    ax.set(xlabel=found.names[0], ylabel=found.names[1], title=title)


def clouds(ax: Axes, out: Trajectory, system: System) -> None:
    points, names = cloud_of(out, system)
    cloud(ax, points[0], points[-1])
    ax.set(xlabel=names[0], ylabel=names[1], title=f"{points.shape[1]:,} points at t = {float(out.t[-1]):g}")


def dressed(ax: Axes) -> None:
    """Quiet axes: no box, small numbers, and a title that does not shout."""
    image = bool(ax.images) or any(type(c).__name__ == "QuadMesh" for c in ax.collections)
    for edge in ("top", "right"):
        ax.spines[edge].set_visible(image)
    for spine in ax.spines.values():
        spine.set_color("#9aa0a8")
        spine.set_linewidth(0.8)
    ax.tick_params(labelsize=8, color="#9aa0a8", labelcolor=INK)
    ax.xaxis.label.set(fontsize=9, color=INK)
    ax.yaxis.label.set(fontsize=9, color=INK)
    ax.title.set(fontsize=10, color=INK)
    if not image and ax.get_facecolor()[:3] == (1.0, 1.0, 1.0):
        ax.grid(color="#eceef1", lw=0.7)
        ax.set_axisbelow(True)
