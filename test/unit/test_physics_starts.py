"""States to start from: lattices by their neighbours, liquids by their distances, momenta by their moments."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import tinyphysics as tp
from tinyphysics.physics.draws import uniform
from tinyphysics.physics.starts import LATTICES, POSITIONS, lattice, maxwell, random_liquid
from tinyphysics.util import digest


def distances(q, box):
    """Of all pairs, to the nearest image."""
    d = q[:, None] - q[None, :]
    d -= box * np.round(d / box)
    r = np.sqrt((d**2).sum(-1))
    return r[np.triu_indices(len(q), 1)]


# --- lattices ---------------------------------------------------------------------------------------
# neighbours of a site, their distance in units of density**(-1/d), and that of the second shell over the first
SHELLS = {
    "cubic": (6, 1.0, math.sqrt(2)),
    "bcc": (8, math.sqrt(3) / 2 * 2 ** (1 / 3), math.sqrt(4 / 3)),
    "fcc": (12, 2 ** (1 / 6), math.sqrt(2)),
    "diamond": (4, math.sqrt(3) / 4 * 2, math.sqrt(8 / 3)),
    "square": (4, 1.0, math.sqrt(2)),
    "hexagonal": (6, math.sqrt(2 / math.sqrt(3)), math.sqrt(3)),
}


@pytest.mark.parametrize("kind", LATTICES)
def test_a_lattice_has_its_density_and_its_neighbours(kind):
    density, cells = 0.8, 5
    q, box = lattice(kind, cells, density=density)
    n, d = q.shape
    around, nearest, ratio = SHELLS[kind]
    assert n == len(LATTICES[kind][1]) * cells**d and math.isclose(n / box.prod(), density, rel_tol=1e-14)
    assert (q >= 0).all() and (q < box).all()
    r = distances(q, box)
    first = nearest * density ** (-1 / d)
    assert math.isclose(r.min(), first, rel_tol=1e-12)
    assert 2 * (r < first * 1.01).sum() == n * around
    assert math.isclose(r[r > first * 1.01].min(), ratio * first, rel_tol=1e-12)


def test_a_lattice_for_a_count_or_for_cells_of_each_axis():
    q, box = lattice("fcc", count=500, density=0.5)
    again, same = lattice("fcc", 5, density=0.5)
    assert np.array_equal(q, again) and np.array_equal(box, same) and len(q) == 500
    q, box = lattice("bcc", (2, 3, 4))
    assert len(q) == 48 and np.allclose(box / box[0], [1, 1.5, 2])


@pytest.mark.parametrize(
    "given, what",
    [
        (dict(kind="hcp", cells=3), "cubic, bcc, fcc"),
        (dict(kind="fcc"), "either cells or count"),
        (dict(kind="fcc", cells=3, count=108), "either cells or count"),
        (dict(kind="fcc", count=510), "500 and 864"),
        (dict(kind="fcc", cells=(3, 3)), "along 3 axes"),
        (dict(kind="square", cells=0), "whole number"),
        (dict(kind="square", cells=2, density=0.0), "density"),
        (dict(kind="square", cells=2, density=math.nan), "density"),
    ],
)
def test_a_lattice_that_cannot_be_is_refused(given, what):
    with pytest.raises(tp.InputError, match=what):
        lattice(**given)


# --- liquids ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "n, density, distance", [(300, 0.3, 0.9), (100, 0.01, 1.0), (8, 1.0, 0.5), (500, 0.5, 0.0)]
)
def test_a_liquid_keeps_its_distance(n, density, distance):
    q, box = random_liquid(n, density, distance, seed=3)
    assert q.shape == (n, 3) and math.isclose(n / box.prod(), density, rel_tol=1e-13)
    assert (q >= 0).all() and (q < box).all() and distances(q, box).min() >= distance
    for axis in range(3):
        assert stats.kstest(q[:, axis] / box[axis], "uniform").pvalue > 1e-3


def test_a_liquid_without_a_distance_is_an_ideal_gas():
    q, box = random_liquid(50, 0.5, seed=3)
    pairs = [uniform(50, 3, POSITIONS + k) for k in (0, 1)]
    assert np.array_equal(q, np.concatenate(pairs, 1)[:, :3] * box)


def test_a_seed_is_one_liquid_in_any_box():
    a, b = (random_liquid(64, box=[5.0, 6.0], distance=0.4, seed=s)[0] for s in (1, 2))
    assert a.shape == (64, 2) and not np.array_equal(a, b)
    assert np.array_equal(a, random_liquid(64, box=[5.0, 6.0], distance=0.4, seed=1)[0])
    assert distances(a, np.array([5.0, 6.0])).min() >= 0.4


@pytest.mark.parametrize(
    "given, what",
    [
        (dict(n=200, density=1.2, distance=1.0), "no free place for particle(.|\n)*minimise"),
        (dict(n=8, density=1.0, distance=1.5), "half an edge"),
        (dict(n=8), "either density or box"),
        (dict(n=8, density=1.0, box=[1.0]), "either density or box"),
        (dict(n=-1, density=1.0), "n=-1"),
        (dict(n=8, box=[1.0, -1.0]), "box"),
    ],
)
def test_a_liquid_that_cannot_be_is_refused(given, what):
    with pytest.raises(tp.InputError, match=what):
        random_liquid(**given)


# --- velocities -------------------------------------------------------------------------------------
def kinetic(p, m):
    return float((p**2 / (2 * np.reshape(m, (-1, 1)))).sum())


def test_momenta_have_the_variance_of_their_mass():
    n, T = 40_000, 1.7
    m = np.where(np.arange(n) % 2 == 0, 1.0, 16.0)
    p = maxwell(n, T, m, seed=1, drift=True)
    for mass in (1.0, 16.0):
        x = p[m == mass].ravel() / math.sqrt(mass * T)
        assert abs(x.mean()) < 5 / math.sqrt(len(x)) and abs(x.var() - 1) < 5 * math.sqrt(2 / len(x))
        assert stats.kstest(x, "norm").pvalue > 1e-3
    speed = np.sqrt((p[m == 1.0] ** 2).sum(1) / T)
    assert stats.kstest(speed, "maxwell").pvalue > 1e-3
    assert abs(np.mean(p[:, 0] * p[:, 1]) / (8.5 * T)) < 5 / math.sqrt(n)


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_without_a_drift_there_are_fewer_degrees_of_freedom(dimensions):
    """2K/kT of n particles is chi squared with d (n - 1) degrees of freedom: its mean and variance over many starts."""
    n, T, starts = 4, 0.6, 3000
    m = np.array([1.0, 2.0, 3.0, 10.0])
    for drift, free in ((False, dimensions * (n - 1)), (True, dimensions * n)):
        x = np.array(
            [
                2 * kinetic(maxwell(n, T, m, seed=s, dimensions=dimensions, drift=drift), m) / T
                for s in range(starts)
            ]
        )
        assert stats.kstest(x, "chi2", (free,)).pvalue > 1e-3
    p = maxwell(n, T, m, seed=5, dimensions=dimensions)
    assert np.abs(p.sum(0)).max() < 1e-14


def test_an_exact_temperature_is_that():
    m = np.linspace(1, 5, 100)
    for drift, free in ((False, 297), (True, 300)):
        p = maxwell(100, 0.9, m, seed=2, drift=drift, exact=True, kB=2.0)
        assert math.isclose(2 * kinetic(p, m) / (free * 2.0), 0.9, rel_tol=1e-14)
    p = maxwell(100, 0.9, seed=2, exact=True)
    assert np.abs(p.sum(0)).max() < 1e-13


def test_a_temperature_of_zero_is_rest_and_a_row_does_not_depend_on_the_others():
    assert not maxwell(5, 0.0).any() and maxwell(0, 1.0).shape == (0, 3)
    assert np.array_equal(maxwell(5, 1.0, seed=4, drift=True), maxwell(9, 1.0, seed=4, drift=True)[:5])


@pytest.mark.parametrize(
    "given, what",
    [
        (dict(n=4, temperature=-1.0), "temperature"),
        (dict(n=4, temperature=1.0, m=[1.0, 2.0]), "masses of 4"),
        (dict(n=4, temperature=1.0, m=0.0), "masses of 4"),
        (dict(n=1, temperature=1.0, exact=True), "no temperature"),
        (dict(n=2.5, temperature=1.0), "n=2.5"),
        (dict(n=2, temperature=1.0, seed=-1), "seed"),
    ],
)
def test_velocities_that_cannot_be_are_refused(given, what):
    with pytest.raises(tp.InputError, match=what):
        maxwell(**given)


def test_a_start_has_the_same_bits_everywhere():
    """Digests of what was drawn when this was written: no mathematics library has a say."""
    liquid, box = random_liquid(50, 0.4, 0.8, seed=11)
    assert digest(np.concatenate([liquid, maxwell(50, 0.7, 2.0, seed=11, exact=True)]).tobytes()) == DIGEST
    assert np.array_equal(tp.physics.starts.lattice("fcc", 2)[0], lattice("fcc", 2)[0])


DIGEST = "ee06b8832c84217548a244aa412aeab8"
