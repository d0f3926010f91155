"""No certificate is contradicted by a measurement: every bracket, every method that applies to it, energies at random."""

from __future__ import annotations

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.planner.methods.catalog import METHODS
from tinyphysics.planner.methods.needs import objection

RNG = np.random.default_rng(2024)
# all digits of a float64: products of constants, and thirds of them, are no float64s
A, B, C = (tuple(map(float, RNG.uniform(0.4, 1.6, 3))) for _ in range(3))


@tp.hamiltonian
def pairs(q: tp.Vec[2], p: tp.Vec[2]):
    return (
        A[0] * p[0] ** 2 / 2
        + A[1] * p[1] ** 2 / 2
        + B[0] * tp.cos(q[0])
        + C[0] * q[0] ** 2 * q[1]
        + C[1] * q[1] ** 4
    )


@tp.hamiltonian
def mixed(q: tp.Vec[2], p: tp.Vec[2]):
    return p @ p / 2 + B[1] * q[0] * p[1] + C[2] * q[0] ** 2 * p[0] ** 2 + q @ q / 2


@tp.hamiltonian(bracket="so3")
def top(L: tp.Vec[3]):
    return A[0] * L[0] ** 2 / 2 + A[1] * L[1] ** 2 / 2 + A[2] * L[2] ** 2 / 2 + B[0] * L[2] + C[0] * L[1] ** 4


@tp.hamiltonian(bracket="so3")
def crossed(L: tp.Vec[3]):
    return A[0] * L[0] ** 2 / 2 + A[1] * L[1] ** 2 + B[0] * L[0] * L[2] + C[0] * L[1] * L[2] ** 2


@tp.hamiltonian(bracket="spin")
def spins(S: tp.Array[2, 3]):
    return A[0] * (S[0] * S[1]).sum() + B[0] * S[0, 2] + B[1] * S[1, 0]


@tp.hamiltonian(bracket="se3")
def heavy(L: tp.Vec[3], G: tp.Vec[3]):
    return (L**2 / np.array([1.0, 1.3, 0.6])).sum() / 2 + A[0] * G[0] + B[0] * G[2] ** 2


@tp.hamiltonian
def attitude(R: tp.Rotor, L: tp.Vec[3]):
    return (L**2 / np.array([1.0, 1.3, 0.6])).sum() / 2 + A[1] * tp.rotate(R, [0.1, 0.0, 1.0])[2]


@tp.hamiltonian(bracket=tp.magnetic(lambda q: 1 + A[0] * q[0] + B[0] * q[1] ** 2))
def charge(q: tp.Vec[2], p: tp.Vec[2]):
    return p @ p / 2 + C[0] * q[0] ** 2 + C[1] * q[0] * q[1] ** 2


@tp.hamiltonian(bracket="contact")
def decaying(q, p, s):
    return A[0] * p**2 / 2 + B[0] * tp.cos(q) + C[0] * s


@tp.hamiltonian(bracket=lambda z: [[0.0, z[0] * z[1], -A[0] * z[0] * z[2]], [-z[0] * z[1], 0.0, B[0] * z[1] * z[2]],
                                   [A[0] * z[0] * z[2], -B[0] * z[1] * z[2], 0.0]])  # fmt: skip
def species(z: tp.Vec[3]):
    return z[0] + C[0] * z[1] - tp.log(z[1]) + z[2] ** 2


@tp.hamiltonian(bracket=lambda z: [[0.0, A[0], 0.0], [-A[0], 0.0, B[0]], [0.0, -B[0], 0.0]])
def flat(z: tp.Vec[3]):
    return z[0] ** 4 + C[0] * z[1] ** 2 + tp.cos(z[2])


@tp.hamiltonian(bracket=lambda z: [[0.0, -z[2], z[1]], [z[2], 0.0, -z[0]], [-z[1], z[0], 0.0]])
def written(z: tp.Vec[3]):
    return A[0] * z[0] ** 2 + B[0] * z[1] * z[2] + C[0] * z[2] ** 3


