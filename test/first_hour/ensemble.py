"""A thousand pendulums at once, on all cores: one more axis is an ensemble."""

import numpy as np
import tinyphysics as tp


@tp.hamiltonian
def pendulum(q, p, g=9.81):
    return p**2 / 2 - g * np.cos(q)


q = np.linspace(0.1, 3.0, 1000)
out = pendulum.compile(dt=0.01).evolve(q=q, p=np.zeros(1000), g=np.linspace(1.0, 20.0, 1000), steps=200)
print("shape of the last positions:", out.final.q.shape)
print("worst energy drift below 1e-3:", bool(out.drift("energy").max() < 1e-3))

# prints: shape of the last positions: (1000,)
# prints: worst energy drift below 1e-3: True
