"""Sums over all images of a box: against sums written out here in NumPy, and numbers that are known."""

import numpy as np
import pytest
from scipy.special import erf, erfc

import tinyphysics as tp
from tinyphysics.errors import InputError, PlanError, TraceError
from tinyphysics.ir import toposort
from tinyphysics.rules.equality import normal


# --- the same sums in NumPy: images and waves until nothing changes ---------------------------------------------------
def near(form, r, a, b):
    return {
        "1": lambda: erfc(a * r) / r,
        "screened": lambda: (
            (np.exp(b * r) * erfc(a * r + b / 2 / a) + np.exp(-b * r) * erfc(a * r - b / 2 / a)) / 2 / r
        ),
        "gaussian": lambda: (erf(b * r) - erf(min(a, b) * r)) / r,
        "dispersion": lambda: np.exp(-((a * r) ** 2)) * (1 + (a * r) ** 2 + (a * r) ** 4 / 2) / r**6,
    }[form]()


def in_numpy(q, c, cell, form="1", b=1.0):
    volume, wide = np.linalg.det(cell), min(1 / np.linalg.norm(np.linalg.inv(cell), axis=0))
    a = 4.0 / wide
    images = np.stack(np.meshgrid(*[np.arange(-2, 3)] * 3, indexing="ij"), -1).reshape(-1, 3) @ cell
    r = np.linalg.norm(q[:, None, None] - q[None, :, None] + images, axis=-1)
    there = r > 1e-9
    pairs = np.where(there, near(form, np.where(there, r, 1.0), a, b), 0.0).sum(-1)
    energy = 0.5 * c @ pairs @ c
    m = np.stack(np.meshgrid(*[np.arange(-14, 15)] * 3, indexing="ij"), -1).reshape(-1, 3)
    k = 2 * np.pi * m[(m**2).sum(1) > 0] @ np.linalg.inv(cell).T
    k2 = (k**2).sum(1)
    squares = abs(c @ np.exp(1j * q @ k.T)) ** 2
    own, net, g = (c**2).sum(), c.sum() ** 2, min(a, b) if form == "gaussian" else a
    if form in ("1", "gaussian"):
        left = 1 / g**2 - (1 / b**2 if form == "gaussian" else 0)
        energy += 2 * np.pi / volume * (np.exp(-k2 / 4 / g**2) / k2 * squares).sum()
        return energy - g / np.sqrt(np.pi) * own - np.pi / 2 / volume * net * left
    if form == "screened":
        waves = (np.exp(-(k2 + b * b) / 4 / a**2) / (k2 + b * b) * squares).sum()
        energy += 2 * np.pi / volume * (waves + np.exp(-b * b / 4 / a**2) / b**2 * net)
        return energy - (a / np.sqrt(np.pi) * np.exp(-b * b / 4 / a**2) - b / 2 * erfc(b / 2 / a)) * own
    h = np.sqrt(k2) / 2 / a
    waves = k2**1.5 * (np.sqrt(np.pi) * erfc(h) + (0.5 / h**3 - 1 / h) * np.exp(-h * h))
    return energy + np.pi**1.5 / 24 / volume * ((waves * squares).sum() + 4 * a**3 * net) - a**6 / 12 * own


def particles(n=10, side=3.0, seed=1):
    rng = np.random.default_rng(seed)
    return rng.uniform(0, side, (n, 3)), rng.normal(size=n)


@tp.hamiltonian
def salt(q: tp.Array["n", 3], p: tp.Array["n", 3], c: tp.Vec["n"], L: float):
    r2 = tp.pair_distance2(q, box=L)
    return (p**2).sum() / 2 + tp.pair_sum(c[:, None] * c[None, :] / np.sqrt(r2))


def energy_of(system, q, **more):
    options = {name: more.pop(name) for name in ("long_range", "force_error") if name in more}
    sim = tp.compile(system, dt=1e-3, **options)
    return float(sim.evolve(q=q, p=0 * q, steps=0, **more).energy[0])


# --- plain Ewald sums ---------------------------------------------------------------------------------------------------
def corners(n):
    g = np.stack(np.meshgrid(*[np.arange(n)] * 3, indexing="ij"), -1).reshape(-1, 3)
    return g.astype(float), (-1.0) ** g.sum(1)


@pytest.mark.requirement("S2-18")
@pytest.mark.slow("three compilations, with 50,000 waves each")
def test_madelung_numbers_are_right_to_ten_digits_whatever_the_split():
    q, c = corners(2)
    for pinned in ({}, {"alpha": 7.5}):
        options = {"long_range": pinned} if pinned else {}
        assert abs(-energy_of(salt, q, c=c, L=2.0, **options) / 4 - 1.747564594633) < 1e-11
    assert abs(energy_of(salt, np.zeros((1, 3)), c=np.ones(1), L=1.0) + 1.418648739740) < 1e-11


