"""How long may a step of fast and slow parts be?  What is said of it is what runs do."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.runtime.measure.autopsy import Examined
from tinyphysics.trajectory import Stop


@tp.hamiltonian
def fast(q: tp.Vec[2], p: tp.Vec[2], w: float = 1.0):
    return p @ p / 2 + w * w * q[0] ** 2 / 2


@tp.potential
def slow(q: tp.Vec[2], k: float = 400.0):
    return k * q @ q / 2


def compiled(dt: float, inner: int, method: str = "respa"):
    return tp.compile(tp.fast(fast) + tp.slow(slow), dt=dt, method=method, inner=inner)


def limit(dt: float, inner: int, method: str = "respa", **params: float) -> float:
    """In units of the fastest frequency; infinite where a step is bounded."""
    sim = compiled(dt, inner, method)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out = sim.evolve(q=[1.0, 0.5], p=[0.0, 0.0], steps=1, **params)
    return Examined(out.origin.run, Stop("", 0, 0.0, None)).first.limit


def test_a_slow_part_is_as_stable_as_leapfrog_however_many_fast_kicks_there_are():
    assert [limit(0.15, n, w=0.0) for n in (2, 8, 40)] == pytest.approx([2.0] * 3, rel=1e-4)
    assert limit(0.0999, 8, w=0.0) == np.inf


def test_a_fast_part_alone_may_have_as_many_times_its_limit():
    assert limit(0.1, 8, w=200.0, k=0.0) == pytest.approx(16.0, rel=1e-4)


@pytest.mark.parametrize("method", ["respa", "respa4"])
@pytest.mark.parametrize("w, k", [(30.0, 100.0), (50.0, 900.0), (12.0, 400.0)])
def test_steps_below_it_are_bounded_and_steps_above_it_grow(method, w, k):
    omega = np.sqrt(w * w + k)
    dt = limit(0.5, 3, method, w=w, k=k) / omega
    assert 0.01 < dt < 0.5

    def largest(h: float) -> float:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            out = tp.compile(
                tp.fast(fast) + tp.slow(slow), dt=h, method=method, inner=3, checks="off"
            ).evolve(q=[1.0, 0.5], p=[0.0, 0.0], steps=4000, frames=100, w=w, k=k)
        return float(np.abs(out.q).max()) if out.stopped is None else np.inf

    assert largest(0.98 * dt) < 20.0 < 1e3 < largest(1.02 * dt)


def test_a_step_beyond_it_is_named_before_and_after_a_run():
    sim = compiled(0.11, 40)
    out = sim.evolve(q=[0.0, 1.0], p=[0.0, 0.0], steps=2000)
    report = str(out.stopped.report())
    assert (
        "dt above the limit" in report
        and "dt*omega is 2.2 at step 0, and the method is stable below 2" in report
    )
    assert "dt above the limit" in str(sim.lint(q=[0.0, 1.0], p=[0.0, 0.0]))
    with pytest.warns(tp.PhysicsWarning, match="dt=0.11 is beyond the stability limit of 40 fast kicks"):
        sim.evolve(q=[0.0, 1.0], p=[0.0, 0.0], steps=60)
