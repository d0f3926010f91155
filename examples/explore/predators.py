"""Why do hares and lynxes come in waves?  Their logarithms are a position and a momentum, and H is conserved."""

import tinyphysics as tp


@tp.hamiltonian
def predators(q, p, hunger: float = 1.0):
    hares = tp.exp(q) - q
    lynxes = tp.exp(p) - hunger * p
    return hares + lynxes


start = dict(q=1.0, p=0.0)
dt, steps = 0.02, 700
