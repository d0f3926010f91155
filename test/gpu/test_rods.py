"""Do rods hold on a real GPU with the bits of this processor?"""

from __future__ import annotations

import numpy as np
import pytest

import tinyphysics as tp
from bits_there import same
from test_constraints import BOTH, START, at, chain, level, links, mass, masses, rod, rods


@pytest.mark.parametrize("method", ["rattle", "rattle4"])
def test_pendulums_on_rods(gpu, method):
    n = gpu.members(1000)
    many = dict(q=np.array([at(a)[0] for a in np.linspace(0.1, 3.0, n)]), p=np.zeros((n, 2)))
    same(mass + rod, dict(dt=0.01, method=method), many, steps=gpu.steps(200))
    same(mass + rod, dict(dt=0.01, method=method), START, steps=gpu.steps(200))
    same(masses + rods, dict(dt=0.01, method=method), BOTH, steps=gpu.steps(100))


def test_a_chain_in_loops(gpu):
    same(chain + links, dict(dt=0.01, sizes={"n": 20}), level(20), steps=gpu.steps(20))


def test_a_start_off_a_rod_is_refused_on_the_gpu_too(other_library):
    torch = other_library("torch")
    q, p = (
        torch.tensor([[1.0, 0.1]], device="cuda", dtype=torch.float64),
        torch.zeros((1, 2), device="cuda", dtype=torch.float64),
    )
    with pytest.raises(tp.InputError, match="off the constraints"):
        tp.compile(mass + rod, dt=0.01, backend="cuda").evolve(q=q, p=p, steps=1)
