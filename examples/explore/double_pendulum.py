"""Two rods, two hinges: why can no one say where it will be in a minute?  Change q by a thousandth and compare."""

import tinyphysics as tp


@tp.hamiltonian
def double_pendulum(q: tp.Vec[2], p: tp.Vec[2], g: float = 1.0):
    a, b = q
    inertia = 2 - tp.cos(a - b) ** 2
    kinetic = (p[0] ** 2 / 2 + p[1] ** 2 - p[0] * p[1] * tp.cos(a - b)) / inertia
    height = -g * (2 * tp.cos(a) + tp.cos(b))
    return kinetic + height


start = dict(q=[1.6, 1.9], p=[0.0, 0.0])
dt, steps = 0.02, 600
