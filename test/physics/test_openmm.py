"""OpenMM's Reference platform, an independent engine in double precision: the same energies and forces, to 1e-10."""

from __future__ import annotations

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.physics import bonding, molecular, starts

try:
    import openmm
except ImportError:
    openmm = None

pytestmark = [
    pytest.mark.all,
    pytest.mark.skipif(openmm is None, reason="compares with OpenMM: pip install tinyphysics[peers]"),
]

BOX = np.array([3.0, 3.5, 4.0])  # nm; energies in kJ/mol
CELL = np.array([[3.0, 0.0, 0.0], [0.5, 3.5, 0.0], [-0.7, 1.1, 4.0]])
N = 60
BONDS = bonding.chains(10, 6)
ANGLES, DIHEDRALS = bonding.angles(BONDS), bonding.dihedrals(BONDS)
EXCLUDED = bonding.exclusions(BONDS, 3)


def atoms():
    q, _ = starts.random_liquid(N, distance=0.3, seed=4, box=BOX)
    return q


def chains():
    """Ten chains that go through the walls."""
    rng = np.random.default_rng(1)
    steps = rng.normal(size=(10, 6, 3)) * 0.03 + [0.12, 0.0, 0.02]
    steps[:, :, 1] += 0.07 * (-1.0) ** np.arange(6)
    return (np.cumsum(steps, axis=1) + rng.uniform(0, 3, (10, 1, 3))).reshape(-1, 3)


def theirs(q, forces, cell=None):
    """(energy, forces) of OpenMM; atoms of mass 1."""
    system = openmm.System()
    for _ in q:
        system.addParticle(1.0)
    rows = np.diag(BOX) if cell is None else cell
    system.setDefaultPeriodicBoxVectors(*[openmm.Vec3(*row) for row in rows.tolist()])
    for force in forces:
        system.addForce(force)
    context = openmm.Context(
        system, openmm.VerletIntegrator(0.001), openmm.Platform.getPlatformByName("Reference")
    )
    context.setPositions([openmm.Vec3(*row) for row in q.tolist()])
    state = context.getState(getEnergy=True, getForces=True)
    return state.getPotentialEnergy()._value, np.array([list(f) for f in state.getForces()._value])


def ours(system, q, **given):
    dt = 2.0**-10
    sim = tp.compile(system, dt=dt, method="symplectic_euler")
    out = sim.evolve(q=q, p=np.zeros_like(q), steps=1, **given)
    return out.energy[0], out.final.p / dt


def agree(one, two):
    assert one[0] == pytest.approx(two[0], rel=1e-10)
    assert np.abs(one[1] - two[1]).max() < 1e-10 * np.abs(two[1]).max()


def custom_pairs(formula, cutoff, numbers, per_atom, left_out=(), **constants):
    force = openmm.CustomNonbondedForce(formula)
    force.setNonbondedMethod(openmm.CustomNonbondedForce.CutoffPeriodic)
    force.setCutoffDistance(cutoff)
    for name, value in constants.items():
        force.addGlobalParameter(name, value)
    for name in per_atom:
        force.addPerParticleParameter(name)
    for row in numbers:
        force.addParticle(list(row))
    for i, j in np.asarray(left_out, int).reshape(-1, 2).tolist():
        force.addExclusion(i, j)
    return force


LJ = "4*epsilon*((sigma/r)^12 - (sigma/r)^6) - 4*epsilon*((sigma/rc)^12 - (sigma/rc)^6)"


def test_a_liquid():
    q = atoms()
    force = custom_pairs(LJ, 1.2, [()] * N, (), epsilon=0.996, sigma=0.3405, rc=1.2)
    agree(ours(molecular.liquid, q, box=BOX, epsilon=0.996, sigma=0.3405, cutoff=1.2), theirs(q, [force]))


