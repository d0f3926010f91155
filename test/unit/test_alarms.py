"""Does a run that went wrong say so, and is a healthy one left alone?"""

from __future__ import annotations

import math
import pickle
import re
import warnings

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.physics.zoo import ZOO
from tinyphysics.planner.methods.catalog import BY_NAME
from tinyphysics.runtime.measure.alarms import unstable
from tinyphysics.runtime.stages.energies import fastest, look_of

START = {"q": [1.0, 0.0], "p": [0.0, 1.2]}


@tp.hamiltonian
def kepler(q: tp.Vec[2], p: tp.Vec[2]):
    return p @ p / 2 - 1 / tp.norm(q)


@tp.hamiltonian
def spring(q, p, k=1.0, m=1.0):
    return p**2 / (2 * m) + k * q**2 / 2


@tp.hamiltonian
def gas(q: tp.Array[40, 3], p: tp.Array[40, 3]):
    d = q[:, None] - q[None, :]
    return (p**2).sum() / 2 - tp.pair_sum(1 / ((d**2).sum(-1) + 0.01) ** 0.5)


def quiet(run):
    with warnings.catch_warnings():
        warnings.simplefilter("error", tp.PhysicsWarning)
        return run()


# --- the two reasons --------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "dt, words", [(5.0, "beyond the stability limit"), (1.0, "% of the sizes of its terms")]
)
def test_a_step_that_is_too_long_is_said_with_one_to_take(dt, words):
    with pytest.warns(tp.PhysicsWarning, match=words) as found:
        out = tp.compile(kepler, dt=dt).evolve(**START, steps=1000)
    assert len(found) == 1  # once a run
    assert re.search("Compile with dt=0.(1|08)", str(found[0].message)) and found[0].filename == __file__
    assert words in out.metrics["notes"][-1] and words in repr(out)


def test_the_step_that_is_proposed_is_quiet():
    for dt in (0.15, 0.087):  # what the two runs above propose
        sim = tp.compile(kepler, dt=dt, checks={"shadow": 0.01})
        out = quiet(lambda sim=sim: sim.evolve(**START, steps=1000))
        assert out.drift("energy") < 0.01 and "looks wrong" not in repr(out)


@pytest.mark.parametrize("omega_dt", [1.9, 1.99, 2.01, 2.5])
def test_the_stability_limit_is_that_of_the_method(omega_dt):
    sim = tp.compile(spring, dt=omega_dt, propagator="loop")
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        sim.evolve(q=1e-3, p=0.0, steps=1)
    assert any("stability limit of leapfrog_kdk" in str(w.message) for w in found) == (omega_dt > 2)


@pytest.mark.parametrize("k, m", [(4.0, 1.0), (1.0, 0.25), (16.0, 4.0)])
def test_frequencies_are_those_of_the_parameters_of_the_run(k, m):
    sim = tp.compile(spring, dt=1.1, propagator="loop")
    with pytest.warns(tp.PhysicsWarning, match="omega\\*dt is 2.2"):
        sim.evolve(q=1.0, p=0.0, k=k, m=m, steps=3)


def test_the_limit_may_be_passed_at_the_last_frame_alone():
    @tp.hamiltonian
    def hardening(q, p):
        return p**2 / 2 - q**2 / 2 + q**4 / 4

    with pytest.warns(tp.PhysicsWarning, match="at the last frame"):
        tp.compile(hardening, dt=1.0).evolve(q=0.5, p=2.5, steps=1)


@pytest.mark.parametrize("omega", [1e40, math.inf])
def test_where_a_run_blew_up_a_step_to_take_is_said_all_the_same(omega):
    what, dt = unstable([1.0, omega], 0.1, BY_NAME["leapfrog_kdk"])
    assert "at the last frame" in what and dt == 0.01
    assert unstable([1.0, 1.0], 0.1, BY_NAME["leapfrog_kdk"]) is None