UNIT = {"R": [0.5, 0.5, -0.5, 0.5], "L": [0.3, 0.9, -0.4]}
TABLE = {
    "pairs": (pairs, {"q": [0.3, -0.2], "p": [0.4, 0.6]}, {}),
    "mixed": (mixed, {"q": [0.3, -0.2], "p": [0.4, 0.6]}, {}),
    "friction": (pairs, {"q": [0.3, -0.2], "p": [0.4, 0.6]}, {"friction": 0.3}),
    "two rates": (pairs, {"q": [0.3, -0.2], "p": [0.4, 0.6]}, {"friction": [0.3, 0.1]}),
    "top": (top, {"L": [0.5, 1.1, 0.7]}, {}),
    "crossed": (crossed, {"L": [0.5, 1.1, 0.7]}, {}),
    "spins": (spins, {"S": [[0.6, 0.0, 0.8], [0.0, 1.0, 0.0]]}, {}),
    "heavy": (heavy, {"L": [0.2, 0.3, 1.5], "G": [0.6, 0.0, 0.8]}, {}),
    "attitude": (attitude, UNIT, {}),
    "charge": (charge, {"q": [0.3, -0.2], "p": [0.9, 0.4]}, {}),
    "contact": (decaying, {"q": 1.0, "p": 0.3, "s": 0.2}, {}),
    "species": (species, {"z": [0.7, 0.9, 0.5]}, {}),
    "flat": (flat, {"z": [0.3, 0.2, 0.5]}, {}),
    "written": (written, {"z": [0.5, 1.1, 0.7]}, {}),
}
SHORT = {"leapfrog_kdk", "leapfrog_dkd", "yoshida4", "implicit_midpoint", "gonzalez", "rk4", "rotations", "spherical_midpoint",
         "lie_cayley", "boris", "boris_exact", "axes", "contact", "pieces", "strang", "chin4", "takahashi_imada4"}  # fmt: skip


def rows():
    for name, (system, _, options) in TABLE.items():
        sim = tp.compile(system, dt=0.1, propagator="loop", **options)
        for m in METHODS:
            if not m.adaptive and objection(m, sim.system, sim.built.facts) is None:
                marks = () if m.name in SHORT else pytest.mark.all
                yield pytest.param(name, m.name, marks=marks, id=f"{name}-{m.name}")


@pytest.mark.requirement("S2-20")
@pytest.mark.parametrize("name, method", list(rows()))
def test_no_certificate_is_contradicted_by_what_a_step_does(name, method):
    system, start, options = TABLE[name]
    sim = tp.compile(system, dt=0.1, method=method, checks="off", **options)
    found = sim.check(**start)  # raises a VerifyError where what is claimed does not hold
    claimed = bool(sim.certificate.get(sim.system.structure.headline))
    assert found.symplectic or not claimed
    if method in ("rk4", "boris", "boris_exact", "gonzalez"):
        assert not claimed


@pytest.mark.requirement("S2-20")
@pytest.mark.parametrize(
    "name, method", [("pairs", "chin4"), ("pairs", "rk4"), ("flat", "gauss4"), ("heavy", "rotations4")]
)
def test_the_step_that_is_measured_is_the_one_that_runs(name, method):
    system, start, options = TABLE[name]
    sim = tp.compile(system, dt=0.1, method=method, checks="off", **options)
    step, before = sim.check(**start).of, sim.built.program
    final = sim.evolve(**start, steps=1).final
    ran = np.concatenate([np.ravel(final[s.name]) for s in sim.system.states])
    measured = np.array(step.image(0.1, step.start), float)
    assert np.abs(measured - ran).max() < 1e-14  # constants are rounded in the one that runs
    again = tp.compile(system, dt=0.1, method=method, checks="off", **options)
    assert again.built.program == before  # measuring leaves no constants behind


@tp.hamiltonian
def sliding(q: tp.Vec[3], p: tp.Vec[3]):
    return (
        A[0] * p[0] ** 2 / 3
        + A[1] * p[1] ** 2 / 3
        + A[2] * p[2] ** 2 / 7
        + B[0] * q[2] / 3
        + q[0] ** 2 * q[1]
    )


@tp.constraint
def shell(q: tp.Vec[3]):
    return C[0] * q[0] ** 2 / 3 + C[1] * q[1] ** 2 / 7 + C[2] * q[2] ** 2 / 3 - B[1] / 3


@pytest.mark.requirement("S2-44")
@pytest.mark.parametrize("method", ["rattle", pytest.param("rattle4", marks=pytest.mark.all)])
def test_no_certificate_on_a_surface_is_contradicted(method):
    sim = tp.compile(sliding + shell, dt=0.05, method=method)
    found = sim.check(**sim.consistent(q=[0.5, 0.4, -0.6], p=[0.3, -0.1, 0.2]))
    assert sim.certificate.symplectic and found.symplectic
