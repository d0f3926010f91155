"""Molecules: every energy and force is that of its formula, written a second time in NumPy; bits, momentum, mistakes."""

from __future__ import annotations

import numpy as np
import pytest
from here import HERE

import tinyphysics as tp
from tinyphysics.errors import InputError
from tinyphysics.physics import bonding, molecular, starts
from tinyphysics.physics.cells import nearest_image

BOX = np.array([6.0, 7.0, 8.0])
TILTED = np.array([[6.0, 0.0, 0.0], [1.5, 7.0, 0.0], [-1.0, 2.0, 8.0]])
BONDS = bonding.chains(4, 6)
ANGLES, DIHEDRALS = bonding.angles(BONDS), bonding.dihedrals(BONDS)
BUTANE = np.array([9.28, 12.16, -13.12, -3.06, 26.24, -31.5])  # kJ/mol: Ryckaert & Bellemans 1975


def atoms(n=24, seed=0):
    """Anywhere in the box and its images, no two near each other."""
    q, _ = starts.random_liquid(n, distance=0.9, seed=seed, box=BOX)
    return q + BOX * np.random.default_rng(seed).integers(-2, 3, q.shape)


def molecules(seed=0, crooked=0.3):
    """Four chains of six, as crooked as walks are, through the walls of the box."""
    rng = np.random.default_rng(seed)
    steps = rng.normal(size=(4, 6, 3)) * crooked + [[[0.8, 0.0, 0.1]]]
    steps[:, :, 1] += 0.6 * (-1.0) ** np.arange(6)
    where = np.array([[0, 0, 0], [0, 3.5, 0], [0, 0, 4], [0, 3.5, 4]])[:, None]
    return (np.cumsum(steps, axis=1) + where).reshape(-1, 3)


def energy_and_forces(system, q, backend="auto", **given):
    """From rest one kick of symplectic Euler is the force at the start, times a power of two."""
    dt = 2.0**-10
    sim = tp.compile(system, dt=dt, method="symplectic_euler", backend=backend)
    out = sim.evolve(q=q, p=np.zeros_like(q), steps=1, **given)
    assert out.stopped is None, out.stopped
    return out.energy[0], out.final.p / dt


def slopes(energy, q, h=1e-5):
    """Minus the gradient, by central differences of fourth order."""
    out = np.zeros_like(q)
    for at in np.ndindex(q.shape):

        def moved(k, at=at):
            x = q.copy()
            x[at] += k * h
            return energy(x)

        out[at] = -(8 * (moved(1) - moved(-1)) - (moved(2) - moved(-2))) / (12 * h)
    return out


def pairs_of(q, box, cutoff, left_out=()):
    i, j = np.triu_indices(len(q), 1)
    d = nearest_image(q[i] - q[j], np.diag(box))
    r = np.linalg.norm(d, axis=1)
    keep = (r < cutoff) & [pair not in left_out for pair in zip(i.tolist(), j.tolist())]
    return i[keep], j[keep], d[keep], r[keep]


def total(q, i, j, d, r, energy, force):
    """(energy, forces) of pairs: `force` is -dV/dr."""
    out = np.zeros_like(q)
    f = (force / r)[:, None] * d
    np.add.at(out, i, f)
    np.add.at(out, j, -f)
    return energy.sum(), out


def agree(ours, theirs, rel=1e-12):
    assert ours[0] == pytest.approx(theirs[0], rel=rel, abs=1e-12)
    assert np.abs(ours[1] - theirs[1]).max() < rel * 10 * np.abs(theirs[1]).max()


def step(r, on, off):
    """(S, dS/dr) of the switch: a function of r**2 with two continuous derivatives."""
    t = (off**2 - r**2) / (off**2 - on**2)
    slope = 30 * t**2 * (t - 1) ** 2 * -2 * r / (off**2 - on**2)
    return np.where(r < on, 1.0, t**3 * (10 - 15 * t + 6 * t**2)), np.where(r < on, 0.0, slope)


