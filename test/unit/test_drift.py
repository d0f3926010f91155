"""The drift of an energy: NaN where an energy is no number, and over a scale that is said."""

from __future__ import annotations

import warnings
import math

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.errors import PhysicsIntegrityError, PlanError


@tp.hamiltonian
def cliff(q: float, p: float):
    return p**2 / 2 + tp.where(q > 0, q, tp.log(q - 1))


@tp.hamiltonian
def oscillator(q: float, p: float):
    return p**2 / 2 + q**2 / 2


@tp.hamiltonian
def vortices(q: tp.Vec[2], p: tp.Vec[2]):
    """Two equal ones; one coordinate of each is the momentum of the other coordinate."""
    return -tp.log((q[0] - q[1]) ** 2 + (p[0] - p[1]) ** 2) / 4


def test_an_energy_that_is_no_number_is_no_small_drift():
    out = tp.compile(cliff, dt=0.1, method="leapfrog").evolve(q=1.0, p=0.0, steps=40, save_every=10)
    assert np.isnan(out.energy).any() and math.isnan(out.drift("energy"))
    assert any("not finite at step 15" in note for note in out.metrics["notes"])


def test_an_energy_that_overflows_is_no_small_drift():
    sim = tp.compile(oscillator, dt=0.1)
    assert math.isnan(sim.evolve(q=1e200, p=0.0, steps=10).drift("energy"))
    both = sim.evolve(q=[1.0, 1e200], p=0.0, steps=10).drift("energy")
    assert both[0] == sim.evolve(q=1.0, p=0.0, steps=10).drift("energy") and math.isnan(both[1])


def test_the_drift_of_a_member_that_stopped_is_that_of_its_steps():
    @tp.hamiltonian
    def root(q: float, p: float):
        return p**2 / 2 + tp.sqrt(q)

    sim = tp.compile(root, dt=0.1)
    out = sim.evolve(q=[1.0, 100.0], p=0.0, steps=30)
    (stop,) = out.stops
    assert stop.member == 0
    alone = [sim.evolve(q=q, p=0.0, steps=n).drift("energy") for q, n in ((1.0, stop.step - 1), (100.0, 30))]
    assert np.array_equal(out.drift("energy"), alone)


def test_a_goal_is_not_met_by_energies_that_are_no_numbers():
    huge = {"q": 1e200, "p": 0.0, "steps": 40}
    asked = dict(dt=0.01, energy_drift=1e-3, error=0.1, method="leapfrog")
    with pytest.raises(PlanError, match="not finite"):  # the pilot sees it
        tp.compile(oscillator, **asked).evolve(**huge)
    asked["pilot"] = {"q": 1.0, "p": 0.0, "until": 0.5}  # from where it is not seen
    goals = tp.compile(oscillator, **asked).evolve(**huge).metrics["goals"]
    assert not goals["met"] and goals["error"]["met"] and math.isnan(goals["energy_drift"]["measured"])
    assert "not finite" in goals["note"]
    with pytest.raises(PhysicsIntegrityError, match="not finite"):
        tp.compile(oscillator, **asked, checks="strict").evolve(**huge)


def test_terms_that_cancel_are_no_scale():
    sim = tp.compile(vortices, dt=0.01)
    out = sim.evolve(q=[0.5, -0.5], p=[0.0, 0.0], steps=300)
    assert np.abs(out.energy).max() < 1e-14 and out.drift("energy") < 1e-13
    assert out.metrics["drift"]["of"].startswith("largest sum of |z dH/dz|")
    assert any("cancel" in note for note in out.metrics["notes"])
    other = sim.evolve(q=[0.7, -0.5], p=[0.0, 0.0], steps=300)
    assert other.drift("energy") < 1e-13
    assert other.metrics["drift"]["of"] == "largest sum of |terms of H|"
    assert not any("cancel" in note for note in other.metrics["notes"])


