"""Hamiltonian Monte Carlo against closed forms: acceptance, invariance of the law, and the same bits everywhere."""

from __future__ import annotations

import numpy as np
import pytest

import tinyphysics as tp

QUARTIC = 0.675978  # <q²> of exp(-q⁴/4)


def quartic(q, k=1.0):
    return k * q**4 / 4


@tp.potential
def springs(q: tp.Vec[10]):
    return (q * q).sum() / 2


def acceptance_of(steps, dt):
    """Of an oscillator with ω = 1: (4/π) arctan μ^(-1/2), μ an eigenvalue of MᵀM, the matrix of a stretch."""
    kick, drift = np.array([[1, 0], [-dt / 2, 1]]), np.array([[1, dt], [0, 1]])
    m = np.linalg.matrix_power(kick @ drift @ kick, steps)
    return 4 / np.pi * np.arctan(np.linalg.eigvalsh(m.T @ m).max() ** -0.5)


@pytest.mark.requirement("S2-23")
def test_the_acceptance_of_an_oscillator_is_that_of_its_matrix():
    assert acceptance_of(3, 1.2) == pytest.approx(0.90630, abs=1e-5)
    d = tp.sample(lambda q: q**2 / 2, q=np.zeros(256), draws=4000, dt=1.2, steps=3, tune=False)
    assert d.acceptance == pytest.approx(0.90630, abs=1e-3)
    q2 = d.mean(lambda q: q**2)
    assert abs(q2.mean - 1) < 4 * q2.error < 0.02 and q2.converged


def exact(n, seed=0):
    rng = np.random.default_rng(seed)
    return (4 * rng.gamma(0.25, 1, n)) ** 0.25 * rng.choice([-1, 1], n)


@pytest.mark.parametrize(
    "how",
    [
        dict(dt=1.2, steps=3),
        dict(dt=1.2, steps=1, refresh=0.3),
        dict(dt=0.8, steps=2, method="yoshida4"),
        dict(dt=1.2, steps=2, method="leapfrog_dkd", precision="float32"),
        dict(dt=1.2, steps=2, method="implicit_midpoint"),
    ],
)
def test_the_law_stays_as_it_is_however_long_the_step(how):
    """Draws begun in the exact law still have it: many proposals are refused, none is biased."""
    n = 60_000
    begin = exact(n)
    d = tp.sample(quartic, q=begin, draws=6, tune=False, seed=3, **how)
    assert 0.4 < d.acceptance < 0.95
    change = (d.q[-1].astype(float) ** 2).mean() - (begin**2).mean()
    assert abs(change) < 4.5 * np.sqrt(2 * 0.543 / n)  # Var q² = 1 - <q²>²


def test_masses_temperature_and_parameters_are_the_users():
    @tp.hamiltonian
    def pair(x: tp.Vec[2], p: tp.Vec[2], m: tp.Vec[2], k=2.0):
        return (p * p / (2 * m)).sum() + k * (x * x).sum() / 2

    d = tp.sample(
        pair,
        x=np.zeros((200, 2)),
        m=[1.0, 9.0],
        k=5.0,
        temperature=2.0,
        draws=500,
        dt=0.4,
        steps=4,
        tune=False,
    )
    x2 = (d.x[50:] ** 2).mean((0, 1))
    assert x2 == pytest.approx([0.4, 0.4], rel=0.03)


def test_long_stretches_go_in_groups_and_have_the_same_law():
    d = tp.sample(quartic, q=np.zeros(64), draws=150, dt=0.01, steps=211, tune=False)  # a prime number
    assert d.trajectory.frames["group"].max() == 0.0 and d.trajectory.steps[1] > 1
    assert d.acceptance > 0.999
    assert d.mean(lambda q: q**2).mean == pytest.approx(QUARTIC, abs=0.05)


