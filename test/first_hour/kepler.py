"""A planet on an ellipse for one year."""

import numpy as np
import tinyphysics as tp


@tp.hamiltonian
def kepler(q: tp.Vec[2], p: tp.Vec[2], mu=1.0):
    return p @ p / 2 - mu / np.linalg.norm(q)


sim = tp.compile(kepler, dt=0.01)
out = sim.evolve(
    q=[1.0, 0.0], p=[0.0, 1.2], until=15.0, observe={"L": lambda q, p: q[0] * p[1] - q[1] * p[0]}
)
print("certified symplectic:", bool(sim.certificate.symplectic))
print("energy drift below 1e-4:", bool(out.drift("energy") < 1e-4))
print("angular momentum is kept to 1e-13:", bool(np.ptp(out["L"]) < 1e-13))

# prints: certified symplectic: True
# prints: energy drift below 1e-4: True
# prints: angular momentum is kept to 1e-13: True
