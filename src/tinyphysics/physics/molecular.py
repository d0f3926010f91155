"""Which energies hold molecules and liquids together?  Of a pair, of bonds, angles and dihedrals; and systems made of them.

The energy of a pair is a function of its squared distance, for `pair_sum` over a `pair_distance2`. Bonded terms take
positions and a list of indices, a row for each term, and give one energy a row; in a box they are those of
nearest images. Nothing has a unit: whatever is used for length, energy and mass, the rest follows (docs/molecular.md).
"""

# mypy: allow-untyped-defs, allow-incomplete-defs
# systems stand here as users write them: without types of what they return
from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinyphysics.errors import InputError
from tinyphysics.front.functions import arctan2, cos, cross, exp, log1p, maximum, sqrt, where
from tinyphysics.front.neighbours import pair_distance2, separation
from tinyphysics.front.pairs import pair_sum
from tinyphysics.front.spaces import Array, Vec
from tinyphysics.front.trace import hamiltonian

COULOMB = 138.935457644382  # 1/(4 pi epsilon0) in kJ/mol nm/e**2: CODATA 2018
BOLTZMANN = 0.00831446261815324  # in kJ/mol/K: exact since 2019
WCA = 2.0 ** (1 / 6)  # where Lennard-Jones, sigma = 1, has its minimum: cut there it only repels
# a squared sine of an angle below which three atoms count as on a line: (2**-53)**2 is 1.2e-32
ON_A_LINE = 1e-32


# --- of a pair --------------------------------------------------------------------------------------
def lennard_jones(r2: Any, epsilon: Any = 1.0, sigma: Any = 1.0) -> Any:
    """4 epsilon ((sigma/r)**12 - (sigma/r)**6): -epsilon at its minimum, r = 2**(1/6) sigma.

    >>> lennard_jones(1.0), lennard_jones(4.0, epsilon=2.0, sigma=2.0)
    (0.0, 0.0)
    """
    s2 = sigma * sigma / r2
    s6 = s2 * s2 * s2
    return 4.0 * epsilon * (s6 * s6 - s6)


def lorentz_berthelot(epsilon: Any, sigma: Any) -> tuple[Any, Any]:
    """(epsilon, sigma) of all pairs of types, from those of each: the geometric and the arithmetic mean.

    >>> [table.tolist() for table in lorentz_berthelot([1.0, 4.0], [1.0, 2.0])]
    [[[1.0, 2.0], [2.0, 4.0]], [[1.0, 1.5], [1.5, 2.0]]]
    """
    e, s = np.asarray(epsilon, float), np.asarray(sigma, float)
    if e.ndim != 1 or e.shape != s.shape or not ((e >= 0) & (e < math.inf) & (s >= 0) & (s < math.inf)).all():
        raise InputError(
            f"epsilon={epsilon!r} and sigma={sigma!r} are not one number, 0 or larger, for each type",
            fix="lorentz_berthelot([1.0, 0.5], [1.0, 1.2]) is for two types.",
        )
    return np.sqrt(e[:, None] * e), (s[:, None] + s) / 2


def lennard_jones_tail(
    density: float, cutoff: float, epsilon: float = 1.0, sigma: float = 1.0
) -> tuple[float, float]:
    """(energy of an atom, pressure) that a cutoff leaves out of the full potential, if g(r) = 1 beyond it.

    For a potential that is cut; `shift` also lowers each pair within the cutoff, which is not counted here.

    >>> [round(x, 4) for x in lennard_jones_tail(0.8, 2.5)]
    [-0.4283, -0.6844]
    """
    s3 = (sigma / cutoff) ** 3
    unit = math.pi * density * epsilon * sigma**3
    return unit * (8 / 9 * s3**3 - 8 / 3 * s3), density * unit * (32 / 9 * s3**3 - 16 / 3 * s3)


def morse(r2: Any, depth: Any = 1.0, a: Any = 1.0, r0: Any = 1.0) -> Any:
    """depth ((1 - exp(-a (r - r0)))**2 - 1): -depth at r0, 0 far away; finite at r = 0.

    >>> morse(1.0, depth=3.0)
    -3.0
    """
    e = exp(a * (r0 - sqrt(r2)))
    return depth * e * (e - 2.0)


def buckingham(r2: Any, A: Any, B: Any, C: Any) -> Any:
    """A exp(-B r) - C/r**6.

    It has a maximum at a small r, and inside of it falls to minus infinity: whoever comes over that hill does not
    come back. Start with no two nearer than it, and hot atoms need another potential.
    """
    return A * exp(-B * sqrt(r2)) - C / (r2 * r2 * r2)


def shifted_coulomb(r2: Any, charges: Any, cutoff: Any, k: Any = 1.0) -> Any:
    """k qi qj (1/r - 1/cutoff), zero at the cutoff; `charges` are the products qi qj: q[:, None]*q[None, :]."""
    return k * charges * (1.0 / sqrt(r2) - 1.0 / cutoff)


