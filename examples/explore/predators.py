"""Why do hares and lynxes come in waves?  Their logarithms are a position and a momentum, and H is conserved."""

import tinyphysics as tp


@tp.hamiltonian
def predators(hares: tp.Position, lynxes: tp.Momentum, hunger: float = 1.0):
    prey = tp.exp(hares) - hares
    hunters = tp.exp(lynxes) - hunger * lynxes
    return prey + hunters


start = dict(hares=1.0, lynxes=0.0)
dt, steps = 0.02, 700
