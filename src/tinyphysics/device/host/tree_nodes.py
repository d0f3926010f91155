"""What is a tree of points?  Points along Hilbert's curve, and level by level the masses and moments of eight below."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinyphysics.tpir.kernels.tree import (
    BITS,
    BOX,
    GROUP,
    MASS,
    MOMENTS,
    NOWHERE,
    PLANES,
    SECOND,
    SIZE,
    TRACE,
    levels_of,
)

Array = Any
STACK = 1024  # nodes that wait: seven for each level at most


@dataclass(frozen=True)
class Functions:
    """emit/kinds/trees/tree_functions.py, compiled."""

    keys: Callable[..., None]
    direct: Callable[..., None]
    walk: Callable[..., int]
    back: Callable[..., int]


def in_turn(x: Array) -> Array:
    """The sum along the first axis, one after the other."""
    out = x[0].copy()
    for a in x[1:]:
        out += a
    return out


def padded(x: Array, fill: float) -> Array:
    """(rows, n) as (rows, 8, n/8 rounded up): children first, nodes last."""
    rows, n = x.shape
    whole = np.full((rows, -(-n // GROUP) * GROUP), fill)
    whole[:, :n] = x
    return whole.reshape(rows, -1, GROUP).transpose(0, 2, 1)


def joined(below: Array) -> Array:
    """The nodes of the next level, of the planes of a level."""
    children = padded(below, 0.0)
    low, high = padded(below[BOX : BOX + 3], np.inf).min(1), padded(below[BOX + 3 :], -np.inf).max(1)
    mass = in_turn(children[MASS])
    moment = [in_turn(children[MASS] * children[k]) for k in range(3)]
    heavy = mass > 0.0
    centre = np.stack(
        [np.where(heavy, x / np.where(heavy, mass, 1.0), 0.5 * (a + b)) for x, a, b in zip(moment, low, high)]
    )
    d = children[:3] - centre[:, None]
    out = np.empty((PLANES, len(mass)))
    out[:3], out[MASS], out[BOX : BOX + 3], out[BOX + 3 :] = centre, mass, low, high
    for k, (a, b) in enumerate(SECOND):
        out[MOMENTS + k] = in_turn(3.0 * (children[MASS] * d[a] * d[b]) + children[MOMENTS + k])
    out[TRACE] = 0.5 * (out[MOMENTS] + out[MOMENTS + 3] + out[MOMENTS + 5])
    reach = np.maximum(centre - low, high - centre)
    out[SIZE] = reach[0] * reach[0] + reach[1] * reach[1] + reach[2] * reach[2]
    return out


@dataclass(frozen=True, eq=False)
class Tree:
    """Points in their order, and the nodes above them; leaves first, then level by level to the root."""

    order: Array
    points: Array  # (4, n rounded up): coordinates and masses
    nodes: Array  # (PLANES, nodes)
    kids: Array  # of each node: its first child, times 16, and how many
    leaves: int  # room for them; the nodes behind it are no leaves


def planted(q: Array, m: Array, f: Functions) -> Tree:
    """The tree over points (3, n) with masses (n,)."""
    n = q.shape[1]
    room = -(-n // GROUP) * GROUP
    low = np.where(np.isfinite(q), q, np.inf).min(1)
    high = np.where(np.isfinite(q), q, -np.inf).max(1)
    width = float((high - low).max())
    scale = 2.0**BITS / width if np.isfinite(width) and width > 0.0 else 0.0
    numbers = np.array([*np.where(np.isfinite(low), low, 0.0), *[scale if np.isfinite(scale) else 0.0] * 3])
    points = np.zeros((4, room))
    points[:3, :n] = q
    where = np.empty(room, np.int64)
    f.keys(points.ctypes.data, room, room // GROUP, numbers.ctypes.data, where.ctypes.data)
    order = np.argsort(where[:n], kind="stable")
    points[:3, :n], points[3, :n] = q[:, order], m[order]
    points[:3, n:] = points[:3, n - 1 : n]
    alone = np.zeros((PLANES, room))
    alone[:4], alone[BOX : BOX + 3], alone[BOX + 3 :] = points, points[:3], points[:3]
    levels = [joined(alone)]
    while len(levels) < 2 or levels[-1].shape[1] > 1:
        levels.append(joined(levels[-1]))
    points[:3, n:] = NOWHERE
    places = levels_of(n)
    wide = places[-1][0] + GROUP
    nodes, kids = np.zeros((PLANES, wide)), np.zeros(wide, np.int64)
    for k, (begin, count) in enumerate(places):
        nodes[:, begin : begin + count] = levels[k]
        if k:
            first = np.arange(count) * GROUP
            below, size = places[k - 1]
            kids[begin : begin + count] = (below + first) * 16 + np.minimum(GROUP, size - first)
    return Tree(order, points, nodes, kids, places[1][0])


def root_of(tree: Tree) -> int:
    return int(np.flatnonzero(tree.kids)[-1])
