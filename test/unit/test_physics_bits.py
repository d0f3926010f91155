"""Every system of the library: the same bits on every backend, and certified where it has an energy."""

from __future__ import annotations

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.physics import chains, fields, fluids, particles

BACKENDS = ("python", "numpy", "c", "llvm")
RNG = np.random.default_rng(3)
CLUSTER = particles.plummer(3, seed=5)
CHAIN = dict(q=RNG.normal(size=4) / 3, p=RNG.normal(size=4) / 3)
SHEET = RNG.normal(size=(2, 3, 2)) / 3
FLOW = fluids.flow(RNG.uniform(-0.05, 0.05, (2, 3, 3)))
WALLS = np.array([[1.0, 1.0, 1.0], [0.0, 0.0, 0.0], [1.0, 2.0, 0.0]])

CASES = {  # a system, a start, how many steps
    "gravity": (particles.gravity, CLUSTER | {"softening": 0.1}, 20),
    "coulomb": (particles.coulomb, CLUSTER | {"charge": [1.0, -1.0, 2.0]}, 20),
    "oscillators": (chains.oscillators, CHAIN | {"onsite": 0.5}, 20),
    "fput": (chains.fput, CHAIN | {"beta": 0.3}, 20),
    "toda": (chains.toda, CHAIN, 20),
    "toda_open": (chains.toda_open, CHAIN, 20),
    "wave": (fields.wave, {"u": SHEET[0], "v": SHEET[1], "mass": 0.3}, 20),
    "phi4": (fields.phi4, fields.phi4_kink(5, 0.5, 0.3), 20),
    "sine_gordon": (fields.sine_gordon, fields.sine_gordon_kink(4, 0.5, 0.3), 10),
    "rotors": (fields.rotors, {"angle": SHEET[0, :2], "spin": SHEET[1, :2]}, 10),
    "fluid": (fluids.fluid, {"f": FLOW, "solid": WALLS, "tau": 0.7, "gx": 1e-3, "gy": 1e-3, "lid": 0.1}, 5),
    "fluid3": (fluids.fluid3, {"f": fluids.still(1, 2, 1), "gx": 1e-3, "gz": 1e-3}, 3),
}


def test_every_system_of_the_library_is_in_the_table():
    modules = (chains, fields, fluids, particles)
    assert {n for m in modules for n, v in vars(m).items() if type(v).__name__ == "SizedFamily"} == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_every_backend_has_the_same_bits_and_an_energy_its_certificate(name):
    system, start, steps = CASES[name]
    dt = None if system.kind == "map" else 0.05
    hashes = {}
    for backend in BACKENDS:
        sim = tp.compile(system, dt, backend=backend)
        hashes[backend] = sim.evolve(**start, steps=steps).hash
    assert len(set(hashes.values())) == 1, hashes
    if system.kind == "hamiltonian":
        assert sim.certificate.symplectic and sim.certificate.reversible and sim.certificate.consistent


SIZES = {"n": 100, "h": 16, "w": 20}


@pytest.mark.parametrize("name", [n for n, case in CASES.items() if case[0].kind == "hamiltonian"])
def test_the_certificate_does_not_depend_on_the_size(name):
    """Above 64 numbers nothing is compared number by number: the proof is one about arrays."""
    system = CASES[name][0]
    sim = tp.compile(system, 0.05, sizes={n: SIZES[n] for n in system.letters})
    assert sim.certificate.symplectic and sim.certificate.reversible and sim.certificate.consistent
