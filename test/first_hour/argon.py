"""Argon in a periodic box, without saying where the forces end."""

import tinyphysics as tp


@tp.hamiltonian
def argon(q: tp.Array["n", 3], p: tp.Array["n", 3], L=10.0):
    s6 = 1 / tp.pair_distance2(q, box=L) ** 3
    return (p**2).sum() / 2 + tp.pair_sum(4 * (s6**2 - s6))


argon.compile(dt=0.005, sizes={"n": 108})

# says: no sum over all images of it is known
# says: pass cutoff=2.5
