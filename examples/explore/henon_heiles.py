"""Is a star in a galaxy on a regular orbit or on a chaotic one?  Start it higher, and order ends."""

import tinyphysics as tp


@tp.hamiltonian
def henon_heiles(q: tp.Vec[2], p: tp.Vec[2], bend: float = 1.0):
    x, y = q
    kinetic = p @ p / 2
    bowl = q @ q / 2
    cubic = bend * (x**2 * y - y**3 / 3)
    return kinetic + bowl + cubic


start = dict(q=[0.0, 0.1], p=[0.5, 0.0])
dt, steps = 0.05, 600
