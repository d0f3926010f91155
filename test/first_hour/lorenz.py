"""Lorenz' butterfly with an accuracy instead of a step, rates returned as they are for scipy."""

import numpy as np
import tinyphysics as tp


@tp.ode
def lorenz(x, y, z, sigma=10.0, rho=28.0, beta=8 / 3):
    return np.array([sigma * (y - x), x * (rho - z) - y, x * y - beta * z])


out = lorenz.compile(error=1e-6).evolve(x=1.0, y=1.0, z=1.0, until=5.0)
print("the goal was met:", out.metrics["goals"]["met"])

# prints: the goal was met: True
