"""How many force evaluations does an accuracy take?  Every method of drifts and kicks on three problems.

    python tools/measure_methods.py [names]            prints the table WORK of tinyphysics/synth/coefficients/quality.py
    python tools/measure_methods.py --others [names]   the same on four problems that no method was made for

Hénon–Heiles orbits (some chaotic), Kepler ellipses of eccentricity up to 0.5, and pendulums that swing wide; the error is the
largest of any coordinate and momentum at the end. Between two numbers of steps the error is taken as a power of the work.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from tinyphysics.planner.methods.catalog import METHODS
from tinyphysics.synth.coefficients.conditions import RKN, SPLITTING
from tinyphysics.synth.coefficients.quality import EFFECTIVE, effective_error
from tinyphysics.synth.coefficients.schemes import drifts_and_kicks

Moves = Sequence[tuple[str, float]]
ERROR = 1e-9


def henon_heiles(q: Any) -> Any:
    x, y = q
    return np.stack([-x - 2 * x * y, -y - x * x + y * y])


def kepler(q: Any) -> Any:
    r2 = (q * q).sum(0)
    return -q / (r2 * np.sqrt(r2))


def bound(n: int) -> tuple[Any, Any]:
    """Positions and momenta of Hénon–Heiles orbits of energies up to 1/8, and no less than half of it."""
    x = np.random.default_rng(5).uniform(-0.5, 0.5, (4, 4000))
    energy = (x**2).sum(0) / 2 + x[0] ** 2 * x[1] - x[1] ** 3 / 3
    x = x[:, (energy < 1 / 8) & (energy > 1 / 16)][:, :n]
    return x[:2], x[2:]


E = np.array([0.1, 0.3, 0.5])
ANGLES = np.random.default_rng(6)
# name: (force, first q, first p, time)
PROBLEMS: dict[str, tuple[Callable[[Any], Any], Any, Any, float]] = {
    "Hénon–Heiles": (henon_heiles, *bound(64), 20.0),
    "Kepler": (kepler, np.array([1 - E, 0 * E]), np.array([0 * E, np.sqrt((1 + E) / (1 - E))]), 10.0),
    "pendulum": (lambda q: -np.sin(q), ANGLES.uniform(-2, 2, 32), ANGLES.uniform(-1, 1, 32), 20.0),
}


def fput(q: Any) -> Any:
    d = np.diff(q, axis=0, prepend=0 * q[:1], append=0 * q[:1])
    return np.diff(d + d**2 / 4 + d**3 / 2, axis=0)


def toda(q: Any) -> Any:
    e = np.exp(q - np.roll(q, -1, 0))
    return np.roll(e, 1, 0) - e


def morse(q: Any) -> Any:
    return 2 * (np.exp(-2 * q) - np.exp(-q))


def three_bodies(q: Any) -> Any:
    d = q[:, None] - q
    r2 = (d * d).sum(-1) + np.eye(3)
    return -(d / (r2 * np.sqrt(r2))[..., None]).sum(1)


DRAW = np.random.default_rng(3)
EIGHT = np.array(
    [[0.97000436, -0.24308753], [-0.97000436, 0.24308753], [0.0, 0.0]]
)  # Chenciner and Montgomery 2000
OTHERS: dict[str, tuple[Callable[[Any], Any], Any, Any, float]] = {
    "FPUT": (fput, DRAW.normal(size=(8, 3)) / 2, DRAW.normal(size=(8, 3)) / 2, 10.0),
    "Toda": (toda, DRAW.normal(size=(5, 3)) * 0.3, DRAW.normal(size=(5, 3)) * 0.7, 10.0),
    "Morse": (morse, np.array([0.0, -0.3, 1.0]), np.array([0.5, 0.3, 0.2]), 20.0),
    "eight": (
        three_bodies,
        EIGHT,
        np.array([[0.466203685, 0.43236573]] * 2 + [[-0.93240737, -0.86473146]]),
        6.3,
    ),
}
ALL = PROBLEMS | OTHERS


def run(moves: Moves, problem: str, steps: int) -> Any:
    force, q, p, time = ALL[problem]
    h = time / steps
    for _ in range(steps):
        for part, w in moves:
            if part == "T":
                q = q + (h * w) * p
            else:
                p = p + (h * w) * force(q)
    return np.concatenate([np.ravel(q), np.ravel(p)])


@cache
def exact(problem: str) -> Any:
    return run(drifts_and_kicks("sofroniou_spaletta10"), problem, round(40 * ALL[problem][3]))


def error(moves: Moves, problem: str, steps: int) -> float:
    with np.errstate(all="ignore"):
        found = float(np.abs(run(moves, problem, steps) - exact(problem)).max())
    return found if math.isfinite(found) else math.inf


def work(moves: Moves, kicks: int, problem: str, goal: float = ERROR) -> float:
    """Force evaluations per unit of time; the first crossing from below is looked for by halving."""
    low, high = 1, 16
    while error(moves, problem, high) > goal:
        low, high = high, 2 * high
        if high > 400_000:
            return math.inf
    while high - low > max(1, high // 40):
        middle = (low + high) // 2
        low, high = (middle, high) if error(moves, problem, middle) > goal else (low, middle)
    below, above = error(moves, problem, high), error(moves, problem, low)
    part = math.log(above / goal) / math.log(above / below) if math.isfinite(above) and above > below else 1.0
    return kicks * low * (high / low) ** part / ALL[problem][3]


def main() -> None:
    names = [name for name in sys.argv[1:] if name != "--others"]
    problems = PROBLEMS if names == sys.argv[1:] else OTHERS
    for m in METHODS:
        if not m.symmetric or m.order == 2 or not m.splits or m.gradients or names and m.name not in names:
            continue
        moves = m.sequence()
        print(
            f'    "{m.name}": ({", ".join(f"{work(moves, m.stages, p):.1f}" for p in problems)}),', flush=True
        )
        if problems is PROBLEMS and m.name not in EFFECTIVE:
            structures = (RKN,) if "quadratic T" in m.needs else (RKN, SPLITTING)
            both = [effective_error(moves, s, m.order, m.stages) for s in structures]
            print(f'    "{m.name}": ({", ".join(f"{e:.4f}" for e in both)}),  # effective errors', flush=True)


if __name__ == "__main__":
    main()
