"""Why does a wide swing take longer than a narrow one?  Drag q up towards pi and watch the period grow."""

import tinyphysics as tp


@tp.hamiltonian
def pendulum(q, p, g: float = 1.0):
    kinetic = p**2 / 2
    height = -g * tp.cos(q)
    return kinetic + height


start = dict(q=2.0, p=0.0)
dt, steps = 0.05, 600