def test_a_mixture_with_the_switch():
    q, types = atoms(), np.arange(N) % 2
    e, s = np.array([0.996, 1.386]), np.array([0.3405, 0.3633])  # argon and krypton
    epsilon, sigma = molecular.lorentz_berthelot(e, s)
    formula = (
        "4*epsilon*((sigma/r)^12 - (sigma/r)^6)*select(step(r - on), t^3*(10 - 15*t + 6*t^2), 1);"
        "t = (rc^2 - r^2)/(rc^2 - on^2); epsilon = sqrt(e1*e2); sigma = (s1 + s2)/2"
    )
    force = custom_pairs(formula, 1.2, zip(e[types].tolist(), s[types].tolist()), ("e", "s"), rc=1.2, on=0.9)
    given = dict(types=types, epsilon=epsilon, sigma=sigma, cutoff=1.2, switch=0.9)
    agree(ours(molecular.mixture, q, box=BOX, **given), theirs(q, [force]))


def test_a_metal():
    q = atoms()
    formula = (
        "depth*((1 - exp(-a*(r - r0)))^2 - 1)*select(step(r - on), t^3*(10 - 15*t + 6*t^2), 1);"
        "t = (rc^2 - r^2)/(rc^2 - on^2)"
    )
    force = custom_pairs(formula, 1.2, [()] * N, (), depth=33.0, a=13.6, r0=0.287, rc=1.2, on=1.0)
    agree(
        ours(molecular.metal, q, box=BOX, depth=33.0, a=13.6, r0=0.287, cutoff=1.2, switch=1.0),
        theirs(q, [force]),
    )


@tp.hamiltonian
def charges(
    q: tp.Array["n", 3], p: tp.Array["n", 3], cell: tp.Array[3, 3], charge: tp.Vec["n"], rc: float, eps: float
):
    r2 = tp.pair_distance2(q, box=cell, cutoff=rc, exclude=EXCLUDED)
    pair = charge[:, None] * charge[None, :]
    return (p**2).sum() / 2 + tp.pair_sum(molecular.reaction_field(r2, pair, rc, eps, molecular.COULOMB))


def test_a_reaction_field_in_a_tilted_cell_with_exclusions():
    """This is OpenMM's own NonbondedForce, with its own constants."""
    q, charge = atoms(), 0.4 * (-1.0) ** np.arange(N)
    force = openmm.NonbondedForce()
    force.setNonbondedMethod(openmm.NonbondedForce.CutoffPeriodic)
    force.setCutoffDistance(1.2)
    force.setReactionFieldDielectric(61.0)
    for c in charge.tolist():
        force.addParticle(c, 1.0, 0.0)
    for i, j in EXCLUDED.tolist():
        force.addException(i, j, 0.0, 1.0, 0.0)
    given = dict(cell=CELL, charge=charge, rc=1.2, eps=61.0)
    agree(ours(charges, q, **given), theirs(q, [force], CELL))


def test_a_salt():
    q, types = atoms(), np.arange(N) % 2
    charge = (-1.0) ** types
    A, B, C = (
        np.array([[4e4, 1e5], [1e5, 3e5]]),
        np.array([[31.0, 31.5], [31.5, 32.0]]),
        np.array([[1e-4, 7e-4], [7e-4, 7e-3]]),
    )
    formula = (
        "a*exp(-b*r) - c/r^6 - (a*exp(-b*rc) - c/rc^6) + k*q1*q2*(1/r + kr*r^2 - crf);"
        "a = table_a(t1, t2); b = table_b(t1, t2); c = table_c(t1, t2)"
    )
    rc, eps = 1.2, 6.0
    force = custom_pairs(
        formula,
        rc,
        zip(charge.tolist(), types.tolist()),
        ("q", "t"),
        rc=rc,
        k=molecular.COULOMB,
        kr=(eps - 1) / (2 * eps + 1) / rc**3,
        crf=3 * eps / (2 * eps + 1) / rc,
    )
    for name, table in (("table_a", A), ("table_b", B), ("table_c", C)):
        force.addTabulatedFunction(name, openmm.Discrete2DFunction(2, 2, table.ravel().tolist()))
    given = dict(charge=charge, types=types, A=A, B=B, C=C, cutoff=rc, dielectric=eps)
    agree(ours(molecular.salt, q, box=BOX, **given), theirs(q, [force]))


