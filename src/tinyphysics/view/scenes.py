"""What moves in a film?  Points with trails, the profile of a chain, a field, or curves that grow."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinyphysics.system import System
from tinyphysics.trajectory import Trajectory
from tinyphysics.view.choice import COLOURS, FEW, visible
from tinyphysics.view.figures import alike, named_axes
from tinyphysics.view.measured import LEAST, cloud_of, energy_errors, for_spectrum, section, spectrum
from tinyphysics.view.panels import INK, colour_map, dressed, scale
from tinyphysics.view.space import dress_space, rows_of_three
from tinyphysics.view.terminal import with_members

FAR = 0.01  # the share of a cloud, on each side, that may lie outside of the picture
MARGIN = 0.05  # of the picture, around what moves


@dataclass(frozen=True)
class Scene:
    """Axes that are set up once, and what changes on them."""

    ax: Any
    moving: tuple[Any, ...]  # artists that are drawn anew for each picture
    show: Callable[[int], None]  # puts them where they are in a frame, given by its number


def scene(fig: Any, out: Trajectory, system: System, kind: str, asked: dict[str, Any], trail: float) -> Scene:
    """The axes of a film in a figure."""
    told = clock(out.t, system.kind == "map")
    behind = math.ceil(trail * (len(out.t) - 1))
    if asked:
        t, points, names = named_axes(out, system, "", asked)
        told, behind = clock(t, system.kind == "map"), math.ceil(trail * (len(t) - 1))
        if names[0] == "t" and points.shape[-1] == 2:
            return growing(fig, t, points[..., 1], names[1], told)
        return moving(fig, points, names, behind, told, joined=system.kind != "map")
    if kind == "energy":
        return growing(fig, out.t, energy_errors(out), "(E - E0)/|E0|", told)
    if kind == "spectrum":
        return rising_spectrum(fig, out, system, told)
    if kind == "section":
        return crossings(fig, out, system, told)
    if kind == "cloud":
        points, names = cloud_of(out, system)
        return moving(fig, points, names, 0, told)
    states = visible(system)
    first, shape = states[0], states[0].var.shape
    x = with_members(out, first.name, shape)
    if kind == "3d":
        points, names = rows_of_three(out, states)
        return moving(fig, points, names, behind, told)
    if kind == "phase":
        q, p = (str(u.arg) for u in system.pairs[0])
        pair = [with_members(out, n, system.pairs[0][0].shape).reshape(len(out.t), -1) for n in (q, p)]
        return moving(fig, np.stack(pair, -1), [q, p], behind, told)
    if kind in ("orbit", "map") and shape == ():
        single = [s.name for s in states if s.var.shape == ()][:2]
        if len(single) == 1:
            return growing(fig, out.t, x, first.name, told)
        points = np.stack([with_members(out, n, ()) for n in single], -1)
        return moving(fig, points, single, behind, told, joined=kind != "map")
    if kind == "orbit":
        before = ":, " if len(shape) == 2 else ""
        names = [f"{first.name}[{before}{k}]" for k in range(2)]
        return moving(fig, x.reshape(len(x), -1, shape[-1])[..., :2], names, behind, told)
    if kind == "chain":
        return profile(fig, x[:, 0], first.name, told)
    if kind == "field":
        return sheet(fig, x[:, 0], first.name, told)
    return growing(fig, out.t, x.reshape(len(x), -1)[:, :FEW], first.name, told)


def clock(t: Any, counted: bool) -> Callable[[int], str]:
    """The time of a frame in words, with as many digits as change; of a map its step."""
    if counted:
        return lambda k: f"step {t[k]:,.0f}"
    span = float(np.ptp(t)) or 1.0
    digits = max(0, math.ceil(1.7 - math.log10(span)))
    return lambda k: f"t = {t[k]:,.{digits}f}"


def limits(values: Any, far: float = 0.0) -> tuple[float, float]:
    good = values[np.isfinite(values)]
    low, high = (float(v) for v in np.quantile(good, (far, 1 - far))) if len(good) else (0.0, 1.0)
    room = MARGIN * (high - low) or 0.5
    return low - room, high + room


def moving(
    fig: Any,
    points: Any,
    names: list[str],
    behind: int,
    told: Callable[[int], str],
    joined: bool = True,
) -> Scene:
    """(frames, bodies, 2 or 3): dots, with a line behind each of a few; points that a map visits stay."""
    count, space = points.shape[1], points.shape[-1] == 3
    ax = fig.add_subplot(projection="3d" if space else None)
    cloud = count > FEW
    if space:
        dress_space(ax, points.reshape(-1, 3), names, 0.01 if cloud else 0.0, INK)
    else:
        ax.set(xlabel=names[0], ylabel=names[1])
        ax.set_xlim(limits(points[..., 0], FAR if cloud else 0.0))
        ax.set_ylim(limits(points[..., 1], FAR if cloud else 0.0))
        if joined and alike(names[0], names[1]):
            ax.set_aspect("equal", adjustable="box")
        dressed(ax)
    few = range(0 if cloud else count)
    trails = [ax.plot(*points[:1, k].T, lw=1.2, color=COLOURS[k], alpha=0.7)[0] for k in few if joined]
    size = 2.5 if not joined else float(np.clip(60 / math.sqrt(count), 1, 4)) if cloud else 6
    dots = [ax.plot(*points[:1, k].T, "o", ms=size, color=COLOURS[k], mec="white", mew=0.5)[0] for k in few]
    if cloud:
        dots = [ax.plot(*points[0].T, "o", ms=size, color=COLOURS[0], mew=0, alpha=0.8)[0]]

    def put(line: Any, rows: Any) -> None:
        line.set_data(*rows.T[:2])
        if space:
            line.set_3d_properties(rows[:, 2])

    def show(k: int) -> None:
        for n, line in enumerate(trails):
            put(line, points[max(0, k - behind) : k + 1, n])
        for n, dot in enumerate(dots):
            if not joined:
                put(dot, points[: k + 1].reshape(-1, points.shape[-1]) if cloud else points[: k + 1, n])
            else:
                put(dot, points[k] if cloud else points[k : k + 1, n])

    return titled(ax, [*trails, *dots], show, told)


def titled(ax: Any, artists: Sequence[Any], put: Callable[[int], Any], told: Callable[[int], str]) -> Scene:
    """With the time of each frame above it; `put` puts the artists where they are in a frame."""
    title = ax.set_title("", fontsize=10, color=INK)

    def show(k: int) -> None:
        put(k)
        title.set_text(told(k))

    return Scene(ax, (*artists, title), show)


def growing(fig: Any, t: Any, values: Any, name: str, told: Callable[[int], str]) -> Scene:
    """Curves over time, up to the present."""
    ax = fig.add_subplot()
    lines = [
        ax.plot(t[:1], values[:1, k], lw=1.3, color=COLOURS[k])[0] for k in range(min(values.shape[1], FEW))
    ]
    ax.set(xlabel="t", ylabel=name, xlim=(min(t[0], t[-1]), max(t[0], t[-1])), ylim=limits(values))
    dressed(ax)

    def put(k: int) -> None:
        for n, line in enumerate(lines):
            line.set_data(t[: k + 1], values[: k + 1, n])

    return titled(ax, lines, put, told)


def profile(fig: Any, x: Any, name: str, told: Callable[[int], str]) -> Scene:
    """A chain: its numbers over its sites."""
    ax = fig.add_subplot()
    sites = np.arange(x.shape[1])
    (line,) = ax.plot(sites, x[0], "o-" if len(sites) <= 64 else "-", ms=4, lw=1.3, color=COLOURS[0])
    ax.set(xlabel="site", ylabel=name, ylim=limits(x))
    dressed(ax)
    return titled(ax, [line], lambda k: line.set_ydata(x[k]), told)


def sheet(fig: Any, x: Any, name: str, told: Callable[[int], str]) -> Scene:
    """A field: its grid in colours that mean the same in all frames."""
    label = name
    if x.ndim > 3:
        x, label = x.sum(tuple(range(1, x.ndim - 2))), f"sum of {name} over its first axes"
    ax = fig.add_subplot()
    colours = colour_map(x)
    if "vmin" not in colours:
        good = x[np.isfinite(x)]
        colours |= {"vmin": float(good.min()), "vmax": float(good.max())} if len(good) else {}
    picture = ax.imshow(x[0], origin="lower", interpolation="nearest", **colours)
    scale(ax, picture, label)
    dressed(ax)
    return titled(ax, [picture], lambda k: picture.set_data(x[k]), told)


def rising_spectrum(fig: Any, out: Trajectory, system: System, told: Callable[[int], str]) -> Scene:
    """The spectrum of what has passed so far."""
    name, values = for_spectrum(out, system)
    f, power = spectrum(out.t, values)
    ax = fig.add_subplot()
    lines = [ax.semilogy(f, power[:, k], lw=1.0, color=COLOURS[k])[0] for k in range(power.shape[1])]
    top = float(power.max()) or 1.0
    ax.set(xlabel="frequency", ylabel=f"power of {name}", ylim=(max(power.min(), 1e-16 * top), 2 * top))
    dressed(ax)

    def put(k: int) -> None:
        some = max(k + 1, LEAST)
        f, power = spectrum(out.t[:some], values[:some])
        for n, line in enumerate(lines):
            line.set_data(f, power[:, n])

    return titled(ax, lines, put, told)


def crossings(fig: Any, out: Trajectory, system: System, told: Callable[[int], str]) -> Scene:
    """The points of a section, as the run comes to them."""
    found = section(out, system)
    ax = fig.add_subplot()
    (dots,) = ax.plot([], [], "o", ms=2.0, mew=0, color=COLOURS[0])
    x, y = found.points.T
    ax.set(xlabel=found.names[0], ylabel=found.names[1], xlim=limits(x), ylim=limits(y))
    dressed(ax)
    passed, way = np.asarray(out.t, float), 1.0 if out.t[-1] >= out.t[0] else -1.0

    def put(k: int) -> None:
        dots.set_data(*found.points[way * found.t <= way * passed[k]].T)

    return titled(ax, [dots], put, told)
