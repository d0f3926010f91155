"""Sums over images on a mesh: the same bits everywhere, forces that are a gradient and add up to zero, goals that are met."""

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.errors import InputError, PlanError
from tinyphysics.ir import UOp, evaluate
from tinyphysics.ir.mesh import spline, weights
from tinyphysics.rules.calculus.jvp import jvp
from tinyphysics.rules.calculus.mesh import half_square, interpolate, spread
from tinyphysics.rules.calculus.vjp import gradient
from tinyphysics.runtime.measure.mesh_forces import Charges, Way, chosen, converged, far_forces, forces, rms
from tinyphysics.runtime.stages.in_numpy import numbers


def rock_salt(n, shake, seed=5):
    g = np.stack(np.meshgrid(*[np.arange(n)] * 3, indexing="ij"), -1).reshape(-1, 3)
    return g + np.random.default_rng(seed).uniform(-shake, shake, g.shape), (-1.0) ** g.sum(1)


@tp.hamiltonian
def salt(q: tp.Array["n", 3], p: tp.Array["n", 3], c: tp.Vec["n"], m: tp.Vec["n"], L: float):
    r2 = tp.pair_distance2(q, box=L)
    return ((p**2).sum(-1) / (2 * m)).sum() + tp.pair_sum(c[:, None] * c[None, :] / np.sqrt(r2))


def run(q, c, L, m=None, **options):
    sim = tp.compile(salt, dt=1e-6, **options)
    mass = np.ones(len(c)) if m is None else m
    out = sim.evolve(q=q, p=0 * q, c=c, m=mass, L=L, steps=1)
    return sim, out, out.final.p / 1e-6


# --- splines, and the operation --------------------------------------------------------------------------------------------
def test_splines_add_up_to_one_and_their_slopes_to_zero():
    u = UOp.var("u")
    for order in (3, 4, 7, 10):
        for x in (0.0, 0.3, 0.999):
            w = evaluate(spline(u, order), {"u": x})
            assert len(w) == order and sum(w) == pytest.approx(1.0, abs=1e-14) and min(w) >= 0.0
            slopes = evaluate(weights(u, order, 1), {"u": x})
            assert sum(slopes) == pytest.approx(0.0, abs=1e-14)
            ahead, behind = (evaluate(spline(u, order), {"u": x + h}) for h in (1e-6, -1e-6))
            assert np.allclose(slopes, (np.array(ahead) - behind) / 2e-6, atol=1e-8)


def test_the_gradient_of_a_mesh_is_its_derivative_in_all_arguments():
    rng = np.random.default_rng(0)
    f, c, g = UOp.var("f", (3, 3)), UOp.var("c", (3,)), UOp.var("g", (5, 4, 6))
    mesh = spread(f, c, 4, (5, 4, 6))
    energy = half_square(mesh, g) + (interpolate(f, mesh * 0.5, 4) * c).sum()
    env = {"f": rng.uniform(-9, 9, (3, 3)), "c": rng.normal(size=3), "g": rng.normal(size=(5, 4, 6))}
    for name, x in (("f", f), ("c", c), ("g", g)):
        (slope,) = numbers(gradient(energy, [x]), env)
        way = rng.normal(size=env[name].shape)
        at = [numbers([energy], env | {name: env[name] + h * way})[0] for h in (1e-5, -1e-5)]
        measured = (at[0] - at[1]) / 2e-5
        assert (slope * way).sum() == pytest.approx(measured, rel=1e-6, abs=1e-6)
        d = UOp.var("d", x.shape)
        (along,) = numbers(jvp([energy], [x], [d]), env | {"d": way})
        assert along == pytest.approx(measured, rel=1e-6, abs=1e-6)


@pytest.mark.requirement("S2-18")
@pytest.mark.slow("a mesh by several backends")
@pytest.mark.parametrize("others", [("c", "numpy"), pytest.param(("python",), marks=pytest.mark.all)])
def test_a_mesh_has_the_same_bits_on_every_backend(others):
    q, c = rock_salt(3, 0.2)
    options = {"long_range": {"alpha": 2.0, "cutoff": 1.4, "grid": (9, 6, 7), "order": 3}}
    hashes = set()
    for backend in ("llvm", *others):
        sim = tp.compile(salt, dt=0.02, backend=backend, **options)
        hashes.add(sim.evolve(q=q, p=0 * q, c=c, m=np.ones(27), L=3.0, steps=1).hash)
    assert len(hashes) == 1


