"""A crystal melts, and every atom finds its way back: Loschmidt's question, answered to the last bit."""

import numpy as np

import tinyphysics as tp
from tinyphysics.physics import starts
from tinyphysics.physics.molecular import lennard_jones


@tp.hamiltonian
def argon(q: tp.Array["n", 3], p: tp.Array["n", 3], box: float):
    r2 = tp.pair_distance2(q, box=box, cutoff=2.0)
    return (p * p).sum() / 2 + tp.pair_sum(lennard_jones(r2))


def order(q):
    """1 in the crystal, about 1/sqrt(n) in a liquid: how well the planes of atoms scatter a wave."""
    return abs(np.exp(2j * np.pi * (3 / box) * q @ [1, 1, -1]).mean())


q, lengths = starts.lattice("fcc", 3, density=0.8)
box = float(lengths[0])
start = dict(q=q, p=starts.maxwell(len(q), temperature=2.0, seed=1), box=box)
steps, dt = 4000, 0.005
for precision in ("lattice", "float64"):
    sim = tp.compile(argon, dt=dt, precision=precision)
    there = sim.evolve(**start, steps=steps)
    if precision == "lattice":
        back = sim.rewind(there, steps)
    else:  # the same method with the clock turned round, which would come back if its numbers had no end
        back = sim.evolve(q=there.final.q, p=there.final.p, box=box, dt=-dt, steps=steps)
    lost = abs(back.final.q - there.q[0]).max()
    print(
        f"{precision:8}  order {order(there.q[0]):.2f} -> {order(there.final.q):.2f} -> {order(back.final.q):.2f}, "
        f"positions off by {lost:.1e}"
    )
    assert (lost == 0.0) == (precision == "lattice")
