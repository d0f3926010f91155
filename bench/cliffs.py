"""What do things beside the step cost?  The drift of an ensemble, many inner steps, exact jumps, noise along arrays.

    python bench/cliffs.py [drift] [inner] [exact] [noise]

Seconds of processor time, the least of several rounds; the first round, which compiles, is shown apart.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import tinyphysics as tp

MEMBERS = 100_000


@tp.hamiltonian
def pendulum(q: float, p: float):
    return p**2 / 2 - tp.cos(q)


def cpu(work: Callable[[], Any]) -> tuple[float, Any]:
    began = time.process_time()
    out = work()
    return time.process_time() - began, out


def drift() -> None:
    """The drift of an ensemble, over its run."""
    rng = np.random.default_rng(1)
    start = dict(q=rng.normal(size=MEMBERS), p=rng.normal(size=MEMBERS))
    sim = tp.compile(pendulum, dt=0.01)
    for steps in (100, 1000):
        runs, drifts = [], []
        for _ in range(6):
            spent, out = cpu(lambda: sim.evolve(**start, steps=steps))  # noqa: B023
            runs.append(spent)
            drifts.append(cpu(out.drift)[0])
        run, found = min(runs[1:]), min(drifts[1:])
        print(
            f"{MEMBERS:,} pendulums, {steps} steps: run {run:.3f} s, drift {found:.3f} s, {found / run:.1f} runs"
        )


PARTS = {"drift": drift}

if __name__ == "__main__":
    for name in sys.argv[1:] or PARTS:
        PARTS[name]()
