"""Gradients of runs that keep something of their first state: a time of their own, projections; and of Kepler orbits."""

from __future__ import annotations

import numpy as np
import pytest

import tinyphysics as tp
from here import HERE
from tinyphysics.physics.particles import gravity

pytestmark = pytest.mark.requirement("S2-40")
START = dict(q=[1.0, 0.1], p=[0.1, 0.9], mu=1.1)


@tp.hamiltonian
def kepler(q: tp.Vec[2], p: tp.Vec[2], mu: float = 1.0):
    return p @ p / 2 - mu / tp.norm(q)


def cubes(out):
    return (out.final.q**3).sum() + out.final.p[0]


def central(f, x, h=1e-5):
    return (8 * (f(x + h) - f(x - h)) - f(x + 2 * h) + f(x - 2 * h)) / (12 * h)


# --- a time of its own --------------------------------------------------------------------------------
def test_at_a_time_a_run_in_its_own_time_has_the_derivatives_of_the_orbit():
    """The last step is as long as its time asks for: what moves the state moves that length, too."""
    sim = tp.compile(kepler, dt=0.01, time="logarithmic", order=8)
    value, grads = sim.value_and_grad(lambda out: out.final.q[0], q=[1.0, 0.0], p=[0.0, 1.2], until=20.0)
    assert grads["p"][1] == pytest.approx(34.529257594, rel=1e-9)
    assert grads["mu"] == pytest.approx(-24.551709399, rel=1e-9)


@pytest.mark.parametrize(
    "time, length",
    [
        ("logarithmic", dict(until=3.3)),
        ("logarithmic", dict(steps=40)),
        pytest.param("sundman", dict(until=3.3), marks=pytest.mark.all),
        pytest.param(lambda q: tp.norm(q) ** 1.5, dict(until=3.3), marks=pytest.mark.all),
        pytest.param(lambda q: tp.norm(q) ** 1.5, dict(steps=40), marks=pytest.mark.all),
    ],
    ids=str,
)
def test_steps_of_another_time_have_the_gradient_of_their_differences(time, length):
    found = tp.compile(kepler, dt=0.05, time=time).gradcheck(cubes, **START, **length)
    assert found.passed and found.differences < (1e-10 if found.in_double_double else 1e-9)


def test_times_of_frames_and_observables_have_gradients_where_time_is_a_state():
    sim = tp.compile(kepler, dt=0.05, time="logarithmic")
    seen = dict(observe={"r": lambda q, t: (q @ q) * (1 + t)}, steps=40, save_every=20)

    def loss(out):
        return (out.t**2).sum() + (out.q[:, 0] * out.t).sum() + out["r"][-1]

    def after(mu):
        out = sim.evolve(**{**START, "mu": mu}, **seen)
        return float((out.t**2).sum() + (out.q[:, 0] * out.t).sum() + out["r"][-1])

    value, grads = sim.value_and_grad(loss, **START, **seen)
    assert value == pytest.approx(after(1.1), rel=1e-14)
    assert grads["mu"] == pytest.approx(central(after, 1.1), rel=1e-8)
    pair = {k: np.array([v, v]) for k, v in START.items() if k != "mu"}
    both = sim.grad(loss, **pair, mu=1.1, **seen)
    assert np.array_equal(both["q"][0], grads["q"]) and both["mu"] == pytest.approx(
        2 * grads["mu"], rel=1e-15
    )


def test_a_run_that_is_given_its_momentum_of_time_is_refused():
    sim = tp.compile(kepler, dt=0.05, time="logarithmic")
    with pytest.raises(tp.PlanError, match="p_t"):
        sim.grad(cubes, **START, t=0.0, p_t=0.6, steps=3)
    with pytest.raises(tp.PlanError, match="that of the momentum of time= is not there yet"):
        sim.hvp(cubes, {"q": [1.0, 0.0]}, **START, steps=3)


@pytest.mark.parametrize(
    "options, asked",
    [
        (dict(time="logarithmic"), dict(until=1.3)),
        (dict(time="logarithmic"), dict(steps=20)),
        (dict(project="energy"), dict(steps=20)),
        ({}, dict(steps=20, acts={"kick": tp.act(every=6, map=lambda p, q: 1.05 * p + 0.1 * q**2)})),
    ],
    ids=["time until", "time", "project", "acts"],
)
def test_tangents_of_what_has_cotangents_alone_are_rows_of_the_jacobian(options, asked):
    sim, h = tp.compile(kepler, dt=0.05, **options), 1e-4
    way = dict(q=np.array([0.3, -0.2]), mu=0.7)

    def end(s):
        moved = {n: np.asarray(v) + s * np.asarray(way.get(n, 0.0)) for n, v in START.items()}
        return sim.evolve(**moved, **asked).final.q

    moved = sim.jvp(way, **START, **asked)
    assert list(moved) == ["q", "p"] and np.allclose(moved["q"], central(end, 0.0, h), rtol=1e-8)
    two = {n: np.array([v, v]) for n, v in START.items() if n != "mu"}
    if "acts" in asked:  # its tangents are carried from act to act, for every member
        assert np.array_equal(sim.jvp(way, **two, mu=1.1, **asked)["q"], [moved["q"], moved["q"]])
        return
    with pytest.raises(tp.PlanError, match="one run|for an ensemble"):
        sim.jvp(way, **two, mu=1.1, **asked)


# --- projections --------------------------------------------------------------------------------------
INVARIANTS = {"energy": "energy", "L": lambda q, p: q[0] * p[1] - q[1] * p[0]}