def test_an_energy_that_is_no_number_is_said():
    @tp.hamiltonian
    def edge(q, p):
        return p**2 / 2 + tp.where(q > 0, q, tp.log(q - 1))

    with pytest.warns(tp.PhysicsWarning, match="is not finite"):
        out = tp.compile(edge, dt=0.1).evolve(q=1.0, p=0.0, steps=40, save_every=10)
    assert out.stopped is None


@pytest.mark.parametrize(
    "start, told", [(dict(q=-1.0, p=0.0), ""), (dict(q=[1.0, 1e200], p=[0.0, 0.0]), " of member 1")]
)
def test_an_energy_that_is_no_number_from_the_first_step_on_is_said(start, told):
    @tp.hamiltonian
    def edge(q, p):
        return p**2 / 2 + tp.where(q > 0, q**2, tp.log(q))

    sim = tp.compile(edge, dt=0.01)
    with pytest.warns(tp.PhysicsWarning, match=f"the energy{told} is not finite where the run begins"):
        out = sim.evolve(**start, steps=5)
    assert "Begin where H is defined" not in out.metrics["notes"][-1] and "looks wrong" in repr(out)


def test_an_energy_of_a_driven_system_may_go_anywhere_but_must_be_a_number():
    @tp.hamiltonian
    def pushed(q, p, t):
        return p**2 / 2 + tp.where(q > 0, q, tp.log(q - 1)) + 0.1 * q * tp.sin(t)

    sim = tp.compile(pushed, dt=0.1)
    with pytest.warns(tp.PhysicsWarning, match="the energy at step 40 is not finite"):
        sim.evolve(q=1.0, p=0.0, steps=40)
    quiet(lambda: sim.evolve(q=1.0, p=0.0, steps=10))


def test_a_member_is_named():
    p = np.array([[0.0, 1.2], [0.0, 1.0], [0.0, 0.2]])
    with pytest.warns(tp.PhysicsWarning, match="of member 2"):
        tp.compile(kepler, dt=0.2).evolve(q=np.tile([1.0, 0.0], (3, 1)), p=p, steps=400, save_every=20)


@tp.hamiltonian
def wells(q: tp.Array[40, 3], p: tp.Array[40, 3]):
    return (p * p).sum() / 2 + (1 - tp.cos(q)).sum()


def test_large_systems_are_looked_at_where_a_run_takes_long(monkeypatch):
    rng = np.random.default_rng(1)
    q, p = 0.5 * rng.normal(size=(40, 3)), np.zeros((40, 3))
    springs = tp.compile(wells, dt=1.7)
    assert springs.compiled.look is None
    quiet(lambda: springs.evolve(q=q, p=p, steps=100))
    monkeypatch.setattr("tinyphysics.runtime.measure.alarms.WORTH", 0.0)
    with pytest.warns(tp.PhysicsWarning, match="the energy at step"):
        springs.evolve(q=q, p=p, steps=100)


def test_large_systems_with_poles_are_looked_at_however_short_a_run_is():
    rng = np.random.default_rng(1)
    q, p = rng.normal(size=(40, 3)), rng.normal(size=(40, 3))
    sim = tp.compile(gas, dt=0.5)
    assert sim.compiled.look is None
    with pytest.warns(tp.PhysicsWarning, match="the energy at step"):
        sim.evolve(q=q, p=p, steps=100)
    with pytest.warns(tp.PhysicsWarning, match="the energy of member . at step"):
        sim.evolve(q=np.stack([q, 2 * q]), p=np.stack([p, p]), steps=100)
    quiet(lambda: tp.compile(gas, dt=1e-4).evolve(q=q, p=p, steps=100))


# --- what follows ---------------------------------------------------------------------------------------
def test_strict_raises_with_the_run():
    with pytest.raises(tp.PhysicsIntegrityError, match="is off by") as found:
        tp.compile(kepler, dt=1.0, checks="strict").evolve(**START, steps=1000)
    assert found.value.out.final.step == 1000 and "dt=0.087" in found.value.fix
    assert pickle.loads(pickle.dumps(found.value)).out.hash == found.value.out.hash


