"""Chirikov's standard map: a kick and a turn, certified symplectic."""

import numpy as np
import tinyphysics as tp


@tp.map(pairs=[("theta", "p")])
def standard(theta, p, K=0.9):
    p = p + K * np.sin(theta)
    return theta + p, p


sim = standard.compile()
out = sim.evolve(theta=np.linspace(0, 2 * np.pi, 16), p=np.zeros(16), steps=500)
print("symplectic:", bool(sim.certificate.symplectic))
print(tp.assert_symplectic(standard, theta=1.0, p=0.3))

# prints: symplectic: True
# prints: Function standard is symplectic at this state and the next two
