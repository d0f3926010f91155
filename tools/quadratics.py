"""Are random energies of degree 2 solved right?  Each is compared with mpmath: right to 1e-12, or refused; never wrong.

    python tools/quadratics.py [--count 1000] [--seed 0]

Definite and indefinite, with and without products of q and p, defective, with modes of frequency 0, with constant forces,
with units that differ by orders of magnitude; flows and powers of leapfrog and Yoshida's method; 1 to 10**12 steps.
"""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import dataclass
from typing import Any

import mpmath
import numpy as np

import tinyphysics as tp
from tinyphysics.errors import PlanError
from tinyphysics.planner.methods.catalog import ALIASES, BY_NAME

RIGHT = 1e-12  # of the largest position, or momentum, of the start or the end
MOST_GROWN = 200.0  # exponents: beyond, a state may leave the floats


@tp.hamiltonian
def quadratic(
    q: tp.Vec["n"],
    p: tp.Vec["n"],
    K: tp.Array["n", "n"],
    W: tp.Array["n", "n"],
    C: tp.Array["n", "n"],
    f: tp.Vec["n"],
    b: tp.Vec["n"],
):
    return (q @ (K @ q) + p @ (W @ p)) / 2 + q @ (C @ p) + f @ q + b @ p


@tp.hamiltonian
def separable(
    q: tp.Vec["n"],
    p: tp.Vec["n"],
    K: tp.Array["n", "n"],
    W: tp.Array["n", "n"],
    f: tp.Vec["n"],
    b: tp.Vec["n"],
):
    return (q @ (K @ q) + p @ (W @ p)) / 2 + f @ q + b @ p


@dataclass(frozen=True)
class Case:
    kind: str
    given: dict[str, Any]
    q: Any
    p: Any
    dt: float
    steps: int
    way: str
    method: str


def symmetric(rng: Any, n: int) -> Any:
    a = rng.normal(size=(n, n))
    return (a + a.T) / 2


def definite(rng: Any, n: int) -> Any:
    a = rng.normal(size=(n, n))
    x = a @ a.T + 0.05 * np.eye(n)
    return (x + x.T) / 2


def springs(rng: Any, n: int) -> Any:
    """Free ends: one mode of frequency 0, exactly."""
    k = np.zeros((n, n))
    for i in range(n - 1):
        c = round(float(rng.uniform(0.5, 2.0)) * 64) / 64  # sums of these are exact
        k[i, i] += c
        k[i + 1, i + 1] += c
        k[i, i + 1] -= c
        k[i + 1, i] -= c
    return k


KINDS = (
    "definite",
    "indefinite V",
    "both indefinite",
    "mixed",
    "mixed definite",
    "free ends",
    "ring",
    "free",
    "defective",
    "units",
)


def case(rng: Any) -> Case:
    n = int(rng.integers(1, 5))
    kind = str(rng.choice(KINDS))
    zero = np.zeros((n, n))
    K, W, C = definite(rng, n), np.diag(rng.uniform(0.5, 2.0, n)), zero
    match kind:
        case "indefinite V":
            K = symmetric(rng, n)
        case "both indefinite":
            K, W = symmetric(rng, n), symmetric(rng, n)
        case "mixed":
            K, W, C = symmetric(rng, n), symmetric(rng, n), rng.normal(size=(n, n))
        case "mixed definite":  # a rotating frame: definite, with products of q and p
            C = 0.1 * rng.normal(size=(n, n))
        case "free ends":
            K = springs(rng, n)
        case "ring":  # two modes of each frequency
            K = 2 * np.eye(n) - np.roll(np.eye(n), 1, 0) - np.roll(np.eye(n), -1, 0)
            W = np.eye(n)
        case "free":
            K = zero
        case "defective":  # a Jordan block: q1 moves q0, and nothing comes back
            C = np.triu(np.ones((n, n)), 1)
            K, W = zero, zero if rng.uniform() < 0.5 else W
        case "units":
            s = 10.0 ** rng.uniform(-5, 5, n)
            K, W = K / np.outer(s, s), W * np.outer(s, s)
    forced = rng.uniform() < 0.5
    f, b = (rng.normal(size=n) if forced else np.zeros(n) for _ in range(2))
    steps = int(10 ** rng.uniform(0, 12))
    dt = float(rng.choice([0.01, 0.125, 0.05]))
    mixes = bool(C.any())
    A = np.block([[C.T, W], [-K, -C]])
    growth = float(np.abs(np.linalg.eigvals(A).real).max())
    if growth > 1e-6:
        steps = max(1, min(steps, int(MOST_GROWN / growth / dt)))
    way = "exact" if mixes or rng.uniform() < 0.6 else "method"
    given = {"K": K, "W": W, "f": f, "b": b} | ({"C": C} if mixes else {})
    method = "leapfrog" if rng.uniform() < 0.5 else "yoshida4"
    return Case(kind, given, rng.normal(size=n), rng.normal(size=n), dt, steps, way, method)


