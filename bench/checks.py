"""What do checks cost?  Runs with checks="on" beside the same runs with checks="off", alternating.

CPU seconds, and medians of the ratio.

python bench/checks.py            # all rows
python bench/checks.py kepler     # those whose name has this word
python bench/checks.py "" cuda    # on another backend; seconds are then those of the clock, since a GPU takes no CPU time
python bench/checks.py kepler cuda 3   # three rounds instead of five

On a GPU ensembles take more steps and single systems fewer, so that a run is some tenths of a second there, too.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import tinyphysics as tp
from tinyphysics.runtime.api.simulation import Simulation


@tp.hamiltonian
def kepler(q: tp.Vec[2], p: tp.Vec[2], mu: float = 1.0):
    return p @ p / 2 - mu / tp.norm(q)


@tp.hamiltonian
def henon_heiles(q: tp.Vec[2], p: tp.Vec[2]):
    return (p @ p + q @ q) / 2 + q[0] ** 2 * q[1] - q[1] ** 3 / 3


@tp.hamiltonian
def gravity(q: tp.Array["n", 3], p: tp.Array["n", 3], eps: float = 0.05):
    return (p * p).sum() / 2 - tp.pair_sum(1 / tp.sqrt(tp.pair_distance2(q) + eps**2))


def orbits(members: int) -> dict[str, Any]:
    speeds = np.linspace(0.8, 1.2, members)
    return {"q": np.tile([1.0, 0.0], (members, 1)), "p": np.stack([0 * speeds, speeds], -1)}


def around(members: int) -> dict[str, Any]:
    y = np.linspace(-0.25, 0.25, members)
    return {"q": np.stack([0 * y, y], -1), "p": np.tile([0.3, 0.0], (members, 1))}


def cluster(n: int) -> dict[str, Any]:
    r = np.random.default_rng(1)
    return {"q": r.normal(size=(n, 3)), "p": 0.3 * np.sqrt(n) * r.normal(size=(n, 3))}


# name: the system, its step, where it begins, how many steps
ROWS: dict[str, tuple[Any, float, Callable[[], dict[str, Any]], int]] = {
    "kepler, 1 orbit": (kepler, 0.02, lambda: {"q": [1.0, 0.0], "p": [0.0, 1.2]}, 50_000_000),
    "kepler, 1,000 orbits": (kepler, 0.02, lambda: orbits(1_000), 2_000_000),
    "kepler, 65,536 orbits": (kepler, 0.02, lambda: orbits(65_536), 32_768),
    "kepler, 1,000,000 orbits": (kepler, 0.02, lambda: orbits(1_000_000), 16_384),
    "henon_heiles, 65,536": (henon_heiles, 0.05, lambda: around(65_536), 65_536),
    "gravity, 5 bodies": (gravity, 1e-3, lambda: cluster(5), 20_000_000),
    "gravity, 100 bodies": (gravity, 1e-3, lambda: cluster(100), 100_000),
    "gravity, 1,000 bodies": (gravity, 1e-4, lambda: cluster(1_000), 4_000),
}


# times as many steps on a GPU
THERE = {
    "kepler, 1 orbit": 1 / 16,
    "kepler, 65,536 orbits": 32,
    "kepler, 1,000,000 orbits": 8,
    "henon_heiles, 65,536": 16,
    "gravity, 5 bodies": 1 / 64,
    "gravity, 100 bodies": 1 / 4,
}

BACKEND = sys.argv[2] if len(sys.argv) > 2 else "auto"
ROUNDS = int(sys.argv[3]) if len(sys.argv) > 3 else 5
CLOCK = time.process_time if BACKEND == "auto" else time.perf_counter


def seconds(sim: Simulation, start: dict[str, Any], steps: int) -> tuple[float, Any]:
    began = CLOCK()
    out = sim.evolve(**start, steps=steps, frames=2)
    return CLOCK() - began, out


def measure(name: str, repeat: int = ROUNDS) -> None:
    system, dt, begin, steps = ROWS[name]
    steps = int(steps * THERE.get(name, 1)) if BACKEND == "cuda" else steps
    start = begin()
    on, off = (tp.compile(system, dt=dt, method="leapfrog", checks=c, backend=BACKEND) for c in ("on", "off"))
    first = [seconds(sim, start, steps)[0] for sim in (off, on)]
    ratios, took = [], 0.0
    for _ in range(repeat):
        a, out = seconds(on, start, steps)
        b, plain = seconds(off, start, steps)
        assert out.hash == plain.hash and out.stopped is None
        ratios.append(a / b)
        took = b
    told = out.metrics.get("checks", {})
    every, names = told.get("every"), ", ".join(told.get("watched", ["nothing"]))
    print(
        f"{name:26} {took:6.2f} s  on/off {statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})  "
        f"first run {first[0]:.2f} -> {first[1]:.2f} s  every {every}: {names}"
    )


if __name__ == "__main__":
    for row in ROWS:
        if len(sys.argv) < 2 or sys.argv[1] in row:
            measure(row)
