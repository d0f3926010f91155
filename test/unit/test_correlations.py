"""Correlations of frames: closed forms, and the sums that the FFT stands for."""

from __future__ import annotations

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.physics.cells import cell, nearest_image, volume, wave_vectors, widths
from tinyphysics.physics.correlations import msd, radial_distribution, structure_factor, vacf
from tinyphysics.physics.zoo import oscillator

TRICLINIC = [[1.0, 0.0, 0.0], [0.3, 1.2, 0.0], [0.2, -0.4, 0.9]]


def test_free_flight_is_ballistic():
    v = np.random.default_rng(1).normal(size=(10, 3))
    t = 0.1 * np.arange(40)
    q = 1e4 + t[:, None, None] * v
    expected = (v**2).sum(1).mean() * t**2
    assert msd(q) == pytest.approx(expected, rel=1e-7, abs=1e-9)
    assert msd(q, origins="first") == pytest.approx(expected, rel=1e-7)
    assert vacf(0 * q + v) == pytest.approx(np.full(40, (v**2).sum(1).mean()), rel=1e-12)


def test_fft_gives_the_sums_over_all_origins():
    r = np.random.default_rng(2)
    q, v, n = r.normal(size=(37, 2, 5, 3)).cumsum(0), r.normal(size=(37, 2, 5, 3)), 37
    direct = [((q[m:] - q[: n - m]) ** 2).sum(-1).mean() for m in range(n)]
    assert msd(q) == pytest.approx(direct, rel=1e-12, abs=1e-12)
    direct = [(v[m:] * v[: n - m]).sum(-1).mean() for m in range(n)]
    assert vacf(v) == pytest.approx(direct, rel=1e-10, abs=1e-13)
    assert vacf(v, normalise=True)[0] == 1.0


def test_a_random_walk_spreads_linearly():
    q = np.random.default_rng(3).normal(size=(400, 500, 3)).cumsum(0)
    assert msd(q)[1:20] == pytest.approx(3.0 * np.arange(1, 20), rel=0.05)


def test_a_harmonic_oscillator_has_a_cosine_for_its_velocity_correlation():
    """Over members of all phases <v(0) v(t)> = <v**2> cos(omega t), with leapfrog's own frequency and its own ellipse."""
    phase = np.linspace(0, 2 * np.pi, 64, endpoint=False)
    dt, k = 0.05, 4.0
    across = np.sqrt(k - (k * dt / 2) ** 2)  # p*p + across**2 q*q is what leapfrog conserves
    out = tp.compile(oscillator, dt, method="leapfrog").evolve(
        q=np.cos(phase),
        p=-across * np.sin(phase),
        k=k,
        steps=200,
        save_every=1,
        observe={"v": tp.physics.velocity()},
    )
    omega = 2 / dt * np.arcsin(dt * np.sqrt(k) / 2)
    assert vacf(out["v"], normalise=True, dimensions=1) == pytest.approx(np.cos(omega * out.t), abs=1e-9)
    assert msd(out.q, dimensions=1) == pytest.approx(
        (out.q**2).mean() * 2 * (1 - np.cos(omega * out.t)), abs=1e-9
    )


@pytest.mark.parametrize("box", [2.0, [1.0, 2.0, 1.5], TRICLINIC])
def test_an_ideal_gas_has_g_of_one(box):
    r = np.random.default_rng(4)
    edges = cell(box)
    q = r.random((12, 400, 3)) @ edges + 5 * r.integers(-3, 3, size=(12, 400, 1)) @ np.ones((1, 3)) @ edges
    at, g = radial_distribution(q, box, bins=10)
    assert at[-1] < widths(edges).min() / 2
    assert g[3:] == pytest.approx(np.ones(7), abs=0.06)


def test_g_counts_every_pair_once():
    lattice = np.stack(np.meshgrid(*[np.arange(4.0)] * 3, indexing="ij"), -1).reshape(-1, 3)
    at, g = radial_distribution(lattice, 4.0, bins=20, longest=1.9)
    shells = np.diff(4 / 3 * np.pi * np.linspace(0, 1.9, 21) ** 3)
    counts = g * 64 * 63 / 2 * shells / 64
    neighbours = {round(float(r), 1): round(float(c), 6) for r, c in zip(at, counts) if c}
    assert list(neighbours.values()) == [64 * 6 / 2, 64 * 12 / 2, 64 * 8 / 2]  # at 1, sqrt(2) and sqrt(3)


