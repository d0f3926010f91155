"""An interrupted run resumes from its checkpoint, and its store ends up as if nothing had happened."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import tinyphysics as tp


@tp.hamiltonian
def chain(q: tp.Vec["n"], p: tp.Vec["n"]):
    stretch = np.diff(q)
    return tp.sum(p**2) / 2 + tp.sum(stretch**2) / 2 + tp.sum(stretch**4) / 4


dt, q, p = 0.05, np.sin(np.linspace(0, np.pi, 64)), np.zeros(64)
start = dict(q=q, p=p)
sim = tp.compile(chain, dt=dt)

with TemporaryDirectory() as folder:
    files = dict(save=Path(folder) / "chain.zarr", checkpoint=Path(folder) / "chain.checkpoint")
    sim.evolve(
        **start, steps=4_321, save_every=100, checkpoint_every=1_000, **files
    )  # here somebody pulls the plug
    out = sim.evolve(steps=20_000 - 4_321, resume=files["checkpoint"], **files)
    whole = sim.evolve(**start, steps=20_000, save_every=100)
    print(f"{len(out.q)} frames to step {out.final.step:,}; the hash is {out.hash}")
    assert out.hash == whole.hash and np.array_equal(out.q, whole.q)
