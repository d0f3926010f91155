"""Systems with their steps written a second time, in more digits than a run has: what does rounding really do?

Nothing of the library is used for the second time but the words of the first state. Numbers are long doubles, or mpmath's
where a run has pairs of float64. Energies are averaged over the last steps of both runs, so that a phase that is off by some
digits does not count: a method's own error comes and goes with it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np

import tinyphysics as tp
from tinyphysics.physics.zoo import double_well, fput, henon_heiles, kepler, pendulum

MEMBERS, STEPS, TAIL = 32, 1000, 128
LONG = SimpleNamespace(number=np.longdouble, sqrt=np.sqrt, sin=np.sin, cos=np.cos)


def digits() -> SimpleNamespace:
    """Arithmetic of mpmath, on arrays of objects, in the digits that are set there."""
    import mpmath as mp

    functions = {name: np.frompyfunc(getattr(mp, name), 1, 1) for name in ("sqrt", "sin", "cos")}
    return SimpleNamespace(number=mp.mpf, **functions)


@dataclass(frozen=True)
class Case:
    name: str
    system: Any
    dt: float
    start: dict[str, Any]
    force: Callable[[Any, Any], Any]
    terms: Callable[[Any, Any, Any], tuple[Any, ...]]  # of H, as it is written
    velocity: Callable[[Any, Any], Any] = lambda m, p: p
    method: str = "leapfrog"


# --- the second time --------------------------------------------------------------------------------------
def words(kept: dict[str, Any], name: str, m: Any, unit: float) -> Any:
    """A state as the numbers that a run has, all digits of it."""
    found = [np.asarray(v) for k, v in kept.items() if k == name or k.startswith(f"{name}.")]
    scale = m.number(unit) if found[0].dtype.kind == "i" else m.number(1)
    if m is LONG:
        return sum(v.astype(np.longdouble) for v in found) * scale
    exact = np.frompyfunc(lambda x: m.number(x.item() if hasattr(x, "item") else x), 1, 1)
    return sum(exact(v) for v in found) * scale


def weights(method: str, m: Any) -> list[Any]:
    """Of the leapfrog steps that a step is made of."""
    if method == "leapfrog":
        return [m.number(1)]
    root = m.number(2) ** (m.number(1) / 3)
    return [1 / (2 - root), -root / (2 - root), 1 / (2 - root)]  # Yoshida 1990


def reference(case: Case, m: Any, q: Any, p: Any, dt: float, steps: int, tail: int) -> tuple[Any, Any]:
    """(energies averaged over the last steps, the largest sum of |terms|), by member."""
    hs = [m.number(dt) * w for w in weights(case.method, m)]
    total, scale = 0, 0
    for n in range(1, steps + 1):
        for h in hs:
            p = p + h / 2 * case.force(m, q)
            q = q + h * case.velocity(m, p)
            p = p + h / 2 * case.force(m, q)
        parts = case.terms(m, q, p) if n > steps - tail or n % 16 == 0 else None
        if parts is not None:
            scale = np.maximum(scale, sum(abs(x) for x in parts))
        if n > steps - tail:
            total = total + sum(parts)
    return total / tail, scale


def measured(
    case: Case, precision: str, m: Any = LONG, steps: int = STEPS, unit: float = 2.0**-44
) -> tuple[float, Any]:
    """(the rms error of the energy after so many steps, over the terms of H; the simulation that has run)."""
    tail = min(TAIL, steps // 8)
    sim = tp.compile(
        case.system, dt=case.dt, method=case.method, precision=precision, propagator="loop", checks="off"
    )
    out = sim.evolve(**case.start, steps=steps, save_every=1, progress=False)
    frames = [{name: v[k] for name, v in out.kept.items()} for k in (0, *range(steps + 1 - tail, steps + 1))]
    states = [(words(f, "q", m, unit), words(f, "p", m, unit)) for f in frames]
    dt = float(np.float32(case.dt)) if precision == "float32" else case.dt
    energy, scale = reference(case, m, *states[0], dt, steps, tail)
    mine = sum(sum(case.terms(m, q, p)) for q, p in states[1:]) / tail
    return float(np.sqrt((((mine - energy) / scale) ** 2).mean())), sim


# --- systems ----------------------------------------------------------------------------------------------
PHASE, SIZE = 0.1 + np.linspace(0, 2 * np.pi, MEMBERS, endpoint=False), np.linspace(0.5, 2, MEMBERS)
RANDOM = np.random.default_rng(1)


def oscillator(omega: float, dt: float) -> Case:
    k = omega * omega

    @tp.hamiltonian
    def spring(q, p, k: float = k):
        return p**2 / 2 + k * q**2 / 2

    return Case(
        f"omega={omega:g} dt={dt:g}",
        spring,
        dt,
        dict(q=SIZE * np.cos(PHASE), p=-omega * SIZE * np.sin(PHASE)),
        lambda m, q: -m.number(k) * q,
        lambda m, q, p: (p * p / 2, m.number(k) * q * q / 2),
    )


@tp.hamiltonian
def shifted(q, p):
    return p**2 / 2 + (q - 1000) ** 2


@tp.hamiltonian
def quartic(q, p):
    return p**2 / 2 + 0.3 * q**4


@tp.hamiltonian
def light(q, p, m: float = 1e-3, k: float = 0.7):
    return p**2 / (2 * m) + k * q**2 / 2 + k * q**3 / 3


@tp.hamiltonian
def satellite(q: tp.Vec[3], p: tp.Vec[3], mu: float = 3.986004418e14, m: float = 100.0):
    return p @ p / (2 * m) - mu * m / tp.norm(q)


@tp.hamiltonian
def cluster(q: tp.Array[4, 3], p: tp.Array[4, 3]):
    d = q[:, None] - q[None, :]
    s = 1 / ((d * d).sum(-1)) ** 3
    return (p * p).sum() / 2 + tp.pair_sum(4 * (s * s - s))


LEFT, RIGHT = np.triu_indices(4, 1)


def apart(q):
    d = q[:, LEFT] - q[:, RIGHT]
    r2 = (d * d).sum(2)
    return d, r2, 1 / r2**3


def cluster_force(m, q):
    d, r2, s = apart(q)
    push = (4 * (12 * s * s - 6 * s) / r2)[..., None] * d
    out = np.zeros_like(q)
    for k, (i, j) in enumerate(zip(LEFT, RIGHT)):
        out[:, i] += push[:, k]
        out[:, j] -= push[:, k]
    return out


def cluster_terms(m, q, p):
    _, _, s = apart(q)
    return (p * p).sum((1, 2)) / 2, (4 * (s * s - s)).sum(1)


def radius(m, q):
    return m.sqrt((q * q).sum(1))


def stretches(q):
    wall = q[:, :1] * 0
    return np.diff(np.concatenate([wall, q, wall], axis=1), axis=1)


def chain_force(m, q):
    s = stretches(q)
    pull = s + s * s / 4
    return pull[:, 1:] - pull[:, :-1]


def chain_terms(m, q, p):
    s = stretches(q)
    return (p * p).sum(1) / 2, (s * s / 2 + s**3 / 12).sum(1)


def galaxy_force(m, q):
    x, y = q[:, 0], q[:, 1]
    return -np.stack([x + 2 * x * y, y + x * x - y * y], axis=1)


def galaxy_terms(m, q, p):
    x, y = q[:, 0], q[:, 1]
    return (p * p).sum(1) / 2, (q * q).sum(1) / 2, x * x * y, -(y**3) / 3


def orbits():
    e = np.linspace(0.05, 0.6, MEMBERS)
    x, y = np.stack([np.cos(PHASE), np.sin(PHASE)], 1), np.stack([-np.sin(PHASE), np.cos(PHASE)], 1)
    return x, y, dict(q=(1 - e)[:, None] * x, p=np.sqrt((1 + e) / (1 - e))[:, None] * y)


def tilted():
    """Orbits about the Earth in metres and kilogram metres per second, no axis along another."""
    x, y, _ = orbits()
    turn = np.linalg.qr(RANDOM.normal(size=(3, 3)))[0]
    speed = np.sqrt(3.986004418e14 / 7e6) * np.linspace(1, 1.2, MEMBERS)[:, None]
    flat = np.zeros((MEMBERS, 1))
    return dict(q=7e6 * np.hstack([x, flat]) @ turn, p=100 * speed * np.hstack([y, flat]) @ turn)


CORNERS = np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1.0]]) * 1.12 / 8**0.5
round_trip = dict(q=SIZE * np.cos(PHASE), p=SIZE * np.sin(PHASE))
CASES = {
    case.name: case
    for case in (
        oscillator(0.01, 1.0),
        oscillator(0.1, 0.1),
        oscillator(1.0, 0.01),
        oscillator(10.0, 0.01),
        oscillator(90.0, 0.01),
        oscillator(100.0, 0.001),
        Case(
            "shifted", shifted, 0.01,
            dict(q=1000 + SIZE * np.cos(PHASE), p=-(2**0.5) * SIZE * np.sin(PHASE)),
            lambda m, q: -2 * (q - 1000), lambda m, q, p: (p * p / 2, (q - 1000) ** 2),
        ),
        Case(
            "pendulum", pendulum, 0.02, dict(q=np.linspace(0.3, 2, MEMBERS), p=np.linspace(0.1, 0.3, MEMBERS)),
            lambda m, q: -m.sin(q), lambda m, q, p: (p * p / 2, -m.cos(q)),
        ),
        Case(
            "rotor", pendulum, 0.02, dict(q=np.linspace(0.3, 2, MEMBERS), p=np.linspace(2.1, 5, MEMBERS)),
            lambda m, q: -m.sin(q), lambda m, q, p: (p * p / 2, -m.cos(q)),
        ),
        Case(
            "kepler", kepler, 0.01, orbits()[2],
            lambda m, q: -q / radius(m, q)[:, None] ** 3,
            lambda m, q, p: ((p * p).sum(1) / 2, -1 / radius(m, q)),
        ),
        Case(
            "henon_heiles", henon_heiles, 0.05,
            dict(q=RANDOM.uniform(-0.2, 0.2, (MEMBERS, 2)), p=RANDOM.uniform(-0.3, 0.3, (MEMBERS, 2))),
            galaxy_force, galaxy_terms,
        ),
        Case(
            "quartic", quartic, 0.01, round_trip,
            lambda m, q: -4 * m.number(0.3) * q**3, lambda m, q, p: (p * p / 2, m.number(0.3) * q**4),
        ),
        Case(
            "double_well", double_well, 0.05,
            dict(q=-1 + np.linspace(-0.3, 0.3, MEMBERS), p=np.linspace(0.2, 1.2, MEMBERS)),
            lambda m, q: -(q * q - 1) * q, lambda m, q, p: (p * p / 2, (q * q - 1) ** 2 / 4),
        ),
        Case(
            "fput", fput, 0.1,
            dict(q=RANDOM.normal(size=(MEMBERS, 8)) * 0.3, p=RANDOM.normal(size=(MEMBERS, 8)) * 0.3),
            chain_force, chain_terms,
        ),
        Case(
            "cluster", cluster, 0.002,
            dict(q=CORNERS + RANDOM.normal(size=(MEMBERS, 4, 3)) * 0.03, p=RANDOM.normal(size=(MEMBERS, 4, 3)) * 0.3),
            cluster_force, cluster_terms,
        ),
        Case(
            "satellite", satellite, 10.0, tilted(),
            lambda m, q: -m.number(3.986004418e14) * 100 * q / radius(m, q)[:, None] ** 3,
            lambda m, q, p: ((p * p).sum(1) / 200, -m.number(3.986004418e14) * 100 / radius(m, q)),
            lambda m, p: p / 100,
        ),
        Case(
            "light", light, 0.001,
            dict(q=0.15 * SIZE * np.cos(PHASE), p=0.15 * SIZE * 7e-4**0.5 * np.sin(PHASE)),
            lambda m, q: -m.number(0.7) * (q + q * q),
            lambda m, q, p: (p * p / (2 * m.number(1e-3)), m.number(0.7) * q * q / 2, m.number(0.7) * q**3 / 3),
            lambda m, p: p / m.number(1e-3),
        ),
    )
}  # fmt: skip
for name in ("kepler", "henon_heiles"):
    CASES[f"{name} of order 4"] = replace(CASES[name], name=f"{name} of order 4", method="yoshida4")
BEYOND = {("satellite", "lattice")}  # metres that a lattice of 2**-44 has no room for
ROWS = [
    (name, precision)
    for name in CASES
    for precision in ("float64", "float32", "mixed", "compensated", "lattice")
    if (name, precision) not in BEYOND
]