def test_g_between_two_kinds_and_its_parts():
    q = np.random.default_rng(8).random((3, 60, 3)) * 2.0
    a, b = np.arange(20), np.arange(20, 60)
    at, all_of_them = radial_distribution(q, 2.0, bins=8)
    parts = [
        radial_distribution(q[:, a], 2.0, bins=8)[1],
        radial_distribution(q[:, b], 2.0, bins=8)[1],
        radial_distribution(q, 2.0, bins=8, between=(a, b))[1],
    ]
    weights = np.array([20 * 19 / 2, 40 * 39 / 2, 20 * 40])
    assert all_of_them == pytest.approx(weights @ parts / weights.sum(), rel=1e-12)
    for bad in ((a, a), ([0], [60]), ([], [1]), ([-1], [2])):
        with pytest.raises(tp.InputError, match="between="):
            radial_distribution(q, 2.0, between=bad)


def test_g_without_a_box_is_about_a_volume_that_is_named():
    q = np.array([[0.0, 0.0], [0.0, 0.7]])
    at, g = radial_distribution(q, bins=4, longest=1.0, volume_of_all=2.0)
    assert (
        g[:2].tolist() == [0, 0] and g[2] == pytest.approx(2.0 / (np.pi * (0.75**2 - 0.5**2))) and g[3] == 0
    )
    with pytest.raises(tp.InputError, match="longest"):
        radial_distribution(q)


def test_nearest_images_are_the_nearest():
    r, edges = np.random.default_rng(5), cell(TRICLINIC)
    apart = r.uniform(-3, 3, size=(500, 3))
    shifts = np.stack(np.meshgrid(*[np.arange(-6, 7)] * 3, indexing="ij"), -1).reshape(-1, 3) @ edges
    shortest = np.sqrt(((apart[:, None] + shifts) ** 2).sum(-1)).min(1)
    found = np.sqrt((nearest_image(apart, edges) ** 2).sum(-1))
    near = shortest <= widths(edges).min() / 2
    assert near.sum() > 100 and found[near] == pytest.approx(shortest[near], rel=1e-12)


def test_waves_of_a_box_are_periodic_in_it():
    k = wave_vectors(TRICLINIC, 15.0)
    turns = k @ cell(TRICLINIC).T / (2 * np.pi)
    assert np.abs(turns - turns.round()).max() < 1e-12 and len(k) > 10
    assert len(wave_vectors(2.0, 7.0)) == 16  # half of the 32 with |n|**2 <= 4
    assert len({tuple(np.round(s * v, 9)) for v in k for s in (1, -1)}) == 2 * len(k)


def test_structure_factor_of_frames():
    q = np.random.default_rng(6).random((3, 2000, 3)) * 2.0
    s = structure_factor(q, wave_vectors(2.0, 20.0))
    assert s.shape[0] == 3 and s.mean() == pytest.approx(1.0, abs=0.1)  # no correlations


def test_volume_and_widths():
    assert (
        volume(cell(2.0)) == pytest.approx(8)
        and volume(cell([1, 2, 3])) == pytest.approx(6)
        and widths(cell([1, 2, 3])) == pytest.approx([1, 2, 3])
    )
    assert volume(cell(TRICLINIC)) == pytest.approx(1.08)


@pytest.mark.parametrize(
    "box, told",
    [
        ([[0, 1, 0], [1, 0, 0], [0, 0, 1]], "left-handed"),
        ([[1, 0, 0], [1, 0, 0], [0, 0, 1]], "flat"),
        (-1.0, "length -1"),
        ([1.0, 2.0], "shape"),
        ([1.0, np.nan, 1.0], "finite"),
        ("big", "not a box"),
        (0.0, "length 0"),
    ],
)
def test_a_bad_box_is_told(box, told):
    with pytest.raises(tp.InputError, match=told):
        cell(box)


def test_mistakes_are_told():
    q = np.zeros((3, 4, 3))
    with pytest.raises(tp.InputError, match="half of the smallest width"):
        radial_distribution(q, 2.0, longest=1.5)
    with pytest.raises(tp.InputError, match="not finite"):
        msd(q + np.nan)
    with pytest.raises(tp.InputError, match="origins"):
        msd(q, origins="some")
    with pytest.raises(tp.InputError, match="out.q\\[:, member\\]"):
        radial_distribution(np.zeros((2, 3, 4, 3)), 2.0)
    with pytest.raises(tp.InputError, match="no frames"):
        vacf(np.zeros((0, 3)))
