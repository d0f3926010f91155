"""A charged polymer with two time steps: bonds in every inner step, Lennard-Jones and Coulomb forces once in sixteen."""

import numpy as np

import tinyphysics as tp
from tinyphysics.physics.bonding import chains, exclusions, partners
from tinyphysics.physics.molecular import harmonic_bonds, lennard_jones, reaction_field


@tp.hamiltonian
def backbone(q: tp.Array["n", 3], p: tp.Array["n", 3], bonds: tp.Array["b", 2], k: float = 1e4):
    return (p**2).sum() / 2 + harmonic_bonds(q, bonds, k, 1.0).sum()


@tp.potential
def beads(
    q: tp.Array["n", 3],
    bonded: tp.Array["n", "m"],
    charge: tp.Vec["n"],
    epsilon: float = 0.1,
    cutoff: float = 4.0,
):
    r2 = tp.pair_distance2(q, cutoff=cutoff, exclude=bonded)
    return tp.pair_sum(
        lennard_jones(r2, epsilon) + reaction_field(r2, charge[:, None] * charge[None, :], cutoff)
    )


n, dt, polymer = 16, 0.008, tp.fast(backbone) + tp.slow(beads)
turn, bonds = 0.66 * np.arange(n), chains(1, n)
helix = np.stack([1.5 * np.cos(turn), 1.5 * np.sin(turn), 0.12 * np.arange(n)], -1)
p = np.random.default_rng(3).normal(size=(n, 3)) * 0.7
start = dict(
    q=helix / np.linalg.norm(helix[1] - helix[0]),
    p=p - p.mean(0),
    bonds=bonds,
    charge=0.3 * (-1.0) ** np.arange(n),
    bonded=partners(exclusions(bonds, apart=2), n),
)

if __name__ == "__main__":
    single = tp.compile(backbone + beads, dt=0.001)
    print(single.suggest_split(**start))
    paced = tp.compile(polymer, dt)
    out, other = paced.evolve(**start, steps=200), single.evolve(**start, dt=dt / 4, steps=800)
    (inner,), found = paced.goal.inner, out.metrics["paces"]
    print(
        f"{inner} fast kicks in a step of {dt}, which is {found['half_periods']:.2f} of half the fast period"
    )
    drifts = out.drift("energy"), other.drift("energy")
    print(
        f"energy drift {drifts[0]:.1e} with 200 evaluations of pair forces, {drifts[1]:.1e} with 800 at one pace"
    )
    assert found["safe"] and paced.certificate.symplectic and inner == 16
    assert 4 * drifts[0] < drifts[1]
