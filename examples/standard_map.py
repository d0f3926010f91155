"""The standard map: below the last invariant curve momentum is confined, above it momentum diffuses."""

import numpy as np

import tinyphysics as tp

TWO_PI = 2 * np.pi


@tp.map
def standard_map(q, p, K=0.5):
    p_new = p + K * np.sin(q)
    return (q + p_new) % TWO_PI, p_new


rng = np.random.default_rng(7)
start = dict(q=rng.uniform(0, TWO_PI, 200), p=np.zeros(200))
steps = 300

if __name__ == "__main__":
    sim = tp.compile(standard_map)  # a map has no dt
    for K in (0.5, 5.0):
        out = sim.evolve(**start, K=K, steps=steps, save_every=100)
        spread = (out.p**2).mean(axis=1)
        print(f"K = {K}: mean p*p after 0, 100, 200, 300 steps: {np.round(spread, 1)}")
        if K < 0.9716:  # Greene 1979: here the last curve between p = 0 and p = 2 pi breaks
            assert np.abs(out.p).max() < TWO_PI
        else:  # random phases would give K*K/2 a step; correlations change that by a factor of order one
            assert 0.2 < spread[-1] / (steps * K**2 / 2) < 5