@pytest.mark.parametrize("method", ["leapfrog", pytest.param("rk4", marks=pytest.mark.all)])
def test_a_projected_step_pulls_on_what_its_first_state_holds_it_at(method):
    sim = tp.compile(kepler, dt=0.05, method=method, project=INVARIANTS)
    found = sim.gradcheck(cubes, **START, steps=30)
    assert found.passed and found.differences < 1e-9
    # energy and L stay: so their gradients are those of the first state, whatever was computed in between
    grads = sim.grad(
        lambda out: out.final.q[0] * out.final.p[1] - out.final.q[1] * out.final.p[0], **START, steps=30
    )
    assert grads["q"] == pytest.approx([0.9, -0.1], abs=1e-11) and grads["mu"] == pytest.approx(
        0.0, abs=1e-11
    )


def test_a_projected_gradient_has_the_same_bits_on_every_backend():
    found = []
    for backend in HERE:
        sim = tp.compile(kepler, dt=0.05, project="energy", backend=backend)
        grads = sim.grad(cubes, **START, steps=5)
        found.append([*grads["q"], *grads["p"], grads["mu"]])
    assert all(x == found[0] for x in found)


# --- Kepler orbits ------------------------------------------------------------------------------------
SUN = dict(
    q=[[0.0, 0, 0], [1.0, 0, 0.1], [0, 2.2, 0]],
    p=[[0.0, 0, 0], [0, 1e-3, 0], [-1.3e-3, 0, 1e-4]],
    m=[1.0, 1e-3, 2e-3],
)


def crossed(out):
    return (out.final.q**2).sum() + (out.final.p[0] * out.final.q[1]).sum()


@pytest.mark.parametrize(
    "dt", [0.1, pytest.param(9.0, marks=pytest.mark.all)], ids=["a step", "a step of an orbit and more"]
)
def test_steps_on_kepler_orbits_have_gradients_by_masses_and_dt(dt):
    sim = tp.compile(gravity, dt=dt, method="wisdom_holman")
    found = sim.gradcheck(crossed, **SUN, steps=5)
    assert found.passed and found.duality < 1e-11 and found.differences < 1e-8
    grads = sim.grad(crossed, **SUN, steps=5, wrt=["m", "dt"])
    other = sim.grad(crossed, **SUN, steps=5, wrt=["m", "dt"], past="reverse")
    assert other["m"] == pytest.approx(grads["m"], rel=1e-9)

    def after(h):
        out = sim.evolve(**SUN, dt=h, steps=5).final
        return (out.q**2).sum() + (out.p[0] * out.q[1]).sum()

    assert grads["dt"] == pytest.approx(central(after, dt, 1e-4), rel=1e-7)


@pytest.mark.all
def test_a_gradient_on_kepler_orbits_has_the_same_bits_on_every_backend():
    found = []
    for backend in HERE:
        grads = tp.compile(gravity, dt=0.1, method="wisdom_holman", backend=backend).grad(
            crossed, **SUN, steps=2
        )
        found.append(np.concatenate([np.ravel(grads[n]) for n in grads]))
    assert all(np.array_equal(x, found[0]) for x in found)


def test_a_second_derivative_on_kepler_orbits_is_refused():
    sim = tp.compile(gravity, dt=0.1, method="wisdom_holman")
    with pytest.raises(tp.PlanError, match="Kepler orbits have no second derivatives"):
        sim.hvp(crossed, {"q": np.ones((3, 3))}, **SUN, steps=2)


def test_a_layer_and_rows_of_a_jacobian_have_the_users_states_alone():
    torch = pytest.importorskip("torch")
    sim = tp.compile(kepler, dt=0.05, time="logarithmic")
    q, p = (torch.tensor(START[n], dtype=torch.float64, requires_grad=True) for n in ("q", "p"))
    end = tp.torch_module(sim, until=3.3, mu=1.1)(q, p)
    assert len(end) == 2
    end[0].sum().backward()
    want = sim.grad(lambda out: out.final.q.sum(), **START, until=3.3)
    assert np.array_equal(q.grad.numpy(), want["q"]) and np.array_equal(p.grad.numpy(), want["p"])
    rows = sim.jacobian(**START, steps=4)
    assert list(rows) == ["q", "p"] and rows["q"]["p"].shape == (2, 2)
    with pytest.raises(tp.PlanError, match="no step of `kepler` ends at one"):
        tp.fit(sim, data={"q": np.zeros((2, 2))}, t=[1.0, 2.0], sigma=1.0, wrt=["mu"], start=START)


def test_a_horizon_is_in_the_time_of_the_system():
    """With dt/ds = 1/2 all along, as much growth in as many steps is twice as fast in t."""

    @tp.hamiltonian
    def saddle(q, p, half: float = 0.25):
        return p**2 / 2 - q**2 / 2

    start = dict(q=1e-8, p=1e-8, steps=400)
    plain = tp.compile(saddle, dt=0.05, method="implicit_midpoint").grad(lambda out: out.final.q, **start)
    half = tp.compile(
        saddle, dt=0.1, time=lambda q, half: tp.sqrt(half + 1e-12 * q**2), method="implicit_midpoint"
    )
    found = half.grad(lambda out: out.final.q, **start)
    assert plain.horizon.exponent == pytest.approx(1.0, abs=0.05)
    assert found.horizon.exponent == pytest.approx(plain.horizon.exponent, rel=1e-6)
