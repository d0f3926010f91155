"""Heat spreads along a ring: finite differences, written with np.roll."""

import numpy as np
import tinyphysics as tp


@tp.ode
def heat(u: tp.Vec["n"], D=1.0, dx=0.1):
    return D * (np.roll(u, 1) - 2 * u + np.roll(u, -1)) / dx**2


u0 = np.zeros(64)
u0[32] = 1.0
out = heat.compile(dt=0.004, method="rk4").evolve(u=u0, steps=100)
print("heat is kept:", bool(abs(out.final.u.sum() - 1.0) < 1e-12))
print("it has spread:", bool(out.final.u.max() < 0.1))

# prints: heat is kept: True
# prints: it has spread: True
