"""Do the potentials that are added to a system do what they are known for?"""

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.physics.additions import bonds, charges, oblateness, radiation_pressure, trap, uniform_field
from tinyphysics.physics.chains import oscillators
from tinyphysics.physics.molecular import liquid
from tinyphysics.physics.particles import gravity


def orbit(inclination, mass=1e-12, pull=1.0):
    """A light body on a circle of radius 1 about one of mass 1."""
    v = np.sqrt(pull)
    q = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    p = np.array([[0.0, 0.0, 0.0], [0.0, mass * v * np.cos(inclination), mass * v * np.sin(inclination)]])
    return dict(q=q, p=p, m=[1.0, mass])


@pytest.mark.parametrize("inclination", [0.3, 1.1])
def test_the_node_of_a_satellite_goes_back(inclination):
    """By 3/2 J2 (R/a)**2 cos(i) a radian of its orbit, to first order in J2."""
    J2, radius, turns = 1e-4, 0.5, 40
    sim = tp.compile(gravity + oblateness, dt=2 * np.pi / 200, order=4)
    out = sim.evolve(**orbit(inclination), J2=J2, radius=radius, steps=200 * turns)
    q, p = out.final.q[1] - out.final.q[0], out.final.p[1]
    normal = np.cross(q, p)
    node = np.arctan2(normal[0], -normal[1])
    assert node == pytest.approx(-1.5 * J2 * radius**2 * np.cos(inclination) * 2 * np.pi * turns, rel=2e-3)


def test_dust_in_light_feels_a_lighter_sun():
    beta = 0.4
    sim = tp.compile(gravity + radiation_pressure, dt=0.01, order=4)
    out = sim.evolve(**orbit(0.2, pull=1 - beta), beta=[0.0, beta], steps=2000, save_every=100)
    assert np.abs(np.linalg.norm(out.q[:, 1] - out.q[:, 0], axis=-1) - 1).max() < 1e-7
    assert np.abs(out.p.sum(axis=1) - out.p[0].sum(axis=0)).max() < 1e-24


def test_a_field_lets_all_fall_alike():
    sim = tp.compile(gravity + uniform_field, dt=0.01)
    out = sim.evolve(
        q=np.array([[0.0, 0, 0], [5, 0, 0]]),
        p=np.zeros((2, 3)),
        m=[1.0, 2.0],
        G=0.0,
        field=[0, 0, -2.0],
        steps=100,
    )
    assert out.final.q[:, 2] == pytest.approx([-1.0, -1.0], rel=1e-12)


def test_a_trap_raises_the_frequency_of_each_mode():
    out = tp.compile(oscillators + trap, dt=0.001).evolve(q=[0.1], p=[0.0], stiffness=7.0, steps=1000)
    assert out.final.q[0] == pytest.approx(
        0.1 * np.cos(3.0), abs=1e-6
    )  # two springs to the walls, and the trap


def test_atoms_with_bonds_and_charges():
    rng = np.random.default_rng(2)
    q = np.stack(np.meshgrid(*[np.arange(5) * 1.3] * 3), -1).reshape(-1, 3) + rng.uniform(-0.1, 0.1, (125, 3))
    pairs = [(k, k + 1) for k in range(0, 124, 2)]
    charge = np.where(np.arange(125) % 2, 0.5, -0.5)
    given = dict(q=q, p=0 * q, box=[6.5] * 3, bonds=pairs, k_bond=50.0, r0=1.2, charge=charge, cutoff=2.5)
    sim = tp.compile(liquid + bonds + charges, dt=0.002)
    out = sim.evolve(**given, steps=200)
    alone = tp.compile(liquid, dt=0.002).evolve(q=q, p=0 * q, box=[6.5] * 3, cutoff=2.5, steps=0).energy[0]
    d = np.array([q[j] - q[i] for i, j in pairs])
    d -= 6.5 * np.rint(d / 6.5)
    springs = (25.0 * (np.linalg.norm(d, axis=1) - 1.2) ** 2).sum()
    i, j = np.triu_indices(125, 1)
    r = q[i] - q[j]
    r = np.linalg.norm(r - 6.5 * np.rint(r / 6.5), axis=1)
    k_rf, c_rf = (78.3 - 1) / (2 * 78.3 + 1) / 2.5**3, 3 * 78.3 / (2 * 78.3 + 1) / 2.5
    between = (charge[i] * charge[j] * (1 / r + k_rf * r**2 - c_rf))[r < 2.5].sum()
    assert out.energy[0] == pytest.approx(alone + springs + between, rel=1e-10)
    assert out.drift("energy") < 1e-3 and sim.certificate.symplectic