def reaction_field(r2: Any, charges: Any, cutoff: Any, dielectric: Any = 78.3, k: Any = 1.0) -> Any:
    """k qi qj (1/r + kr r**2 - c): beyond the cutoff there is a medium, which answers (Tironi & al. 1995).

    kr = (dielectric - 1)/(2 dielectric + 1)/cutoff**3 and c = 1/cutoff + kr cutoff**2, so that it is zero at the cutoff.
    A dielectric of 1 is a vacuum, `shifted_coulomb`; a large one is a conductor, and the force too is zero there.
    """
    kr = (dielectric - 1.0) / ((2.0 * dielectric + 1.0) * cutoff * cutoff * cutoff)
    c = 1.0 / cutoff + kr * cutoff * cutoff
    return k * charges * (1.0 / sqrt(r2) + kr * r2 - c)


# --- of bonds ---------------------------------------------------------------------------------------
def bond_lengths2(q: Any, bonds: Any, box: Any = None) -> Any:
    """The squared length of each bond, a row (i, j) of indices; to the nearest image."""
    d = separation(q[bonds[:, 0]], q[bonds[:, 1]], box)
    return (d * d).sum(-1)


def harmonic_bonds(q: Any, bonds: Any, k: Any, r0: Any, box: Any = None) -> Any:
    """k (r - r0)**2/2 of each bond."""
    stretch = sqrt(bond_lengths2(q, bonds, box)) - r0
    return 0.5 * k * (stretch * stretch)


def fene_bonds(q: Any, bonds: Any, k: Any, longest: Any, box: Any = None) -> Any:
    """-k longest**2/2 log(1 - (r/longest)**2) of each bond: no bond is longer (Kremer & Grest 1990).

    A bond that is stretched beyond has no energy and no force, NaN: the run stops there.
    """
    whole = longest * longest
    share = bond_lengths2(q, bonds, box) / whole
    # the force alone would be finite beyond, and pull outwards
    inside = where(share < 1.0, share, math.nan * share)
    return -0.5 * k * whole * log1p(-inside)


# --- of angles --------------------------------------------------------------------------------------
def bond_angles(q: Any, angles: Any, box: Any = None) -> Any:
    """The angle at j of each row (i, j, k), from 0 to pi, to full precision everywhere.

    On a straight line its slope has no direction, and is taken as zero.
    """
    middle = q[angles[:, 1]]
    a, b = (separation(q[angles[:, end]], middle, box) for end in (0, 2))
    n = cross(a, b)
    least = ON_A_LINE * (a * a).sum(-1) * (b * b).sum(-1)
    # arccos would lose half of the digits
    return arctan2(sqrt(maximum((n * n).sum(-1), least)), (a * b).sum(-1))


def harmonic_angles(q: Any, angles: Any, k: Any, theta0: Any, box: Any = None) -> Any:
    """k (theta - theta0)**2/2 of each angle, in radians."""
    bend = bond_angles(q, angles, box) - theta0
    return 0.5 * k * (bend * bend)


# --- of dihedrals -----------------------------------------------------------------------------------
def dihedral_angles(q: Any, dihedrals: Any, box: Any = None) -> Any:
    """phi of each row (i, j, k, l), from -pi to pi: 0 is cis, pi trans, and clockwise is positive (IUPAC).

    Where three of the four lie on a line phi has no value: it is taken as 0, and its slope too.
    """
    i, j, k, l = (q[dihedrals[:, end]] for end in range(4))  # noqa: E741
    a, b, c = separation(j, i, box), separation(k, j, box), separation(l, k, box)
    m, n = cross(a, b), cross(b, c)
    b2 = (b * b).sum(-1)
    x, y = (m * n).sum(-1), sqrt(b2) * (a * n).sum(-1)
    least = ON_A_LINE * (a * a).sum(-1) * b2 * b2 * (c * c).sum(-1)
    straight = (m * m).sum(-1) * (n * n).sum(-1) <= least
    return arctan2(where(straight, 0.0, y), where(straight, 1.0, x))


def periodic_dihedrals(q: Any, dihedrals: Any, k: Any, n: Any, delta: Any = 0.0, box: Any = None) -> Any:
    """k (1 + cos(n phi - delta)) of each dihedral."""
    return k * (1.0 + cos(n * dihedral_angles(q, dihedrals, box) - delta))


def ryckaert_bellemans(q: Any, dihedrals: Any, c: Any, box: Any = None) -> Any:
    """The sum of c[m] cos(psi)**m of each dihedral, psi = phi - pi; c is one row for all, or one for each.

    In butane psi = 0 is trans (Ryckaert & Bellemans 1975).
    """
    z = -cos(dihedral_angles(q, dihedrals, box))
    out = c[..., -1]
    for m in reversed(range(c.shape[-1] - 1)):
        out = out * z + c[..., m]
    return out


