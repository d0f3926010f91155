"""What does a comet cost, in steps of t and in steps of s?  An orbit of eccentricity 0.99, and where it is after ten.

    python bench/encounters.py     # about a minute

Thread CPU time for one member of 256, the smallest of a few. The error is the distance at the tenth apocentre, in units
of the semi-major axis; 1 or so means that the comet is anywhere on its orbit.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import tinyphysics as tp
from tinyphysics.physics.zoo import kepler

E, MEMBERS, ORBITS, TURNS = 0.99, 256, 10.5, 3
LEAST = 10_000  # steps that are timed: a run has a beginning
START = dict(q=[1 - E, 0.0], p=[0.0, ((1 + E) / (1 - E)) ** 0.5])
YEAR = 2 * np.pi
ROWS: tuple[tuple[str, dict[str, Any], tuple[int, ...]], ...] = (
    ("leapfrog", dict(method="leapfrog"), (10_000, 100_000)),
    ("kahan_li8", dict(method="kahan_li8"), (2_000, 4_000, 8_000)),
    ("leapfrog, logarithmic", dict(method="leapfrog_dkd", time="logarithmic"), (1_000, 10_000)),
    ("kahan_li6, logarithmic", dict(method="kahan_li6", time="logarithmic"), (16, 32, 64)),
    ("kahan_li8, logarithmic", dict(method="kahan_li8", time="logarithmic"), (16, 32)),
)


def row(options: dict[str, Any], n: int) -> tuple[float, float]:
    """(error, nanoseconds an orbit) with n steps an orbit."""
    sim = tp.compile(kepler, dt=YEAR / n, **options)
    if "time" in options:
        end = sim.evolve(**START, until=ORBITS * YEAR, frames=2).final.q
    else:
        end = sim.evolve(**START, steps=round(ORBITS * n), frames=2).final.q
    many = {name: np.tile(v, (MEMBERS, 1)) for name, v in START.items()}
    steps, best = max(n, LEAST), np.inf
    for _ in range(TURNS):
        began = time.thread_time()
        sim.evolve(**many, steps=steps, threads=1, progress=False, frames=2)
        best = min(best, time.thread_time() - began)
    return float(np.linalg.norm(end - [-1 - E, 0.0])), best / MEMBERS * n / steps * 1e9


if __name__ == "__main__":
    print(f"{'':24}{'steps an orbit':>16}{'error':>10}{'ns an orbit':>14}")
    for name, options, counts in ROWS:
        for n in counts:
            error, cost = row(options, n)
            print(f"{name:24}{n:16,}{error:10.0e}{cost:14,.0f}")
