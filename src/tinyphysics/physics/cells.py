"""Which periodic box?  One length (a cube), one for each direction, or vectors as rows; and distances inside it."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinyphysics.errors import InputError

SHAPES = "A box is one length, one for each direction, or a matrix whose rows are its edges."


def cell(box: Any, dimensions: int = 3) -> Any:
    """The edges as rows of a matrix, right-handed and of a volume that is not zero."""
    try:
        a = np.asarray(box, float)
    except (TypeError, ValueError):
        raise InputError(f"box={box!r} is not a box", fix=SHAPES) from None
    if a.shape not in ((), (dimensions,), (dimensions, dimensions)):
        raise InputError(f"a box of shape {a.shape} in {dimensions} dimensions", fix=SHAPES)
    edges = a if a.ndim == 2 else np.diag(np.broadcast_to(a, (dimensions,)))
    if not np.isfinite(edges).all():
        raise InputError("the box is not finite", fix=SHAPES)
    if a.ndim < 2 and (a <= 0).any():
        raise InputError(f"the box has the length {a.min():g}", fix="Lengths are positive.")
    volume = float(np.linalg.det(edges))
    if volume < -1e-14 * np.linalg.norm(edges, axis=1).prod():
        raise InputError("the edges of the box are left-handed", fix="Exchange two of its rows.")
    if volume <= 1e-14 * np.linalg.norm(edges, axis=1).prod():
        raise InputError("the box is flat: its edges lie in a plane", fix=SHAPES)
    return edges


def volume(edges: Any) -> float:
    return float(np.linalg.det(edges))


def widths(edges: Any) -> Any:
    """The distance between opposite faces, for each edge."""
    return 1.0 / np.linalg.norm(np.linalg.inv(edges), axis=0)


def nearest_image(apart: Any, edges: Any) -> Any:
    """Differences of positions, along the last axis, brought to their shortest image.

    It is the shortest wherever that is not longer than half of the smallest width; beyond, it is some image.
    """
    turns = np.round(apart @ np.linalg.inv(edges))
    return apart - turns @ edges


def wave_vectors(box: Any, longest: float, dimensions: int = 3) -> Any:
    """All k with exp(i k.x) periodic in the box, 0 < |k| <= longest; one of k and -k, by their length."""
    edges = cell(box, dimensions)
    reciprocal = 2 * np.pi * np.linalg.inv(edges).T
    most = np.floor(longest * np.linalg.norm(edges, axis=1) / (2 * np.pi)).astype(int)
    counts = np.stack(np.meshgrid(*[np.arange(-m, m + 1) for m in most], indexing="ij"), -1).reshape(
        -1, dimensions
    )
    first = np.array([next((c for c in row if c), 0) for row in counts.tolist()])
    counts = counts[first > 0]
    k = counts @ reciprocal
    length = np.linalg.norm(k, axis=1)
    order = np.argsort(length, kind="stable")
    return k[order][length[order] <= longest * (1 + 1e-12)]
