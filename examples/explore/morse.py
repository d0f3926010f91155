"""How does a bond break?  Near the bottom of the well it is a spring; with more energy it lets go."""

import tinyphysics as tp


@tp.hamiltonian
def morse(q, p, depth: float = 1.0, width: float = 1.0):
    kinetic = p**2 / 2
    stretch = 1 - tp.exp(-width * q)
    bond = depth * stretch**2
    return kinetic + bond


start = dict(q=0.8, p=0.9)
dt, steps = 0.03, 600
