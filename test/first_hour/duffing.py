"""A driven, damped Duffing oscillator, looked at once a period of its drive."""

import numpy as np
import tinyphysics as tp


@tp.ode
def duffing(x, v, t, delta=0.3, gamma=0.5, omega=1.2):
    return v, x - x**3 - delta * v + gamma * np.cos(omega * t)


period = 2 * np.pi / 1.2
sim = duffing.compile(dt=period)
out = sim.evolve(x=1.0, v=0.0, steps=100, save_every=1)
print("points of the attractor:", len(out.x) - 1)
print("bounded:", bool(np.abs(out.x).max() < 2.0))

# prints: points of the attractor: 100
# prints: bounded: True
