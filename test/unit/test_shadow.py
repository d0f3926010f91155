"""The energy that a splitting conserves instead of H: closed forms, orders, and the numbers of Hénon–Heiles."""

from __future__ import annotations

import math
import pickle
import warnings

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.physics import particles
from tinyphysics.runtime.measure.shadow import weights
from tinyphysics.runtime.stages import execute


@tp.hamiltonian
def henon_heiles(q: tp.Vec[2], p: tp.Vec[2]):
    x, y = q[0], q[1]
    return (p @ p + q @ q) / 2 + x**2 * y - y**3 / 3


@tp.hamiltonian
def oscillator(q, p):
    return (p**2 + q**2) / 2


@tp.hamiltonian
def kepler(q: tp.Vec[2], p: tp.Vec[2], mu: float = 1.0):
    return p @ p / 2 - mu / tp.norm(q)


Y = -0.016
START = {"q": [0.0, Y], "p": [math.sqrt(2 * (1 / 8 - Y**2 / 2 + Y**3 / 3)), 0.0]}


@pytest.mark.requirement("S2-39")
@pytest.mark.parametrize(
    ("method", "dt", "energy", "shadow", "order_8"),
    [
        ("leapfrog", 0.1, 3.80e-4, 1.08e-6, 2.0e-9),
        ("leapfrog", 0.05, 9.51e-5, 6.76e-8, 8.5e-12),
        ("yoshida4", 0.1, 1.63e-6, 2.1e-9, 2.1e-9),
        ("yoshida4", 0.05, 1.01e-7, 8.5e-12, 8.5e-12),
    ],
)
def test_henon_heiles(method, dt, energy, shadow, order_8):
    out = tp.compile(henon_heiles, dt, method=method).evolve(**START, until=100.0, save_every=1)
    assert np.ptp(out.energy) == pytest.approx(energy, rel=5e-3)
    assert np.ptp(out.shadow_energy) == pytest.approx(shadow, rel=2e-2)
    assert out.shadow(order=8).variation == pytest.approx(order_8, rel=5e-2)


@pytest.mark.parametrize("method", ["leapfrog", "leapfrog_dkd"])
def test_the_oscillator_has_a_closed_form(method):
    """Kick-drift-kick: p**2 + (1 - h**2/4) q**2 times asin(h/2)/(h/2)/sqrt(1 - h**2/4)/2; drift-kick-drift the other way round."""
    h = 0.3
    out = tp.compile(oscillator, h, method=method, propagator="loop").evolve(
        q=1.0, p=0.4, steps=100, save_every=1
    )
    reduced = 1 - h * h / 4
    factor = math.asin(h / 2) / (h / 2) / math.sqrt(reduced) / 2
    q, p = out.q, out.p
    exact = factor * (p**2 + reduced * q**2 if method == "leapfrog" else reduced * p**2 + q**2)
    found = out.shadow(order=16)
    assert np.allclose(found.energy, exact[8:-8], rtol=1e-11)
    assert np.ptp(exact) < 1e-14  # it is conserved
    # the first term: an error of order dt**4 is left
    assert np.abs(out.shadow_energy - exact).max() < 0.02 * h**4


def test_the_first_term_leaves_an_error_of_order_four():
    ptp = []
    for dt in (0.1, 0.05):
        out = tp.compile(henon_heiles, dt, method="leapfrog_dkd").evolve(**START, until=50.0, save_every=1)
        ptp.append(np.ptp(out.shadow_energy))
    assert 12 < ptp[0] / ptp[1] < 20