C = np.array([9.28, 12.16, -13.12, -3.06, 26.24, -31.5])  # butane, kJ/mol: Ryckaert & Bellemans 1975


def bonded_forces():
    bonds, angles = openmm.HarmonicBondForce(), openmm.HarmonicAngleForce()
    dihedrals = openmm.RBTorsionForce()
    for i, j in BONDS.tolist():
        bonds.addBond(i, j, 0.153, 1e5)
    for row in ANGLES.tolist():
        angles.addAngle(*row, 1.95, 520.0)
    for row in DIHEDRALS.tolist():
        dihedrals.addTorsion(*row, *C.tolist())
    for force in (bonds, angles, dihedrals):
        force.setUsesPeriodicBoundaryConditions(True)
    return [bonds, angles, dihedrals]


def test_an_alkane():
    """Bonds, angles and dihedrals by OpenMM's own forces, atoms at any of their images."""
    q = chains()
    wound = q + BOX * np.random.default_rng(3).integers(-2, 3, q.shape)
    pairs = custom_pairs(LJ, 1.2, [()] * N, (), EXCLUDED, epsilon=0.6, sigma=0.29, rc=1.2)
    given = dict(
        bonds=BONDS,
        angles=ANGLES,
        dihedrals=DIHEDRALS,
        partners=bonding.partners(EXCLUDED, N),
        m=1.0,
        epsilon=0.6,
        sigma=0.29,
        k_bond=1e5,
        r0=0.153,
        k_angle=520.0,
        theta0=1.95,
        c=C,
        cutoff=1.2,
    )
    agree(ours(molecular.alkane, wound, box=BOX, **given), theirs(q, [*bonded_forces(), pairs]))


@tp.hamiltonian
def torsions(
    q: tp.Array["n", 3], p: tp.Array["n", 3], dihedrals: tp.Array["d", 4], k: tp.Vec["d"], box: tp.Vec[3]
):
    return (p**2).sum() / 2 + molecular.periodic_dihedrals(q, dihedrals, k, 3, 0.3, box).sum()


def test_periodic_dihedrals_and_fene_bonds():
    q = chains()
    k = np.linspace(1, 5, len(DIHEDRALS))
    force = openmm.PeriodicTorsionForce()
    for row, each in zip(DIHEDRALS.tolist(), k.tolist()):
        force.addTorsion(*row, 3, 0.3, each)
    force.setUsesPeriodicBoundaryConditions(True)
    agree(ours(torsions, q, dihedrals=DIHEDRALS, k=k, box=BOX), theirs(q, [force]))
    scale = 7.0  # beads of size 1
    cell = np.diag(BOX * scale)
    fene = openmm.CustomBondForce("-15*2.25*log(1 - (r/1.5)^2)")
    for i, j in BONDS.tolist():
        fene.addBond(i, j)
    fene.setUsesPeriodicBoundaryConditions(True)
    rc = molecular.WCA
    pairs = custom_pairs(LJ, rc, [()] * N, (), epsilon=1.0, sigma=1.0, rc=rc)
    q = straight_chains()
    agree(ours(molecular.polymer, q, box=BOX * scale, bonds=BONDS), theirs(q, [fene, pairs], cell))


def straight_chains():
    rng = np.random.default_rng(5)
    at = np.stack(np.meshgrid([0.0, 4.0, 8.0, 12.0, 16.0], [0.0, 9.0]), -1).reshape(-1, 2)
    along = np.arange(6)[None, :, None] * [0.9, 0.0, 0.3]
    return (
        along + np.array([[0.0, y, z] for y, z in at])[:, None] + rng.normal(size=(10, 6, 3)) * 0.05
    ).reshape(-1, 3)
