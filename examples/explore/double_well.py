"""Which of two wells will it end in?  Just below the saddle it stays, just above it visits both."""

import tinyphysics as tp


@tp.hamiltonian
def double_well(q, p, depth: float = 1.0):
    kinetic = p**2 / 2
    wells = depth * (q**4 / 4 - q**2 / 2)
    return kinetic + wells


start = dict(q=0.0, p=0.01)
dt, steps = 0.05, 600