def test_bodies_in_pairs_and_ensembles_have_it_too():
    start = particles.plummer(8, seed=2)
    out = tp.compile(particles.gravity, 0.01, method="leapfrog").evolve(
        **start, softening=0.2, steps=200, save_every=1
    )
    assert np.ptp(out.shadow_energy) < 0.1 * np.ptp(out.energy)
    p = np.stack([np.zeros(3), [1.0, 1.1, 1.2]], axis=1)
    many = tp.compile(kepler, 0.02, method="leapfrog").evolve(
        q=np.tile([1.0, 0.0], (3, 1)), p=p, steps=100, save_every=1
    )
    one = tp.compile(kepler, 0.02, method="leapfrog").evolve(
        q=[1.0, 0.0], p=[0.0, 1.1], steps=100, save_every=1
    )
    assert many.shadow_energy.shape == (101, 3)
    assert np.array_equal(many.shadow_energy[:, 1], one.shadow_energy)
    assert many.shadow(order=8).energy[:, 1] == pytest.approx(one.shadow(order=8).energy, rel=1e-13)


def test_the_gap_passes_a_thousandth_at_step_72():
    sim = tp.compile(kepler, 0.02, method="leapfrog")
    out = sim.evolve(q=[1.0, 0.0], p=[0.0, 0.6], steps=200, save_every=1)
    first = int(np.argmax(out.shadow_gap > 1e-3))
    assert first == 72 and f"{out.shadow_gap[72]:.1e}" == "1.1e-03"
    again = pickle.loads(pickle.dumps(out))
    assert np.array_equal(again.shadow_gap, out.shadow_gap)


def test_looking_changes_no_bit():
    sim = tp.compile(kepler, 0.02, method="leapfrog")
    out = sim.evolve(q=[1.0, 0.0], p=[0.0, 0.6], steps=50)
    before = out.hash
    _ = out.shadow_energy, out.shadow(order=4)
    assert out.hash == before == sim.evolve(q=[1.0, 0.0], p=[0.0, 0.6], steps=50).hash


def test_what_has_none_says_why():
    def run(system=kepler, steps=20, **options):
        return tp.compile(system, 0.02, **options).evolve(q=[1.0, 0.0], p=[0.0, 1.2], steps=steps)

    with pytest.raises(tp.PlanError, match="rk4 is not made of kicks and drifts"):
        _ = run(method="rk4").shadow_energy
    with pytest.raises(tp.PlanError, match="chin4 is not made of kicks and drifts"):
        _ = run(method="chin4").shadow_gap
    with pytest.raises(tp.InputError, match="needs more than 8 steps"):
        run(method="leapfrog", steps=8).shadow(order=8)
    with pytest.raises(tp.InputError, match="not an even order"):
        run(method="leapfrog").shadow(order=7)


def test_differences_are_exact_for_polynomials():
    for at in (0, 3, 8):
        w = weights(9, at)
        for k in range(9):
            slope = sum(c * float(j) ** k for j, c in enumerate(w))
            assert slope == pytest.approx(k * float(at) ** (k - 1) if k else 0.0, abs=1e-6)


# --- by default -------------------------------------------------------------------------------------------------
def told(sim, **given):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        sim.evolve(**given)
    return [str(w.message) for w in found]


@pytest.mark.requirement("S2-39")
@pytest.mark.parametrize(
    "options", [{}, {"backend": "c"}, {"backend": "numpy"}, {"backend": "python"}, {"checks": "strict"}]
)
def test_a_coarse_step_is_warned_about_unasked(options):
    sim = tp.compile(kepler, 0.02, method="leapfrog", **options)
    (what,) = told(sim, q=[1.0, 0.0], p=[0.0, 0.6], steps=200)
    line = kepler.function.__code__.co_firstlineno + 2
    assert what.startswith("At step 72, your Shadow Energy deviates by 1.1e-3. Your step size is too large")
    assert f"(test_shadow.py:{line}); dt <= 0.014" in what


