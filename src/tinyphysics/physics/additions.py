"""What is added to a system that moves?  Potentials for sums such as `gravity + oblateness` and `chain + trap`."""

# mypy: allow-untyped-defs, allow-incomplete-defs
# systems stand here as users write them: without types of what they return
from __future__ import annotations

from tinyphysics.front.functions import sqrt
from tinyphysics.front.neighbours import pair_distance2
from tinyphysics.front.pairs import pair_sum
from tinyphysics.front.spaces import Array, Vec
from tinyphysics.front.trace import potential
from tinyphysics.physics.molecular import harmonic_bonds, reaction_field


# --- for anything along a line ------------------------------------------------------------------------
@potential
def trap(q: Vec["n"], stiffness: float = 1.0):
    """A spring from each one to the origin; of a chain, to its own place."""
    return stiffness * (q @ q) / 2


# --- for bodies in space ------------------------------------------------------------------------------
@potential
def uniform_field(q: Array["n", 3], m: Vec["n"], field: Vec[3]):
    """The same acceleration for all, such as (0, 0, -9.81)."""
    return -(m * (q * field).sum(-1)).sum()


@potential
def oblateness(q: Array["n", 3], m: Vec["n"], J2: float, radius: float, G: float = 1.0):
    """The first body is flattened along z: what its second zonal harmonic does to the others, and they to it."""
    apart = q[1:] - q[0]
    r2 = (apart**2).sum(-1)
    shape = (3.0 * apart[:, 2] ** 2 / r2 - 1.0) / (2.0 * r2 * sqrt(r2))
    return G * J2 * radius**2 * m[0] * (m[1:] * shape).sum()


@potential
def radiation_pressure(q: Array["n", 3], m: Vec["n"], beta: Vec["n"], G: float = 1.0):
    """Light from the first body: it takes away the fraction `beta` of its pull on each of the others (Burns et al. 1979).

    As an energy it acts on both: the light's recoil on its source is included.
    """
    r = sqrt(((q[1:] - q[0]) ** 2).sum(-1))
    return G * m[0] * (beta[1:] * m[1:] / r).sum()


# --- for atoms in a box -------------------------------------------------------------------------------
@potential
def bonds(q: Array["n", 3], box: Vec[3], bonds: Array["b", 2], k_bond: float, r0: float):
    """Springs between the pairs of a list, of one stiffness and one length."""
    return harmonic_bonds(q, bonds, k_bond, r0, box).sum()


@potential
def charges(
    q: Array["n", 3], box: Vec[3], charge: Vec["n"], cutoff: float, dielectric: float = 78.3, k: float = 1.0
):
    """Coulomb energies up to a cutoff, with a reaction field beyond it."""
    r2 = pair_distance2(q, box=box, cutoff=cutoff, shift=True)
    return pair_sum(reaction_field(r2, charge[:, None] * charge[None, :], cutoff, dielectric, k))
