"""A planet on an ellipse: write the energy, run one year, see that the orbit closes."""

import numpy as np

import tinyphysics as tp


@tp.hamiltonian
def kepler(q: tp.Vec[2], p: tp.Vec[2], mu: float = 1.0):
    return p @ p / 2 - mu / tp.norm(q)


start = dict(q=[1.0, 0.0], p=[0.0, 1.2])
axis = 1 / (2 - 1.2**2)  # of the ellipse, from the energy: -mu/(2 axis) = p*p/2 - mu/|q|
year = 2 * np.pi * axis**1.5  # Kepler's third law
dt, steps = year / 750, 750

if __name__ == "__main__":
    sim = tp.compile(kepler, dt, order=4)
    print(sim.explain())
    out = sim.evolve(**start, steps=steps)
    miss = np.abs(out.final.q - out.q[0]).max()
    print(f"energy drift over one year: {out.drift('energy'):.1e}")
    print(f"the planet misses its starting point by {miss:.1e}")
    assert out.drift("energy") < 1e-7 and miss < 1e-5
