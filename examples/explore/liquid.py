"""Nine atoms in a bowl: a crystal or a liquid?  Cool it by smaller momenta, heat it by larger ones."""

import numpy as np

import tinyphysics as tp


@tp.hamiltonian
def liquid(q: tp.Array[9, 2], p: tp.Array[9, 2], bowl: float = 0.05):
    kinetic = (p * p).sum() / 2
    trap = bowl * (q * q).sum() / 2
    pairs = 0
    for i in range(9):
        for j in range(i):
            d = q[i] - q[j]
            r6 = 1 / (d @ d + 0.1) ** 3
            pairs += 4 * (r6**2 - r6)
    return kinetic + trap + pairs


lattice = np.array([[x, y] for x in range(3) for y in range(3)]) - 1.0
start = dict(q=np.round(1.15 * lattice, 6), p=np.round(0.6 * np.sin(7 * np.arange(18)).reshape(9, 2), 6))
dt, steps = 0.01, 600