def test_off_says_nothing():
    out = quiet(lambda: tp.compile(kepler, dt=1.0, checks="off").evolve(**START, steps=1000))
    assert out.metrics["notes"] == tp.compile(kepler, dt=0.01).evolve(**START, steps=10).metrics["notes"]


@pytest.mark.parametrize("options", [{}, {"save_every": 7}, {"hash_every": 5}, {"observe": {"e": "energy"}}])
def test_no_bit_changes(options):
    runs = [
        tp.compile(kepler, dt=0.01, checks=c).evolve(**START, steps=300, **options)
        for c in ("on", "off", "strict")
    ]
    assert len({out.hash for out in runs}) == 1 and len({str(out.hashes) for out in runs}) == 1
    assert all(np.array_equal(out.q, runs[0].q) for out in runs)


@pytest.mark.parametrize("precision", ["float32", "mixed", "compensated", "dd", "lattice"])
def test_every_precision_is_looked_at(precision):
    with pytest.warns(tp.PhysicsWarning, match="looks wrong|is off by|stability"):
        tp.compile(kepler, dt=1.0, precision=precision).evolve(**START, steps=1000)
    quiet(lambda: tp.compile(kepler, dt=0.01, precision=precision).evolve(**START, steps=1000))


@pytest.mark.parametrize("every", [None, 1, 10])
def test_frames_that_were_handed_on_are_looked_at(tmp_path, every):
    with pytest.warns(tp.PhysicsWarning, match="the energy at step 1,000 is off by 8.6 %"):
        tp.compile(kepler, dt=1.0).evolve(**START, steps=1000, save_every=every, save=tmp_path / "run.zarr")
    quiet(
        lambda: tp.compile(kepler, dt=0.01).evolve(
            **START, steps=30_000, save_every=every, save=tmp_path / "fine.zarr"
        )
    )


def test_a_run_that_goes_on_and_one_that_was_interrupted_are_quiet(tmp_path):
    sim = tp.compile(kepler, dt=0.01)
    quiet(lambda: sim.evolve(**START, steps=500, checkpoint=tmp_path / "c"))
    quiet(lambda: sim.evolve(steps=500, resume=tmp_path / "c", save_every=7))


def test_simulations_are_pickled_after_a_look():
    sim = tp.compile(kepler, dt=0.01)
    sim.evolve(**START, steps=10)
    again = pickle.loads(pickle.dumps(sim))
    assert again.evolve(**START, steps=10).hash == sim.evolve(**START, steps=10).hash


def test_many_short_runs_are_looked_at_now_and_then():
    """Every look costs as much as a tenth of the shortest run; the first few are looked at, then one in 16."""
    sim = tp.compile(spring, dt=2.5, propagator="loop")
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for _ in range(64):
            sim.evolve(q=1e-3, p=0.0, steps=1)
    assert len(found) == 8 + 64 // 16


# --- healthy runs ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ZOO)
def test_the_zoo_is_quiet(name):
    demo = ZOO[name]
    quiet(lambda: tp.compile(demo.system, dt=demo.dt).evolve(**demo.start, steps=demo.steps, save_every=50))


@tp.hamiltonian
def rotor(q, p):
    return p**2 / 2 - tp.cos(q)


@tp.ode
def decay(x):
    return -x


@tp.hamiltonian
def driven(q, p, t):
    return p**2 / 2 + (1 + 5 * t) * q**2 / 2


