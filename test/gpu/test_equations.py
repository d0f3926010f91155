"""Are equations of whole arrays solved on a real GPU with the bits of this processor?"""

from __future__ import annotations

import numpy as np
import pytest

import test_bands as bands
from bits_there import same
from test_solve_arrays import SYSTEMS, brusselator, heat, start


@pytest.mark.parametrize("method", ["implicit_midpoint", "gauss4"])
@pytest.mark.parametrize("name", SYSTEMS)
def test_implicit_steps_of_chains_and_fields(gpu, name, method):
    same(SYSTEMS[name], dict(dt=0.1, method=method), start(name, 0.4), steps=gpu.steps(4))


def test_stiff_steps_of_a_chain(gpu):
    u = 1 + np.linspace(0, 1, 200) ** 2
    same(heat, dict(method="rodas", sizes={"n": 200}, tolerance=1e-3), dict(u=u), until=5.0, frames=3)


def test_stiff_steps_of_a_line_in_blocks(gpu):
    u, v = bands.ripples(200)
    same(bands.brusselator, dict(method="rodas", sizes={"n": 200}, tolerance=1e-3), dict(u=u, v=v), until=0.1)


def test_stiff_places_are_preconditioned(gpu):
    k = 10.0 ** np.random.default_rng(0).uniform(0, 5, (12, 12))
    same(bands.reacting, dict(method="rodas", tolerance=1e-3), dict(u=1.1 + 0 * k, k=k), until=0.1)


def test_second_neighbours_and_alloys(gpu):
    rng = np.random.default_rng(1)
    q, p = rng.normal(size=(2, bands.N))
    same(bands.second_neighbours, dict(dt=0.5, method="gauss4"), dict(q=q, p=p), steps=gpu.steps(3))
    q, p, m, k = np.exp(0.3 * rng.normal(size=(4, 8, 8)))
    same(bands.alloy, dict(dt=0.5, method="implicit_midpoint"), dict(q=q, p=p, m=m, k=k), steps=gpu.steps(3))


def test_stiff_steps_of_a_field(gpu):
    u = 1 + np.linspace(0, 1, 40) ** 2
    begin = dict(u=np.outer(u, u), v=3 + np.zeros((40, 40)))
    same(brusselator, dict(method="rodas", sizes={"n": 40}, tolerance=1e-3), begin, until=0.1, frames=3)
