"""How does a pendulum hand its swing to its neighbour?  A weak spring is enough, and it takes 1/coupling."""

import tinyphysics as tp


@tp.hamiltonian
def beats(q: tp.Vec[2], p: tp.Vec[2], coupling: float = 0.1):
    kinetic = p @ p / 2
    swings = -tp.cos(q[0]) - tp.cos(q[1])
    spring = coupling * (q[1] - q[0]) ** 2 / 2
    return kinetic + swings + spring


start = dict(q=[0.6, 0.0], p=[0.0, 0.0])
dt, steps = 0.1, 600
