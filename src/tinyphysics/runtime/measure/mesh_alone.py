"""From which distance on is a mesh without a near part right?  Measured with pairs of charges, in cells of the mesh."""

from __future__ import annotations

from functools import lru_cache
from math import inf

import numpy as np

from tinyphysics.runtime.measure.mesh_forces import Array, Charges, Way, far_forces, near_forces, rms

CELLS = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0)  # distances
SIDE = 32  # cells of the box that is measured in, along each axis
SOURCES, WAYS = 8, 24  # places of a charge between the nodes, and directions from it
LIGHT = 1e-8  # a charge that others hardly feel


@lru_cache(maxsize=16)
def by_distance(
    cell: tuple[tuple[float, ...], ...], order: int, alpha: float, smeared: float
) -> tuple[tuple[float, float], ...]:
    """(distance, rms relative error of the force of a pair); `cell` has the vectors between neighbouring nodes as rows.

    `alpha` is the split of the mesh, `smeared` the inverse width of erf(b*r)/r; both are inf where there is none.
    """
    box = SIDE * np.array(cell)
    longest = float(np.linalg.norm(cell, axis=1).max())
    rng = np.random.default_rng(1)
    ways = rng.normal(size=(WAYS, 3))
    ways /= np.linalg.norm(ways, axis=1)[:, None]
    away = np.concatenate([d * longest * ways for d in CELLS])
    grid = (SIDE,) * 3
    own = Way(min(alpha, smeared), 0.0, grid, order, 1.0, False, alpha == smeared == inf)
    fine = 0.25 / longest  # the mesh that it is compared with has errors of 1e-7
    errors, sizes = [], []
    for place in rng.uniform(0.0, 1.0, (SOURCES, 3)):
        q = np.concatenate([np.zeros((1, 3)), away]) + place @ np.array(cell)
        c = np.full(len(q), LIGHT)
        c[0] = 1.0
        s = Charges(q, c, box, np.arange(1, len(q)), np.full(len(q), 1.0 / len(q)))
        right = exact(s, min(fine, smeared), smeared)
        errors.append((far_forces(s, own) - right).reshape(len(CELLS), WAYS, 3))
        sizes.append(right.reshape(len(CELLS), WAYS, 3))
    found = zip(np.concatenate(errors, 1), np.concatenate(sizes, 1))
    return tuple((d, round(rms(e) / rms(f), 6)) for d, (e, f) in zip(CELLS, found))


def exact(s: Charges, split: float, smeared: float) -> Array:
    """Forces of 1/r, or erf(b*r)/r, by a mesh that is fine enough."""
    far = far_forces(s, Way(split, 0.0, (2 * SIDE,) * 3, 10, 1.0, False))
    if smeared == split:
        return far
    near = near_forces(s, Way(split, 0.5 * s.wide, (4,) * 3, 4, 1.0, False))
    if smeared < inf:
        near = near - near_forces(s, Way(smeared, 0.5 * s.wide, (4,) * 3, 4, 1.0, False))
    return far + near
