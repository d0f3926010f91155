"""Particles: the energies are those of the books, the starts are what their names say, planets keep their years."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.physics.particles import (
    BODIES,
    GAUSS,
    PLANETS,
    SCALE,
    cold_sphere,
    coulomb,
    gravity,
    plummer,
    solar_system,
)
from tinyphysics.util import digest


def kinetic(start):
    return ((start["p"] ** 2).sum(1) / (2 * start["m"])).sum()


def potential(start, softening=0.0):
    i, j = np.triu_indices(len(start["m"]), 1)
    r = np.sqrt(((start["q"][i] - start["q"][j]) ** 2).sum(1) + softening**2)
    return -(start["m"][i] * start["m"][j] / r).sum()


# --- energies ---------------------------------------------------------------------------------------
def test_gravity_has_the_energy_of_the_books_and_a_certificate():
    start = plummer(5, seed=1)
    sim = tp.compile(gravity, dt=0.01)
    out = sim.evolve(**start, softening=0.1, steps=0)
    assert out.energy[0] == pytest.approx(kinetic(start) + potential(start, 0.1), rel=1e-14)
    assert sim.certificate.symplectic and sim.certificate.reversible and sim.certificate.consistent


def test_a_cluster_keeps_momentum_angular_momentum_and_energy():
    start = plummer(4, seed=3)
    out = tp.compile(gravity, dt=0.01, order=4).evolve(**start, softening=0.2, steps=300)
    assert out.drift("energy") < 1e-6
    assert np.abs(out.final.p.sum(0)).max() < 1e-15
    L = [np.cross(q, p).sum(0) for q, p in ((start["q"], start["p"]), (out.final.q, out.final.p))]
    assert np.abs(L[1] - L[0]).max() < 1e-14


def test_a_mass_may_be_one_number_for_all():
    q, p = np.eye(3), np.zeros((3, 3))
    sim = tp.compile(gravity, dt=0.01)
    assert sim.evolve(q=q, p=p, steps=5).hash == sim.evolve(q=q, p=p, m=np.ones(3), steps=5).hash


def test_a_charge_is_scattered_by_rutherfords_angle():
    """tan(angle/2) = k q1 q2/(2 E b), E and b those of the relative motion."""
    b, v, mu = 0.7, 1.3, 2 / 3  # masses 1 and 2
    q = np.array([[-200.0, b, 0.0], [200.0, 0.0, 0.0]])
    m = np.array([1.0, 2.0])
    p = np.array([[mu * v, 0.0, 0.0], [-mu * v, 0.0, 0.0]])
    out = tp.compile(coulomb, dt=0.01, order=4).evolve(q=q, p=p, m=m, charge=[1.0, 1.5], steps=80_000)
    x, y, _ = out.final.p[0]
    energy = mu * v**2 / 2
    assert math.atan2(abs(y), x) == pytest.approx(
        2 * math.atan(1.5 / (2 * energy * b)), rel=5e-3
    )  # 400 is not infinity
    assert out.drift("energy") < 1e-9


def test_charges_of_one_sign_repel_and_of_two_attract():
    q, p = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]]), np.zeros((2, 3))
    sim = tp.compile(coulomb, dt=0.01)
    for charge, way in (([1.0, 1.0], 1), ([1.0, -1.0], -1)):
        out = sim.evolve(q=q, p=p, charge=charge, steps=1)
        assert np.sign(out.final.p[1, 0]) == way and np.sign(out.final.p[0, 0]) == -way


# --- starts -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("make", [plummer, cold_sphere])
def test_a_seed_means_one_state_at_rest_in_the_origin(make):
    a, b, other = make(500, 7), make(500, 7), make(500, 8)
    assert all((a[k] == b[k]).all() for k in a) and (a["q"] != other["q"]).all()
    assert np.abs((a["m"][:, None] * a["q"]).sum(0)).max() < 1e-16 and np.abs(a["p"].sum(0)).max() < 1e-16
    assert math.fsum(a["m"]) == pytest.approx(1, abs=1e-15)
    assert make(0, 7)["q"].shape == (0, 3) and make(1, 7)["q"].tolist() == [[0.0, 0.0, 0.0]]


def test_the_bits_of_the_starts_are_those_of_every_other_machine():
    digests = [
        digest(b"".join(np.asarray(v).tobytes() for v in s.values()))
        for s in (plummer(1000, 1), cold_sphere(1000, 1), solar_system())
    ]
    assert digests == [
        "6c6d72327c446d34fc819a9aeab8ee67",
        "41d45d94201c0217596731dce86c005e",
        "96f0482ee19301c00eeba59e0cf9e9f3",
    ]


@pytest.mark.parametrize("seed", [0, 1])
def test_a_plummer_sphere_is_in_equilibrium_in_henons_units(seed):
    start = plummer(2000, seed)
    T, V = kinetic(start), potential(start)
    assert -2 * T / V == pytest.approx(1, abs=0.03) and T + V == pytest.approx(-1 / 4, abs=0.012)


def test_a_plummer_sphere_has_its_mass_where_plummer_says():
    r = np.linalg.norm(plummer(20_000, 2)["q"], axis=1) / SCALE
    for radius in (0.3, 1.0, 1.3048, 3.0):  # half of the mass lies within 1.3048
        assert (r < radius).mean() == pytest.approx(radius**3 / (1 + radius**2) ** 1.5, abs=0.012)
    assert r.max() < 40


def test_a_plummer_sphere_moves_as_it_should_at_each_radius():
    """The mean square of the speed is half of the potential's depth; no direction is preferred."""
    start = plummer(20_000, 3)
    v = start["p"] / start["m"][:, None]
    r = np.linalg.norm(start["q"], axis=1) / SCALE
    for low, high in ((0.0, 0.6), (0.6, 1.3), (1.3, 4.0)):
        shell = (r >= low) & (r < high)
        depth = (1 / np.sqrt(1 + r[shell] ** 2)).mean() / SCALE
        assert (v[shell] ** 2).sum(1).mean() == pytest.approx(depth / 2, rel=0.04)
    radial = (v * start["q"]).sum(1) / np.linalg.norm(start["q"], axis=1)
    assert 3 * (radial**2).mean() == pytest.approx((v**2).sum(1).mean(), rel=0.03)


