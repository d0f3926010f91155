"""Derivatives through walls and events are those of the run, to rounding, forward and back, on every backend."""

import warnings

import numpy as np
import pytest

import tinyphysics as tp


@tp.hamiltonian
def rough(q, p, a: float = 0.3, h: float = 0.0):
    return p**2 / 2 + q + a * tp.sin(2 * q)


@tp.hamiltonian
def trough(q: tp.Vec[2], p: tp.Vec[2], g: float = 9.81):
    return p @ p / 2 + g * q[1] + 0.5 * q[0] ** 2


@tp.hamiltonian
def free(q: tp.Vec[2], p: tp.Vec[2]):
    return p @ p / 2


@tp.ode
def van_der_pol(x, y, m: float = 1.0):
    return y, m * (1 - x * x) * y - x


def level(e=0.8):
    return tp.wall(lambda q, h: q - h, e, name="floor")


START = dict(q=1.0, p=0.0, h=0.1)


def passed(sim, loss, **call):
    found = sim.gradcheck(loss, **call)
    assert found.in_double_double and found.differences < 1e-12 and found.duality < 1e-12
    return found


@pytest.mark.requirement("S2-51")
@pytest.mark.parametrize("method", ("leapfrog", "rk4"))
def test_gradients_through_bounces_are_those_of_the_run(method):
    sim = tp.compile(rough + level(), dt=0.05, method=method)
    passed(sim, lambda out: out.final.q**2 + 2 * out.final.p, **START, until=4.0)
    assert len(sim.evolve(**START, until=4.0).events("floor")) >= 2


def test_frames_between_steps_have_gradients_too():
    sim = tp.compile(rough + level(), dt=0.05, method="leapfrog")
    passed(sim, lambda out: (out.q**2 + out.p).sum(), **START, save_at=[0.5, 2.013, 3.5], until=4.0011)


def test_a_body_that_comes_to_rest_has_a_gradient_and_no_graze():
    sim = tp.compile(trough + tp.wall(lambda q: q[1], 0.5, name="floor"), dt=0.02, method="leapfrog")
    start = dict(q=[1.0, 1.0], p=[0.3, 0.0], until=2.0)
    assert sim.evolve(**start).events("floor").rested.any()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        passed(sim, lambda out: out.final.q[0] + out.final.p[0], **start)


def test_a_body_that_slides_along_a_curved_wall_has_a_gradient():
    @tp.hamiltonian
    def heavy(q: tp.Vec[2], p: tp.Vec[2], g: float = 1.0):
        return p @ p / 2 + g * q[1]

    bowl = tp.wall(lambda q: 1 - q @ q, restitution=0.0, name="bowl")
    sim = tp.compile(heavy + bowl, dt=0.05, method="leapfrog")
    start = dict(q=[0.5, -0.5], p=[0.1, 0.0], until=2.0)
    assert sim.evolve(**start).events("bowl").rested.any()
    passed(sim, lambda out: out.final.q[0] + out.final.p[1], **start)


def test_events_of_energies_and_of_equations_have_gradients():
    kick = tp.event(
        lambda q, p: q[0] - 0.2 * p[0], lambda p, q, g: {"p": 0.5 * p + 0.01 * g * q}, name="kick"
    )
    sim = tp.compile(trough + kick, dt=0.05, method="leapfrog")
    passed(sim, lambda out: out.final.q[0] + 2 * out.final.p[1], q=[1.0, 1.0], p=[0.3, 0.0], until=2.0)
    push = tp.event(lambda x: x - 0.5, lambda y, m: {"y": 0.9 * y - 0.1 * m}, name="push")
    passed(tp.compile(van_der_pol + push, dt=0.1, method="rk4"), lambda o: o.final.x, x=1.0, y=0.0, until=4.0)


