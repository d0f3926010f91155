"""Numbers to begin with that are the same on every machine: no library's generator, no rounding, no function."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

MULTIPLIER, INCREMENT = 6364136223846793005, 1442695040888963407  # Knuth's


def numbers(*shape: int, seed: int = 1, low: float = -1.0, high: float = 1.0) -> Any:
    """Multiples of (high - low)/2**16, exact where low and high have few binary digits."""
    x, out = seed * 2654435761 + 1, []
    for _ in range(prod(shape)):
        x = (x * MULTIPLIER + INCREMENT) % 2**64
        out.append(low + (high - low) * ((x >> 48) / 65536))
    return np.array(out).reshape(shape)


def around(start: dict[str, Any], members: int, width: float = 0.03125) -> dict[str, Any]:
    """States near one, a member each."""
    return {
        name: np.asarray(v, float) + width * numbers(members, *np.shape(v), seed=k)
        for k, (name, v) in enumerate(start.items(), 1)
    }


def grid(side: int, spacing: float, dimensions: int = 3, shaken: float = 0.0625) -> Any:
    """Points of a cubic lattice, each moved a little."""
    axes = np.meshgrid(*[np.arange(side) * spacing] * dimensions, indexing="ij")
    points = np.stack(axes, -1).reshape(-1, dimensions)
    return points + shaken * numbers(*points.shape, seed=7)
