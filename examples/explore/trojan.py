"""Why does an asteroid stay sixty degrees ahead of Jupiter, on top of a hill?  The Coriolis term turns it back."""

import tinyphysics as tp


@tp.hamiltonian
def trojan(q: tp.Vec[2], p: tp.Vec[2], mass: float = 0.001):
    x, y = q
    kinetic = p @ p / 2
    turning = p[0] * y - p[1] * x
    sun = -(1 - mass) / tp.sqrt((x + mass) ** 2 + y**2)
    planet = -mass / tp.sqrt((x - 1 + mass) ** 2 + y**2)
    return kinetic + turning + sun + planet


start = dict(q=[0.499, 0.886], p=[-0.866, 0.489])
dt, steps = 0.05, 640
