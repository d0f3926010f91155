"""Why do whirls behind a pillar stand in two rows?  Von Karman: staggered so, they move on together for long."""

import numpy as np

import tinyphysics as tp


@tp.hamiltonian
def vortex_street(x: tp.Position[8], y: tp.Momentum[8], core: float = 0.02):
    square = lambda i, j: (x[i] - x[j]) ** 2 + (y[i] - y[j]) ** 2 + core
    sign = lambda i: 1 if i < 4 else -1
    swirl = -sum(sign(i) * sign(j) * tp.log(square(i, j)) for i in range(8) for j in range(i)) / 4
    return swirl


start = dict(x=np.r_[np.arange(4.0), np.arange(4.0) + 0.5], y=np.r_[np.full(4, 0.28), np.full(4, -0.28)])
dt, steps = 0.05, 600
