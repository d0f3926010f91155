"""A sum of library systems: a liquid of Lennard-Jones atoms, bonds between pairs of them, and their charges."""

import numpy as np

import tinyphysics as tp
from tinyphysics.physics.additions import bonds, charges
from tinyphysics.physics.molecular import liquid

side, count = 1.3, 216
sites = np.stack(np.meshgrid(*[np.arange(6) * side] * 3, indexing="ij"), -1).reshape(-1, 3)
pairs = [(i, i + 1) for i in range(0, count, 2)]
p = np.random.default_rng(0).normal(size=(count, 3))
salt = liquid + bonds + charges
start = dict(
    q=sites,
    p=p - p.mean(axis=0),
    box=[6 * side] * 3,
    bonds=pairs,
    k_bond=200.0,
    r0=side,
    cutoff=2.5,
    charge=np.where(np.arange(count) % 2, 0.3, -0.3),
)
dt = 0.002

if __name__ == "__main__":
    sim = tp.compile(salt, dt)
    out = sim.evolve(**start, steps=500)
    stretch = np.linalg.norm(out.final.q[1::2] - out.final.q[::2], axis=1)
    print(sim.system.linked)
    print(f"energy drift {out.drift('energy'):.1e}, bonds of {stretch.mean():.3f} +- {stretch.std():.3f}")
    assert (
        out.drift("energy") < 1e-3
        and abs(stretch.mean() - side) < 0.1
        and sim.certificate.level == "symplectic"
    )
