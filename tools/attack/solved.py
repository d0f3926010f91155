"""Are implicit steps of whole arrays what they are said to be?  A dense Newton iteration in NumPy solves the same."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np

import tinyphysics as tp
from attack.case import Case
from attack.findings import Tally

STEPS = 2
CLOSE = 1e-10  # of the largest number: rounding of both, and what a condition of 100 makes of it
Slopes = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
# a term of the energy, its slopes by q and by p
TERMS: tuple[tuple[str, Slopes], ...] = (
    ("tp.sum(q**2)/2", lambda q, p: (q, 0 * p)),
    ("tp.sum(tp.diff(q)**2)/2", lambda q, p: (stretched(np.diff(q)), 0 * p)),
    ("tp.sum(tp.diff(q)**4)/4", lambda q, p: (stretched(np.diff(q) ** 3), 0 * p)),
    ("tp.sum((tp.roll(q, 1) - q)**2)/2", lambda q, p: (2 * q - np.roll(q, 1) - np.roll(q, -1), 0 * p)),
    ("-tp.sum(tp.cos(q))", lambda q, p: (np.sin(q), 0 * p)),
    ("tp.sum(q**4)/4", lambda q, p: (q**3, 0 * p)),
    ("0.3*tp.sum(q**2*p**2)/2", lambda q, p: (0.3 * q * p**2, 0.3 * q**2 * p)),
    ("0.2*tp.sum(q)**2/2", lambda q, p: (np.full_like(q, 0.2 * q.sum()), 0 * p)),
    ("0.4*tp.sum(q*tp.roll(p, 1))", lambda q, p: (0.4 * np.roll(p, 1), 0.4 * np.roll(q, -1))),
)
GAUSS = {
    "implicit_midpoint": (np.array([[0.5]]), np.array([1.0])),
    "gauss4": (
        np.array([[0.25, 0.25 - math.sqrt(3) / 6], [0.25 + math.sqrt(3) / 6, 0.25]]),
        np.array([0.5, 0.5]),
    ),
}


def stretched(force: np.ndarray) -> np.ndarray:
    """The slopes of a sum over differences, from those by each difference."""
    out = np.zeros(len(force) + 1)
    out[1:] += force
    out[:-1] -= force
    return out


def rates(terms: list[Slopes], z: np.ndarray) -> np.ndarray:
    n = len(z) // 2
    q, p = z[:n], z[n:]
    by_q, by_p = np.zeros(n), p.copy()  # of p**2/2
    for f in terms:
        a, b = f(q, p)
        by_q, by_p = by_q + a, by_p + b
    return np.concatenate([by_p, -by_q])


def dense_step(terms: list[Slopes], z: np.ndarray, h: float, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """One step of a Runge–Kutta method, its stages by Newton's method with a matrix that is written out."""
    n, s = len(z), len(b)
    Y = np.tile(z, s)

    def residual(Y: np.ndarray) -> np.ndarray:
        f = np.stack([rates(terms, y) for y in Y.reshape(s, n)])
        return np.asarray(Y - np.tile(z, s) - h * (a @ f).ravel())

    for _ in range(12):
        J = np.stack([(rates(terms, z + e) - rates(terms, z - e)) / 2e-6 for e in np.eye(n) * 1e-6], 1)
        step = np.linalg.solve(np.eye(n * s) - h * np.kron(a, J), residual(Y))
        Y = Y - step
        if np.abs(step).max() < 1e-15 * (1.0 + np.abs(Y).max()):
            break
    f = np.stack([rates(terms, y) for y in Y.reshape(s, n)])
    return np.asarray(z + h * (b @ f))


def check(case: Case, t: Tally) -> None:
    rng = random.Random(f"solved {case.seed}")
    n = rng.choice([50, 60, 70])  # more than 96 unknowns: whole arrays
    chosen = rng.sample(TERMS, rng.randint(1, 3))
    method, dt = rng.choice(list(GAUSS)), rng.choice([0.02, 0.05, 0.1])
    text = " + ".join(x for x, _ in chosen)
    scope: dict[str, Any] = {"tp": tp}
    exec(f"def system(q: tp.Vec[{n}], p: tp.Vec[{n}]):\n    return p @ p/2 + {text}\n", scope)
    sim = tp.compile(tp.hamiltonian(scope["system"]), dt=dt, method=method, checks="off")
    rows = np.random.default_rng([case.seed, 61]).uniform(-1.0, 1.0, (2, n))
    rest = rng.random() < 0.2  # forces that are what rounding leaves of them
    z = np.concatenate([0.1 * np.arange(n), np.zeros(n)] if rest else list(rows))
    if rest and ("tp.diff" not in text or len(chosen) > 1):
        z = np.concatenate(list(rows))
    out = sim.evolve(q=z[:n], p=z[n:], steps=STEPS, progress=False)
    t.shares["solved"] += 1
    if out.stopped is not None:
        t.report(
            case.seed,
            "not solved",
            f"{method} of {text}, dt = {dt}: {out.stopped.cause}",
            "Newton's method solves it",
        )
        return
    true = z
    for _ in range(STEPS):
        true = dense_step([f for _, f in chosen], true, dt, *GAUSS[method])
    off = float(np.abs(np.concatenate([out.final.q, out.final.p]) - true).max() / (1.0 + np.abs(true).max()))
    t.check(
        case.seed,
        "solved",
        off > CLOSE,
        f"{method} of {text}, dt = {dt}",
        f"Newton's method differs by {off:.1e}",
    )
