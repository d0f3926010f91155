"""The double pendulum, once it is said which rate belongs to which angle."""

import numpy as np
import tinyphysics as tp


@tp.lagrangian(pairs=[("theta1", "w1"), ("theta2", "w2")])
def dp(theta1, theta2, w1, w2, g=9.81):
    T = w1**2 + w2**2 / 2 + w1 * w2 * np.cos(theta1 - theta2)
    V = -2 * g * np.cos(theta1) - g * np.cos(theta2)
    return T - V


sim = dp.compile(dt=0.005)
out = sim.evolve(theta1=2.0, theta2=2.5, w1=0.0, w2=0.0, until=2.0)
print("symplectic:", bool(sim.certificate.symplectic))
print(f"energy drift below 1e-3: {out.drift('energy') < 1e-3}")

# prints: symplectic: True
# prints: energy drift below 1e-3: True
