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
            spent, out = cpu(lambda: sim.evolve(**start, steps=steps, frames=2))  # noqa: B023
            runs.append(spent)
            drifts.append(cpu(out.drift)[0])
        run, found = min(runs[1:]), min(drifts[1:])
        print(
            f"{MEMBERS:,} pendulums, {steps} steps: run {run:.3f} s, drift {found:.3f} s, {found / run:.1f} runs"
        )


@tp.hamiltonian
def oscillator(q: tp.Vec[1], p: tp.Vec[1]):
    return p @ p / 2 + q @ q / 2


@tp.potential
def softer(q: tp.Vec[1], c: float = 0.2):
    return c * (q @ q) / 2


def inner() -> None:
    """Many fast kicks in one step."""
    for kicks in (20, 200, 2000):
        made, sim = cpu(lambda: tp.compile(tp.fast(oscillator) + tp.slow(softer), dt=0.5, inner=kicks))  # noqa: B023
        steps = 2_000_000 // kicks
        runs = [cpu(lambda: sim.evolve(q=[1.0], p=[0.0], steps=steps, frames=2))[0] for _ in range(4)]  # noqa: B023
        one = min(runs[1:]) / steps / kicks
        print(f"inner={kicks}: compile {made:.2f} s, first run {runs[0]:.2f} s, {one * 1e9:.2f} ns a kick")


@tp.hamiltonian
def chain(q: tp.Vec["n"], p: tp.Vec["n"], m: tp.Vec["n"]):
    d = q[1:] - q[:-1]
    return (p * p / m).sum() / 2 + d @ d / 2 + 0.05 * q @ q


def exact() -> None:
    """The modes of a chain, found once."""
    rng = np.random.default_rng(0)
    for n in (65, 129, 257, 501):
        sim = tp.compile(chain, dt=0.1, propagator="exact")
        start = dict(q=rng.normal(size=n), p=np.zeros(n), m=1 + rng.random(n))
        first, again = (cpu(lambda: sim.evolve(**start, steps=s, frames=2))[0] for s in (10**6, 2 * 10**6))  # noqa: B023
        print(f"{n} pairs, exact: first jump {first:.2f} s, another {again:.3f} s")


@tp.map
def walk(x: tp.Vec["n"]):
    return x + tp.random.normal(x.shape)


@tp.map
def steps_of(x: tp.Vec["n"]):
    return x + tp.random.uniform(x.shape)


@tp.map
def field(u: tp.Array[64, 64]):
    around = tp.roll(u, 1, 0) + tp.roll(u, -1, 0) + tp.roll(u, 1, 1) + tp.roll(u, -1, 1)
    return u + 0.1 * (around - 4 * u) + 0.01 * tp.random.normal(u.shape)


@tp.map
def alone(x: float):
    return x + tp.random.normal()


def noise() -> None:
    """Random numbers in loops along arrays, and in the lanes of an ensemble."""
    rows = {
        "normal, an ensemble of 100,000": (alone, dict(x=np.zeros(MEMBERS)), 50),
        "normal, along 100,000": (walk, dict(x=np.zeros(MEMBERS)), 50),
        "normal, along 5,000": (walk, dict(x=np.zeros(5000)), 1000),
        "uniform, along 100,000": (steps_of, dict(x=np.zeros(MEMBERS)), 50),
        "normal, a field of 64 x 64": (field, dict(u=np.zeros((64, 64))), 500),
    }
    for name, (system, start, steps) in rows.items():
        sim = tp.compile(system)
        runs = [cpu(lambda: sim.evolve(**start, steps=steps, seed=1, frames=2))[0] for _ in range(6)]  # noqa: B023
        numbers = next(iter(start.values())).size
        print(f"{name}: first run {runs[0]:.2f} s, {min(runs[1:]) / steps / numbers * 1e9:.2f} ns a number")


PARTS = {"drift": drift, "inner": inner, "exact": exact, "noise": noise}

if __name__ == "__main__":
    for name in sys.argv[1:] or PARTS:
        PARTS[name]()
