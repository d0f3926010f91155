"""Gravity in an expanding box: closed forms of growth, Zel'dovich's plane waves, and integrals that are exact in every step."""

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.physics import cosmology as C

FLAT = [(1.0, 0.0), (0.3, 0.7)]


def test_growth_follows_matter_and_is_slowed_by_a_vacuum():
    a = np.array([0.05, 0.3, 1.0])
    assert np.allclose(C.growth(a), [a, a], rtol=1e-13)
    D, slope = C.growth(a, 0.3, 0.7)
    ahead, behind = (C.growth(a * np.exp(x), 0.3, 0.7)[0] for x in (1e-4, -1e-4))
    assert np.allclose(slope, (ahead - behind) / 2e-4, rtol=1e-7)
    assert D[-1] == pytest.approx(0.7789, abs=2e-4)  # Carroll, Press & Turner 1992: 0.779
    # an open universe without vacuum has a closed form (Peebles 1980, 11.16)
    x = 1 / 0.3 - 1
    closed = 1 + 3 / x + 3 * np.sqrt(1 + x) / x**1.5 * np.log(np.sqrt(1 + x) - np.sqrt(x))
    assert C.growth(1.0, 0.3)[0] == pytest.approx(2.5 * 0.3 / (1 - 0.3) * closed, rel=1e-12)


def test_the_integrals_over_a_step_are_exact():
    """∫ dt/a² and ∫ dt/a where matter rules: powers of a; steps of half an e-fold add up to them."""
    steps, h = 6, 0.5
    middles = np.log(0.05) + h * (np.arange(steps) + 0.5)
    last = 0.05 * np.exp(steps * h)
    for power, exponent in ((2, -0.5), (1, 0.5)):
        total = h * sum(C.over_step(t, h, power, 1.0, 0.0, 1.0) for t in middles)
        assert total == pytest.approx((last**exponent - 0.05**exponent) / exponent, rel=1e-14)


@pytest.mark.parametrize("matter, vacuum", [FLAT[0], pytest.param(*FLAT[1], marks=pytest.mark.all)])
def test_a_plane_wave_of_sheets_is_zeldovichs_until_they_cross(matter, vacuum):
    n, first = 16, 0.1
    x = (np.arange(n) + 0.5) / n
    move = 0.9 * np.sin(2 * np.pi * x) / (2 * np.pi)  # they cross at D = 1.11
    start = C.zeldovich(x, move, first, 1.0, matter, vacuum)
    errors = {}
    for steps in (12, 24):
        h = -np.log(first) / steps
        sim = tp.compile(C.sheets, dt=h, method="leapfrog_dkd")
        for width in (h, 0.0):
            out = sim.evolve(
                **start, m=1.0, L=1.0, h=width, matter=matter, vacuum=vacuum, t0=np.log(first), steps=steps
            )
            D = C.growth(1.0, matter, vacuum)[0]
            errors[steps, width > 0] = abs(out.final.q - x - D * move).max() / abs(D * move).max()
    assert sim.certificate.symplectic and sim.certificate.consistent
    assert errors[12, True] < 3e-4 and 3.5 < errors[12, True] / errors[24, True] < 4.5
    assert errors[12, True] < 0.3 * errors[12, False]  # with the factors of the middle of each step


def plane_wave(side, amplitude, first=0.1):
    x = C.lattice(side, 1.0)
    wave = np.sin(2 * np.pi * x[:, 0])
    move = np.zeros((len(x), 3))
    move[:, 0] = amplitude * wave / (2 * np.pi)
    m = np.full(len(x), 1.0 / len(x))
    return x, wave, move, C.zeldovich(x, move, first, m) | {"m": m, "L": 1.0}


@pytest.mark.slow("a compilation of sums over images")
def test_a_wave_in_a_box_grows_like_the_scale_factor():
    """On a mesh alone a wave of 16 particles and cells is weaker by the square of the spline's transform; the rest is D."""
    x, wave, move, start = plane_wave(16, 0.05)
    h = -np.log(0.1) / 12
    sim = tp.compile(
        C.comoving, dt=h, method="leapfrog_dkd", long_range={"cutoff": 0, "grid": 16, "order": 4}
    )
    out = sim.evolve(**start, h=h, t0=np.log(0.1), steps=12)
    grown = (out.final.q[:, 0] - x[:, 0]) @ wave / (move[:, 0] @ wave)
    weaker = np.sinc(1 / 16) ** 8  # of the force: D'' + ... = 1.5*weaker*D, whose power of a is
    power = (np.sqrt(1 + 24 * weaker) - 1) / 4
    assert grown == pytest.approx(0.1 * 10**power, rel=0.003)
    assert abs(out.final.q[:, 1:] - x[:, 1:]).max() < 1e-12
    assert sim.certificate.symplectic and sim.certificate.consistent


@pytest.mark.all
def test_a_wave_of_point_masses_grows_as_that_of_a_lattice_and_keeps_its_certificate():
    x, wave, move, start = plane_wave(8, 0.05)
    h = -np.log(0.1) / 12
    sim = tp.compile(C.comoving, dt=h, method="leapfrog_dkd", force_error=1e-3)
    out = sim.evolve(**start, h=h, t0=np.log(0.1), steps=12)
    grown = (out.final.q[:, 0] - x[:, 0]) @ wave / (move[:, 0] @ wave)
    assert 1.0 < grown < 1.03  # a wave along an axis of a lattice of points grows faster (Joyce et al. 2005)
    assert sim.certificate.symplectic and "force error" in sim.certificate.consistent.because


def test_random_displacements_are_those_of_their_seed():
    a, b = (C.random_displacement(8, 1.0, 0.02, seed=s) for s in (1, 2))
    assert np.array_equal(a, C.random_displacement(8, 1.0, 0.02, seed=1)) and not np.allclose(a, b)
    assert np.sqrt((a**2).mean()) == pytest.approx(0.02) and abs(a.mean(0)).max() < 1e-15
    with pytest.raises(tp.errors.InputError, match="4 or more"):
        C.random_displacement(2, 1.0, 0.1)
