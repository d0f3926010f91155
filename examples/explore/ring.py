"""How many charges does a ring hold before they buckle?  Push one, and the push runs round."""

import numpy as np

import tinyphysics as tp


@tp.hamiltonian
def ring(q: tp.Vec[8], p: tp.Vec[8], charge: float = 1.0):
    kinetic = (p * p).sum() / 2
    gap = lambda i, j: 2 - 2 * tp.cos(q[i] - q[j])
    repulsion = charge * sum(1 / tp.sqrt(gap(i, j)) for i in range(8) for j in range(i))
    return kinetic + repulsion


start = dict(q=np.round(2 * np.pi * np.arange(8) / 8, 12), p=[0.8] + [0.0] * 7)
dt, steps = 0.02, 700