@pytest.mark.slow("a compilation of sums over 25 x 29 x 33 waves")
@pytest.mark.parametrize("skew", [True, pytest.param(False, marks=pytest.mark.all)])
def test_every_form_is_the_sum_over_images_in_any_cell(skew):
    cell = np.diag([3.0, 3.5, 4.0]) + (np.array([[0, 0, 0], [0.4, 0, 0], [-0.3, 0.5, 0]]) if skew else 0)

    def mixed(
        q: tp.Array["n", 3], p: tp.Array["n", 3], c: tp.Vec["n"], w: tp.Vec[4], box: tp.Array[cell.shape]
    ):
        r2 = tp.pair_distance2(q, box=box)
        cc, r = c[:, None] * c[None, :], np.sqrt(r2)
        forms = w[0] / r + w[1] * np.exp(-0.7 * r) / r + w[2] * tp.erf(1.3 * r) / r + w[3] / r2**3
        return (p**2).sum() / 2 + tp.pair_sum(cc * forms)

    q, c = particles()
    sim = tp.compile(tp.hamiltonian(mixed), dt=1e-3)
    parts = {"1": 1.0, "screened": 0.7, "gaussian": 1.3, "dispersion": 0.0}
    for k, (form, b) in enumerate(parts.items()):
        out = sim.evolve(q=q, p=0 * q, c=c, w=np.eye(4)[k], box=cell, steps=0)
        expected = in_numpy(q, c, cell, form, b)
        assert abs(out.energy[0] - expected) < 5e-12 * abs(expected), form


@pytest.mark.all
def test_rock_salt_of_512_charges_has_the_energy_and_forces_that_are_known():
    q, c = corners(8)
    q = q + np.random.default_rng(5).uniform(-0.2, 0.2, (512, 3))
    sim = tp.compile(salt, dt=1e-6)
    assert sim.evolve(q=q, p=0 * q, c=c, L=8.0, steps=0).energy[0] == pytest.approx(-447.51951850, abs=1e-8)
    assert sim.certificate.symplectic and sim.certificate.consistent
    force = sim.evolve(q=q, p=0 * q, c=c, L=8.0, steps=1).final.p / 1e-6
    assert np.sqrt((force**2).sum(-1).mean()) == pytest.approx(0.87326131, abs=1e-8)
    assert abs(force.sum(0)).max() < 1e-12


@pytest.mark.all
def test_excluded_pairs_and_the_surface_are_what_is_left_of_closed_sums():
    q, c = particles(12)
    box = 3.0 * np.eye(3)
    whole = in_numpy(q, c, box)

    def bonded(q: tp.Array["n", 3], p: tp.Array["n", 3], c: tp.Vec["n"], L: float):
        r2 = tp.pair_distance2(q, box=L, exclude=[(0, 1), (2, 5)])
        return (p**2).sum() / 2 + tp.pair_sum(c[:, None] * c[None, :] / np.sqrt(r2))

    d = np.array([q[0] - q[1], q[2] - q[5]])
    d -= 3.0 * np.rint(d / 3.0)
    left = whole - (c[[0, 2]] * c[[1, 5]] / np.linalg.norm(d, axis=1)).sum()
    assert energy_of(tp.hamiltonian(bonded), q, c=c, L=3.0) == pytest.approx(left, rel=1e-11)
    dipole = (c[:, None] * q).sum(0)
    around = energy_of(salt, q, c=c, L=3.0, long_range={"surface": "vacuum"})
    assert around == pytest.approx(whole + 2 * np.pi / 81 * dipole @ dipole, rel=1e-11)


def test_what_cannot_be_summed_over_images_is_refused_with_what_can_be():
    def refused(pairs, match, error=TraceError, d=3, **options):
        def energy(q: tp.Array["n", d], p: tp.Array["n", d], m: tp.Vec["n"], L: float):
            return (p**2).sum() + tp.pair_sum(pairs(tp.pair_distance2(q, box=L), m))

        with pytest.raises(error, match=match):
            tp.compile(tp.hamiltonian(energy), dt=1e-3, sizes={"n": 20}, **options)

    refused(lambda r2, m: 1 / r2, "no sum over all images of it is known")
    refused(lambda r2, m: 1 / r2**3 - 1 / r2**6, "exp\\(-k\\*np.sqrt\\(r2\\)\\)/np.sqrt\\(r2\\)")
    refused(lambda r2, m: (m[:, None] + m[None, :]) / np.sqrt(r2), "no product c\\[i\\]")
    refused(lambda r2, m: m[:, None] / np.sqrt(r2), "factors of i and of j differ")
    refused(lambda r2, m: 1 / np.sqrt(r2), "with 2 coordinates", d=2)
    refused(lambda r2, m: 1 / np.sqrt(r2 + 0.1), "too slowly", PlanError)
    refused(lambda r2, m: 1 / np.sqrt(r2), "no entry 'alfa'", InputError, long_range={"alfa": 1.0})
    with pytest.raises(PlanError, match="no sum over all images"):
        tp.compile(lambda q, p: p * p / 2 + q * q / 2, dt=0.1, long_range={"alpha": 1.0})
    q, c = particles(12)
    with pytest.raises(InputError, match="over half the width of the box"):
        energy_of(salt, q, c=c, L=3.0, long_range={"cutoff": 1.6})


def test_the_waves_of_three_ions_are_not_written_out_to_compare_two_forces(monkeypatch):
    """It took minutes without a word: a force of nine numbers is made of a sum over 50,000 waves."""

    @tp.hamiltonian
    def ions(q: tp.Array[3, 3], p: tp.Array[3, 3], c: tp.Vec[3], L: tp.Vec[3]):
        return (p**2).sum() / 2 + tp.pair_sum(c[:, None] * c[None, :] / np.sqrt(tp.pair_distance2(q, box=L)))

    written = []
    unroll = normal.unroll
    monkeypatch.setattr(
        normal,
        "unroll",
        lambda roots: written.append(sum(u.size for u in toposort(roots))) or unroll(roots),
    )
    sim = tp.compile(ions, dt=1e-3)
    assert not sim.certificate.symplectic
    assert max(written, default=0) <= normal.MOST_NUMBERS
