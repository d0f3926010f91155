"""Fields, traps and the magnetic moment of tinyphysics.plasma, against closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics import plasma

pytestmark = pytest.mark.requirement("S2-76")


@pytest.mark.parametrize(
    "field", [plasma.uniform([0.1, 0.2, 0.3]), plasma.mirror(2.0, 3.0), plasma.dipole(1.5)]
)
def test_no_field_has_sources(field):
    assert tp.compile(plasma.System(B_field=field), dt=0.1).certificate.volume_preserving


def test_a_dipole_has_its_strength_at_the_equator_and_twice_that_at_the_poles():
    field = plasma.dipole(8.0)
    x, z = np.array([2.0, 0.0, 0.0]), np.array([0.0, 0.0, 2.0])
    sim = tp.compile(plasma.System(B_field=field), dt=0.1)
    out = sim.evolve(q=[x, z], p=np.full((2, 3), 1e-3), steps=1, observe={"B": lambda q: field(q)})
    assert np.allclose(out["B"][0], [[0.0, 0.0, 1.0], [0.0, 0.0, -2.0]], atol=1e-15)


def test_a_bottle_reflects_where_the_moment_says():
    field = plasma.mirror(10.0, 1.0)
    out = tp.compile(plasma.System(B_field=field), dt=0.01).evolve(
        q=[0.01, 0.0, 0.0],
        p=[0.0, 0.1, 0.05],
        until=120.0,
        frames=4001,
        observe={"mu": plasma.magnetic_moment(field)},
    )
    energy, mu = 0.5 * (0.1**2 + 0.05**2), 0.5 * 0.1**2 / 10.0
    turning = math.sqrt(energy / mu / 10.0 - 1.0)  # B = energy/mu
    assert np.abs(out.q[:, 2]).max() == pytest.approx(turning, rel=0.01)
    assert np.abs(out["mu"] / mu - 1).max() < 0.01 and out.drift("energy") < 1e-12


def test_a_penning_trap_turns_at_its_three_frequencies():
    """omega_z**2 = k, and omega = (B +- sqrt(B**2 - 2 k))/2."""
    trap = plasma.System(B_field=[0.0, 0.0, 2.0], potential=plasma.penning(0.5))
    out = tp.compile(trap, dt=0.01, method="symplectic", order=4).evolve(
        q=[0, 0, 0.1], p=[0.0] * 3, until=40.0
    )
    assert np.abs(out.q[:, 2] - 0.1 * np.cos(math.sqrt(0.5) * out.t)).max() < 1e-6
    fast = 1 + math.sqrt(1 - 0.25)
    start = dict(q=[0.1, 0.0, 0.0], p=[0.0, -0.1 * fast, 0.0])
    turned = tp.compile(trap, dt=0.01, method="symplectic", order=4).evolve(**start, until=40.0)
    assert np.abs(turned.q[:, 0] - 0.1 * np.cos(fast * turned.t)).max() < 1e-5


def test_charge_and_mass_are_parameters_of_a_run():
    sim = tp.compile(plasma.System(B_field=[0.0, 0.0, 1.0], charge=2.0), dt=0.1, method="boris_exact")
    start = dict(q=[0.0] * 3, p=[1.0, 0.0, 0.0])
    for charge, mass in ((2.0, 1.0), (-1.0, 4.0)):
        p = sim.evolve(**start, charge=charge, mass=mass, until=3.0).final.p
        angle = 3.0 * charge / mass
        assert np.abs(p - [math.cos(angle), -math.sin(angle), 0.0]).max() < 1e-13


def test_an_electric_field_of_q_asks_for_its_potential():
    with pytest.raises(tp.InputError, match="potential"):
        plasma.System(E_field=lambda q: q)
    with pytest.raises(tp.InputError, match="three numbers"):
        plasma.System(E_field=[1.0])


def test_gradients_go_back_through_every_pusher():
    for method in ("boris", "boris_exact", "axes"):
        sim = tp.compile(plasma.System(B_field=plasma.mirror()), dt=0.1, method=method)
        found = sim.gradcheck(
            lambda out: out.final.q @ out.final.p, q=[0.1, 0.2, 0.0], p=[0.0, 0.1, 0.05], steps=10
        )
        assert "passed" in str(found)
