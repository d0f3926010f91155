"""Are runs on a real GPU watched like those of this processor: the same bits, the same stops?"""

from __future__ import annotations

import numpy as np
import pytest

import tinyphysics as tp

HERE = ("cuda", "llvm")
LOOK = (
    40  # launches of one look at most: some nests for each charge; graphs of a run are launches of many steps
)


@tp.hamiltonian
def kepler(q: tp.Vec[2], p: tp.Vec[2], mu: float = 1.0):
    return p @ p / 2 - mu / tp.norm(q)


@tp.hamiltonian
def gravity(q: tp.Array["n", 3], p: tp.Array["n", 3], eps: float = 0.05):
    return (p * p).sum() / 2 - tp.pair_sum(1 / tp.sqrt(tp.pair_distance2(q) + eps**2))


def cluster(n: int) -> dict[str, np.ndarray]:
    r = np.random.default_rng(1)
    return {"q": r.normal(size=(n, 3)), "p": r.normal(size=(n, 3))}


def orbits(n: int) -> dict[str, np.ndarray]:
    p = np.linspace(0.6, 1.2, n)
    return {"q": np.tile([1.0, 0.0], (n, 1)), "p": np.stack([0 * p, p], -1)}


@pytest.mark.parametrize(
    "system, start", [(kepler, orbits(3000)), (gravity, cluster(5)), (gravity, cluster(200))]
)
def test_checks_change_no_bit_there(gpu, system, start):
    if not gpu.real and len(start["q"]) == 200:
        pytest.skip("takes long behind the fake driver")
    options = {"dt": 1e-3, "method": "leapfrog", "backend": "cuda"}
    on, off = (tp.compile(system, **options, **more) for more in ({"check_every": 32}, {"checks": "off"}))
    a, b = (sim.evolve(**start, steps=100, frames=3) for sim in (on, off))
    assert a.stopped is None and a.hash == b.hash and a.metrics["checks"]["alarms"] == 0


@pytest.mark.filterwarnings("ignore::tinyphysics.PhysicsWarning")
@pytest.mark.parametrize("count", [5, 200])
def test_a_fault_is_stopped_at_the_same_step_there(gpu, count):
    if not gpu.real and count == 200:
        pytest.skip("takes long behind the fake driver")
    fault = {"flip": tp.fault("p", (3, 0), relative=1e-3, since=50)}
    found = []
    for backend in HERE:
        sim = tp.compile(gravity, dt=1e-3, method="leapfrog", backend=backend, check_every=32)
        out = sim.evolve(**cluster(count), steps=80, frames=3, acts=fault)
        found.append((out.stopped.cause, out.stopped.step, out.stopped.where, out.hash))
    assert found[0] == found[1] and found[0][:3] == ("integrity", 50, ("p", 9))


@pytest.mark.filterwarnings("ignore::tinyphysics.PhysicsWarning")
def test_a_member_that_passes_a_pole_stops_there(gpu):
    start = orbits(64)
    start["p"][7] = 0.0
    stops = []
    for backend in HERE:
        sim = tp.compile(kepler, dt=0.01, method="leapfrog", backend=backend, check_every=40)
        stops.append([(s.cause, s.member, s.step) for s in sim.evolve(**start, steps=150).stops])
    assert stops[0] == stops[1] == [("singularity", 7, 111)]


@pytest.mark.parametrize("system, start, dt", [(kepler, orbits(65_536), 0.02), (gravity, cluster(200), 1e-3)])
def test_looks_are_few_beside_the_launches_of_a_run_there(gpu, system, start, dt):
    """A count, no time: blocks end at looks, and a look is some launches of its own (bench/checks.py measures seconds)."""
    if not gpu.real:
        start = {name: v[:5] for name, v in start.items()}
    options = {"dt": dt, "method": "leapfrog", "backend": "cuda"}
    on, off = (tp.compile(system, **options, **more) for more in ({}, {"checks": "off"}))
    steps = 65_536 if gpu.real else 64
    a, b = (sim.evolve(**start, steps=steps, frames=2) for sim in (on, off))
    assert a.hash == b.hash and a.stopped is None
    every = a.metrics.get("checks", {}).get("every", steps)
    looks = steps // every + 1
    assert a.metrics["launches"] <= b.metrics["launches"] + LOOK * looks
    assert every >= 64 or not gpu.real


@pytest.mark.filterwarnings("ignore::tinyphysics.PhysicsWarning")
def test_a_coarse_step_is_warned_about_there(gpu):
    sim = tp.compile(kepler, dt=0.02, method="leapfrog", backend="cuda")
    with pytest.warns(tp.PhysicsWarning, match="At step 72, your Shadow Energy deviates by 1.1e-3"):
        sim.evolve(q=[1.0, 0.0], p=[0.0, 0.6], steps=100)
