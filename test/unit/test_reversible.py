"""Does a run come back from its end alone?  States bit by bit and exact gradients, for methods that -dt does not invert."""

from __future__ import annotations

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.compat import ReversibleSymplecticIntegrator, evolve_adjoint

pytestmark = pytest.mark.requirement("S2-13", "C-21")


def henon_heiles(q, p):
    return (p @ p + q @ q) / 2 + q[0] ** 2 * q[1] - q[1] ** 3 / 3


START = (
    np.array([0.0, -0.016]),
    np.array([np.sqrt(0.25 - 0.016**2 - 2 * 0.016**3 / 3), 0.0]),
)  # E = 1/8: chaotic


@pytest.mark.parametrize("method", ["leapfrog", "symplectic_euler", "yoshida4"])
def test_states_come_back_to_the_last_bit_and_gradients_are_those_of_the_stored_run(method):
    run = ReversibleSymplecticIntegrator(henon_heiles, dt=0.1, q_shape=(2,), method=method)
    steps = 3000  # in floats nothing would be left of the past
    first = run(*START, steps=0)
    q, p = run(*START, steps=steps)
    w = np.array([1.0, -0.5]), np.array([0.25, 2.0])
    q0, p0, by_q, by_p = evolve_adjoint(henon_heiles, q, p, steps, 0.1, *w, method=method)
    assert np.array_equal(q0, first[0]) and np.array_equal(p0, first[1])
    want = run.sim.vjp(dict(q=w[0], p=w[1]), q=START[0], p=START[1], steps=steps, past="store")
    assert np.array_equal(by_q, want["q"]) and np.array_equal(by_p, want["p"])


def test_a_negative_dt_is_refused_with_the_reason():
    with pytest.raises(tp.PlanError, match="symmetric methods only"):
        evolve_adjoint(henon_heiles, *START, 10, -0.1, *START)
    with pytest.raises(tp.InputError, match="has shape"):
        evolve_adjoint(henon_heiles, *START, 10, 0.1, 1.0, 1.0)


def test_tensors_have_gradients():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    run = ReversibleSymplecticIntegrator(henon_heiles, dt=0.1, q_shape=(2,))
    q, p = (torch.tensor(v, requires_grad=True) for v in START)
    end = run(q, p, steps=200)
    end[0].sum().backward()
    *_, by_q, by_p = run.evolve_adjoint(*(v.detach().numpy() for v in end), 200, np.ones(2), np.zeros(2))
    assert np.array_equal(q.grad, by_q) and np.array_equal(p.grad, by_p)
