"""Is the rounding that `explain()` expects the rounding that a run has?"""

from __future__ import annotations

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.physics.zoo import kepler, pendulum
from tinyphysics.planner.cost.rounding import per_root_step

N = 64
LONG = np.longdouble


def orbits():
    e, a = np.linspace(0.05, 0.4, N), np.linspace(0, 2 * np.pi, N)
    x, y = np.stack([np.cos(a), np.sin(a)], 1), np.stack([-np.sin(a), np.cos(a)], 1)
    return dict(q=(1 - e)[:, None] * x, p=np.sqrt((1 + e) / (1 - e))[:, None] * y)


def swings():
    return dict(q=np.linspace(0.3, 2.0, N), p=np.linspace(0.1, 0.3, N))


def pull(q):
    return -q / np.sqrt((q * q).sum(1, keepdims=True)) ** 3


def terms(name, q, p):
    """(H, the sum of its terms without their signs)."""
    if name == "pendulum":
        return p * p / 2 - np.cos(q), p * p / 2 + abs(np.cos(q))
    kinetic, potential = (p * p).sum(1) / 2, 1 / np.sqrt((q * q).sum(1))
    return kinetic - potential, kinetic + potential


def leapfrog(force, q, p, dt, steps):
    """With eleven more bits than float64."""
    q, p, h = q.astype(LONG), p.astype(LONG), LONG(dt)
    for _ in range(steps):
        p = p + h / 2 * force(q)
        q = q + h * p
        p = p + h / 2 * force(q)
    return q, p


@pytest.mark.skipif(np.finfo(LONG).nmant < 60, reason="no longer numbers here")
@pytest.mark.parametrize(
    "system, start, force",
    [(pendulum, swings(), lambda q: -np.sin(q)), (kepler, orbits(), pull)],
    ids=["pendulum", "kepler"],
)
@pytest.mark.parametrize("dt", [0.01, 0.05])
def test_the_expected_rounding_is_the_measured_one_to_a_factor_of_a_few(system, start, force, dt):
    steps = 2000
    energy, scale = terms(system.name, *leapfrog(force, start["q"], start["p"], dt, steps))
    for precision in ("float64", "float32", "mixed", "compensated", "lattice"):
        sim = tp.compile(system, dt=dt, precision=precision)
        end = sim.evolve(**start, steps=steps).final
        off, _ = terms(system.name, end.q.astype(LONG), end.p.astype(LONG))
        measured = float(np.sqrt((((off - energy) / scale) ** 2).mean()))
        expected = per_root_step(sim.built.step, precision, dt) * steps**0.5
        assert expected / 6 < measured < 6 * expected, (precision, measured, expected)


def test_explain_says_it_for_every_precision():
    names = ("float64", "float32", "mixed", "compensated", "lattice")
    found = {
        p: tp.compile(kepler, dt=0.01, precision=p).explain("full").to_dict()["plan"]["rounding"]
        for p in names
    }
    size = {p: float(row["verdict"].split()[0]) for p, row in found.items()}
    assert (
        size["float64"] < 1e-6 * size["mixed"]
        and size["mixed"] == size["compensated"] < 0.02 * size["float32"]
    )
    assert (
        size["float64"] < 1e-2 * size["lattice"] < 1e-6 * size["mixed"]
        and "2**-44" in found["lattice"]["because"]
    )
    assert "2**-48" in found["compensated"]["because"] and "2**-24 times dt" in found["mixed"]["because"]
