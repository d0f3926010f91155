"""No decorator, no step, only an energy; then one step as a function."""

import numpy as np
import tinyphysics as tp


def H(q, p):
    return p**2 / 2 - np.cos(q)


sim = tp.compile(H, order=4)
out = sim.evolve(q=1.0, p=0.0, until=10.0, dt=0.05)
print("energy drift below 1e-5:", bool(out.drift("energy") < 1e-5))
step = tp.kernel.compile(H, method="leapfrog", dt=0.05)
q, p = step(1.0, 0.0)
print(f"after one step: q = {q:.4f}, p = {p:.4f}")
sim.evolve(q=1.0, p=0.0, until=10.0)

# prints: energy drift below 1e-5: True
# prints: after one step: q = 0.9989, p = -0.0421
# says: InputError: dt is missing
# says: evolve(..., dt=0.01); or ask for an accuracy: error=1e-6