def test_a_cold_sphere_is_uniform_and_at_rest_and_falls_together():
    start = cold_sphere(2000, 4)
    r = np.linalg.norm(start["q"], axis=1)
    assert kinetic(start) == 0 and potential(start) == pytest.approx(-3 / 5, abs=0.02)
    assert (r < 0.5 ** (1 / 3)).mean() == pytest.approx(0.5, abs=0.035)
    few = cold_sphere(8, 1)
    out = tp.compile(gravity, dt=0.01).evolve(**few, softening=0.2, steps=100)
    assert (out.final.q**2).sum() < 0.5 * (few["q"] ** 2).sum()


# --- the solar system -------------------------------------------------------------------------------
YEARS = {  # sidereal periods in days, as any almanac has them
    "Mercury": 87.969,
    "Venus": 224.701,
    "Earth": 365.256,
    "Mars": 686.980,
    "Jupiter": 4332.59,
    "Saturn": 10759.2,
    "Uranus": 30688.5,
    "Neptune": 60182.0,
}


def test_planets_are_on_bound_ellipses_with_the_right_periods():
    s = solar_system()
    q, v = s["q"][1:] - s["q"][0], s["p"][1:] / s["m"][1:, None] - s["p"][0] / s["m"][0]
    mu = s["G"] * (s["m"][0] + s["m"][1:])
    axis = 1 / (2 / np.linalg.norm(q, axis=1) - (v**2).sum(1) / mu)
    assert axis == pytest.approx([row[0] for row in PLANETS.values()], rel=1e-12)
    period = 2 * np.pi * np.sqrt(axis**3 / mu)
    assert period == pytest.approx([YEARS[name] for name in PLANETS], rel=4e-3)
    assert period[:4] == pytest.approx([YEARS[name] for name in BODIES[1:5]], rel=1e-4)
    h = np.cross(q, v)
    assert (h[:, 2] > 0).all() and (np.degrees(np.arccos(h[:, 2] / np.linalg.norm(h, axis=1))) < 7.01).all()
    e = np.linalg.norm(np.cross(v, h) / mu[:, None] - q / np.linalg.norm(q, axis=1)[:, None], axis=1)
    assert e == pytest.approx([row[1] for row in PLANETS.values()], rel=1e-10)


def test_the_earth_is_where_it_was_at_noon_of_the_first_of_january_2000():
    """Longitude 100.38 degrees and distance 0.98333 au, from any almanac: three days before perihelion."""
    s = solar_system()
    x, y, z = s["q"][BODIES.index("Earth")] - s["q"][0]
    assert math.degrees(math.atan2(y, x)) == pytest.approx(100.38, abs=0.02)
    assert math.hypot(x, y) == pytest.approx(0.98333, abs=2e-4) and abs(z) < 1e-6


def test_the_solar_system_runs_for_a_year_and_the_earth_comes_round():
    s = solar_system()
    assert s["G"] == pytest.approx(GAUSS**2)
    out = tp.compile(gravity, dt=1.0).evolve(**s, steps=366, save_every=1)
    x, y, _ = (out.q[:, BODIES.index("Earth")] - out.q[:, 0]).T
    turned = np.unwrap(np.arctan2(y, x)) / (2 * np.pi)
    year = np.interp(1.0, turned - turned[0], out.t)
    assert year == pytest.approx(365.256, abs=0.1)  # the Sun moves, too
    assert out.drift("energy") < 3e-6
    assert np.abs(out.final.p.sum(0)).max() < 1e-17
    T = -sum(s["G"] * m / (2 * row[0]) for m, row in zip(s["m"][1:], PLANETS.values()))
    assert out.energy[0] == pytest.approx(T, rel=2e-3)
