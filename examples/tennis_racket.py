"""A body that is thrown up spinning about its middle axis turns over: Dzhanibekov saw it in orbit."""

import numpy as np

import tinyphysics as tp
from tinyphysics.physics.rigid import free_body as body

start = dict(R=[1.0, 0.0, 0.0, 0.0], L=[0.02, 2.0, 0.02])
dt = 0.02

if __name__ == "__main__":
    sim = tp.compile(body, dt)
    print(sim.explain())
    out = sim.evolve(**start, until=60.0)
    flips = int((np.diff(np.sign(out.L[:, 1])) != 0).sum())
    space = np.array(tp.rotate(out.R, out.L))
    print(
        f"it turns over {flips} times, and its angular momentum in space moves by {np.ptp(space, axis=0).max():.0e}"
    )
    assert flips == 3 and np.ptp(space, axis=0).max() < 1e-13