def matrix(a: Any) -> Any:
    return mpmath.matrix([[mpmath.mpf(float(x)) for x in row] for row in a])


def reference(c: Case) -> tuple[Any, Any]:
    """The state at the end, with many more digits than are needed."""
    n = len(c.q)
    K, W, f, b = (c.given[k] for k in ("K", "W", "f", "b"))
    C = c.given.get("C", np.zeros((n, n)))
    size = max(1.0, float(np.abs(np.block([[K, C], [C.T, W]])).max()) * 2 * n * c.dt * c.steps)
    with mpmath.workdps(int(60 + 3 * np.log10(size) + MOST_GROWN)):
        h = mpmath.mpf(c.dt)
        T, V = mpmath.zeros(2 * n + 1), mpmath.zeros(2 * n + 1)
        for i in range(n):
            for j in range(n):
                T[i, n + j] += mpmath.mpf(float(W[i, j]))
                V[n + i, j] -= mpmath.mpf(float(K[i, j]))
                T[i, j] += mpmath.mpf(float(C[j, i]))  # of q.C p, the part that moves q
                V[n + i, n + j] -= mpmath.mpf(float(C[i, j]))
            T[i, 2 * n] += mpmath.mpf(float(b[i]))
            V[n + i, 2 * n] -= mpmath.mpf(float(f[i]))
        if c.way == "exact":
            M = mpmath.expm((T + V) * h * c.steps)
        else:
            M = mpmath.eye(2 * n + 1)
            for part, w in sequence(c.method):
                M = (mpmath.eye(2 * n + 1) + (T if part == "T" else V) * h * mpmath.mpf(w)) * M
            M = M**c.steps
        z = mpmath.matrix([*map(float, c.q), *map(float, c.p), 1.0])
        new = M * z
        return [new[i] for i in range(n)], [new[n + i] for i in range(n)]


def sequence(method: str) -> list[tuple[str, float]]:
    return BY_NAME[ALIASES.get(method, method)].sequence()


def error(c: Case) -> float | str:
    """By how much a case is wrong, or why it was refused."""
    n = len(c.q)
    system = quadratic if "C" in c.given else separable
    options = {"method": c.method} if c.way == "method" else {}
    try:
        sim = tp.compile(system, c.dt, propagator=c.way, sizes={"n": n}, **options)
        out = sim.evolve(q=c.q, p=c.p, steps=c.steps, progress=False, **c.given)
    except PlanError as refused:
        return str(refused.what)
    worst = 0.0
    for got, wanted, start in zip((out.final.q, out.final.p), reference(c), (c.q, c.p)):
        scale = max([abs(x) for x in wanted] + [abs(mpmath.mpf(float(x))) for x in start])
        off = max(abs(mpmath.mpf(float(g)) - w) for g, w in zip(got, wanted))
        worst = max(worst, float(off / scale))
    return worst


def main(count: int, seed: int, loud: bool = True) -> tuple[int, int, int, float]:
    """(right, refused, wrong, the largest error of those that ran)."""
    rng = np.random.default_rng(seed)
    right, refused, wrong, worst = 0, 0, 0, 0.0
    why: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    for k in range(count):
        c = case(rng)
        e = error(c)
        if isinstance(e, str):
            refused += 1
            why[e.splitlines()[0].split(":")[0]] += 1
            kinds[f"{c.kind}, {c.way}: refused"] += 1
            continue
        worst = max(worst, e)
        kinds[f"{c.kind}, {c.way}: {'right' if e <= RIGHT else 'WRONG'}"] += 1
        right, wrong = right + (e <= RIGHT), wrong + (e > RIGHT)
        if e > RIGHT and loud:
            told = f"{c.kind}, {c.way}, n = {len(c.q)}, {c.steps:,} steps of {c.dt}"
            print(f"wrong by {e:.1e}: case {k} of seed {seed}, {told}")
    if loud:
        for kind, number in sorted(kinds.items()):
            print(f"{number:6d}  {kind}")
        for reason, number in why.most_common():
            print(f"{number:6d}  refused: {reason}")
        print(
            f"{count} energies: {right} right to {RIGHT:g} (the worst is {worst:.1e}), {refused} refused, {wrong} wrong"
        )
    return right, refused, wrong, worst


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    raise SystemExit(1 if main(options.count, options.seed)[2] else 0)
