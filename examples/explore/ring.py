"""How many charges does a ring hold before they buckle?  Push one, and the push runs round."""

import numpy as np

import tinyphysics as tp


@tp.hamiltonian
def ring(q: tp.Vec[6], p: tp.Vec[6], charge: float = 1.0):
    kinetic = (p * p).sum() / 2
    repulsion = 0
    for i in range(6):
        for j in range(i):
            gap = 2 - 2 * tp.cos(q[i] - q[j])
            repulsion += charge / tp.sqrt(gap)
    return kinetic + repulsion


start = dict(q=np.round(2 * np.pi * np.arange(6) / 8, 12), p=[0.8] + [0.0] * 5)
dt, steps = 0.02, 700