# --- forces ------------------------------------------------------------------------------------------------------------------
@pytest.mark.slow("two compilations")
def test_kernels_have_the_forces_that_numpy_finds_and_they_add_up_to_zero():
    q, c = rock_salt(4, 0.2)
    m = np.random.default_rng(1).uniform(1, 3, 64)
    for anchored in (True, False):
        pinned = {"alpha": 1.9, "cutoff": 1.8, "grid": 12, "order": 5, "anchored": anchored}
        sim, out, found = run(q, c, 4.0, m, long_range=pinned)
        way = Way(1.9, 1.8, (12, 12, 12), 5, 0.9, anchored)
        expected = forces(Charges(q, c, 4.0 * np.eye(3), np.arange(64), m / m.sum()), way)
        assert np.allclose(found, expected, atol=1e-9)
        assert bool(abs(found.sum(0)).max() < 1e-12) is anchored
        assert sim.certificate.symplectic and "on the mesh" in sim.certificate.symplectic.because
        assert "not measured" in sim.certificate.consistent.because
        (loss,) = [x for x in out.losses if "images" in x.what]
        assert loss.amount is None and out.metrics["long_range"]["grid"] == (12, 12, 12)


@pytest.mark.slow("a compilation")
def test_differentiated_waves_add_up_to_zero_and_are_no_gradient():
    q, c = rock_salt(4, 0.2)
    pinned = {"alpha": 1.9, "cutoff": 1.8, "grid": 16, "order": 6}
    s = Charges(q, c, 4.0 * np.eye(3), np.arange(64), np.full(64, 1 / 64))
    right = converged([s], 1e-9)
    sim, out, found = run(q, c, 4.0, long_range=pinned | {"forces": "ik"})
    plain = forces(s, Way(1.9, 1.8, (16, 16, 16), 6, 0.9, False))
    assert abs(found.sum(0)).max() < 1e-12 < abs(plain.sum(0)).max()
    assert rms(found - right) < rms(plain - right)
    assert not sim.certificate.symplectic and sim.certificate.volume_preserving
    with pytest.raises(PlanError, match="cannot be combined with the method"):
        run(q, c, 4.0, long_range=pinned | {"forces": "ik"}, method="implicit_midpoint")


def test_two_charges_far_apart_feel_each_other_and_hardly_themselves():
    """Charges of 1 and -1, 12 cells apart: without its corrections a mesh has a force of each charge on itself."""
    rng = np.random.default_rng(2)
    cell, worst = 32.0 * np.eye(3), {}
    for anchored in (False, True):
        errors = []
        for _ in range(12):
            d = rng.normal(size=3)
            first = rng.uniform(0, 32, 3)
            q = np.array([first, first + 12 * d / np.linalg.norm(d)])
            s = Charges(q, np.array([1.0, -1.0]), cell, np.arange(2), np.full(2, 0.5))
            found = far_forces(s, Way(0.5, 14.0, (32, 32, 32), 6, 1.0, anchored))
            right = far_forces(s, Way(0.5, 14.0, (96, 96, 96), 12, 1.0, False))
            errors.append(rms(found - right) / rms(right))
        worst[anchored] = float(np.sqrt(np.mean(np.square(errors))))
    assert worst[False] > 1e-2 and worst[True] < 5e-5


@pytest.mark.slow("meshes for three goals")
@pytest.mark.parametrize(
    "goal", [1e-3, pytest.param(1e-5, marks=pytest.mark.all), pytest.param(1e-7, marks=pytest.mark.all)]
)
def test_a_goal_for_forces_is_met_and_not_by_far(goal):
    q, c = rock_salt(8, 0.2)
    sim, out, found = run(q, c, 8.0, force_error=goal)
    s = Charges(q, c, 8.0 * np.eye(3), np.arange(512), np.full(512, 1 / 512))
    right = converged([s], 1e-10)
    assert rms(right) == pytest.approx(0.87326131, abs=1e-8)
    assert 0.2 * goal < rms(found - right) / rms(right) < goal
    assert abs(found.sum(0)).max() < 1e-12
    told = out.metrics["long_range"]
    assert told["goal"] == goal and 0.2 * goal < told["force_error"] < goal
    assert "force error" in sim.certificate.consistent.because
    assert any(x.amount == told["force_error"] for x in out.losses)