def switched(r, on, off, v, f):
    s, slope = step(r, on, off)
    return v * s, f * s - v * slope


def lj(r, epsilon=1.0, sigma=1.0):
    return (
        4 * epsilon * ((sigma / r) ** 12 - (sigma / r) ** 6),
        24 * epsilon * (2 * (sigma / r) ** 12 - (sigma / r) ** 6) / r,
    )


# --- systems: the energies of pairs -----------------------------------------------------------------
def test_a_liquid_is_lennard_jones_cut_and_shifted():
    q = atoms()
    i, j, d, r = pairs_of(q, BOX, 2.3)
    v, f = lj(r, 1.3, 0.95)
    ours = energy_and_forces(molecular.liquid, q, box=BOX, epsilon=1.3, sigma=0.95, cutoff=2.3)
    agree(ours, total(q, i, j, d, r, v - lj(2.3, 1.3, 0.95)[0], f))


def test_a_mixture_has_the_numbers_of_its_types():
    q, types = atoms(), np.arange(24) % 3
    epsilon, sigma = molecular.lorentz_berthelot([1.0, 0.5, 2.0], [1.0, 1.1, 0.8])
    i, j, d, r = pairs_of(q, BOX, 2.5)
    v, f = lj(r, epsilon[types[i], types[j]], sigma[types[i], types[j]])
    ours = energy_and_forces(molecular.mixture, q, box=BOX, types=types, epsilon=epsilon, sigma=sigma)
    agree(ours, total(q, i, j, d, r, *switched(r, 2.0, 2.5, v, f)))
    assert epsilon[0, 1] == pytest.approx(np.sqrt(0.5)) and sigma[0, 1] == pytest.approx(1.05)


def test_a_metal_is_morses():
    q = atoms()
    i, j, d, r = pairs_of(q, BOX, 2.5)
    e = np.exp(-3.0 * (r - 1.1))
    v, f = 2.0 * ((1 - e) ** 2 - 1), -2.0 * 2 * (1 - e) * 3.0 * e
    ours = energy_and_forces(molecular.metal, q, box=BOX, depth=2.0, a=3.0, r0=1.1)
    agree(ours, total(q, i, j, d, r, *switched(r, 2.0, 2.5, v, f)))


def test_a_salt_is_buckinghams_with_a_reaction_field():
    q, types = atoms(), np.arange(24) % 2
    charge = np.where(types == 0, 1.0, -1.0)
    A, B, C = (
        np.array([[1e3, 2e3], [2e3, 5e3]]),
        np.array([[4.0, 4.5], [4.5, 5.0]]),
        np.array([[1.0, 2.0], [2.0, 3.0]]),
    )
    rc, eps = 2.6, 4.0
    i, j, d, r = pairs_of(q, BOX, rc)
    a, b, c, qq = (x[types[i], types[j]] for x in (A, B, C, np.outer([1.0, -1.0], [1.0, -1.0])))
    kr, crf = (eps - 1) / (2 * eps + 1) / rc**3, 3 * eps / (2 * eps + 1) / rc
    shift = a * np.exp(-b * rc) - c / rc**6
    v = a * np.exp(-b * r) - c / r**6 - shift + 1.5 * qq * (1 / r + kr * r**2 - crf)
    f = a * b * np.exp(-b * r) - 6 * c / r**7 + 1.5 * qq * (1 / r**2 - 2 * kr * r)
    given = dict(box=BOX, charge=charge, types=types, A=A, B=B, C=C, cutoff=rc, dielectric=eps, k=1.5)
    agree(energy_and_forces(molecular.salt, q, **given), total(q, i, j, d, r, v, f))


def test_a_reaction_field_of_a_vacuum_is_a_shifted_charge_and_of_a_conductor_has_no_force_at_the_cutoff():
    r2 = np.array([0.5, 2.0, 6.0, 6.25])
    vacuum = molecular.reaction_field(r2, 2.0, 2.5, dielectric=1.0)
    assert vacuum == pytest.approx(molecular.shifted_coulomb(r2, 2.0, 2.5)) and vacuum[-1] == pytest.approx(
        0, abs=1e-15
    )
    near = molecular.reaction_field(np.array([2.4999, 2.5]) ** 2, 1.0, 2.5, dielectric=1e12)
    assert abs(np.diff(near)[0]) < 1e-8


