"""A fluid pushed through a channel, by lattice Boltzmann: Poiseuille's parabola, to a part in a million."""

import numpy as np

import tinyphysics as tp
from tinyphysics.physics.fluids import channel, density_and_velocity, fluid, still, viscosity

h, push = 10, 1e-5
tau = 0.5 + np.sqrt(3 / 16)  # where a half-way wall is exactly half-way
start = dict(f=still(h, 1), solid=channel(h, 1), tau=tau, gx=push)
steps = 3000

if __name__ == "__main__":
    sim = tp.compile(fluid)  # a map has no dt
    out = sim.evolve(**start, steps=steps)
    rho, (_, ux) = density_and_velocity(out.final.f, (0.0, push))
    y = np.arange(1, h - 1) - 0.5
    parabola = push / (2 * viscosity(tau)) * y * (h - 2 - y)
    for a, u, exact in zip(y, ux[1:-1, 0], parabola):
        print(f"y = {a:3.1f}: {u:.8f}, exactly {exact:.8f}  " + "#" * round(40 * u / parabola.max()))
    print(f"mass {out.final.f[:, 1:-1].sum():.12f}, at the start {h - 2}")
    assert np.abs(ux[1:-1, 0] / parabola - 1).max() < 1e-6
    assert abs(out.final.f[:, 1:-1].sum() - (h - 2)) < 1e-10
