"""Do gradients have the bits of the CPU on a GPU?  Members in lanes, a chain and pairs in loops, and the lattice."""

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


@pytest.mark.parametrize("precision", ["float64", "lattice"])
@pytest.mark.parametrize("past", ["reverse", "store"])
def test_pendulums_have_the_gradients_of_the_cpu(gpu, precision, past):
    q = np.linspace(-2.0, 2.0, 1000)
    given = dict(q=q, p=np.zeros(1000), steps=50, past=past)
    sims = [
        tp.compile(pendulum, dt=0.05, method="leapfrog", precision=precision, backend=b)
        for b in ("llvm", "cuda")
    ]
    here, there = (sim.grad(lambda out: out.final.q**2, **given, per_member=True) for sim in sims)
    assert all(np.array_equal(here[n], there[n]) for n in ("q", "p", "k"))


def test_gravity_has_the_gradients_of_the_cpu(gpu):
    rng = np.random.default_rng(0)
    given = dict(
        q=rng.normal(size=(256, 3)), p=rng.normal(size=(256, 3)) / 256, m=np.full(256, 1 / 256), steps=10
    )
    sims = [tp.compile(bodies, dt=1e-3, method="leapfrog", backend=b) for b in ("llvm", "cuda")]
    here, there = (sim.grad(lambda out: (out.final.q**2).sum(), **given) for sim in sims)
    assert all(np.array_equal(here[n], there[n]) for n in ("q", "p", "m"))
