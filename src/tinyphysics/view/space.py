"""How are points in space drawn?  As paths with a dot at their end; many as a cloud, the higher ones lighter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tinyphysics.system import State
from tinyphysics.trajectory import Trajectory
from tinyphysics.view.choice import FEW
from tinyphysics.view.terminal import with_members

FAR = 0.01  # the share of a cloud, on each side of each axis, that may lie outside of the picture
MOST_POINTS = 20_000  # of a cloud in space: more hide each other, and take long to draw


def rows_of_three(out: Trajectory, states: Sequence[State]) -> tuple[Any, list[str]]:
    """(frames, bodies of all members, 3) and the names of the axes."""
    first, shape = states[0], states[0].var.shape
    if shape == ():
        three = [s.name for s in states if s.var.shape == ()][:3]
        return np.stack([with_members(out, name, ()) for name in three], -1), three
    points = with_members(out, first.name, shape).reshape(len(out.t), -1, 3)
    before = ":, " if len(shape) == 2 else ""
    return points, [f"{first.name}[{before}{k}]" for k in range(3)]


def paths(ax: Any, points: Any, names: Sequence[str], colours: Sequence[str], ink: str) -> None:
    """(frames, bodies, 3) on axes of three dimensions."""
    count = points.shape[1]
    if count <= FEW:
        for k in range(count):
            good = points[np.isfinite(points[:, k]).all(-1), k]
            ax.plot(*good.T, lw=0.8 if len(good) > 400 else 1.1, color=colours[k % len(colours)])
            if len(good):
                ax.plot(*good[-1:].T, "o", ms=5, color=colours[k % len(colours)], mec="white", mew=0.7)
    else:
        last = points[-1][np.isfinite(points[-1]).all(-1)]
        step = -(-len(last) // MOST_POINTS) or 1
        shown = within(last[::step])
        size = float(np.clip(6_000 / max(len(shown), 1), 0.6, 20))
        ax.scatter(*shown.T, c=shown[:, 2], s=size, cmap="viridis", lw=0, depthshade=False)
        told = f"{count:,}" if len(shown) == count else f"{len(shown):,} of {count:,}"
        ax.set_title(f"{told} points at the end")
    dress_space(
        ax, points[-1] if count > FEW else points.reshape(-1, 3), names, FAR if count > FEW else 0.0, ink
    )


def dress_space(ax: Any, points: Any, names: Sequence[str], far: float, ink: str) -> None:
    """Quiet axes of three dimensions; those of one state have one scale."""
    for which, name in zip("xyz", names):
        getattr(ax, f"set_{which}label")(name, fontsize=9, color=ink)
        axis = getattr(ax, f"{which}axis")
        axis.pane.set_facecolor("white")
        axis.pane.set_edgecolor("#d9dde3")
        axis._axinfo["grid"].update(color="#eceef1", linewidth=0.7)
        axis.line.set_color("#9aa0a8")
        axis.set_tick_params(labelsize=8, labelcolor=ink)
    ax.title.set(fontsize=10, color=ink)
    alike = len({name.partition("[")[0] for name in names}) == 1
    sides = limited(ax, points, far, alike)
    for which, side in zip("xyz", sides if alike else (1.0, 1.0, 1.0)):
        ax.locator_params(axis=which, nbins=max(2, round(6 * side)))  # a short side has room for few numbers
    ax.set_box_aspect(sides if alike else (4, 4, 3), zoom=0.86)


def within(points: Any) -> Any:
    """Without those far ones that the limits leave out: axes of three dimensions do not clip."""
    if not len(points):
        return points
    low, high = np.quantile(points, (FAR, 1 - FAR), axis=0)
    half = np.maximum(high - low, (high - low).max() / 5) * 0.55
    return points[(np.abs(points - (low + high) / 2) <= half).all(-1)]


def limited(ax: Any, points: Any, far: float, alike: bool) -> tuple[float, float, float]:
    """Sets the limits to where the points are, a few far ones of a cloud left out; the lengths of the three sides."""
    good = points[np.isfinite(points).all(-1)]
    if not len(good):
        return 1.0, 1.0, 1.0
    low, high = np.quantile(good, (far, 1 - far), axis=0)
    longest = float((high - low).max()) or 1.0
    middle, half = (low + high) / 2, np.maximum(high - low, longest / 5 if alike else 1e-9 * longest) * 0.55
    ax.set(**{f"{which}lim": (m - h, m + h) for which, m, h in zip("xyz", middle, half)})
    x, y, z = (float(h / half.max()) for h in half)
    return x, y, z
