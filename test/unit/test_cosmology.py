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