@pytest.mark.requirement("S2-39")
@pytest.mark.parametrize(
    "method, p, options",
    [("leapfrog", 0.6, {}), ("leapfrog", 0.6, {"checks": {"shadow": 1e-3}}), ("yoshida4", 0.4, {})],
)
def test_the_advice_is_found_by_compiled_code_in_the_same_words(monkeypatch, method, p, options):
    """Trial runs would take ten times as long as an interpreted run."""
    start = {"q": [1.0, 0.0], "p": [0.0, p], "steps": 100}
    said = told(tp.compile(kepler, 0.02, method=method, **options), **start)
    assert len(said) == 1 and "dt <=" in said[0]
    for backend in ("numpy", "python"):
        sim = tp.compile(kepler, 0.02, method=method, backend=backend, **options)
        ran, run = [], execute.choose_engine
        monkeypatch.setattr(
            execute, "choose_engine", lambda r, *rest: (ran.append(r.target.backend), run(r, *rest))[1]
        )
        assert told(sim, **start) == said
        monkeypatch.setattr(execute, "choose_engine", run)
        assert (
            ran.count(backend) <= 2 and ran.count("llvm") >= 3
        )  # the run, and the replay that looks for poles


def test_the_first_step_is_found_whatever_was_looked_at():
    start = {"q": [1.0, 0.0], "p": [0.0, 0.6]}
    sim = tp.compile(kepler, 0.02, method="leapfrog")
    for steps, more in ((200, {"save_every": 37}), (3_000, {"frames": 100}), (20_000, {})):
        (what,) = told(sim, **start, steps=steps, **more)
        assert what.startswith("At step 72, your Shadow Energy deviates by 1.1e-3")
    watched = tp.compile(kepler, 0.02, method="leapfrog", check_every=75)  # looks alone, and no frame
    (what,) = told(watched, **start, steps=3_000, frames=2)
    assert what.startswith("At step 72")
    p = np.stack([np.zeros(300), np.linspace(1.2, 0.6, 300)], axis=1)
    (what,) = told(sim, q=np.tile([1.0, 0.0], (300, 1)), p=p, steps=200, save_every=2)
    assert "At step 72, your Shadow Energy of member 299" in what


@tp.hamiltonian
def thrown(q: tp.Vec[2], p: tp.Vec[2]):
    return p @ p / 2 + q[1]


def test_healthy_steps_a_constant_force_and_steps_too_long_for_differences_are_not():
    """Leapfrog steps a constant force exactly: its shadow energy is H and a constant. All terms of H are zero at first."""
    for system, dt, start in (
        (kepler, 0.02, {"q": [1.0, 0.0], "p": [0.0, 1.2]}),
        (henon_heiles, 0.05, START),
        (thrown, 0.5, {"q": [1.0, 0.0], "p": [0.0, 0.0]}),
    ):
        assert not told(tp.compile(system, dt, method="leapfrog"), **start, steps=500)
    sixth = tp.compile(
        henon_heiles, 1.25, method="nystrom6"
    )  # differences of order 8 are off by a tenth there
    assert not told(sixth, q=[0.1, 0.2], p=[0.3, 0.1], steps=80)
    assert not told(tp.compile(kepler, 0.1, checks="off"), q=[1.0, 0.0], p=[0.0, 0.6], steps=200)


def test_many_coarse_runs_are_warned_about_now_and_then():
    sim = tp.compile(kepler, 0.02, method="leapfrog")
    count = sum(len(told(sim, q=[1.0, 0.0], p=[0.0, 0.6], steps=100)) for _ in range(64))
    assert 8 <= count <= 12


