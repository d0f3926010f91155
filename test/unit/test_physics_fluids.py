"""Fluids: the viscosity is the one promised, a channel has its parabola, mass stays, walls hold and drag."""

from __future__ import annotations

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.physics.fluids import (
    D2Q9,
    D3Q19,
    bgk,
    cavity,
    channel,
    density_and_velocity,
    equilibrium,
    flow,
    fluid,
    fluid3,
    moments,
    shear_wave,
    still,
    taylor_green,
    viscosity,
    weight,
)


@pytest.mark.parametrize("lattice, size", [(D2Q9, 9), (D3Q19, 19)])
def test_the_lattices_are_isotropic_to_the_fourth_order(lattice, size):
    """What makes the sums over few velocities those of a gas: Qian, d'Humieres & Lallemand 1992."""
    c = np.array(lattice)
    w = np.array([weight(lattice, k) for k in range(size)])
    d = np.eye(c.shape[1])
    assert len(lattice) == size == len(set(lattice)) and w.sum() == pytest.approx(1)
    assert np.einsum("k,ki->i", w, c) == pytest.approx(np.zeros(len(d)))
    assert np.einsum("k,ki,kj->ij", w, c, c) == pytest.approx(d / 3)
    fourth = np.einsum("k,ki,kj,kl,km->ijlm", w, c, c, c, c)
    pairs = np.einsum("ij,lm->ijlm", d, d) + np.einsum("il,jm->ijlm", d, d) + np.einsum("im,jl->ijlm", d, d)
    assert fourth == pytest.approx(pairs / 9)


@pytest.mark.parametrize("lattice", [D2Q9, D3Q19])
def test_an_equilibrium_has_the_density_and_the_velocity_it_was_made_of(lattice):
    u = [np.full((1,) * len(lattice[0]), x) for x in (0.03, -0.02, 0.05)[: len(lattice[0])]]
    rho, momentum = moments(equilibrium(np.full(u[0].shape, 1.1), u, lattice), lattice)
    assert rho == pytest.approx(1.1) and np.array(momentum) == pytest.approx(1.1 * np.array(u))


def test_the_compiled_step_is_the_function_on_numbers():
    rng = np.random.default_rng(1)
    f = flow(rng.uniform(-0.05, 0.05, (2, 4, 5)), rng.uniform(0.9, 1.1, (4, 5)))
    solid = cavity(4, 5)
    out = tp.compile(fluid).evolve(f=f, solid=solid, tau=0.7, gx=1e-3, gy=2e-3, lid=0.1, steps=2)
    for _ in range(2):
        f = bgk(f, solid, 0.7, [2e-3, 1e-3], 0.1, D2Q9)
    assert out.final.f == pytest.approx(f, abs=1e-15)


# --- viscosity --------------------------------------------------------------------------------------
def decay(amplitudes, steps, k2):
    return -np.log(amplitudes[-1] / amplitudes[0]) / steps / k2


@pytest.mark.requirement("S2-32")
def test_a_shear_wave_decays_with_the_promised_viscosity():
    h, start, tau = 16, shear_wave(16, 1), np.array([0.8, 0.9, 1.0])
    out = tp.compile(fluid).evolve(f=start, tau=tau, steps=90, save_every=45)
    shape = np.cos(2 * np.pi * np.arange(h) / h)
    for i in range(len(tau)):
        speed = [(density_and_velocity(f)[1][1, :, 0] * shape).sum() for f in out.f[1:, i]]
        assert decay(speed, 45, (2 * np.pi / h) ** 2) == pytest.approx(viscosity(tau[i]), rel=0.01)
        assert out.final.f[i].sum() == pytest.approx(start.sum(), rel=1e-13)


def test_a_shear_wave_in_three_dimensions_does_so_too():
    d = 12
    ux = np.cos(2 * np.pi * np.arange(d) / d)[:, None, None] * 0.01
    start = flow([np.zeros((d, 1, 1)), np.zeros((d, 1, 1)), ux])
    out = tp.compile(fluid3).evolve(f=start, tau=1.0, steps=40, save_every=20)
    measured = decay(
        [(density_and_velocity(f)[1][2] * ux).sum() for f in out.f[1:]], 20, (2 * np.pi / d) ** 2
    )
    assert measured == pytest.approx(viscosity(1.0), rel=0.01)


