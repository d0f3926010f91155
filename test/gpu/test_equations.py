"""Are equations of whole arrays solved on a real GPU with the bits of this processor?"""

from __future__ import annotations

import numpy as np
import pytest

from bits_there import same
from test_solve_arrays import SYSTEMS, brusselator, heat, start


@pytest.mark.parametrize("method", ["implicit_midpoint", "gauss4"])
@pytest.mark.parametrize("name", SYSTEMS)
def test_implicit_steps_of_chains_and_fields(gpu, name, method):
    same(SYSTEMS[name], dict(dt=0.1, method=method), start(name, 0.4), steps=gpu.steps(4))


def test_stiff_steps_of_a_chain(gpu):
    u = 1 + np.linspace(0, 1, 200) ** 2
    same(heat, dict(method="rodas", sizes={"n": 200}, tolerance=1e-3), dict(u=u), until=5.0, frames=3)


def test_stiff_steps_of_a_field(gpu):
    u = 1 + np.linspace(0, 1, 40) ** 2
    begin = dict(u=np.outer(u, u), v=3 + np.zeros((40, 40)))
    same(brusselator, dict(method="rodas", sizes={"n": 40}, tolerance=1e-3), begin, until=0.1, frames=3)