# --- checks={"shadow": ...} ------------------------------------------------------------------------------------
def test_the_first_step_beyond_the_threshold_is_named_with_the_term_its_line_and_a_step_to_take():
    sim = tp.compile(kepler, 0.02, checks={"shadow": 1e-3})
    with pytest.warns(tp.PhysicsWarning) as found:
        out = sim.evolve(q=[1.0, 0.0], p=[0.0, 0.6], steps=400)
    (message,) = (str(w.message) for w in found)
    assert message.startswith(
        "At step 72, your Shadow Energy deviates by 1.1e-3. Your step size is too large for the curvature of potential "
    )
    line = kepler.function.__code__.co_firstlineno + 2
    assert "mu/sqrt" in message and f"(test_shadow.py:{line})" in message
    assert found[0].filename == __file__ and out.metrics["shadow"]["step"] == 72
    dt = out.metrics["shadow"]["dt"]
    assert f"dt <= {dt:g}" in message
    # the step was measured: with it the same run is quiet
    with warnings.catch_warnings():
        warnings.simplefilter("error", tp.PhysicsWarning)
        quiet = tp.compile(kepler, dt, checks={"shadow": 1e-3}).evolve(q=[1.0, 0.0], p=[0.0, 0.6], until=8.0)
    assert quiet.metrics["shadow"]["largest"] < 1e-3 < out.metrics["shadow"]["largest"]


def test_watching_it_changes_no_bit_and_healthy_runs_are_quiet():
    plain = tp.compile(kepler, 0.02).evolve(q=[1.0, 0.0], p=[0.0, 1.2], steps=300)
    with warnings.catch_warnings():
        warnings.simplefilter("error", tp.PhysicsWarning)
        for _ in range(3):  # the last ones go the way of short runs
            sim = tp.compile(kepler, 0.02, checks={"shadow": 1e-3})
            out = sim.evolve(q=[1.0, 0.0], p=[0.0, 1.2], steps=300)
    assert out.hash == plain.hash and out.metrics["shadow"]["largest"] < 1e-4


def test_a_member_of_an_ensemble_and_another_splitting_are_watched():
    p = np.stack([np.zeros(3), [1.2, 0.6, 1.1]], axis=1)
    sim = tp.compile(kepler, 0.02, method="leapfrog", checks={"shadow": 1e-3})
    with pytest.warns(
        tp.PhysicsWarning, match="At step 72, your Shadow Energy of member 1 deviates by 1.1e-3"
    ):
        sim.evolve(q=np.tile([1.0, 0.0], (3, 1)), p=p, steps=100)
    sim = tp.compile(kepler, 0.02, method="yoshida4", checks={"shadow": 1e-3})
    with pytest.warns(tp.PhysicsWarning, match="your Shadow Energy deviates"):
        sim.evolve(q=[1.0, 0.0], p=[0.0, 0.4], steps=100)


@pytest.mark.parametrize(
    ("checks", "words"),
    [
        ({"shade": 1e-3}, "no threshold for 'shade'"),
        ({"shadow": "a"}, "not a number"),
        ({"shadow": -1.0}, "above zero"),
    ],
)
def test_a_threshold_that_is_none_is_refused(checks, words):
    with pytest.raises(tp.TinyPhysicsError, match=words):
        tp.compile(kepler, 0.02, checks=checks)


@pytest.mark.parametrize("method", ["leapfrog", "yoshida4"])
def test_a_system_at_rest_where_its_energy_is_zero_is_not_warned_about(method):
    """Its energy is made of roundings of its lengths, 1e-30, and moves by as much as it is."""

    @tp.hamiltonian
    def springs(q: tp.Array[3, 2], p: tp.Array[3, 2]):
        return (p**2).sum() / 2 + 50 * sum((tp.norm(q[k + 1] - q[k]) - 1.1) ** 2 for k in range(2))

    angles = np.array([1.234, 1.1])
    links = 1.1 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    start = {"q": np.vstack([np.zeros((1, 2)), np.cumsum(links, axis=0)]), "p": np.zeros((3, 2))}
    with warnings.catch_warnings():
        warnings.simplefilter("error", tp.PhysicsWarning)
        out = tp.compile(springs, dt=0.01, method=method).evolve(**start, steps=200)
    assert 0 < out.energy[-1] < 1e-27
    start["p"][0, 0] = 1e-6  # slow, but a motion
    with pytest.warns(tp.PhysicsWarning, match="Shadow Energy|the energy"):
        tp.compile(springs, dt=0.1, method=method).evolve(**start, steps=200)