def test_taylor_green_vortices_keep_their_shape_and_decay():
    """On numbers: 256 sites are many for a program that is written out."""
    n, f, solid, frames = 16, taylor_green(16, 16), np.zeros((16, 16)), []
    for _ in range(61):
        frames.append(density_and_velocity(f)[1])
        f = bgk(f, solid, 0.8, [0.0, 0.0], 0.0, D2Q9)
    speeds = [np.abs(u).max() for u in frames]
    assert decay(speeds[20:], 40, 2 * (2 * np.pi / n) ** 2) == pytest.approx(viscosity(0.8), rel=0.01)
    assert np.abs(frames[60] / speeds[60] - frames[0] / speeds[0]).max() < 0.01


# --- walls ------------------------------------------------------------------------------------------
def settled(tau, h=12, g=1e-5):
    out = tp.compile(fluid).evolve(f=still(h, 1), solid=channel(h, 1), tau=tau, gx=g, steps=4000)
    y = np.arange(1, h - 1) - 0.5  # the walls are half-way between the rows
    return (
        out,
        density_and_velocity(out.final.f, (0.0, g))[1][1, 1:-1, 0],
        g / (2 * viscosity(tau)) * y * (h - 2 - y),
    )


@pytest.mark.requirement("S2-32")
def test_a_pushed_fluid_in_a_channel_has_poiseuilles_profile():
    out, u, parabola = settled(tau=0.8)
    assert np.linalg.norm(u - parabola) < 0.01 * np.linalg.norm(parabola)
    assert out.final.f[:, 1:-1].sum() == pytest.approx(10, rel=1e-12)  # mass
    assert (out.final.f[:, [0, -1]] == still(12, 1)[:, [0, -1]]).all()  # nothing enters a wall


@pytest.mark.requirement("S2-32")
def test_at_one_relaxation_time_the_profile_is_exact():
    """(tau - 1/2)**2 = 3/16: there the half-way wall is where it is said to be (Ginzbourg & Adler 1994)."""
    _, u, parabola = settled(tau=0.5 + np.sqrt(3 / 16))
    assert u == pytest.approx(parabola, rel=1e-6)


def test_a_moving_wall_drags_the_fluid_along():
    """Couette: a straight line from the wall at rest to the one that moves."""
    h, solid = 8, channel(8, 1)
    solid[-1] = 2.0
    out = tp.compile(fluid).evolve(f=still(h, 1), solid=solid, tau=0.9, lid=0.05, steps=1500)
    u = density_and_velocity(out.final.f)[1][1, 1:-1, 0]
    assert u == pytest.approx(0.05 * (np.arange(h - 2) + 0.5) / (h - 2), rel=1e-6)
    assert out.final.f[:, 1:-1].sum() == pytest.approx(h - 2, rel=1e-12)


@pytest.mark.requirement("S2-32")
def test_a_lid_turns_the_fluid_in_a_cavity_and_loses_no_mass():
    n, f, solid = 10, still(10, 10), cavity(10, 10)
    for _ in range(300):
        f = bgk(f, solid, 0.8, [0.0, 0.0], 0.1, D2Q9)
    (uy, ux), inside = density_and_velocity(f)[1], slice(1, -1)
    assert ux[-2, n // 2] > 0.02 and ux[n // 3, n // 2] < 0 and uy[n // 2, 1] > 0 > uy[n // 2, -2]
    assert f[:, inside, inside].sum() == pytest.approx((n - 2) ** 2, rel=1e-12)


def test_fluid_at_rest_stays_at_rest():
    out = tp.compile(fluid).evolve(f=still(2, 3), tau=0.6, steps=50)
    assert np.abs(out.final.f - still(2, 3)).max() < 1e-15
