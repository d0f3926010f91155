"""Do gradients have the bits of the CPU on a GPU?  Members in lanes, chains, pairs and neighbours in loops, every precision.

How long they take there is `python bench/gradients.py gpu`.
"""

from __future__ import annotations

import numpy as np
import pytest

import tinyphysics as tp


@tp.hamiltonian
def pendulum(q, p, k: float = 1.0):
    return p**2 / 2 - k * tp.cos(q)


@tp.hamiltonian
def bodies(q: tp.Array["n", 3], p: tp.Array["n", 3], m: tp.Array["n"]):
    d = q[:, None] - q[None, :]
    return (p**2 / m[:, None]).sum() / 2 - tp.pair_sum(
        m[:, None] * m[None, :] / tp.sqrt((d**2).sum(-1) + 0.01)
    )


@tp.hamiltonian
def chain(q: tp.Vec[64], p: tp.Vec[64], alpha: float = 0.25):
    x = tp.concatenate([np.zeros(1), q, np.zeros(1)])
    d = x[1:] - x[:-1]
    return p @ p / 2 + (d**2 / 2 + alpha * d**3 / 3).sum()


@tp.hamiltonian
def argon(q: tp.Array["n", 3], p: tp.Array["n", 3], box: float = 8.0, eps: float = 1.0):
    s6 = 1 / tp.pair_distance2(q, box=box, cutoff=2.5) ** 3
    return (p**2).sum() / 2 + tp.pair_sum(4 * eps * (s6 * s6 - s6))


PRECISIONS = ("float64", "float32", "mixed", "compensated", "dd", "lattice")


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("past", ["reverse", "store"])
def test_pendulums_have_the_gradients_of_the_cpu(gpu, precision, past):
    members = gpu.members(1000)
    q = np.linspace(-2.0, 2.0, members)
    given = dict(q=q, p=np.zeros(members), steps=gpu.steps(50), past=past)
    sims = [
        tp.compile(pendulum, dt=0.05, method="leapfrog", precision=precision, backend=b)
        for b in ("llvm", "cuda")
    ]
    here, there = (sim.grad(lambda out: out.final.q**2, **given, per_member=True) for sim in sims)
    assert all(np.array_equal(here[n], there[n]) for n in ("q", "p", "k"))


def test_gravity_has_the_gradients_of_the_cpu(gpu):
    rng = np.random.default_rng(0)
    given = dict(
        q=rng.normal(size=(256, 3)),
        p=rng.normal(size=(256, 3)) / 256,
        m=np.full(256, 1 / 256),
        steps=gpu.steps(10),
    )
    sims = [tp.compile(bodies, dt=1e-3, method="leapfrog", backend=b) for b in ("llvm", "cuda")]
    here, there = (sim.grad(lambda out: (out.final.q**2).sum(), **given) for sim in sims)
    assert all(np.array_equal(here[n], there[n]) for n in ("q", "p", "m"))


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_chain_has_the_gradients_of_the_cpu(gpu, precision):
    given = dict(q=2 * np.sin(np.pi * np.arange(1, 65) / 65), p=np.zeros(64), steps=gpu.steps(200))
    sims = [
        tp.compile(chain, dt=0.05, method="leapfrog", precision=precision, backend=b)
        for b in ("llvm", "cuda")
    ]
    here, there = (
        sim.grad(lambda out: out.final.q @ out.final.q, **given, wrt=["q", "p", "alpha", "dt"])
        for sim in sims
    )
    assert all(np.array_equal(here[n], there[n]) for n in here)


@pytest.mark.parametrize("precision", ["float64", "mixed", "lattice"])
def test_neighbours_have_the_gradients_of_the_cpu(gpu, precision):
    side = 7 if gpu.real else 3
    grid = np.stack(np.meshgrid(*[np.arange(side)] * 3, indexing="ij"), -1).reshape(-1, 3)
    rng = np.random.default_rng(0)
    q = (grid + rng.uniform(-0.07, 0.07, grid.shape)) * (8.0 / side)
    given = dict(q=q, p=1.5 * rng.normal(size=q.shape), steps=gpu.steps(200))
    sims = [
        tp.compile(argon, dt=0.004, method="leapfrog", precision=precision, backend=b)
        for b in ("llvm", "cuda")
    ]
    here, there = (
        sim.grad(lambda out: (out.final.q**2).sum(), **given, wrt=["q", "p", "eps", "box"]) for sim in sims
    )
    assert all(np.array_equal(here[n], there[n]) for n in here)


def test_chaotic_pendulums_keep_the_exponents_of_the_cpu(gpu):
    """Cotangents that outgrow float32, scaled on the way."""
    given = dict(q=[3.1, 3.14159], p=[0.0, 0.01], steps=gpu.steps(3000))
    found = []
    for backend in ("llvm", "cuda"):
        sim = tp.compile(pendulum, dt=0.05, method="leapfrog", precision="float32", backend=backend)
        found.append(
            sim.grad(lambda out: out.final.q**2, **given, wrt=["q", "p"], past="checkpoint", snapshots=60)
        )
    for name in ("q", "p"):
        assert all(np.array_equal(a, b) for a, b in zip(found[0].words(name), found[1].words(name)))
