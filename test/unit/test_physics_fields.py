"""Fields: waves follow the dispersion relation of lattice and method, kinks move and weigh what they should."""

from __future__ import annotations

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.physics.fields import (
    kink_position,
    lattice_frequency,
    leapfrog_frequency,
    phases,
    phi4,
    phi4_kink,
    plane_wave,
    rotors,
    sine_gordon,
    sine_gordon_kink,
    standing_wave,
    wave,
)

SHEET = (6, 8)


# --- waves ------------------------------------------------------------------------------------------
def test_standing_waves_obey_the_dispersion_relation_of_leapfrog_to_rounding():
    """sin(omega dt/2)**2 = (c dt/dx)**2 (sin(kx/2)**2 + sin(ky/2)**2) + (mass dt/2)**2."""
    c, mass, dx, dt, steps = 0.9, 0.4, 0.7, 0.25, 400
    numbers = [(0, 1), (1, 2), (3, 4)]
    u = np.stack([standing_wave(SHEET, waves)[0] for waves in numbers])
    out = tp.compile(wave, dt=dt).evolve(u=u, v=np.zeros_like(u), c=c, mass=mass, dx=dx, steps=steps)
    for i, waves in enumerate(numbers):
        omega = leapfrog_frequency(lattice_frequency(SHEET, waves, c, mass, dx), dt)
        kx, ky = (2 * np.pi * k / n for k, n in zip(waves, SHEET))
        square = (c * dt / dx) ** 2 * (np.sin(kx / 2) ** 2 + np.sin(ky / 2) ** 2) + (mass * dt / 2) ** 2
        assert np.sin(omega * dt / 2) ** 2 == pytest.approx(square, rel=1e-13)
        assert out.final.u[i] == pytest.approx(u[i] * np.cos(omega * dt * steps), abs=1e-11)


def test_a_plane_wave_moves_the_way_it_points():
    waves, dt, steps = (1, -2), 0.001, 5000
    u, v = plane_wave(SHEET, waves)
    out = tp.compile(wave, dt=dt).evolve(u=u, v=v, steps=steps)
    omega = lattice_frequency(SHEET, waves)
    assert out.final.u == pytest.approx(
        np.cos(2 * np.pi * phases(SHEET, waves) - omega * dt * steps), abs=3e-6
    )


def test_long_waves_move_with_the_speed_of_light():
    assert lattice_frequency((1, 1000), (0, 1), c=2.0) == pytest.approx(2.0 * 2 * np.pi / 1000, rel=1e-5)


# --- kinks ------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "system, kink, level, rest",
    [
        (sine_gordon, sine_gordon_kink, np.pi, 8.0),
        (phi4, phi4_kink, 0.0, np.sqrt(8 / 9)),
    ],
    ids=["sine-Gordon", "phi4"],
)
def test_a_kink_moves_with_its_speed_and_weighs_what_einstein_says(system, kink, level, rest):
    n, dx, speed = 32, 0.35, 0.4
    start = kink(n, dx, speed, at=-1.0)
    out = tp.compile(system, dt=0.1).evolve(**start, steps=50)
    assert out.energy[0] * dx == pytest.approx(rest / np.sqrt(1 - speed**2), rel=0.01)
    assert out.drift("energy") < 1e-4
    moved = kink_position(out.final.u, dx, level) - kink_position(start["u"], dx, level)
    assert moved == pytest.approx(speed * 5.0, rel=0.02)


def test_a_kink_at_rest_stays():
    start = sine_gordon_kink(20, 0.5)
    out = tp.compile(sine_gordon, dt=0.1).evolve(**start, steps=100)
    assert abs(kink_position(out.final.u, 0.5, np.pi)) < 1e-9
    assert out.final.u == pytest.approx(start["u"], abs=0.06)


# --- rotors -----------------------------------------------------------------------------------------
def test_a_weak_spin_wave_is_a_wave():
    shape, waves, dt, steps = (3, 4), (1, 1), 0.1, 300
    u, v = standing_wave(shape, waves, amplitude=1e-4)
    out = tp.compile(rotors, dt=dt).evolve(angle=u, spin=v, J=0.7, steps=steps)
    omega = leapfrog_frequency(lattice_frequency(shape, waves, c=np.sqrt(0.7)), dt)
    assert out.final.angle == pytest.approx(u * np.cos(omega * dt * steps), abs=1e-10)


def test_rotors_keep_their_total_spin_and_do_not_care_where_they_all_point():
    rng = np.random.default_rng(4)
    angle, spin = rng.uniform(0, 6, (3, 3)), rng.normal(size=(3, 3))
    sim = tp.compile(rotors, dt=0.05)
    out, turned = (sim.evolve(angle=a, spin=spin, steps=200) for a in (angle, angle + 1.0))
    assert out.final.spin.sum() == pytest.approx(spin.sum(), abs=1e-12) and out.drift("energy") < 2e-3
    assert turned.final.angle - 1.0 == pytest.approx(out.final.angle, abs=1e-8)