def test_a_crystal_at_rest_has_a_mesh_too():
    """All forces cancel: a goal is relative to a tenth of those of neighbours there."""
    q, c = rock_salt(4, 0.0)
    s = Charges(q, c, 4.0 * np.eye(3), np.arange(64), np.full(64, 1 / 64))
    found = chosen([s], 1e-3, 0.9, True)
    assert found.size == pytest.approx(0.1) and found.error < 1e-4


@pytest.mark.all
def test_the_errors_of_pinned_meshes_are_those_that_are_known():
    q, c = rock_salt(8, 0.2)
    s = Charges(q, c, 8.0 * np.eye(3), np.arange(512), np.full(512, 1 / 512))
    right = converged([s], 1e-10)
    for pinned, expected in (
        ({"alpha": 1.0, "cutoff": 3.0, "grid": 32, "order": 6, "switch": 1.0}, 1.33e-4),
        ({"alpha": 1.6, "cutoff": 3.9, "grid": 64, "order": 8}, 5.8e-8),
    ):
        _, _, found = run(q, c, 8.0, long_range=pinned | {"anchored": False})
        assert rms(found - right) / rms(right) == pytest.approx(expected, rel=0.01)


def test_what_a_mesh_cannot_do_is_refused():
    q, c = rock_salt(4, 0.2)
    for pinned, match in (
        ({"grid": 2.5}, "a number of nodes"),
        ({"grid": 8, "order": 6}, "twice as many nodes"),
        ({"order": 6}, "without a mesh"),
        ({"grid": 16, "order": 2}, "order from 3 to 12"),
    ):
        with pytest.raises(InputError, match=match):
            run(q, c, 4.0, long_range=pinned)
    with pytest.raises(PlanError, match="forces of this mesh are off by"):
        run(q, c, 4.0, long_range={"alpha": 2.0, "cutoff": 1.9, "grid": 12}, force_error=1e-6)
    with pytest.raises(PlanError, match="pairs of float64"):
        run(q, c, 4.0, long_range={"alpha": 2.0, "cutoff": 1.9, "grid": 12}, precision="dd")


# --- a mesh alone ------------------------------------------------------------------------------------------------------------
@pytest.mark.slow("two compilations")
@pytest.mark.parametrize("order", [4, pytest.param(2, marks=pytest.mark.all)])
def test_a_mesh_alone_says_from_which_distance_on_it_is_right(order):
    rng = np.random.default_rng(3)
    q, c = rng.uniform(0, 12, (40, 3)), rng.normal(size=40)
    sim, out, found = run(q, c, 12.0, long_range={"cutoff": 0, "grid": 12, "order": order})
    s = Charges(q, c, 12.0 * np.eye(3), np.arange(40), np.full(40, 1 / 40))
    expected = far_forces(s, Way(np.inf, 0.0, (12, 12, 12), order, 1.0, True, True))
    assert np.allclose(found, expected, atol=2e-9) and abs(found.sum(0)).max() < 1e-12
    told = out.metrics["long_range"]
    errors = told["by_distance"]
    assert sim.certificate.symplectic and sim.certificate.consistent
    report = " ".join(str(sim.explain("full")).split())
    if order == 2:
        assert "may have a kink" in report and "not right to 1 % within 8 cells" in report
        assert told["right_from"] is None and 0.05 < errors[3.0] < 0.25
    else:
        assert told["right_from"] == 3.0 and errors[3.0] < 0.013 < errors[2.0]
        assert "right to 1 % from 3 cells on" in report
    (loss,) = [x for x in out.losses if "mesh" in x.what]
    assert loss.amount == errors[3.0]


def test_a_mesh_alone_refuses_what_it_cannot_do():
    q, c = rock_salt(2, 0.2)
    for pinned, match in (
        ({"cutoff": 0}, "there is none"),
        ({"cutoff": 0, "grid": 8, "order": 4, "switch": 0.5}, "no near part"),
        ({"cutoff": 2.0, "grid": 8, "order": 2}, "forces of clouds jump|order=2 is not an order"),
    ):
        with pytest.raises(InputError, match=match):
            run(q, c, 2.0, long_range=pinned)
    with pytest.raises(PlanError, match="with a mesh alone"):
        run(q, c, 2.0, long_range={"cutoff": 0, "grid": 8}, force_error=1e-3)

    @tp.hamiltonian
    def soft(q: tp.Array["n", 3], p: tp.Array["n", 3], L: float):
        return (p**2).sum() / 2 + tp.pair_sum(1 / np.sqrt(tp.pair_distance2(q, box=L) + 0.1))

    with pytest.raises(PlanError, match="a mesh alone cannot do"):
        tp.compile(soft, dt=0.01, sizes={"n": 4}, long_range={"cutoff": 0, "grid": 8})