def test_buckinghams_hill_is_where_its_force_changes_sign():
    r = np.linspace(0.05, 3, 2000)
    v = molecular.buckingham(r**2, 1000.0, 4.0, 1.0)
    top = r[:500][v[:500].argmax()]
    assert 0 < v[:500].argmax() < 499 and v[0] < -1e6
    assert 4000 * np.exp(-4 * top) == pytest.approx(6 / top**7, rel=0.05)


# --- bonds, angles, dihedrals -----------------------------------------------------------------------
def bond_vectors(q, rows, cell):
    d = q[rows[:, 1]] - q[rows[:, 0]]
    return d if cell is None else nearest_image(d, cell)


def lengths(q, rows, cell):
    return np.linalg.norm(bond_vectors(q, rows, cell), axis=1)


def theta(q, rows, cell):
    a, b = bond_vectors(q, rows[:, [1, 0]], cell), bond_vectors(q, rows[:, [1, 2]], cell)
    return np.arccos((a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1))


def phi(q, rows, cell):
    """By arccos of the normals, and the sign of the triple product."""
    a, b, c = (bond_vectors(q, rows[:, k : k + 2], cell) for k in range(3))
    m, n = np.cross(a, b), np.cross(b, c)
    angle = np.arccos((m * n).sum(1) / np.linalg.norm(m, axis=1) / np.linalg.norm(n, axis=1))
    return angle * np.sign((a * n).sum(1))


BONDED = {
    "harmonic bonds": (
        BONDS,
        lambda q, rows, box: molecular.harmonic_bonds(q, rows, 300.0, 0.95, box),
        lambda q, rows, cell: 150 * (lengths(q, rows, cell) - 0.95) ** 2,
    ),
    "FENE bonds": (
        BONDS,
        lambda q, rows, box: molecular.fene_bonds(q, rows, 30.0, 2.9, box),
        lambda q, rows, cell: -15 * 2.9**2 * np.log(1 - (lengths(q, rows, cell) / 2.9) ** 2),
    ),
    "angles": (
        ANGLES,
        lambda q, rows, box: molecular.harmonic_angles(q, rows, 60.0, 1.9, box),
        lambda q, rows, cell: 30 * (theta(q, rows, cell) - 1.9) ** 2,
    ),
    "periodic dihedrals": (
        DIHEDRALS,
        lambda q, rows, box: molecular.periodic_dihedrals(q, rows, 2.0, 3, 0.4, box),
        lambda q, rows, cell: 2 * (1 + np.cos(3 * phi(q, rows, cell) - 0.4)),
    ),
    "Ryckaert-Bellemans": (
        DIHEDRALS,
        lambda q, rows, box: molecular.ryckaert_bellemans(q, rows, BUTANE, box),
        lambda q, rows, cell: np.polyval(BUTANE[::-1], np.cos(phi(q, rows, cell) - np.pi)),
    ),
}


def bonded(energy, space="open"):
    if space == "open":

        def alone(q: tp.Array["n", 3], p: tp.Array["n", 3], rows: tp.Array["m", "w"]):
            return (p**2).sum() / 2 + energy(q, rows, None).sum()

        return tp.hamiltonian(alone)
    if space == "bricks":

        def inside(q: tp.Array["n", 3], p: tp.Array["n", 3], rows: tp.Array["m", "w"], box: tp.Vec[3]):
            return (p**2).sum() / 2 + energy(q, rows, box).sum()

        return tp.hamiltonian(inside)

    def skew(q: tp.Array["n", 3], p: tp.Array["n", 3], rows: tp.Array["m", "w"], box: tp.Array[3, 3]):
        return (p**2).sum() / 2 + energy(q, rows, box).sum()

    return tp.hamiltonian(skew)


