"""What are the cotangents of points and masses whose pull a tree has summed?  The derivative of the approximate pull.

Which nodes are taken as a whole jumps with the points, and counts as it is. Centres, masses and second moments of nodes
change with what is below them: their cotangents go down from the root to the points.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tinyphysics.device.host.tree_nodes import STACK, Functions, Tree, in_turn, padded, root_of
from tinyphysics.tpir.kernels.tree import GROUP, MASS, MOMENTS, SECOND, levels_of

Array = Any
FIELDS = 10  # with cotangents: a centre, a mass, second moments


def pulled_back(tree: Tree, g: Array, angle: float, softening: float, f: Functions) -> Array:
    """(5, n): the cotangents of points (3), of masses, and a part of that of the square of the softening for each point."""
    n, room, wide = g.shape[1], tree.points.shape[1], tree.nodes.shape[1]
    groups = np.arange(room // GROUP)
    targets, bars, out = tree.points[:3].copy(), np.zeros((3, room)), np.zeros((4, room))
    bars[:, :n] = g[:, tree.order]
    # what fills the last leaf up has no cotangents; it is away from all points, where every pull is finite
    own = targets[:, :n]
    targets[:, n:] = (own.max(1) + (own.max(1) - own.min(1)).max() + 1.0)[:, None]
    by_point, by_node = np.zeros((4, room, GROUP)), np.zeros((FIELDS, wide, GROUP))
    stack, whole, opened = (np.empty(size, np.int64) for size in (STACK, wide + GROUP, tree.leaves + GROUP))
    f.back(
        tree.points.ctypes.data, room, tree.nodes.ctypes.data, wide, tree.leaves, root_of(tree),
        tree.kids.ctypes.data, angle * angle, softening, groups.ctypes.data, 0, len(groups),
        targets.ctypes.data, bars.ctypes.data, out.ctypes.data, by_point.ctypes.data, by_node.ctypes.data,
        stack.ctypes.data, whole.ctypes.data, opened.ctypes.data,
    )  # fmt: skip
    nodes = in_turn(np.moveaxis(by_node, 2, 0))
    found = np.zeros((5, n))
    sources = in_turn(np.moveaxis(by_point, 2, 0))[:, :n] + fallen(tree, nodes, n)
    found[:3, tree.order] = out[:3, :n] + sources[:3]
    found[3, tree.order] = sources[3]
    found[4, tree.order] = out[3, :n]
    return found


def fallen(tree: Tree, by_node: Array, n: int) -> Array:
    """(4, n): what falls to the points in the order of the tree, from the cotangents of all nodes."""
    places = levels_of(n)
    for k in reversed(range(len(places))):
        begin, count = places[k]
        if k:
            low, size = places[k - 1]
            below = np.zeros((MOMENTS + 6, size))
            below[: MASS + 1] = tree.nodes[: MASS + 1, low : low + size]
        else:
            size = n
            below = np.concatenate([tree.points[:, :n], np.zeros((6, n))])
        handed = shared(
            below, tree.nodes[: MASS + 1, begin : begin + count], by_node[:, begin : begin + count]
        )
        if not k:
            return handed[: MASS + 1]
        by_node[:, low : low + size] += handed
    raise AssertionError("a tree has leaves")


def shared(below: Array, node: Array, bars: Array) -> Array:
    """The cotangents of the nodes or points of a level, from those of the level above it."""
    children = padded(below, 0.0)
    mass, (centre, total) = children[MASS], (node[:3], node[MASS])
    d = children[:3] - centre[:, None]
    out = np.zeros((FIELDS, *mass.shape))
    out[MASS], out[MOMENTS:] = bars[MASS], bars[MOMENTS:, None]
    turned = np.zeros_like(d)  # half the derivative of dQd by d
    for k, (a, b) in enumerate(SECOND):
        q = bars[MOMENTS + k]
        out[MASS] += 3.0 * (q * d[a] * d[b])
        turned[a] += q * d[b] if a == b else 0.5 * (q * d[b])
        turned[b] += 0.0 if a == b else 0.5 * (q * d[a])
    place = 6.0 * (mass * turned)
    heavy = total > 0.0
    # where the mass of a node is zero its centre jumps with the masses below it
    by_centre = bars[:3] - np.stack([in_turn(p) for p in place])
    share = np.where(heavy, 1.0 / np.where(heavy, total, 1.0), 0.0)
    out[:3] = place + by_centre[:, None] * (mass * share)
    along = in_turn(by_centre[:, None] * d) * share
    out[MASS] += np.where(heavy | (np.abs(bars).max(0) == 0.0), along, np.nan)
    size = below.shape[1]
    return out.transpose(0, 2, 1).reshape(FIELDS, -1)[:, :size]
