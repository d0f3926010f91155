"""A weight on a spring swings, then bounces, then swings: why, when stiffness is near 4 g?"""

import tinyphysics as tp


@tp.hamiltonian
def elastic_pendulum(q: tp.Vec[2], p: tp.Vec[2], stiffness: float = 3.0):
    length = tp.norm(q)
    kinetic = p @ p / 2
    spring = stiffness * (length - 1) ** 2 / 2
    height = q[1]
    return kinetic + spring + height


start = dict(q=[0.25, -1.3], p=[0.0, 0.0])
dt, steps = 0.05, 700
