"""Ready-made observables: the numbers of the books, for systems whose arguments are called anything."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.analysis.masses import masses
from tinyphysics.analysis.separable import separable
from tinyphysics.physics import observables as ob
from tinyphysics.physics.chains import fput, oscillators
from tinyphysics.physics.orbits import ELEMENTS, orbital_elements
from tinyphysics.physics.particles import GAUSS, PLANETS, gravity, plummer, solar_system
from tinyphysics.physics.zoo import henon, kepler

HEAVY = np.array([1.0, 2.0, 0.5, 3.0])


@tp.hamiltonian
def liquid(x: tp.Array["n", 3], px: tp.Array["n", 3], mass: tp.Vec["n"] = 1.0, box: float = 3.0):
    """Lennard-Jones between nearest images in a cube; every pair, no cut-off."""
    apart = x[:, None] - x[None, :]
    apart = apart - box * tp.floor(apart / box + 0.5)
    near = 1 / (apart**2).sum(-1)
    six = near * near * near
    return ((px**2).sum(-1) / (2 * mass)).sum() + tp.pair_sum(4 * (six * six - six))


@tp.hamiltonian
def sheared(q: tp.Array["n", 3], p: tp.Array["n", 3], cell: tp.Array[3, 3]):
    """A soft repulsion in a triclinic cell, whose edges are the rows; the first lies along x, the second in z = 0."""
    x, y, z = (q[:, None, c] - q[None, :, c] for c in range(3))
    for row in (2, 1, 0):
        turns = tp.floor((x, y, z)[row] / cell[row, row] + 0.5)
        x, y, z = x - turns * cell[row, 0], y - turns * cell[row, 1], z - turns * cell[row, 2]
    return (p**2).sum() / 2 + tp.pair_sum(tp.exp(-(x**2 + y**2 + z**2)))


def some(n, seed=0, spread=1.0):
    r = np.random.default_rng(seed)
    grid = np.stack(np.meshgrid(*[np.arange(4)] * 3, indexing="ij"), -1).reshape(-1, 3)[:n]
    return grid + 0.05 * r.normal(size=(n, 3)), spread * r.normal(size=(n, 3))


def observed(system, observe, dt=0.01, **start):
    out = tp.compile(system, dt, backend="numpy").evolve(**start, steps=0, observe=observe)
    return {name: out[name][0] for name in observe}


# --- the kinetic energy and its masses ----------------------------------------------------------------
def test_energies_by_term_add_up_and_have_names():
    q, p = some(4)
    sim = tp.compile(liquid, 0.001)
    observe = {
        "K": ob.kinetic_energy,
        "V": ob.potential_energy(),
        "terms": ob.energy_terms(),
        "first": ob.potential_energy(term=0),
    }
    out = sim.evolve(x=q, px=p, mass=HEAVY, steps=20, save_every=1, observe=observe)
    assert out["K"] == pytest.approx((out.px**2 / (2 * HEAVY[:, None])).sum((1, 2)), rel=1e-14)
    assert out["K"] + out["V"] == pytest.approx(out.energy, rel=1e-14)
    assert out["terms"].shape == (21, 2) and np.array_equal(out["terms"][:, 1], out["V"])
    assert np.array_equal(out["first"], out["V"])
    assert [n.count("px") > 0 for n in ob.term_names(sim)] == [True, False]


def test_terms_are_told_apart_as_they_were_written():
    q = np.array([0.1, -0.4, 0.3])
    got = observed(oscillators, {"V": ob.energy_terms()}, q=q, p=0 * q, coupling=2.0, onsite=5.0)["V"]
    stretch = np.diff(q, prepend=0, append=0)
    assert got == pytest.approx([0.0, 2 * stretch @ stretch / 2, 5 * q @ q / 2], rel=1e-14)


@pytest.mark.parametrize(
    "T, expected",
    [
        (lambda p, m: (p**2).sum() / 2, lambda m: 1 + 0 * m),
        (lambda p, m: (p**2 / (2 * m[:, None])).sum(), lambda m: m),
        (lambda p, m: 0.5 * ((p / m[:, None]) * p).sum(), lambda m: m),
        (lambda p, m: (p[0] ** 2).sum() / 8 + (p[1:] ** 2).sum() / 2, lambda m: np.array([4.0, 1, 1, 1])),
        (lambda p, m: 3 * (p**2).sum(), lambda m: 1 / 6 + 0 * m),
    ],
)
def test_masses_are_read_off_the_kinetic_energy(T, expected):
    @tp.hamiltonian
    def H(q: tp.Array[4, 3], p: tp.Array[4, 3], m: tp.Vec[4] = 1.0):
        return T(p, m) + (q**2).sum()

    q, p = some(4)
    weights = expected(HEAVY)
    got = observed(H, {"c": ob.centre_of_mass(), "v": ob.velocity()}, q=q, p=p, m=HEAVY)
    assert got["c"] == pytest.approx((weights[:, None] * q).sum(0) / weights.sum(), rel=1e-13)
    assert got["v"] == pytest.approx(p / weights[:, None], rel=1e-13)


@pytest.mark.parametrize(
    "T",
    [
        lambda q, p: (p**4).sum(),  # not quadratic
        lambda q, p: (p**2).sum() / 2 + p[0, 0] * p[1, 0],  # coupled
        lambda q, p: tp.sqrt(1 + (p**2).sum(-1)).sum(),  # relativistic
        lambda q, p: (p**2).sum() / 2 + p[0, 0],  # a linear term
    ],
)
def test_what_is_not_shown_to_have_masses_has_none(T):
    @tp.hamiltonian
    def H(q: tp.Array[3, 3], p: tp.Array[3, 3]):
        return T(q, p) + (q**2).sum()

    assert not masses(H, separable(H).T)
    q, p = some(3)
    with pytest.raises(tp.InputError, match="no masses"):
        observed(H, {"T": ob.temperature()}, q=q, p=p)
    assert observed(H, {"K": ob.kinetic_energy()}, q=q, p=p)["K"]  # which does not need any


def test_a_term_that_mixes_positions_and_momenta_is_named():
    @tp.hamiltonian
    def bead(q, p):
        return p**2 / (2 * (1 + q**2)) + q**2

    with pytest.raises(tp.InputError, match="neither kinetic nor potential"):
        tp.compile(bead, 0.1, method="rk4").evolve(q=0.1, p=1.0, steps=1, observe={"K": ob.kinetic_energy})


# --- temperature and pressure -------------------------------------------------------------------------
def test_temperature_is_twice_the_kinetic_energy_over_3n_minus_3():
    q, p = some(4)
    m = HEAVY[:, None]
    got = observed(
        liquid,
        {
            "T": ob.temperature(kB=2.0),
            "kept": ob.temperature(drift="kept"),
            "one": ob.temperature(constraints=1),
        },
        x=q,
        px=p,
        mass=HEAVY,
    )
    v = p / m - p.sum(0) / m.sum()
    assert got["T"] == pytest.approx((m * v**2).sum() / (9 * 2.0), rel=1e-13)
    assert got["kept"] == pytest.approx((p**2 / m).sum() / 12, rel=1e-13)
    assert got["one"] == pytest.approx((m * v**2).sum() / 8, rel=1e-13)


def test_temperature_does_not_see_the_motion_of_the_whole():
    q, p = some(4)
    still = observed(liquid, {"T": ob.temperature}, x=q, px=p, mass=HEAVY)["T"]
    moving = observed(liquid, {"T": ob.temperature}, x=q, px=p + 1e6 * HEAVY[:, None], mass=HEAVY)["T"]
    assert moving == pytest.approx(still, rel=1e-8)  # K - P**2/2M would have no digit left


def test_a_single_body_has_no_temperature_without_its_drift():
    with pytest.raises(tp.InputError, match='drift="kept"'):
        observed(kepler, {"T": ob.temperature()}, q=[1.0, 0.0], p=[0.0, 1.0])
    assert observed(kepler, {"T": ob.temperature(drift="kept")}, q=[1.0, 0.0], p=[0.0, 1.0])["T"] == 0.5


def energy(system, q, **parameters):
    out = tp.compile(system, 0.01, backend="numpy").evolve(
        **{system_q(system): q, system_p(system): 0 * q}, steps=0, **parameters
    )
    return out.energy[0]


def system_q(system):
    return [*system.shapes][0]


def system_p(system):
    return [*system.shapes][1]


def test_pressure_is_minus_the_slope_of_the_energy_with_the_volume():
    q, _ = some(20)
    q *= 0.9
    q[3] += [6.0, -3.0, 0.0]  # unwrapped: some box lengths away
    box, n = 4.0, 20
    got = observed(liquid, {"P": ob.pressure(), "W": ob.virial()}, x=q, px=0 * q, box=box)

    def at(volume):  # everything grows with the box
        side = volume ** (1 / 3)
        return energy(liquid, q * (side / box), box=side)

    h = 1e-4
    slope = (at(box**3 + h) - at(box**3 - h)) / (2 * h)
    assert got["P"] == pytest.approx(-slope, rel=1e-6)
    assert got["W"] == pytest.approx(3 * box**3 * got["P"], rel=1e-12)
    assert (
        abs(observed(liquid, {"P": ob.pressure()}, x=q + 1e3, px=0 * q, box=box)["P"] / got["P"] - 1) < 1e-9
    )
    q, p = some(20)
    ideal = observed(
        liquid, {"P": ob.pressure(), "W": ob.virial(box="box"), "T": ob.temperature()}, x=q, px=p, box=box
    )
    assert ideal["P"] == pytest.approx((n * ideal["T"] + ideal["W"] / 3) / box**3, rel=1e-13)


def test_pressure_in_a_triclinic_cell():
    q, _ = some(30)
    cell = np.array([[4.0, 0, 0], [0.5, 3.8, 0], [-0.4, 0.3, 4.1]])
    got = observed(sheared, {"P": ob.pressure(box="cell")}, q=q, p=0 * q, cell=cell)["P"]
    volume, h = np.linalg.det(cell), 1e-5
    up, down = (energy(sheared, q * s, cell=cell * s) for s in (1 + h, 1 - h))
    assert got == pytest.approx(-(up - down) / (2 * h) / (3 * volume), rel=1e-7)


def test_the_virial_of_gravity_is_its_energy_and_of_springs_minus_twice():
    start = plummer(6, seed=2)
    got = observed(gravity, {"W": ob.virial(), "V": ob.potential_energy()}, **start)
    assert got["W"] == pytest.approx(got["V"], rel=1e-13)
    q = np.array([0.3, -0.2, 0.7, 0.1])
    got = observed(oscillators, {"W": ob.virial(), "V": ob.potential_energy()}, q=q, p=q)
    assert got["W"] == pytest.approx(-2 * got["V"], rel=1e-13)


def test_the_virial_theorem_over_an_orbit():
    """2<K> + <W> = 0 for what comes back."""
    dt = 2 * np.pi / 2000
    out = tp.compile(kepler, dt, order=4).evolve(
        q=[1.0, 0.0], p=[0.0, 1.0], steps=2000, observe={"K": ob.kinetic_energy, "W": ob.virial}
    )
    eccentric = tp.compile(kepler, dt, order=4).evolve(
        q=[0.5, 0.0], p=[0.0, 3.0**0.5], steps=2000, observe={"K": ob.kinetic_energy, "W": ob.virial}
    )  # a = 1, e = 1/2
    for run in (out, eccentric):
        assert abs((2 * run["K"] + run["W"])[:-1].mean()) < 1e-6


def test_forces_have_a_virial_and_a_temperature_too():
    @tp.forces
    def springs(q: tp.Array[4, 3], mass: tp.Vec[4] = 1.0):
        return -3.0 * q

    q, p = some(4)
    got = observed(
        springs,
        {"W": ob.virial(), "K": ob.kinetic_energy, "T": ob.temperature(drift="kept"), "v": ob.velocity()},
        q=q,
        p=p,
        mass=HEAVY,
    )
    assert got["W"] == pytest.approx(-3 * (q**2).sum(), rel=1e-14)
    assert got["T"] == pytest.approx(got["K"] * 2 / 12, rel=1e-14) and got["v"] == pytest.approx(
        p / HEAVY[:, None], rel=1e-15
    )
    with pytest.raises(tp.InputError, match="no energy is known"):
        observed(springs, {"V": ob.potential_energy}, q=q, p=p)


# --- momenta ------------------------------------------------------------------------------------------
def test_momentum_and_angular_momentum():
    q, p = some(4)
    got = observed(
        liquid,
        {"P": ob.momentum(), "L": ob.angular_momentum(), "own": ob.angular_momentum(about="centre")},
        x=q,
        px=p,
        mass=HEAVY,
    )
    assert got["P"] == pytest.approx(p.sum(0), rel=1e-13) and got["L"] == pytest.approx(
        np.cross(q, p).sum(0), rel=1e-12
    )
    m = HEAVY[:, None]
    centre, flow = (m * q).sum(0) / m.sum(), p.sum(0) / m.sum()
    assert got["own"] == pytest.approx(np.cross(q - centre, p - m * flow).sum(0), rel=1e-12)
    plane = observed(kepler, {"L": ob.angular_momentum(), "P": ob.momentum()}, q=[1.0, 2.0], p=[3.0, 5.0])
    assert plane["L"] == -1.0 and plane["P"].tolist() == [3.0, 5.0]
    chain = observed(
        fput, {"P": ob.momentum(), "three": ob.momentum(dimensions=3)}, q=np.zeros(6), p=np.arange(6.0)
    )
    assert chain["P"].tolist() == [15.0] and chain["three"].tolist() == [3.0, 5.0, 7.0]


def test_two_canonical_pairs_are_one_set_of_bodies():
    @tp.hamiltonian(pairs=[("sun", "ps"), ("moons", "pm")])
    def H(sun: tp.Array[1, 3], ps: tp.Array[1, 3], moons: tp.Array[2, 3], pm: tp.Array[2, 3]):
        return (ps**2).sum() / 20 + (pm**2).sum() / 2 + ((moons - sun) ** 2).sum()

    q, p = some(3)
    got = observed(
        H, {"P": ob.momentum(), "c": ob.centre_of_mass()}, sun=q[:1], ps=p[:1], moons=q[1:], pm=p[1:]
    )
    assert got["P"] == pytest.approx(p.sum(0), rel=1e-14)
    assert got["c"] == pytest.approx((10 * q[0] + q[1] + q[2]) / 12, rel=1e-14)
    with pytest.raises(tp.InputError, match="of= one of its momenta: ps, pm"):
        observed(H, {"v": ob.velocity()}, sun=q[:1], ps=p[:1], moons=q[1:], pm=p[1:])


def test_structure_factor_of_a_lattice_and_of_one_body():
    q = np.arange(8.0)[:, None] * [1.0, 0, 0]
    k = 2 * np.pi * np.array([[1.0, 0, 0], [0.125, 0, 0], [0, 0.3, 0]])
    assert observed(liquid, {"S": ob.structure_factor(k)}, x=q, px=0 * q, box=20.0)["S"] == pytest.approx(
        [8, 0, 8], abs=1e-12
    )
    r, _ = some(5)
    expected = np.abs(np.exp(1j * r @ k.T).sum(0)) ** 2 / 5
    assert observed(liquid, {"S": ob.structure_factor(k)}, x=r, px=0 * r)["S"] == pytest.approx(
        expected, rel=1e-12
    )


# --- orbits -------------------------------------------------------------------------------------------
def test_elements_of_the_planets_are_those_they_were_made_from():
    start = solar_system()
    got = observed(gravity, {"o": orbital_elements(about=0)}, dt=1.0, **start)["o"]
    for row, (a, e, tilt, longitude, perihelion, node, ratio) in zip(got, PLANETS.values()):
        angles = np.radians([tilt, node, perihelion - node, longitude - perihelion])
        if tilt < 0:  # the Earth's: the other node, half a turn before
            angles += [-2 * angles[0], np.pi, -np.pi, 0]
        assert row[:2] == pytest.approx([a, e], rel=1e-11)
        assert np.cos(row[2:6]) == pytest.approx(np.cos(angles), abs=1e-7)
        assert np.sin(row[2:6]) == pytest.approx(np.sin(angles), abs=1e-7)
        assert row[6] == pytest.approx(2 * np.pi * np.sqrt(a**3 / (GAUSS**2 * (1 + 1 / ratio))), rel=1e-11)


@pytest.mark.parametrize("speed", [0.3, 1.0, 1.2, 1.4, 1.5, 2.5])  # ellipses, a circle, hyperbolas
def test_elements_stay_and_the_mean_anomaly_grows_evenly(speed):
    dt, steps = 1e-3, 400
    out = tp.compile(kepler, dt, order=4).evolve(
        q=[1.0, 0.0], p=[0.1, speed], steps=steps, observe={"o": orbital_elements(about="origin", mu="mu")}
    )
    o = out["o"][:, 0]
    assert np.abs(o[:, :3] - o[0, :3]).max() < 1e-7 * max(1, abs(o[0, 0]))
    M = np.unwrap(o[:, 5]) if o[0, 0] > 0 else o[:, 5]
    rate = np.abs(o[0, 0]) ** -1.5
    assert M - M[0] == pytest.approx(rate * out.times("o"), abs=2e-5)
    period = 2 * np.pi / rate if o[0, 0] > 0 else np.inf
    assert o[0, 6] == pytest.approx(period, rel=1e-12)


def test_a_circle_has_angles_that_add_up():
    at = np.linspace(0, 2 * np.pi, 9)[:-1] + 0.1
    q, p = np.stack([np.cos(at), np.sin(at)], 1), np.stack([-np.sin(at), np.cos(at)], 1)
    out = tp.compile(kepler, 0.01).evolve(
        q=q, p=p, steps=0, observe={"o": orbital_elements(about="origin", mu=1.0)}
    )
    o = out["o"][0, :, 0]
    where = o[:, 3] + o[:, 4] + o[:, 5]
    assert np.cos(where - at) == pytest.approx(np.ones(8), abs=1e-12) and np.sin(where - at) == pytest.approx(
        np.zeros(8), abs=1e-12
    )


def test_two_bodies_about_each_other_or_about_the_rest_are_one_orbit():
    q, p = np.array([[0.0, 0, 0], [1.0, 0, 0.2]]), np.array([[0.1, -0.5, 0], [-0.1, 0.5, 0.3]])
    got = observed(
        gravity,
        {"one": orbital_elements(about=0), "rest": orbital_elements(about="barycentre")},
        q=q,
        p=p,
        m=[3.0, 0.5],
    )
    assert got["one"].shape == (1, len(ELEMENTS)) and got["rest"].shape == (2, len(ELEMENTS))
    assert got["rest"][1] == pytest.approx(got["one"][0], rel=1e-11)
    assert got["rest"][0][:3] == pytest.approx(got["one"][0][:3], rel=1e-11)


# --- as observables -----------------------------------------------------------------------------------
ALL = {
    "K": ob.kinetic_energy,
    "T": ob.temperature(kB=0.5),
    "W": ob.virial(),
    "P": ob.pressure(),
    "p": ob.momentum(),
    "L": ob.angular_momentum(),
    "c": ob.centre_of_mass(),
    "S": ob.structure_factor([[1.0, 2.0, 0.5]]),
    "v": ob.velocity(),
}


@pytest.mark.parametrize("backend", ["python", "numpy", "c"])
def test_every_backend_observes_the_same_bits(backend):
    q, p = some(3)
    q4, p4 = some(4)
    runs = [
        tp.compile(liquid, 0.002, backend=b).evolve(x=q, px=p, steps=4, observe=ALL)
        for b in ("llvm", backend)
    ]
    for name in ALL:
        assert np.array_equal(runs[0][name], runs[1][name]), name
    o = {"o": orbital_elements(about=0), "b": orbital_elements(about="barycentre")}
    runs = [
        tp.compile(gravity, 0.002, backend=b).evolve(q=q4, p=p4, m=HEAVY, steps=3, observe=o)
        for b in ("llvm", backend)
    ]
    for name in o:
        assert np.array_equal(runs[0][name], runs[1][name], equal_nan=True), name


@pytest.mark.requirement("S2-71")
def test_observing_changes_no_bit():
    q, p = (
        1.5 * np.array([[i >> 2, i >> 1 & 1, i & 1] for i in range(8)]) + 0.1 * some(8)[0] / 3,
        some(8)[1],
    )  # none meet
    sim = tp.compile(liquid, 0.002)
    plain = sim.evolve(x=q, px=p, steps=50)
    watched = sim.evolve(x=q, px=p, steps=50, observe=ALL)
    assert plain.hash == watched.hash
    again = {
        name: sim.evolve(x=watched.final.x, px=watched.final.px, steps=0, observe=ALL)[name][0]
        for name in ("K", "P")
    }
    assert all(again[name] == watched[name][-1] for name in again)  # in the loop, and of the finished state


def test_an_ensemble_has_one_value_a_member():
    q, p = some(4)
    out = tp.compile(liquid, 0.002).evolve(
        x=np.stack([q, q + 1]),
        px=np.stack([p, 2 * p]),
        steps=3,
        observe={"T": ob.temperature(), "L": ob.angular_momentum()},
    )
    assert out["T"].shape == (4, 2) and out["L"].shape == (4, 2, 3)
    assert out["T"][0, 1] == pytest.approx(4 * out["T"][0, 0], rel=1e-14)


def test_a_monitor_has_a_name_and_can_be_pickled():
    q, p = some(4)
    sim = tp.compile(liquid, 0.002, sizes={"n": 4})
    sim.monitor(ob.temperature(kB=2.0))
    sim.monitor(ob.momentum, name="P")
    out = pickle.loads(pickle.dumps(sim)).evolve(x=q, px=p, steps=1)
    assert np.array_equal(out["temperature"], sim.evolve(x=q, px=p, steps=1)["temperature"]) and out[
        "P"
    ].shape == (2, 3)
    assert repr(copy.copy(sim).monitors["temperature"]) == "temperature(kB=2.0)"


@pytest.mark.parametrize(
    "measure, told",
    [
        (ob.pressure(), "no parameter box"),
        (ob.pressure(box="side"), "no parameter `side`"),
        (ob.temperature(kB="kb"), "no parameter `kb`"),
        (ob.temperature(drift="gone"), 'drift is "removed"'),
        (ob.potential_energy(term=4), "4 is not one of them"),
        (ob.structure_factor([[1.0, 2.0]]), "wave vectors of shape"),
        (ob.structure_factor([[np.nan, 0, 0]]), "finite"),
        (ob.angular_momentum(about="sun"), 'about is "origin"'),
        (ob.angular_momentum(dimensions=1), "no angular momentum"),
        (ob.momentum(dimensions=5), "not all bodies in the same space"),
        (orbital_elements(about=9), "has 3 bodies"),
        (orbital_elements(about="origin"), "mu"),
    ],
)
def test_mistakes_are_told(measure, told):
    q, p = some(3)
    with pytest.raises(tp.InputError, match=told):
        observed(gravity, {"x": measure}, q=q, p=p)


def test_a_map_has_no_momenta():
    with pytest.raises(tp.InputError, match="is a map"):
        tp.compile(henon).evolve(x=0.1, y=0.1, steps=1, observe={"P": ob.momentum()})
