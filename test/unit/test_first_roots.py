"""The first root of a polynomial is approached from below, and never passed."""

from __future__ import annotations

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.ir import UOp
from tinyphysics.ir.value import evaluate
from tinyphysics.synth.methods.first_roots import approach


def first(c):
    """The first root above zero at which a polynomial falls, by the eigenvalues of its companion matrix; inf if none."""
    roots = np.polynomial.polynomial.polyroots(c)
    real = sorted(r.real for r in roots if abs(r.imag) < 1e-7 and r.real > 0)
    return next((r for r in real), np.inf)


@pytest.mark.parametrize("degree", (3, 4, 6))
def test_the_first_root_of_random_polynomials_is_never_passed(degree):
    names = [UOp.var(f"c{k}") for k in range(degree + 1)]
    time, sure = approach(names, UOp.const(0.0) > 1.0, UOp.const(10.0), UOp.const(1e-14))
    rng, found = np.random.default_rng(degree), 0
    for _ in range(40):
        # roots on both sides, some of them close to each other, some complex
        pair = rng.uniform(0.1, 12) + 1e-3 * rng.choice([1, 1j]) * np.array([1, -1])
        roots = [*pair, *rng.uniform(-3, 12, degree - 2)]
        c = np.polynomial.polynomial.polyfromroots(roots).real * rng.choice([1.0, 1e3, 1e-3])
        c = c if c[0] > 0 else -c
        exact, gone = first(c), 0.0
        for _ in range(200):
            moved = np.polynomial.Polynomial(c)(np.polynomial.Polynomial([gone, 1.0])).coef
            t, there = evaluate([time, sure], dict(zip((f"c{k}" for k in range(degree + 1)), moved.tolist())))
            if there:
                break
            gone += t
            assert gone < exact + 1e-6
        reached = gone + t
        if exact < 9.9:
            assert reached == pytest.approx(exact, abs=1e-5)  # the roots of a pair lose half of the digits
            found += 1
        else:
            assert reached > 9.9
    assert found > 20


@tp.hamiltonian
def free(q: tp.Vec[2], p: tp.Vec[2]):
    return p @ p / 2


@tp.hamiltonian
def falling(q: tp.Vec[2], p: tp.Vec[2]):
    return p @ p / 2 + q[1]


SQUARE = tp.wall(lambda q: 1 - q[0] ** 4 - q[1] ** 4, name="square")


@pytest.mark.slow("a round of degree four is compiled, and explained")
def test_a_wall_of_degree_four_is_met_where_its_roots_are_however_long_a_step_is():
    sim = tp.compile(free + SQUARE, dt=100.0)
    assert "of degree 4 in time, is approached from below" in str(sim.explain("full"))
    assert sim.certificate.symplectic and "billiard" in sim.certificate.symplectic.because
    met = sim.evolve(q=[0.1, 0.2], p=[1.0, 0.37], steps=2).events("square")
    q, p, now = np.array([0.1, 0.2]), np.array([1.0, 0.37]), 0.0
    for k in range(10):
        lines = [np.polynomial.Polynomial([a, b]) for a, b in zip(q, p)]
        g = 1 - lines[0] ** 4 - lines[1] ** 4
        t = min(r.real for r in g.roots() if abs(r.imag) < 1e-9 and r.real > 1e-7)
        t -= g(t) / g.deriv()(t)
        q, now = q + t * p, now + t
        n = -4 * q**3
        p = p - 2 * (p @ n) / (n @ n) * n
        assert met.t[k] == pytest.approx(now, abs=1e-12)
    assert len(met) > 100 and np.abs(1 - (met.q**4).sum(axis=1)).max() < 1e-13
    assert np.abs((met.p**2).sum(axis=1) / (1 + 0.37**2) - 1).max() < 1e-13


@pytest.mark.slow("four backends compile a round of degree four")
def test_such_walls_have_the_same_bits_on_every_backend_and_in_pieces():
    sims = [tp.compile(free + SQUARE, dt=1.0, backend=b) for b in ("llvm", "c", "numpy", "python")]
    start = dict(q=[0.1, 0.2], p=[1.0, 0.37])
    outs = [sim.evolve(**start, steps=6) for sim in sims]
    assert len({out.hash for out in outs}) == 1
    assert sims[0].evolve(resume=sims[0].evolve(**start, steps=2), steps=4).hash == outs[0].hash


def test_a_slab_that_is_thinner_than_any_step_is_met():
    g = lambda q: (q[0] - 1) ** 4 + 1e-3 * (q[0] - 1) ** 2 - 1e-15  # noqa: E731
    met = tp.compile(free + tp.wall(g, name="slab"), dt=10.0).evolve(q=[0.0, 0.0], p=[1.0, 0.0], steps=1)
    assert met.events("slab").t == pytest.approx([1 - 1e-6], abs=1e-9) and met.final.q[0] < 0


@pytest.mark.parametrize("dt", (10.0, 1.0))
def test_every_root_of_a_cubic_is_an_event_once(dt):
    out = tp.compile(free + tp.event(lambda q: q[0] ** 3 - q[0], name="zero"), dt=dt).evolve(
        q=[-3.0, 0.0], p=[1.0, 0.0], until=10.0
    )
    assert out.events("zero").t == pytest.approx([2.0, 3.0, 4.0], abs=1e-13)


def test_a_body_comes_to_rest_on_a_floor_of_degree_four():
    floor = tp.wall(lambda q: q[1] - 0.1 * q[0] ** 4, 0.5, name="floor")
    out = tp.compile(falling + floor, dt=0.05).evolve(q=[0.3, 1.0], p=[0.0, 0.0], until=12.0)
    met = out.events("floor")
    assert met.rested.sum() == 1 and out.stopped is None and out.drift("energy") < 1e-6
    assert np.abs(out.q[-50:, 1] - 0.1 * out.q[-50:, 0] ** 4).max() < 1e-12
