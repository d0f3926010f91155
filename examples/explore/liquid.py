"""Sixteen atoms in a bowl: a crystal or a liquid?  Cool it by smaller momenta, heat it by larger ones."""

import numpy as np

import tinyphysics as tp


@tp.hamiltonian
def liquid(q: tp.Array[16, 2], p: tp.Array[16, 2], bowl: float = 0.05):
    kinetic = (p * p).sum() / 2
    trap = bowl * (q * q).sum() / 2
    r6 = lambda d: 1 / (d @ d + 0.1) ** 3
    pairs = sum(4 * (r6(q[i] - q[j]) ** 2 - r6(q[i] - q[j])) for i in range(16) for j in range(i))
    return kinetic + trap + pairs


lattice = np.array([[x, y] for x in range(4) for y in range(4)]) - 1.5
start = dict(q=np.round(1.15 * lattice, 6), p=np.round(0.6 * np.sin(7 * np.arange(32)).reshape(16, 2), 6))
dt, steps = 0.01, 600
