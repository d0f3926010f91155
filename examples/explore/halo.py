"""Do stars in a flattened galaxy run in boxes or in loops?  Change the start and see both families."""

import tinyphysics as tp


@tp.hamiltonian
def halo(q: tp.Vec[2], p: tp.Vec[2], flat: float = 0.8):
    x, y = q
    kinetic = p @ p / 2
    galaxy = tp.log(0.04 + x**2 + y**2 / flat**2) / 2
    return kinetic + galaxy


start = dict(q=[0.5, 0.0], p=[0.0, 0.6])
dt, steps = 0.015, 800
