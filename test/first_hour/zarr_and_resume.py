"""A run that is stored while it goes on, and one that is continued from its checkpoint."""

import tinyphysics as tp


@tp.hamiltonian
def kepler(q: tp.Vec[2], p: tp.Vec[2]):
    return p @ p / 2 - 1 / tp.norm(q)


start = dict(q=[1.0, 0.0], p=[0.0, 1.2])
sim = kepler.compile(dt=0.01)
whole = sim.evolve(**start, steps=200)
sim.evolve(**start, steps=120, save="run.zarr", save_every=20, checkpoint="run.checkpoint")
rest = sim.evolve(steps=80, save="run.zarr", resume="run.checkpoint")
print("same bits as in one run:", rest.hash == whole.hash)
print("frames in the store:", len(rest.t))

# prints: same bits as in one run: True
# prints: frames in the store: 11