# --- systems ----------------------------------------------------------------------------------------
def kinetic(p: Any, m: Any) -> Any:
    return ((p * p).sum(-1) / (2.0 * m)).sum()


@hamiltonian
def liquid(
    q: Array["n", 3],
    p: Array["n", 3],
    box: Vec[3],
    m: Vec["n"] = 1.0,
    epsilon: float = 1.0,
    sigma: float = 1.0,
    cutoff: float = 2.5,
):
    """Lennard-Jones atoms of one kind, cut and shifted: the forces are those of the potential that is only cut."""
    r2 = pair_distance2(q, box=box, cutoff=cutoff, shift=True)
    return kinetic(p, m) + pair_sum(lennard_jones(r2, epsilon, sigma))


@hamiltonian
def mixture(
    q: Array["n", 3],
    p: Array["n", 3],
    box: Vec[3],
    types: Vec["n"],
    epsilon: Array["t", "t"],
    sigma: Array["t", "t"],
    m: Vec["n"] = 1.0,
    cutoff: float = 2.5,
    switch: float = 2.0,
):
    """Lennard-Jones atoms of several kinds, counted from 0; tables as `lorentz_berthelot` makes them."""
    r2 = pair_distance2(q, box=box, cutoff=cutoff, switch=switch)
    pair = types[:, None], types[None, :]
    return kinetic(p, m) + pair_sum(lennard_jones(r2, epsilon[pair], sigma[pair]))


@hamiltonian
def metal(
    q: Array["n", 3],
    p: Array["n", 3],
    box: Vec[3],
    m: Vec["n"] = 1.0,
    depth: float = 1.0,
    a: float = 6.0,
    r0: float = 1.0,
    cutoff: float = 2.5,
    switch: float = 2.0,
):
    """Morse atoms of one kind, the energy of a pair taken to zero from `switch` to `cutoff`."""
    r2 = pair_distance2(q, box=box, cutoff=cutoff, switch=switch)
    return kinetic(p, m) + pair_sum(morse(r2, depth, a, r0))


@hamiltonian
def salt(
    q: Array["n", 3],
    p: Array["n", 3],
    box: Vec[3],
    charge: Vec["n"],
    types: Vec["n"],
    A: Array["t", "t"],
    B: Array["t", "t"],
    C: Array["t", "t"],
    cutoff: float,
    m: Vec["n"] = 1.0,
    dielectric: float = 78.3,
    k: float = COULOMB,
):
    """Ions with Buckingham's energy by type, shifted, and a reaction field; kJ/mol, nm and e unless k says otherwise."""
    r2 = pair_distance2(q, box=box, cutoff=cutoff, shift=True)
    pair = types[:, None], types[None, :]
    charges = charge[:, None] * charge[None, :]
    return kinetic(p, m) + pair_sum(
        buckingham(r2, A[pair], B[pair], C[pair]) + reaction_field(r2, charges, cutoff, dielectric, k)
    )


@hamiltonian
def polymer(
    q: Array["n", 3],
    p: Array["n", 3],
    box: Vec[3],
    bonds: Array["b", 2],
    m: Vec["n"] = 1.0,
    k: float = 30.0,
    longest: float = 1.5,
    cutoff: float = WCA,
):
    """Kremer & Grest 1990: beads that repel each other, chained by FENE bonds; a bond is about 0.97 long."""
    r2 = pair_distance2(q, box=box, cutoff=cutoff, shift=True)
    return kinetic(p, m) + pair_sum(lennard_jones(r2)) + fene_bonds(q, bonds, k, longest, box).sum()


@hamiltonian
def alkane(
    q: Array["n", 3],
    p: Array["n", 3],
    box: Vec[3],
    bonds: Array["b", 2],
    angles: Array["a", 3],
    dihedrals: Array["d", 4],
    partners: Array["n", "x"],
    m: Vec["n"],
    epsilon: float,
    sigma: float,
    k_bond: float,
    r0: float,
    k_angle: float,
    theta0: float,
    c: Vec[6],
    cutoff: float,
):
    """Chains of united atoms: bonds, angles, dihedrals, and Lennard-Jones between all but `partners` (bonding.partners)."""
    r2 = pair_distance2(q, box=box, cutoff=cutoff, shift=True, exclude=partners)
    bonded = (
        harmonic_bonds(q, bonds, k_bond, r0, box).sum()
        + harmonic_angles(q, angles, k_angle, theta0, box).sum()
        + ryckaert_bellemans(q, dihedrals, c, box).sum()
    )
    return kinetic(p, m) + bonded + pair_sum(lennard_jones(r2, epsilon, sigma))