# fmt: off
HEALTHY = {
    "no energy":             lambda: tp.compile(decay, dt=0.1).evolve(x=1.0, steps=100),
    "a drive":               lambda: tp.compile(driven, dt=0.01).evolve(q=1.0, p=0.0, steps=1000),
    "no steps":              lambda: tp.compile(kepler, dt=5.0).evolve(**START, steps=0),
    "no members":            lambda: tp.compile(rotor, dt=0.1).evolve(q=np.zeros(0), p=np.zeros(0), steps=5),
    "at rest":               lambda: tp.compile(spring, dt=0.1).evolve(q=0.0, p=0.0, steps=5),
    "a jump":                lambda: tp.compile(spring, dt=50.0, propagator="exact").evolve(q=1.0, p=0.0, steps=1000),
    "an implicit step":      lambda: tp.compile(spring, dt=5.0, method="implicit_midpoint").evolve(q=1.0, p=0.0, steps=100),
    "unstable, and not yet": lambda: tp.compile(rotor, dt=1.0).evolve(q=0.1, p=0.0, steps=100),
    "near the top":          lambda: tp.compile(rotor, dt=0.09).evolve(q=3.1, p=0.0, steps=1000, save_every=10),
    "an energy of zero":     lambda: tp.compile(spring, dt=0.1).evolve(q=1e-200, p=0.0, steps=100),
}
# fmt: on


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_run_is_left_alone(name):
    assert "looks wrong" not in repr(quiet(HEALTHY[name]))


# --- frequencies ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_the_fastest_vibration_is_the_largest_eigenvalue(n):
    rng = np.random.default_rng(n)
    V, T = (a @ a.T + np.eye(n) for a in rng.normal(size=(2, n, n)))
    second = [*V[np.tril_indices(n)], *T[np.tril_indices(n)]]
    assert fastest(second, n) == pytest.approx(np.sqrt(np.linalg.eigvals(T @ V).real.max()), rel=1e-12)
    assert fastest(second, n, enough=1e6) in (0.0, pytest.approx(fastest(second, n)))


def test_the_second_derivatives_are_those_of_the_energy():
    look = look_of(kepler, BY_NAME["leapfrog_kdk"])
    r = 0.5
    xx, yx, yy, *kinetic = look.bends[0](r, 0.0, 0.3, 0.4)
    assert (xx, yx, yy) == pytest.approx((-2 / r**3, 0.0, 1 / r**3)) and kinetic == [1.0, 0.0, 1.0]
    assert look.energy[0](r, 0.0, 0.3, 0.4) == pytest.approx((0.125 - 2, 0.125 + 2))


def test_a_chain_of_eight_has_its_frequency():
    fput = ZOO["fput"]
    with pytest.warns(tp.PhysicsWarning, match="stability limit of leapfrog_kdk at the first frame"):
        tp.compile(fput.system, dt=1.2).evolve(**fput.start, steps=5)


def test_second_derivatives_whose_product_is_not_finite_end_no_run():
    assert np.isnan(fastest([1e200, 0.0, 1.0, 1e200, 0.0, 1.0], 2))

    @tp.hamiltonian
    def runs_away(q: tp.Vec[2], p: tp.Vec[2]):
        return p @ p / 2 + q @ q / 2 + (1 + q[0] ** 2) * p[0] ** 2 / 2 + (p[1] + q[0] - p[0]) ** 4 / 4

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tp.PhysicsWarning)
        for steps in range(1, 12):
            out = tp.compile(runs_away, 0.5, method="rk4").evolve(q=[1.0, 0.7], p=[0.6, -0.4], steps=steps)
            assert out.stopped is not None or np.isfinite(out.final.q).all()


def test_a_sum_over_many_data_is_not_written_out_to_be_looked_at():
    def fitted(n):
        def H(q, p):
            return (
                p @ p / 2 + ((np.linspace(0, 1, n) - q[0] * np.exp(-q[1] * np.linspace(0, 2, n))) ** 2).sum()
            )

        H.__annotations__ = {"q": tp.Vec[2], "p": tp.Vec[2]}
        return tp.hamiltonian(H)

    assert look_of(fitted(50), BY_NAME["leapfrog_kdk"]) is not None
    assert look_of(fitted(5_000), BY_NAME["leapfrog_kdk"]) is None
