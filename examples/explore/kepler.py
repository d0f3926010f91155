"""Does the orbit close?  Newton's force gives ellipses that stay; make dt larger, and the ellipse turns."""

import tinyphysics as tp


@tp.hamiltonian
def kepler(q: tp.Vec[2], p: tp.Vec[2], mu: float = 1.0):
    kinetic = p @ p / 2
    gravity = -mu / tp.norm(q)
    return kinetic + gravity


start = dict(q=[1.0, 0.0], p=[0.0, 1.2])
dt, steps = 0.02, 600