def test_flight_that_is_exact_and_a_tie_of_two_walls():
    sim = tp.compile(free + tp.wall(lambda q: 1 - q[0] ** 2 / 4 - q[1] ** 2, name="ellipse"), dt=1.0)
    passed(sim, lambda o: o.final.q[0] + 2 * o.final.p[1], q=[0.3, 0.2], p=[1.0, 0.5], until=5.0)
    corner = tp.compile(free + tp.wall(lambda q: [q[0], q[1]], name="corner"), dt=2.0)
    with pytest.warns(tp.PhysicsWarning, match="were met at one time"):
        grads = corner.grad(lambda o: o.final.q @ np.array([1.0, 2.0]), q=[1.0, 1.0], p=[-1.0, -1.0], steps=1)
    assert grads["q"] == pytest.approx([-1.0, -2.0]) and grads["p"] == pytest.approx([-2.0, -4.0])


def test_the_gradient_by_dt_is_that_of_the_same_number_of_steps():
    def end(dt):
        out = tp.compile(rough + level(), dt=dt, method="leapfrog").evolve(**START, steps=60)
        return out.final.q

    sim = tp.compile(rough + level(), dt=0.05, method="leapfrog")
    found = sim.grad(lambda o: o.final.q, **START, steps=60, wrt=["dt"])["dt"]
    assert found == pytest.approx((end(0.05 + 1e-7) - end(0.05 - 1e-7)) / 2e-7, rel=1e-6)


def test_members_have_the_gradients_that_they_have_alone_and_shared_parameters_their_sum():
    sim, q = tp.compile(rough + level(), dt=0.05, method="leapfrog"), np.linspace(0.4, 2.0, 3)

    def loss(out):
        return out.final.q * out.final.p

    values, grads = sim.value_and_grad(loss, q=q, p=np.zeros(3), h=0.1, until=3.0)
    alone = [sim.value_and_grad(loss, q=x, p=0.0, h=0.1, until=3.0) for x in q]
    assert list(values) == [v for v, _ in alone] and list(grads["q"]) == [g["q"] for _, g in alone]
    assert grads["h"] == pytest.approx(sum(g["h"] for _, g in alone), rel=1e-14)


def test_a_long_past_is_done_again_from_few_states_with_the_same_bits():
    sim = tp.compile(rough + level(), dt=0.05, method="leapfrog")
    every = sim.grad(lambda o: o.final.q, **START, steps=200)
    few = sim.grad(lambda o: o.final.q, **START, steps=200, snapshots=20)
    assert dict(every) == dict(few) and few.report.snapshots < every.report.snapshots


@pytest.mark.parametrize("precision", ("float64", "float32", pytest.param("dd", marks=pytest.mark.all)))
def test_gradients_have_the_same_bits_on_every_backend(precision):
    found = set()
    for backend in ("llvm", "c", "python", *(("numpy",) if precision == "float64" else ())):
        sim = tp.compile(rough + level(), dt=0.1, method="leapfrog", backend=backend, precision=precision)
        grads = sim.grad(lambda o: o.final.q, **START, until=2.0)
        found.add(tuple(float(grads[n]) for n in ("q", "p", "a", "h")))
    assert len(found) == 1 and np.isfinite(list(found)).all()


@pytest.mark.all
def test_gradients_of_bounces_on_a_gpu_have_the_bits_of_the_processor(fake_cuda):
    found = []
    for backend in ("llvm", "cuda"):
        sim = tp.compile(rough + level(), dt=0.1, method="leapfrog", backend=backend)
        grads = sim.grad(lambda o: o.final.q, q=[1.0, 0.5], p=[0.0, 0.1], h=0.1, until=1.6)
        found.append((*grads["q"], *grads["p"], grads["a"], grads["h"]))
    assert found[0] == found[1]


