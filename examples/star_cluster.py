"""Stars that start at rest fall together, and the cluster that remains is in virial balance: 2T = |V|, roughly."""

import numpy as np

import tinyphysics as tp
from tinyphysics.physics.particles import cold_sphere, gravity

SOFTENING = 0.15
start = cold_sphere(8, seed=2)  # a seed means one cluster, on every machine
dt, steps = 0.01, 3000


def kinetic(p, m):
    return ((p**2).sum(axis=1) / (2 * m)).sum()


def size(q):
    return np.sqrt((q**2).sum())


if __name__ == "__main__":
    sim = tp.compile(gravity, dt)
    out = sim.evolve(**start, softening=SOFTENING, steps=steps, observe={"T": kinetic, "size": size})
    t = out.times("T")
    collapse = t[np.argmin(out["size"][:300])]
    print(f"smallest at t = {collapse:.2f}; a uniform sphere would fall together at {np.pi / np.sqrt(8):.2f}")
    T, E = out["T"][500:].mean(), out.energy[0]
    print(f"virial ratio 2T/|V| before {2 * out['T'][0] / abs(E):.2f}, after {2 * T / abs(E - T):.2f}")
    print(f"energy drift {out.drift('energy'):.1e}")
    assert 0.8 < collapse < 1.6 and 0.6 < 2 * T / abs(E - T) < 1.3 and out.drift("energy") < 1e-2
