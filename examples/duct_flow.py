"""A fluid in a square duct, by lattice Boltzmann in three dimensions, compared with Boussinesq's series (1868)."""

import numpy as np

import tinyphysics as tp
from tinyphysics.physics.fluids import density_and_velocity, fluid3, still, viscosity

n, push, tau = 20, 1e-6, 0.9  # fluid sites across; walls all round
solid = np.ones((n + 2, n + 2, 1))
solid[1:-1, 1:-1] = 0.0
start = dict(f=still(n + 2, n + 2, 1), solid=solid, tau=tau, gx=push)
steps = 4000

if __name__ == "__main__":
    out = tp.compile(fluid3).evolve(**start, steps=steps)
    ux = density_and_velocity(out.final.f, (0.0, 0.0, push))[1][2, 1:-1, 1:-1, 0]
    a = n / 2
    z, y = (np.arange(n) + 0.5 - a)[:, None], (np.arange(n) + 0.5 - a)[None, :]
    series = sum(
        (-1) ** ((k - 1) // 2)
        * (1 - np.cosh(k * np.pi * z / (2 * a)) / np.cosh(k * np.pi / 2))
        * np.cos(k * np.pi * y / (2 * a))
        / k**3
        for k in range(1, 60, 2)
    )
    exact = 16 * a**2 * push / (np.pi**3 * viscosity(tau)) * series
    for row in ux[::2]:
        print(" ".join(" .:-=+*#%@"[round(9 * u / ux.max())] * 2 for u in row[::2]))
    print(f"fastest {ux.max():.6e}, by the series {exact.max():.6e}")
    assert abs(ux.max() / exact.max() - 1) < 0.01 and np.abs(ux - exact).max() < 0.01 * exact.max()
