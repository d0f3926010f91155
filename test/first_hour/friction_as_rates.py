"""The spring with friction as rates: what the error of @tp.forces says to write."""

import math

import tinyphysics as tp


@tp.ode
def spring(x, v, k=1.0, gamma=0.1):
    return v, -k * x - gamma * v


out = spring.compile().evolve(x=1.0, v=0.0, until=20.0)
w = math.sqrt(1 - 0.05**2)
exact = math.exp(-0.05 * 20) * (math.cos(w * 20) + 0.05 / w * math.sin(w * 20))
print("right to 1e-12:", bool(abs(out.final.x - exact) < 1e-12))

# prints: right to 1e-12: True
