"""Gradients go through acts: between two of them as through a run, through each by the derivative of its map."""

import numpy as np
import pytest

import tinyphysics as tp

pytestmark = pytest.mark.requirement("S2-40")


@tp.hamiltonian
def kepler(q: tp.Vec[2], p: tp.Vec[2], mu: float = 1.0):
    return p @ p / 2 - mu / tp.norm(q)


@tp.hamiltonian
def driven(q: tp.Vec[2], p: tp.Vec[2], t, a: float = 0.3):
    return p @ p / 2 + q @ q / 2 + a * q[0] * q[1] ** 2 * tp.cos(1.3 * t)


def drag(p, q, mu, strength=0.02):
    return p * (1 - strength * mu / tp.norm(q))


START = dict(q=[1.0, 0.1], p=[0.1, 0.9])
BURNS = {"burn": tp.act(every=7, map=lambda p: 1.05 * p), "drag": tp.act(every=5, map=drag)}
SWINGS = {"swing": tp.act(every=6, map=lambda p, q, t: (p * (1 + 0.1 * tp.sin(t)), 1.01 * q))}


def cubes(out):
    return (out.final.q**3).sum() + out.final.p[0]


def central(f, x, h=1e-3):
    return (8 * (f(x + h) - f(x - h)) - f(x + 2 * h) + f(x - 2 * h)) / (12 * h)


@pytest.mark.parametrize("method", ["leapfrog", "rk4"])
def test_acts_are_pulled_back_by_their_maps(method):
    sim = tp.compile(kepler, dt=0.05, method=method)
    found = sim.gradcheck(cubes, **START, mu=1.1, steps=35, acts=BURNS)  # the last step has both
    assert found.passed and found.differences < 1e-9 and max(found.pasts.values()) < 1e-13
    value, grads = sim.value_and_grad(cubes, **START, steps=35, acts=BURNS)
    assert value == pytest.approx(cubes(sim.evolve(**START, steps=35, acts=BURNS)), rel=1e-15)
    assert grads.report.forward_steps >= 70
    assert list(grads) == ["q", "p", "mu"]  # and mu, which an act reads too


@pytest.mark.parametrize(
    "asked",
    [dict(steps=36, save_every=3), dict(until=2.01, save_at=[0.3, 0.31, 1.234])],
    ids=["steps", "times"],
)
def test_frames_observables_and_times_beside_acts(asked):
    sim = tp.compile(driven, dt=0.05, method="leapfrog")
    seen = {} if "until" in asked else dict(observe={"r": lambda q, p, t: q @ p + t})

    def loss(out):
        return (out.q**2).sum() + (out.t * out.q[:, 0]).sum() + ((out["r"] ** 2).sum() if seen else 0.0)

    def after(a):
        return float(loss(sim.evolve(**START, a=a, acts=SWINGS, **asked, **seen)))

    value, grads = sim.value_and_grad(loss, **START, acts=SWINGS, **asked, **seen)
    assert value == pytest.approx(after(0.3), rel=1e-15)
    assert grads["a"] == pytest.approx(central(after, 0.3), rel=1e-9)


def test_noise_goes_on_from_act_to_act():
    """Random numbers are counted by the steps of the run, in a bath and in a map that adds them."""
    sim = tp.compile(driven, dt=0.05, method="leapfrog")
    noisy = {"noise": tp.act(every=10, map=lambda p: 0.9 * p + 0.1 * tp.random.normal((2,)))}
    assert sim.gradcheck(cubes, **START, steps=25, acts=noisy, seed=4).differences < 1e-13
    bath = tp.compile(kepler, dt=0.05, temperature=0.01, friction=0.5)
    assert bath.gradcheck(cubes, **START, steps=25, acts=BURNS, seed=3).differences < 1e-10


def test_dt_moves_the_time_of_an_act():
    sim = tp.compile(kepler, dt=0.05, method="leapfrog")
    grads = sim.grad(cubes, **START, steps=40, acts=SWINGS, wrt=["dt"])
    assert grads["dt"] == pytest.approx(
        central(lambda dt: cubes(sim.evolve(**START, dt=dt, steps=40, acts=SWINGS)), 0.05, 1e-4), rel=1e-8
    )


