"""Stars that attract each other: all pairs, no box and no cutoff, and no step before the run."""

import numpy as np
import tinyphysics as tp


class Galaxy(tp.PhysicsSystem):
    G = 1.0
    softening = 0.1

    def energy(self, q: tp.Array["n", 3], p: tp.Array["n", 3]):
        r2 = tp.pair_distance2(q) + self.softening**2
        return 0.5 * (p**2).sum() - self.G * tp.pair_sum(1 / np.sqrt(r2))


rng = np.random.default_rng(0)
start = dict(q=rng.normal(size=(24, 3)), p=rng.normal(size=(24, 3)))
out = Galaxy().compile(precision="mixed", method="symplectic").evolve(**start, steps=50, dt=0.01)
print("momentum is kept:", bool(np.abs(out.final.p.sum(0) - start["p"].sum(0)).max() < 1e-5))

# prints: momentum is kept: True