def test_a_graze_is_reported_with_derivatives_and_gradcheck_says_that_the_number_of_bounces_changes():
    sim = tp.compile(free + tp.wall(lambda q: q @ q - 1.0, name="disc"), dt=0.5)
    start = dict(q=[-3.0, 1.0], p=[1.0, 0.0], until=6.0)
    with pytest.warns(tp.PhysicsWarning, match="`disc` was grazed"):
        sim.grad(lambda o: o.final.q[1], **start)
    with pytest.warns(tp.PhysicsWarning, match="`disc` was grazed"):
        sim.jvp({"q": [0.0, 1.0]}, **start)
    with pytest.warns(tp.PhysicsWarning):
        found = sim.gradcheck(lambda o: o.final.q[1], **start)
    assert "meet `disc` 0 to 1 times" in str(found) and found.differences is None


def test_a_loss_fits_the_height_of_a_floor():
    sim = tp.compile(rough + level(), dt=0.05, method="leapfrog")
    want, h = float(sim.evolve(q=1.0, p=0.0, h=0.1, until=3.0).final.q), 0.12
    for _ in range(4):  # Newton
        value, grads = sim.value_and_grad(lambda o: o.final.q, q=1.0, p=0.0, h=h, until=3.0)
        h -= (value - want) / grads["h"]
    assert h == pytest.approx(0.1, abs=1e-10)


@tp.hamiltonian
def mass(q: tp.Vec[2], p: tp.Vec[2], g: float = 1.0):
    return p @ p / 2 + g * q[1]


@tp.constraint
def rod(q: tp.Vec[2], length: float = 1.0):
    return q @ q - length**2


@pytest.mark.slow("rounds of a rod, their tangents and cotangents are compiled")
def test_gradients_of_a_rod_go_through_its_bounces():
    sim = tp.compile(mass + rod + tp.wall(lambda q: q[0] + 0.5, name="side"), dt=0.05)
    start = dict(p=[0.0, 0.0], steps=70)
    assert len(sim.evolve(q=[1.0, 0.0], **start).events("side")) == 1
    assert (
        sim.gradcheck(lambda o: o.final.q[0] ** 2 + o.final.p[1], q=[1.0, 0.0], **start).differences < 1e-13
    )
    # along the rod's circle
    ends = [sim.evolve(q=[np.cos(e), np.sin(e)], **start).final for e in (1e-6, -1e-6)]
    moved = sim.jvp({"q": [0.0, 1.0]}, q=[1.0, 0.0], **start)
    for name in ("q", "p"):
        assert moved[name] == pytest.approx((ends[0][name] - ends[1][name]) / 2e-6, abs=1e-8)


@pytest.mark.slow("rounds of an implicit step, their tangents and cotangents are compiled")
def test_gradients_of_an_implicit_step_go_through_bounces():
    @tp.hamiltonian
    def mixed(q, p):
        return p**2 / 2 * (1 + 0.1 * tp.cos(q)) + q

    section = tp.event(lambda q: q - 0.5, then=lambda p: {"p": 1.1 * p}, direction=-1, name="section")
    sim = tp.compile(mixed + section, dt=0.05, method="implicit_midpoint")
    check = sim.gradcheck(lambda o: o.final.q + o.final.p**2, q=1.0, p=0.0, steps=30)
    assert check.duality < 1e-13 and check.differences < 1e-8


@pytest.mark.parametrize(
    "call, says",
    [
        (lambda s: s.grad(lambda o: o.final.q, **START, steps=9, past="reverse"), "cannot be taken back"),
        (lambda s: s.hvp(lambda o: o.final.q, {"q": 1.0}, **START, steps=9), "have none yet"),
        (lambda s: s.grad(lambda o: o.final.q, **START, steps=1 << 20), "at most"),
        (lambda s: s.grad(lambda o: o.final.q, **START, steps=9, checkpoint="x"), "is not kept yet"),
    ],
)
def test_what_is_not_known_is_refused(call, says):
    with pytest.raises(tp.PlanError, match=says):
        call(tp.compile(rough + level(), dt=0.05, method="leapfrog"))
