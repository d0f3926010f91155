"""What does a view show of one moment of a run?  One dictionary of plain values that cannot be written to, for every view.

Keys: title, x and y (names of the axes), ranges, to_scale, curves (lists of x and of y, oldest first), points (are they
not joined?), and what stands below: step, t, told, help (on keys).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from tinyphysics.view.canvas import span_of
from tinyphysics.view.terminal import MOST_CURVES, Picture

State = Mapping[str, Any]
Ranges = tuple[tuple[float, float], tuple[float, float]]  # of x and of y
TRAIL = 250  # frames behind the newest
APART = 0.2  # of the picture, from one frame to the next


def state_of(
    picture: Picture,
    k: int,
    step: int,
    t: float,
    told: str,
    ranges: Ranges,
    help: str = "",
    trail: int = TRAIL,
) -> State:
    """Of frame k of a picture; of many curves the newest points alone."""
    many = len(picture.curves) > MOST_CURVES
    first = k if many else max(0, k - trail)
    curves = tuple(
        (tuple(xs[first : k + 1].tolist()), tuple(ys[first : k + 1].tolist())) for xs, ys in picture.curves
    )
    return MappingProxyType(
        {
            "title": picture.title,
            "x": picture.x_name,
            "y": picture.y_name,
            "ranges": ranges,
            "to_scale": picture.to_scale,
            "curves": curves,
            "points": many or not picture.joined or any(far_apart(curve, ranges) for curve in curves),
            "step": int(step),
            "t": float(t),
            "told": told,
            "help": help,
        }
    )


def far_apart(curve: tuple[tuple[float, ...], tuple[float, ...]], ranges: Ranges) -> bool:
    """Do frames lie so far from each other that a line between them is no path?"""
    points = np.array(curve)
    points = points[:, np.isfinite(points).all(axis=0)]  # a run that blew up ends in others
    if points.shape[1] < 2:
        return False
    steps = np.abs(np.diff(points, axis=1)) / [[b - a] for a, b in ranges]
    return bool(steps.max(axis=0).mean() > APART)


def reach(picture: Picture) -> Ranges:
    """The ranges of both axes over all frames."""
    x, y = (np.concatenate([np.empty(0), *(np.ravel(curve[a]) for curve in picture.curves)]) for a in (0, 1))
    return over(x), over(y)


def over(values: Any) -> tuple[float, float]:
    finite = values[np.isfinite(values)]
    return span_of([] if not len(finite) else [float(finite.min()), float(finite.max())])


def wider(old: Ranges | None, new: Ranges) -> Ranges:
    """Ranges that hold the new ones: as they were while these fit, else with room, so that they seldom change."""
    if old is None:
        return new
    out = []
    for (a, b), (c, d) in zip(old, new):
        room = 0.25 * (max(b, d) - min(a, c))
        out.append((a if c >= a else c - room, b if d <= b else d + room))
    return out[0], out[1]
