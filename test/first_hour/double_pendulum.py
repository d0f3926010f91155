"""A double pendulum from its Lagrangian, in plain angles and rates."""

import numpy as np
import tinyphysics as tp


@tp.lagrangian
def dp(theta1, theta2, w1, w2, g=9.81):
    T = w1**2 + w2**2 / 2 + w1 * w2 * np.cos(theta1 - theta2)
    V = -2 * g * np.cos(theta1) - g * np.cos(theta2)
    return T - V


out = dp.compile(dt=0.01).evolve(theta1=2.0, theta2=2.5, w1=0.0, w2=0.0, until=10.0)
print(out.final)

# says: TraceError: `dp`: which arguments are pairs?
# says: Write @tp.lagrangian(pairs=[("theta1", "w1"), ("theta2", "w2")])