@pytest.mark.parametrize("name", BONDED)
@pytest.mark.parametrize("space", ["open", "bricks", "tilted"])
def test_bonded_terms_are_those_of_the_books(name, space):
    rows, energy, book = BONDED[name]
    cell = {"open": None, "bricks": np.diag(BOX), "tilted": TILTED}[space]
    box = {"open": {}, "bricks": {"box": BOX}, "tilted": {"box": TILTED}}[space]
    q = molecules()
    wound = q if cell is None else q + np.random.default_rng(2).integers(-2, 3, q.shape) @ cell
    system = bonded(energy, space)
    e, f = energy_and_forces(system, wound, rows=rows, **box)
    assert e == pytest.approx(book(q, rows, cell).sum(), rel=1e-12)
    expected = slopes(lambda x: book(x, rows, cell).sum(), q)
    assert np.abs(f - expected).max() < 2e-8 * np.abs(expected).max()
    assert np.abs(f.sum(0)).max() < 1e-12 * np.abs(f).max()


def test_on_a_line_angles_and_dihedrals_are_finite_and_near_it_exact():
    line = np.arange(4.0)[:, None] * [1.0, 0.0, 0.0]
    three, four = np.array([[0, 1, 2]]), np.array([[0, 1, 2, 3]])
    bend = bonded(lambda q, rows, box: molecular.harmonic_angles(q, rows, 2.0, np.pi))
    turn = bonded(lambda q, rows, box: molecular.periodic_dihedrals(q, rows, 2.0, 1.0))
    e, f = energy_and_forces(bend, line, rows=three)
    assert e < 1e-28 and np.abs(f).max() < 1e-14
    e, f = energy_and_forces(turn, line, rows=four)
    assert e == 4.0 and not f.any()
    for small in (1e-3, 1e-7, 1e-10):  # k bend**2/2 with bend = 2 small; arccos would say 0 or 1e-16
        bent = line + np.array([0.0, small, 0.0, 0.0])[:, None] * [0.0, 1.0, 0.0]
        e, f = energy_and_forces(bend, bent, rows=three)
        assert e == pytest.approx((2 * np.arctan(small)) ** 2, rel=1e-5)
        assert f[1, 1] == pytest.approx(-8 * small, rel=1e-5)


def test_a_dihedral_is_positive_clockwise():
    q = np.array(
        [[0.0, 1, 0], [0, 0, 0], [0, 0, 1], [np.sin(1.0), np.cos(1.0), 1]]
    )  # seen along z, from y towards x
    rows = np.array([[0, 1, 2, 3]])
    assert abs(phi(q, rows, None)[0]) == pytest.approx(1.0)
    ours = molecular.dihedral_angles(tp.sum(q[None], axis=0), rows)
    assert float(ours[0]) == pytest.approx(-1.0 if clockwise(q) < 0 else 1.0)


def clockwise(q):
    """The turn of the last bond against the first, seen from the second atom to the third."""
    first, last = q[0] - q[1], q[3] - q[2]
    return np.dot(np.cross(first, last), q[2] - q[1])


# --- whole molecules --------------------------------------------------------------------------------
def alkane(q):
    return dict(
        box=BOX,
        bonds=BONDS,
        angles=ANGLES,
        dihedrals=DIHEDRALS,
        m=np.full(24, 14.0),
        epsilon=0.5,
        sigma=0.9,
        k_bond=300.0,
        r0=0.95,
        k_angle=60.0,
        theta0=1.9,
        c=BUTANE,
        cutoff=2.5,
        partners=bonding.partners(bonding.exclusions(BONDS, 3), len(q)),
    )


