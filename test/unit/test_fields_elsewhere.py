"""Cycles, layers and advection on a GPU (by the fake driver) and in ensembles: the bits of one run on this processor."""

import numpy as np
import pytest

import tinyphysics as tp


@tp.map
def solved(u: tp.Vec[9], k: tp.Vec[9]):
    return tp.poisson(u, coefficient=k, shift=0.2, boundary="dirichlet"), k


@tp.hamiltonian
def string(u: tp.Vec[24], v: tp.Vec[24]):
    return (v @ v + (np.diff(u) ** 2).sum()) / 2


@tp.map
def carried(u: tp.Vec[12]):
    return tp.advect(u, 1.3, 1.0)


RUNS = {
    "cycles": (solved, {}, dict(u=np.arange(9.0), k=np.exp(np.arange(9.0) % 3))),
    "layers": (string, dict(dt=0.5, absorb=5), dict(u=np.arange(24.0) % 5, v=np.zeros(24))),
    "advection": (carried, {}, dict(u=np.arange(12.0))),
}


@pytest.mark.parametrize("name", RUNS)
def test_a_gpu_has_the_bits_of_this_processor(fake_cuda, name):
    system, options, start = RUNS[name]
    ends = {tp.compile(system, backend=b, **options).evolve(**start, steps=2).hash for b in ("cuda", "llvm")}
    assert len(ends) == 1


def test_each_member_of_an_ensemble_is_solved_as_it_would_be_alone():
    rng = np.random.default_rng(0)
    u, k = rng.normal(size=(3, 9)), np.exp(rng.normal(size=(3, 9)))
    sim = tp.compile(solved)
    alone = sim.evolve(u=u[1], k=k[1], steps=1).final.u
    assert np.array_equal(sim.evolve(u=u, k=k, steps=1).final.u[1], alone)
