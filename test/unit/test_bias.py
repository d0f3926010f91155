"""Hills and springs on collective variables: forces of the spline, free energies in closed form, walkers, books, bits."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tinyphysics as tp


@tp.hamiltonian
def double_well(q, p):
    return p**2 / 2 + 10 * (q**2 - 1) ** 2


def V(s):
    return 10 * (s**2 - 1) ** 2


def hilly(height=0.5, every=100, backend="auto", system=double_well, factor=10, dt=0.02, **how):
    bias = tp.metadynamics(
        lambda q: q, width=0.1, height=height, every=every, grid=(-2, 2, 80), bias_factor=factor
    )
    return tp.compile(system, dt=dt, temperature=1.0, bias=bias, backend=backend, **how)


def rms_below(s, F, top=10.5):
    low = V(s) < top
    d = (F - V(s))[low]
    return np.sqrt(((d - d.mean()) ** 2).mean())


@pytest.mark.requirement("S2-70")
def test_a_barrier_of_ten_is_crossed_in_ten_thousand_steps():
    out = hilly().evolve(q=-1.0, p=0.0, steps=10_000, save_every=10, seed=1)
    assert not out.stops and out.q.min() < -0.8 and out.q.max() > 0.8
    alone = tp.compile(double_well, dt=0.02, temperature=1.0).evolve(
        q=-1.0, p=0.0, steps=10_000, save_every=10
    )
    assert alone.q.max() < 0


@pytest.mark.all("a million steps")
@pytest.mark.requirement("S2-70")
def test_the_free_energy_is_the_potential():
    out = hilly().evolve(q=-1.0, p=0.0, steps=1_000_000, save_every=1000, seed=1)
    s, F, error = out.free_energy()
    assert rms_below(s, F) < 0.2 and 0.01 < error[V(s) < 10.5].mean() < 0.3
    x = np.linspace(-2, 2, 4001)
    w = np.exp(-V(x))
    assert (out.weights * out.q**2).sum() == pytest.approx((w * x**2).sum() / w.sum(), abs=0.02)


@pytest.mark.all("eight walkers of 250,000 steps")
def test_eight_walkers_share_one_bias():
    n = 8
    q = np.where(np.arange(n) % 2, 1.0, -1.0)
    out = hilly(height=0.2).evolve(q=q, p=np.zeros(n), steps=250_000, frames=2, seed=2)
    s, F, _ = out.free_energy()
    assert rms_below(s, F) < 0.15 and out.metrics["metadynamics"]["hills"] == 8 * 2500


def test_hills_are_gaussians_and_later_ones_are_lower():
    """Two hills at one place: the second is lower by exp(-V/((f - 1)kT))."""
    out = hilly(height=0.5, every=1, dt=1e-9).evolve(q=1.0, p=0.0, steps=2, seed=1)
    from tinyphysics.runtime.stages.hills import spline_at

    s = np.linspace(-1.9, 1.9, 101)[:, None]
    want = (0.5 + 0.5 * np.exp(-0.5 / 9)) * np.exp(-0.5 * ((s[:, 0] - 1) / 0.1) ** 2)
    assert spline_at(out.bias, s, ((-2.0, 2.0, 80, False),)) == pytest.approx(want, abs=1e-2)


def test_the_force_is_the_gradient_of_the_spline():
    """Without noise and hills a particle in a bias keeps H + V_b to the order of the step."""
    sim = hilly(every=10**6)
    grid = np.random.default_rng(0).normal(size=83)
    drifts = []
    for dt in (0.004, 0.002):
        one = hilly(every=10**6, dt=dt)
        out = one.evolve(q=-1.0, p=1.0, friction=0.0, until=2.0, bias_grid=grid, save_every=1)
        from tinyphysics.runtime.stages.hills import spline_at

        total = out.energy + spline_at(grid, np.asarray(out.q)[:, None], ((-2.0, 2.0, 80, False),))
        drifts.append(np.abs(total - total[0]).max())
    assert drifts[0] < 0.02 and drifts[0] / drifts[1] > 2.5
    assert sim.system.seen.energy is not sim.system.energy


def test_energies_and_observables_are_those_without_the_bias():
    out = hilly().evolve(
        q=-1.0,
        p=0.0,
        steps=1000,
        save_every=50,
        observe={"V": tp.physics.potential_energy()},
        observe_every=50,
    )
    assert np.allclose(out.energy, out.p**2 / 2 + V(out.q)) and np.allclose(out["V"], V(out.q))


def test_the_work_of_the_bias_is_booked():
    out = hilly(every=20, dt=0.005).evolve(q=-1.0, p=0.0, steps=2000, save_every=37, seed=4)
    change = out.energy - out.energy[0]
    rest = change - out.heat - out.bias_work
    assert np.abs(out.bias_work).max() > 1.0 and np.abs(rest).max() < 0.05
    assert np.allclose(out.shadow_work, rest)


@pytest.mark.parametrize("backend", ["python", "numpy", pytest.param("c", marks=pytest.mark.all)])
def test_walkers_have_the_same_bits_on_every_backend(backend):
    start = dict(q=np.array([-1.0, 1.0, 1.0]), p=np.zeros(3), steps=150, seed=3)
    one, two = (hilly(every=10, backend=b).evolve(**start) for b in ("llvm", backend))
    assert one.hash == two.hash and np.array_equal(one.bias, two.bias)


def test_a_run_in_two_pieces_has_the_bits_of_the_whole(tmp_path):
    sim, start = hilly(every=10), dict(q=np.array([-1.0, 1.0]), p=np.zeros(2), seed=3)
    whole = sim.evolve(**start, steps=300)
    part = sim.evolve(**start, steps=130, checkpoint=tmp_path / "c")
    for resumed in (sim.evolve(resume=part, steps=170), sim.evolve(resume=tmp_path / "c", steps=170)):
        assert resumed.hash == whole.hash and np.array_equal(resumed.bias, whole.bias)
    seen = sim.evolve(**start, steps=300, save_every=7, observe={"q2": lambda q: q**2})
    assert seen.hash == whole.hash


@pytest.mark.parametrize("precision", ["float32", "mixed", "compensated", "dd"])
def test_hills_in_every_precision(precision):
    out = hilly(every=10, precision=precision).evolve(
        q=np.array([-1.0, 1.0]), p=np.zeros(2), steps=100, seed=3
    )
    assert not out.stops and out.metrics["metadynamics"]["hills"] == 20


def test_a_walker_off_its_grid_stops_and_the_others_go_on():
    @tp.hamiltonian
    def free(q, p):
        return p**2 / 2 + 0.0 * q

    out = hilly(system=free, every=10).evolve(
        q=np.array([0.0, 0.0]), p=np.array([30.0, 0.0]), steps=40, friction=0.01
    )
    assert [s.member for s in out.stops] == [0] and np.isfinite(out.final.q[1])


def test_a_periodic_angle_in_two_dimensions():
    @tp.hamiltonian
    def rotor(q: tp.Vec[2], p: tp.Vec[2]):
        return p @ p / 2 + 2 * tp.cos(q[0]) + q[1] ** 2 / 2

    bias = tp.metadynamics(
        [lambda q: q[0], lambda q: q[1]], width=[0.4, 0.5], height=0.3, every=20,
        grid=[(-math.pi, math.pi, 32), (-6, 6, 48)], periodic=[True, False],
    )  # fmt: skip
    sim = tp.compile(rotor, dt=0.1, temperature=1.0, bias=bias)
    out = sim.evolve(q=[0.0, 0.0], p=[9.0, 0.0], steps=4000, frames=40, seed=1)
    assert not out.stops and np.abs(out.q[:, 0]).max() > math.pi  # it went round
    (a, b), F, _ = out.free_energy()
    assert F.shape == (32, 49) and np.isfinite(F[:, 10:39]).all()
    # the valley of cos is at ±π, the same place
    assert F[0, 24] == pytest.approx(F[31, 24], abs=0.6) and F[0, 24] < F[16, 24] - 1.0


def test_windows_of_an_umbrella_have_one_spring_a_member():
    centre = np.linspace(-1.0, 1.0, 5)
    sim = tp.compile(double_well, dt=0.02, temperature=1.0, bias=tp.umbrella(lambda q: q, centre, 400.0))
    out = sim.evolve(q=centre, p=np.zeros(5), steps=4000, save_every=10)
    near = 400.0 * centre - 40 * centre * (centre**2 - 1)
    assert np.allclose(out.q[50:].mean(0), near / 400.0, atol=0.06)
    assert np.allclose(out.bias_work, 200 * (out.q[0] - centre) ** 2 - 200 * (out.q - centre) ** 2)


@pytest.mark.parametrize(
    "wrong, said",
    [
        (lambda: tp.metadynamics(lambda q: q, width=0.05, height=0.5, every=10, grid=(-2, 2, 40)), "two cells"),
        (lambda: tp.metadynamics(lambda q: q, width=0.5, height=0, every=10, grid=(-2, 2, 40)), "height"),
        (lambda: tp.metadynamics(lambda q: q, width=0.5, height=1, every=10, grid=(2, -2, 40)), "grid from"),
        (lambda: tp.metadynamics(lambda q: q, width=0.5, height=1, every=10, grid=(-2, 2, 40), bias_factor=1), "bias_factor"),
        (lambda: tp.metadynamics("q", width=0.5, height=1, every=10, grid=(-2, 2, 40)), "cv="),
        (lambda: tp.umbrella(lambda q: q, 0.0, -1.0), "k="),
        (lambda: tp.compile(double_well, dt=0.02, bias=tp.umbrella(lambda q: q, 0.0, 1.0)), "without a bath"),
        (lambda: tp.compile(double_well, dt=0.02, temperature=1.0, bias=3), "no bias"),
        (lambda: tp.compile(double_well, dt=0.02, temperature=1.0, bias=tp.umbrella(lambda p: p, 0.0, 1.0)), "momentum"),
        (lambda: tp.compile(double_well, dt=0.02, temperature=1.0, bias=tp.umbrella(lambda: 1.0, 0.0, 1.0)), "no position"),
    ],
)  # fmt: skip
def test_wrong_biases_are_refused(wrong, said):
    with pytest.raises(tp.TinyPhysicsError, match=said):
        wrong()


def test_a_vector_is_no_collective_variable():
    @tp.hamiltonian
    def plane(q: tp.Vec[2], p: tp.Vec[2]):
        return (p @ p + q @ q) / 2

    with pytest.raises(tp.ShapeError, match="no number"):
        tp.compile(plane, dt=0.02, temperature=1.0, bias=tp.umbrella(lambda q: q, 0.0, 1.0))


def test_hills_of_one_height_are_said_not_to_converge():
    out = hilly(factor=math.inf, every=10).evolve(q=-1.0, p=0.0, steps=50)
    assert out.metrics["metadynamics"]["converges"] is False


def test_what_leaves_no_hills_is_refused_and_a_rewound_run_has_them():
    sim, start = hilly(every=10), dict(q=-1.0, p=0.0)
    with pytest.raises(tp.PlanError, match="no hills"):
        sim.stepper(**start)
    with pytest.raises(tp.PlanError, match="hills"):
        sim.grad(lambda q: q, wrt=["p"], steps=20, **start)
    out = sim.evolve(**start, steps=100)
    assert sim.rewind(out, 40).hash == sim.evolve(**start, steps=60).hash