def test_an_alkane_is_the_sum_of_its_terms_and_neighbours_on_the_chain_do_not_see_each_other():
    q = molecules()
    given = alkane(q)
    cell = np.diag(BOX)
    left_out = {(i, j) for i in range(24) for j in range(i, min(i + 4, 24)) if i // 6 == j // 6}
    assert {tuple(pair) for pair in bonding.exclusions(BONDS, 3).tolist()} == {
        pair for pair in left_out if pair[0] < pair[1]
    }

    def book(x):
        _, _, _, r = pairs_of(x, BOX, 2.5, left_out)
        return (
            (lj(r, 0.5, 0.9)[0] - lj(2.5, 0.5, 0.9)[0]).sum()
            + (150 * (lengths(x, BONDS, cell) - 0.95) ** 2).sum()
            + (30 * (theta(x, ANGLES, cell) - 1.9) ** 2).sum()
            + np.polyval(BUTANE[::-1], -np.cos(phi(x, DIHEDRALS, cell))).sum()
        )

    e, f = energy_and_forces(molecular.alkane, q, **given)
    assert e == pytest.approx(book(q), rel=1e-12)
    expected = slopes(book, q)
    assert np.abs(f - expected).max() < 2e-8 * np.abs(expected).max()


def test_a_polymer_is_chained_beads_that_repel_each_other():
    q = molecules(1, 0.04)
    i, j, d, r = pairs_of(q, BOX, molecular.WCA)
    assert len(r) > 3
    e, f = energy_and_forces(molecular.polymer, q, box=BOX, bonds=BONDS, longest=2.9)
    v, force = lj(r)
    e_pairs, f_pairs = total(q, i, j, d, r, v + 1, force)
    cell = np.diag(BOX)
    book = BONDED["FENE bonds"][2]
    assert e == pytest.approx(e_pairs + book(q, BONDS, cell).sum(), rel=1e-12)
    agree((0.0, f), (0.0, f_pairs + slopes(lambda x: book(x, BONDS, cell).sum(), q)), rel=1e-9)


SYSTEMS = {
    "liquid": lambda: (molecular.liquid, atoms(), dict(box=BOX)),
    "mixture": lambda: (
        molecular.mixture,
        atoms(),
        dict(
            box=BOX, types=np.arange(24) % 2, epsilon=[[1.0, 0.7], [0.7, 0.5]], sigma=[[1.0, 0.9], [0.9, 0.8]]
        ),
    ),
    "metal": lambda: (molecular.metal, atoms(), dict(box=BOX)),
    "salt": lambda: (
        molecular.salt,
        atoms(),
        dict(
            box=BOX,
            charge=(-1.0) ** np.arange(24),
            types=np.arange(24) % 2,
            A=np.full((2, 2), 1e3),
            B=np.full((2, 2), 4.0),
            C=np.ones((2, 2)),
            cutoff=2.5,
            k=1.0,
        ),
    ),
    "polymer": lambda: (molecular.polymer, molecules(1, 0.04), dict(box=BOX, bonds=BONDS)),
    "alkane": lambda: (molecular.alkane, molecules(), alkane(molecules())),
}


@pytest.mark.parametrize("name", SYSTEMS)
def test_the_bits_are_the_same_on_every_backend_and_momentum_is_conserved(name):
    system, q, given = SYSTEMS[name]()
    p = starts.maxwell(len(q), 0.5, seed=1)
    backends = [b for b in ("llvm", "c", "numpy", "python") if b in HERE]
    runs = [tp.compile(system, dt=0.001, backend=b).evolve(q=q, p=p, steps=3, **given) for b in backends]
    assert len(runs) >= 2 and len({out.hash for out in runs}) == 1
    assert runs[0].stopped is None
    assert np.abs(runs[0].final.p.sum(0) - p.sum(0)).max() < 1e-11


@pytest.mark.parametrize("name", ["mixture", "metal", "alkane"])
def test_the_energy_error_falls_like_the_square_of_the_step(name):
    system, q, given = SYSTEMS[name]()
    if name == "alkane":
        given = given | {"epsilon": 0.0}  # shifted, not switched: the force would jump at the cutoff
    sim = tp.compile(system, dt=0.002)
    q = sim.minimise(q=q, p=np.zeros_like(q), **given).q if name != "alkane" else q
    p = starts.maxwell(len(q), 0.5, np.asarray(given.get("m", 1.0)), seed=1)
    drifts = [sim.evolve(q=q, p=p, dt=0.002 / k, steps=50 * k, **given).drift("energy") for k in (1, 2, 4)]
    assert (np.abs(np.diff(np.log2(drifts)) + 2) < 0.2).all(), drifts


# --- pressure ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", SYSTEMS)
def test_the_pressure_is_minus_the_slope_of_the_energy_with_the_volume(name):
    """Positions and box are stretched, the cutoff and all lengths of the potential stay; momenta are zero."""
    system, q, given = SYSTEMS[name]()
    sim = tp.compile(system, dt=0.001)

    def at(scale):
        return sim.evolve(q=q * scale, p=np.zeros_like(q), steps=0, **given | {"box": BOX * scale}).energy[0]

    out = sim.evolve(
        q=q,
        p=np.zeros_like(q),
        steps=0,
        **given,
        observe={"P": tp.physics.pressure(), "W": tp.physics.virial()},
    )
    h = 1e-5
    volume = np.prod(BOX)
    slope = (8 * (at(1 + h) - at(1 - h)) - (at(1 + 2 * h) - at(1 - 2 * h))) / (12 * h)
    assert out["W"][0] == pytest.approx(-slope, rel=1e-7)
    assert out["P"][0] == pytest.approx(-slope / (3 * volume), rel=1e-7)


@tp.hamiltonian
def tilted(q: tp.Array["n", 3], p: tp.Array["n", 3], cell: tp.Array[3, 3]):
    return (p**2).sum() / 2 + tp.pair_sum(molecular.lennard_jones(tp.pair_distance2(q, box=cell, cutoff=2.5)))


@pytest.mark.parametrize("n", [6, 40])
def test_the_pressure_in_a_tilted_cell_with_few_atoms_and_with_many(n):
    fractions = (
        np.stack(np.unravel_index(np.arange(n), (4, 4, 4)), -1) / 4
        + np.random.default_rng(0).normal(size=(n, 3)) * 0.02
    )
    q = (fractions + np.random.default_rng(1).integers(-2, 3, (n, 3))) @ TILTED
    d = nearest_image(q[:, None] - q[None, :], TILTED)[np.triu_indices(n, 1)]
    r = np.linalg.norm(d, axis=1)
    r = r[r < 2.5]
    out = tp.compile(tilted, dt=0.001).evolve(
        q=q, p=np.zeros_like(q), cell=TILTED, steps=0, observe={"P": tp.physics.pressure()}
    )
    assert out["P"][0] == pytest.approx((r * lj(r)[1]).sum() / 3 / np.linalg.det(TILTED), rel=1e-11)


def test_the_pressure_of_a_liquid_is_that_of_its_forces_and_its_temperature():
    q = atoms()
    p = starts.maxwell(24, 1.2, seed=3, exact=True)
    i, j, d, r = pairs_of(q, BOX, 2.5)
    out = tp.compile(molecular.liquid, dt=0.001).evolve(
        q=q, p=p, box=BOX, steps=0, observe={"P": tp.physics.pressure(), "T": tp.physics.temperature()}
    )
    assert out["T"][0] == pytest.approx(1.2, rel=1e-13)
    assert out["P"][0] == pytest.approx((24 * 1.2 + (r * lj(r)[1]).sum() / 3) / np.prod(BOX), rel=1e-12)


def test_a_tail_is_the_integral_beyond_the_cutoff():
    dr = 1e-4
    r = np.arange(2.5 + dr / 2, 200, dr)
    v, f = lj(r, 1.2, 0.9)
    energy = 2 * np.pi * 0.8 * (r**2 * v).sum() * dr
    pressure = 2 / 3 * np.pi * 0.8**2 * (r**3 * f).sum() * dr
    assert molecular.lennard_jones_tail(0.8, 2.5, 1.2, 0.9) == pytest.approx((energy, pressure), rel=1e-5)


# --- who is bonded to whom --------------------------------------------------------------------------
def test_angles_dihedrals_and_exclusions_of_a_ring_and_of_a_branch():
    ring = [(k, (k + 1) % 5) for k in range(5)]
    assert len(bonding.angles(ring)) == 5 and len(bonding.dihedrals(ring)) == 5
    assert len(bonding.exclusions(ring, 1)) == 5 and len(bonding.exclusions(ring, 2)) == 10
    methane = [(0, k) for k in range(1, 5)]
    assert len(bonding.angles(methane)) == 6 and len(bonding.dihedrals(methane)) == 0
    assert bonding.dihedrals([]).shape == (0, 4) and bonding.partners([], 3).tolist() == [[-1]] * 3
    triangle = [(0, 1), (1, 2), (2, 0)]
    assert len(bonding.dihedrals(triangle)) == 0


# --- mistakes ---------------------------------------------------------------------------------------
def test_what_a_newcomer_writes_first_is_answered():
    q = atoms()
    given = dict(q=q, p=np.zeros_like(q), steps=1)
    liquid = tp.compile(molecular.liquid, dt=0.001)
    with pytest.raises(InputError, match="over half the width of the box"):
        liquid.evolve(**given, box=BOX, cutoff=3.2)
    twice = q.copy()
    twice[5] = twice[17] + [BOX[0], 0.0, 0.0]  # an image of it
    out = liquid.evolve(**given | {"q": twice, "steps": 5}, box=BOX)
    assert out.stopped.cause == "not finite" and out.stopped.where == (5, 17)
    tables = dict(zip(("epsilon", "sigma"), molecular.lorentz_berthelot([1.0, 0.5], [1.0, 0.9])))
    mixture = tp.compile(molecular.mixture, dt=0.001)
    for types, told in ((np.arange(24) % 3, "types"), (np.arange(24) % 2 + 0.5, "types")):
        with pytest.raises(InputError, match=told):
            mixture.evolve(**given, box=BOX, types=types, **tables)
    for switch in (2.5, 2.6):
        with pytest.raises(InputError, match="the switch begins at"):
            mixture.evolve(**given, box=BOX, types=np.arange(24) % 2, switch=switch, **tables)
    polymer = tp.compile(molecular.polymer, dt=0.001)
    with pytest.raises(InputError, match="bonds"):
        polymer.evolve(**given, box=BOX, bonds=BONDS + 1)
    with pytest.raises(InputError, match=r"bond 1 is \(1, 24\), of 24 atoms"):
        bonding.partners([(0, 1), (1, 24)], 24)
    with pytest.raises(InputError, match=r"bond 0 is \(3, 3\)"):
        bonding.exclusions([(3, 3)])
    with pytest.raises(InputError, match="for each type"):
        molecular.lorentz_berthelot([1.0], [1.0, 2.0])


@pytest.mark.parametrize("options", [{"switch": 3.0}, {"switch": 3.0, "exclude": [(0, 1)]}])
def test_a_switch_written_as_a_number_begins_before_the_cutoff_too(options):
    @tp.hamiltonian
    def written(q: tp.Array["n", 3], p: tp.Array["n", 3], L: float = 8.0):
        return (p**2).sum() / 2 + tp.pair_sum(1 / tp.pair_distance2(q, box=L, cutoff=2.5, **options))

    with pytest.raises(InputError, match="begins at 3, and the cutoff is 2.5"):
        tp.compile(written, dt=0.001).evolve(q=atoms(), p=np.zeros((24, 3)), steps=1)


def test_a_bond_that_is_longer_than_fene_allows_stops_the_run():
    q = molecules(1)
    out = tp.compile(molecular.polymer, dt=0.001).evolve(
        q=q, p=np.zeros_like(q), steps=3, box=BOX, bonds=BONDS, longest=0.5
    )
    assert out.stopped is not None and out.stopped.cause == "not finite"