@pytest.mark.parametrize("method", ["leapfrog", "rk4"])
def test_dt_moves_the_times_of_a_driven_system_through_acts(method):
    """Each stretch between two acts begins at a time that moves with dt."""
    sim = tp.compile(driven, dt=0.05, method=method)

    def loss(out):
        return cubes(out) + (out.t * out.q[:, 0]).sum()

    found = sim.gradcheck(loss, **START, t0=2.0, steps=40, save_every=5, acts=SWINGS, wrt=["q", "a", "dt"])
    assert found.passed and found.in_double_double and found.differences < 1e-12


FORCED = {**SWINGS, "brake": tp.act(every=4, map=lambda p, q, a, s=0.1: p * (1 - s * a * tp.norm(q)))}
WAY = {"q": np.array([0.1, 0.2]), "p": np.array([-0.3, 0.1]), "a": np.array(0.4)}


def test_acts_move_tangents_and_have_second_derivatives():
    """An act that only reads a state, and a parameter, moves a direction by theirs."""
    sim, start = tp.compile(driven, dt=0.05, method="leapfrog"), {**START, "a": np.array(0.3)}
    asked = dict(steps=24, acts=FORCED)
    found = sim.gradcheck(cubes, **start, **asked)
    assert found.passed and found.duality < 1e-14
    frames, end = sim.jvp(WAY, **start, **asked, save_every=8), sim.jvp(WAY, **start, **asked)
    assert frames["q"].shape == (4, 2) and np.array_equal(frames["q"][-1], end["q"])

    def along(h):
        moved = {name: np.asarray(v) + h * WAY[name] for name, v in start.items()}
        grads = sim.grad(cubes, **moved, **asked)
        return np.concatenate([np.ravel(grads[name]) for name in start])

    second = sim.hvp(cubes, WAY, **start, **asked)
    assert np.concatenate([np.ravel(second[name]) for name in start]) == pytest.approx(
        central(along, 0.0), abs=1e-10
    )


def test_members_have_the_gradients_that_they_have_alone():
    sim = tp.compile(kepler, dt=0.05, method="leapfrog")
    q, p = np.array([[1.0, 0.1], [1.2, 0.0]]), np.array([[0.1, 0.9], [0.0, 0.8]])
    both = sim.grad(cubes, q=q, p=p, steps=20, acts=BURNS)
    alone = [sim.grad(cubes, q=x, p=y, steps=20, acts=BURNS) for x, y in zip(q, p)]
    assert np.array_equal(both["q"], [g["q"] for g in alone])
    assert both["mu"] == pytest.approx(sum(g["mu"] for g in alone), rel=1e-15)


def test_cotangents_that_outgrow_float64_keep_their_exponent():
    grow = {"grow": tp.act(every=2, map=lambda q, p: (1e30 * q, 1e-30 * p))}

    @tp.hamiltonian
    def free(q, p, m: float = 1.0):
        return p**2 / (2 * m)

    sim = tp.compile(free, dt=0.1, method="leapfrog", propagator="loop")
    grads = sim.grad(lambda out: out.final.q, q=0.0, p=0.0, steps=30, acts=grow)
    mantissa, exponent = grads.words("q")
    assert np.log10(mantissa) + exponent * np.log10(2) == pytest.approx(450, abs=1e-9)


@pytest.mark.parametrize(
    "acts, error, says",
    [
        (lambda p: tp.floor(p), tp.TraceError, r"`floor` jumps \(test_gradients_acts.py:"),
        (lambda p: p * tp.random.normal((2,)), tp.PlanError, "multiplies what it reads by random numbers"),
    ],
)
def test_a_map_without_a_derivative_is_named(acts, error, says):
    sim = tp.compile(kepler, dt=0.05, method="leapfrog")
    with pytest.raises(error, match=says):
        sim.grad(cubes, **START, steps=20, acts={"a": tp.act(every=5, map=acts)})


def test_what_acts_are_not_pulled_back_through_is_said(tmp_path):
    sim = tp.compile(kepler, dt=0.05, method="leapfrog")
    with pytest.raises(tp.PlanError, match="back through acts is not kept"):
        sim.grad(cubes, **START, steps=20, acts=BURNS, checkpoint=tmp_path / "way.npz")
    with pytest.raises(tp.PlanError, match='past="reverse"'):
        tp.compile(kepler, dt=0.05, method="rk4").grad(cubes, **START, steps=20, acts=BURNS, past="reverse")
    with pytest.raises(tp.PlanError, match="acts change the state"):
        tp.compile(kepler, dt=0.05, project="energy").grad(cubes, **START, steps=20, acts=BURNS)
