"""Is a gradient by a velocity that of the run that began with it?  Momenta follow from velocities, and so do derivatives."""

from __future__ import annotations

import numpy as np
import pytest

import tinyphysics as tp

pytestmark = pytest.mark.requirement("S2-40")


@tp.lagrangian
def bead(q: tp.Vec[2], v: tp.Vec[2], m: float = 1.2):
    return m * v @ v / 2 * (1 + 0.1 * q[0] ** 2) - q @ q / 2 - q[0] ** 2 * q[1]


@tp.lagrangian
def plain(q: tp.Vec[2], v: tp.Vec[2], m: float = 1.2):
    return m * v @ v / 2 - q @ q / 2 - q[0] ** 2 * q[1]


@tp.lagrangian
def driven(q, v, t, m: float = 1.2, a: float = 0.3):
    return m * v**2 / 2 * (1 + a * tp.sin(t) * q**2) + a * t * v * q - q**4 / 4


def loss(out):
    return (out.final.q * out.final.q * out.final.p).sum()


PLANE = dict(q=[0.4, 0.2], v=[0.3, -0.1])
CASES = {
    "implicit": (bead, dict(dt=0.05), dict(**PLANE, steps=10)),
    "split": (plain, dict(dt=0.05, method="leapfrog"), dict(**PLANE, steps=10)),
    "dd": (plain, dict(dt=0.05, precision="dd"), dict(**PLANE, steps=10)),
    "own steps": (bead, dict(method="dop853"), dict(**PLANE, until=0.7)),
}


@pytest.mark.parametrize("name", CASES)
def test_gradients_tangents_and_differences_agree(name):
    system, options, asked = CASES[name]
    sim = tp.compile(system, **options)
    found = sim.gradcheck(loss, **asked)
    assert found.passed and found.duality < 1e-13 and found.differences < 1e-8
    grads, h = sim.grad(loss, **asked), 1e-5
    assert list(grads) == ["q", "v", "m"]
    ends = [loss(sim.evolve(**asked | {"v": np.array(PLANE["v"]) + s * h})) for s in (1, -1)]
    assert grads["v"].sum() == pytest.approx((ends[0] - ends[1]) / (2 * h), rel=1e-7)
    ends = [loss(sim.evolve(**asked, m=1.2 + s * h)) for s in (1, -1)]  # with the velocity held
    assert grads["m"] == pytest.approx((ends[0] - ends[1]) / (2 * h), rel=1e-7)
    way = {"q": [1.0, 0.5], "v": [-0.3, 0.2], "m": 0.7}
    rows, moved = sim.jacobian(**asked), sim.jvp(way, **asked)
    for state, by in rows.items():
        assert moved[state] == pytest.approx(
            by["q"] @ way["q"] + by["v"] @ way["v"] + by["m"] * 0.7, rel=1e-12
        )


def test_a_velocity_that_depends_on_time_and_members_with_frames():
    sim = tp.compile(driven, dt=0.05)
    found = sim.gradcheck(lambda out: out.final.q**2 * out.final.p, q=0.4, v=0.3, t0=0.2, steps=10)
    assert found.passed and found.duality < 1e-13
    sim, rng = tp.compile(bead, dt=0.05), np.random.default_rng(1)
    q, v = 0.3 * rng.normal(size=(2, 3, 2))

    def seen(out):
        return (out.q**2).sum() + (out.p[0] * out.p[1]).sum()  # the first frame, too

    asked, h = dict(steps=10, save_every=5), 1e-5
    every = sim.grad(seen, q=q, v=v, **asked)
    alone = [sim.grad(seen, q=a, v=b, **asked) for a, b in zip(q, v)]
    assert np.array_equal(every["v"], [g["v"] for g in alone])
    assert every["m"] == pytest.approx(sum(g["m"] for g in alone), rel=1e-14)
    ends = [seen(sim.evolve(q=q[0], v=v[0] + s * h, **asked)) for s in (1, -1)]
    assert alone[0]["v"].sum() == pytest.approx((ends[0] - ends[1]) / (2 * h), rel=1e-7)


def test_a_momentum_is_not_named_beside_velocities():
    sim, asked = tp.compile(bead, dt=0.05), dict(**PLANE, steps=3)
    with pytest.raises(tp.InputError, match="this run begins with `v`"):
        sim.grad(loss, **asked, wrt=["p"])
    with pytest.raises(tp.InputError, match="this run begins with `v`"):
        sim.jvp({"p": [1.0, 0.0]}, **asked)
    with pytest.raises(tp.PlanError, match="second derivatives by these"):
        sim.hvp(loss, {"q": [1.0, 0.0]}, **asked)
