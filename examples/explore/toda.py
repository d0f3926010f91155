"""A chain that looks chaotic and is not: Toda's springs have as many constants as beads.  Where is the heat?"""

import numpy as np

import tinyphysics as tp


@tp.hamiltonian
def toda(q: tp.Vec[6], p: tp.Vec[6], stiffness: float = 1.0):
    kinetic = (p * p).sum() / 2
    springs = tp.exp(stiffness * (q - tp.roll(q, -1))).sum() / stiffness
    return kinetic + springs


start = dict(q=np.zeros(6), p=[1.5, 0.0, -0.5, 0.0, -1.0, 0.0])
dt, steps = 0.05, 600