def test_there_is_no_alarm_where_only_the_scale_is_rounding(recwarn):
    """A perfect run of energy 0 was "off by 100 %", and strict raised; a real error of small terms is still told."""
    sim = tp.compile(vortices, dt=0.01, checks="strict")
    for q in ([0.5, -0.5], [[0.5, -0.5], [0.7, -0.5]]):
        out = sim.evolve(q=q, p=np.zeros_like(q), steps=300)
        assert not any("off by" in note for note in out.metrics["notes"])
    assert not [w for w in recwarn if issubclass(w.category, tp.PhysicsWarning)]

    @tp.hamiltonian
    def either(q: tp.Vec[2], p: tp.Vec[2], k: float):
        logs = -tp.log((q[0] - q[1]) ** 2 + (p[0] - p[1]) ** 2) / 4
        return (1 - k) * logs + k * (p @ p / 2 + (q @ q) ** 2)

    both = tp.compile(either, dt=0.5, method="implicit_midpoint", checks="strict")
    with pytest.raises(
        PhysicsIntegrityError, match="of member 1 at step .* is off by"
    ):  # beside one that cancels
        both.evolve(q=[[0.5, -0.5], [1.0, -0.4]], p=np.zeros((2, 2)), k=[0.0, 1.0], steps=40)
    with pytest.raises(PhysicsIntegrityError, match="off by"):
        tp.compile(oscillator, dt=1.9, method="leapfrog", checks="strict").evolve(q=1e-12, p=0.0, steps=50)


def test_the_drift_of_a_member_is_the_same_alone_and_among_others():
    """At distance 1 + 2e-9 the terms cancel but not to rounding: 1e-9 are its scale, whoever is beside it; at 1 they are not."""
    sim = tp.compile(vortices, dt=0.01)
    far = np.array([1.0, 1.0 + 2e-9, 3.0])
    q, p = far[:, None] * [0.5, -0.5], np.zeros((3, 2))
    alone = [float(sim.evolve(q=x, p=y, steps=50, progress=False).drift("energy")) for x, y in zip(q, p)]
    for some in ([0, 1, 2], [2, 1], [1, 0], [0, 2], [1]):
        out = sim.evolve(q=q[some], p=p[some], steps=50, progress=False)
        assert out.drift("energy").tolist() == [alone[k] for k in some]
        assert any("cancel in 1 member:" in note for note in out.metrics["notes"]) == (0 in some)
        if 0 in some:
            assert out.metrics["drift"]["scale"] == pytest.approx(1.0, rel=0.5)
    assert 1e-9 < alone[1] < 1e-6 and alone[0] < 1e-12


def test_a_real_drift_over_small_terms_stays_one():
    out = tp.compile(oscillator, dt=0.5, method="leapfrog").evolve(q=1e-9, p=0.0, steps=50)
    assert out.drift("energy") > 0.01 and out.metrics["drift"]["of"] == "largest sum of |terms of H|"


def test_the_drift_of_a_deleted_loop_is_nan_too():
    sim = tp.compile(oscillator, dt=0.1, propagator="exact")
    assert math.isnan(sim.evolve(q=1e200, p=0.0, steps=10).drift("energy"))


def test_the_energy_of_a_driven_run_that_is_no_number_before_its_state_is_not_is_told():
    @tp.hamiltonian
    def driven(q, p, t):
        V = q**4 / 4 + tp.hypot(q, 1 + q**2) - tp.hypot(q, 1 + 0.8 * q**2)
        return p**2 / 2 - V + tp.exp(-0.2 * t) * (q**2 / 2 + p**2)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tp.PhysicsWarning)
        for q in (-0.9, -1.1, -1.3, -1.5):
            sim = tp.compile(driven, 0.15, method="leapfrog_dkd")
            out = sim.evolve(q=q, p=0.46, t0=-0.19, steps=60, save_every=1)
            assert out.stopped is not None and not np.isfinite(out.energy).all() and np.isnan(out.drift())


@tp.hamiltonian
def quartic(q, p):
    return p**2 / 2 + q**4 / 4


def test_a_run_without_a_grid_drifts_as_far_as_its_frames_show():
    out = tp.compile(quartic, method="dop853").evolve(
        q=1.0, p=0.0, until=7.3, observe={"q2": lambda q: q * q}
    )
    seen = abs(out.energy - out.energy[0]).max()
    assert out.drift() * out.metrics["drift"]["scale"] >= 0.9 * seen > 0
    assert out.drift_rate("energy").error > 0
    assert out.times("q2") is out.t and np.array_equal(out["q2"], out.q**2)


def test_the_times_of_frames_between_jumps_are_theirs():
    out = tp.compile(oscillator, dt=0.1).evolve(q=1.0, p=0.0, save_at=[0.05, 0.13, 0.27])
    assert out.every_step()[0].tolist() == [0.0, 0.05, 0.13, 0.2, 0.27]


@pytest.mark.parametrize("ask", ["drift", "drift_rate", "every_step"])
def test_a_quantity_is_asked_for_by_its_name(ask):
    out = tp.compile(oscillator, dt=0.1).evolve(q=1.0, p=0.0, steps=5)
    with pytest.raises(tp.InputError, match="is not the name of a quantity"):
        getattr(out, ask)(None)
