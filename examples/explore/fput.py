"""Where does the energy go?  Fermi, Pasta, Ulam and Tsingou expected heat in 1955, and the first mode came back."""

import numpy as np

import tinyphysics as tp


@tp.hamiltonian
def fput(q: tp.Vec[32], p: tp.Vec[32], alpha: float = 0.25):
    stretch = tp.roll(q, -1) - q
    kinetic = (p * p).sum() / 2
    springs = (stretch * stretch).sum() / 2
    bend = alpha / 3 * (stretch**3).sum()
    return kinetic + springs + bend


k = np.arange(32)
start = dict(q=np.round(np.sin(2 * np.pi * k / 32), 12), p=np.zeros(32))
dt, steps = 0.1, 600