def test_a_stretch_that_is_lost_is_refused():
    """Numbers that overflow on the way are no end of the chain."""
    d = tp.sample(lambda q: q**4 / 4, q=np.linspace(0, 9, 32), draws=50, dt=3.0, steps=40, tune=False)
    assert np.isfinite(d.q).all() and d.acceptance < 0.5


@pytest.mark.parametrize("backend", ["llvm", pytest.param("c", marks=pytest.mark.all), "numpy"])
def test_draws_have_the_bits_of_the_virtual_machine(backend):
    how = dict(q=np.array([0.0, 1.0, 2.0]), draws=30, dt=0.9, steps=3, seed=5, tune=False)
    want = tp.sample(quartic, **how, backend="python")
    assert np.array_equal(tp.sample(quartic, **how, backend=backend).q, want.q)


def test_four_bodies_in_loops_have_the_bits_of_the_virtual_machine():
    """Axes of four are components: a sum over pairs of them was a loop over the wrong places."""

    @tp.potential
    def gas(q: tp.Array["n", 3]):
        return tp.pair_sum((1 / tp.pair_distance2(q)) ** 6)

    begin = 1.1 * np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    got = [
        tp.sample(gas, q=begin, draws=3, dt=0.01, steps=2, tune=False, backend=b).trajectory.frames
        for b in ("python", "llvm")
    ]
    assert np.array_equal(got[0]["energy_before"], got[1]["energy_before"])


def test_more_draws_go_on_bit_for_bit():
    how = dict(q=np.zeros(3), dt=0.9, steps=3, seed=5, refresh=0.5)
    whole = tp.sample(quartic, draws=40, **how)
    part = tp.sample(quartic, draws=15, **how)
    assert np.array_equal(part.more(25).q, whole.q[15:])


@pytest.mark.parametrize("dt", [0.01, 1.0, 50.0])
def test_tuning_finds_a_step_from_anywhere(dt):
    d = tp.sample(springs, q=np.zeros((8, 10)), draws=400, dt=dt, steps=5)
    assert 0.7 < d.acceptance < 0.9 and d.tuned > 0
    assert d.rhat < 1.05 and "R-hat" in str(d)
    assert tp.sample(springs, q=np.zeros((8, 10)), draws=400, dt=dt, steps=5).dt == d.dt


def test_chains_in_two_wells_say_that_they_differ():
    d = tp.sample(
        lambda q: 20 * (q**2 - 1) ** 2, q=np.array([-1.0, 1.0] * 4), draws=200, dt=0.1, steps=5, tune=False
    )
    assert d.rhat > 2 and d.trouble and "not converged" in str(d)


def test_draws_that_alternate_are_worth_more_than_their_number():
    d = tp.sample(lambda q: q**2 / 2, q=np.zeros(64), draws=1000, dt=1.2, steps=3, tune=False)
    assert d.effective > 1.3 * d.q.size and not d.mean("q").trouble


@pytest.mark.parametrize(
    "wrong, said",
    [
        (dict(method="rk4"), "volume-preserving"),
        (dict(method="symplectic_euler"), "not shown to be reversible"),
        (dict(temperature=0), "above zero"),
        (dict(refresh=0), "refresh=0"),
        (dict(precision="lattice"), "lattice"),
        (dict(k=1.0, z=2), "`z`"),
        (dict(steps=0), "steps"),
    ],
)
def test_wrong_calls_say_what_to_write(wrong, said):
    with pytest.raises(tp.TinyPhysicsError, match=said):
        tp.sample(quartic, **(dict(q=0.0, draws=10, dt=0.1, steps=2) | wrong))


def test_energies_without_a_law_are_refused():
    @tp.hamiltonian
    def driven(q, p, t):
        return p**2 / 2 + q**2 * tp.cos(t)

    @tp.hamiltonian
    def relativistic(q, p):
        return tp.sqrt(1 + p**2) + q**2

    for wrong in (driven, relativistic, 3.0):
        with pytest.raises(tp.TinyPhysicsError):
            tp.sample(wrong, q=0.0, draws=10, dt=0.1, steps=2)
