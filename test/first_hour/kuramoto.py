"""Kuramoto's oscillators fall into step when they are coupled strongly enough."""

import numpy as np
import tinyphysics as tp


@tp.ode
def kuramoto(theta: tp.Vec["n"], omega: tp.Vec["n"], K=2.0):
    x, y = np.cos(theta).mean(), np.sin(theta).mean()
    return omega + K * (y * np.cos(theta) - x * np.sin(theta))


rng = np.random.default_rng(1)
start = dict(theta=rng.uniform(0, 2 * np.pi, 20), omega=rng.normal(0, 0.3, 20))
sim = kuramoto.compile(dt=0.05, method="rk4")
for K in (0.1, 2.0):
    theta = sim.evolve(**start, K=K, steps=400).final.theta
    print(f"K = {K}: in step:", bool(abs(np.exp(1j * theta).mean()) > 0.8))

# prints: K = 0.1: in step: False
# prints: K = 2.0: in step: True
