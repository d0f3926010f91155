"""Why do whirls behind a pillar stand in two rows?  Von Karman: staggered so, they move on together for long."""

import numpy as np

import tinyphysics as tp


@tp.hamiltonian
def vortex_street(q: tp.Vec[8], p: tp.Vec[8], core: float = 0.02):
    sign = [1, 1, 1, 1, -1, -1, -1, -1]
    swirl = 0
    for i in range(8):
        for j in range(i):
            square = (q[i] - q[j]) ** 2 + (p[i] - p[j]) ** 2 + core
            swirl -= sign[i] * sign[j] * tp.log(square) / 4
    return swirl


start = dict(q=np.r_[np.arange(4.0), np.arange(4.0) + 0.5], p=np.r_[np.full(4, 0.28), np.full(4, -0.28)])
dt, steps = 0.05, 600
