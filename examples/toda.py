"""The Toda chain: five particles on a ring, and five numbers that never change, one of them the energy."""

import numpy as np

import tinyphysics as tp
from tinyphysics.physics.chains import toda, toda_invariants

start = dict(q=[0.5, -0.3, 0.2, 0.0, -0.4], p=[0.6, -0.2, 0.1, -0.7, 0.2])
dt, steps = 0.025, 8000

if __name__ == "__main__":
    out = tp.compile(toda, dt, order=4).evolve(**start, steps=steps, save_every=40)
    spectrum = np.array([toda_invariants(q, p) for q, p in zip(out.q, out.p)])  # of Flaschka's Lax matrix
    for value, wander in zip(spectrum[0], np.ptp(spectrum, axis=0)):
        print(
            f"invariant {value:+.6f} wanders by {wander:.1e}; positions by {np.ptp(out.q, axis=0).max():.1f}"
        )
    assert np.ptp(spectrum, axis=0).max() < 1e-5
    assert abs((spectrum[0] ** 2).sum() / 2 - out.energy[0]) < 1e-12  # the sum of their squares is the energy
