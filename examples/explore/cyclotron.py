"""What does a charge do where the magnetic field grows to one side?  It circles, and its circles drift."""

import tinyphysics as tp


@tp.hamiltonian
def cyclotron(q: tp.Vec[2], p: tp.Vec[2], slope: float = 0.3):
    x, y = q
    potential = x + slope * x**2 / 2
    along = p[0] ** 2 / 2
    across = (p[1] - potential) ** 2 / 2
    return along + across


start = dict(q=[0.0, 0.0], p=[0.0, 1.0])
dt, steps = 0.05, 640