# --- runs --------------------------------------------------------------------------------------------------------------------
def ions():
    q, c = rock_salt(3, 0.1)
    return {"q": q, "p": 0 * q, "c": c, "m": np.ones(27), "L": 3.0}


ALONE = {"cutoff": 0, "grid": 8, "order": 4}
BOTH = {"alpha": 2.0, "cutoff": 1.4, "grid": 10, "order": 5}
WITH_LISTS = pytest.param(BOTH, marks=pytest.mark.all)


@pytest.mark.slow("two compilations")
@pytest.mark.parametrize("pinned", [ALONE, WITH_LISTS])
def test_a_mesh_keeps_its_bits_with_threads_and_from_a_checkpoint_on_and_has_float32(pinned, tmp_path):
    sim = tp.compile(salt, dt=0.01, long_range=pinned)
    whole = sim.evolve(**ions(), steps=8, threads=1)
    assert sim.evolve(**ions(), steps=8, threads=3).hash == whole.hash
    file = tmp_path / "run.checkpoint"
    sim.evolve(**ions(), steps=5, checkpoint=str(file))
    again = tp.compile(salt, dt=0.01, long_range=pinned)
    assert np.array_equal(again.evolve(resume=str(file), steps=3).final.q, whole.final.q)
    assert np.array_equal(sim.evolve(**ions(), steps=8, save_every=2).final.p, whole.final.p)
    short = tp.compile(salt, dt=0.01, long_range=pinned, precision="float32").evolve(**ions(), steps=8)
    assert short.final.q.dtype == np.float32 and np.allclose(short.final.p, whole.final.p, atol=2e-5)


@pytest.mark.all
@pytest.mark.parametrize("pinned", [ALONE, BOTH])
def test_a_run_with_a_mesh_is_differentiated_both_ways(pinned):
    rng = np.random.default_rng(1)
    w, v = rng.normal(size=(2, 27, 3))
    sim = tp.compile(salt, dt=0.01, long_range=pinned)
    _, slopes = sim.value_and_grad(lambda out: (out.final.q * w).sum(), **ions(), steps=5)
    for name in ("q", "c", "m", "L"):
        x = np.asarray(ions()[name], float)
        way, h = rng.normal(size=x.shape), 1e-5
        ends = [sim.evolve(**ions() | {name: x + s * way}, steps=5, frames=2).final.q for s in (h, -h)]
        assert (slopes[name] * way).sum() == pytest.approx(
            (((ends[0] - ends[1]) * w).sum()) / 2 / h, rel=1e-5, abs=1e-8
        )
    pushed = sim.jvp({"q": v}, **ions(), steps=5)["q"]
    assert (pushed * w).sum() == pytest.approx((slopes["q"] * v).sum(), rel=1e-12)


@pytest.mark.slow("two compilations")
def test_the_pressure_is_the_slope_of_the_energy_on_the_mesh_and_a_bath_keeps_it():
    @tp.hamiltonian
    def repelling(q: tp.Array["n", 3], p: tp.Array["n", 3], c: tp.Vec["n"], L: float = 3.0):
        r2 = tp.pair_distance2(q, box=L)
        near = tp.pair_distance2(q, box=L, cutoff=1.2, switch=1.0)
        return (
            (p**2).sum() / 2 + tp.pair_sum(c[:, None] * c[None, :] / np.sqrt(r2)) + tp.pair_sum(0.1 / near**4)
        )

    start = {k: v for k, v in ions().items() if k != "m"}
    sim = tp.compile(repelling, dt=0.01, long_range=BOTH)
    out = sim.evolve(**start, steps=1, observe={"P": tp.physics.pressure(box="L")})
    ends = []
    for s in (1e-4, -1e-4):
        wider = start | {"q": start["q"] * (1 + s), "L": 3.0 * (1 + s)}
        ends.append(float(sim.evolve(**wider, steps=0).energy[0]))
    assert out["P"][0] == pytest.approx(-(ends[0] - ends[1]) / 2e-4 / 81, rel=1e-5)
    pressed = tp.compile(repelling, dt=0.01, long_range=BOTH, temperature=0.01, friction=1.0, pressure=0.1)
    box = pressed.evolve(**start, steps=30, seed=1).L
    assert box[0] == 3.0 and box[-1] != 3.0 and 2.4 < box[-1] < 4.0
