"""A star cluster in equilibrium, Plummer's sphere, keeps its shape over several crossing times."""

import numpy as np

import tinyphysics as tp
from tinyphysics.physics.particles import gravity, plummer

start = plummer(512, seed=4)  # Henon's units: mass 1, energy -1/4
dt, steps = 1 / 64, 512


def kinetic(p, m):
    return ((p**2).sum(axis=1) / (2 * m)).sum()


if __name__ == "__main__":
    out = tp.compile(gravity, dt).evolve(
        **start, softening=0.05, steps=steps, save_every=64, observe={"T": kinetic}
    )
    radius = np.median(np.linalg.norm(out.q - np.median(out.q, axis=1, keepdims=True), axis=2), axis=1)
    T, E = out["T"].mean(), out.energy[0]
    for t, r in zip(out.t, radius):
        print(f"t = {t:4.1f}: half of the stars within {r:.3f}")
    print(
        f"Plummer's law says 0.769; virial ratio 2T/|V| {2 * T / abs(E - T):.3f}; energy drift {out.drift('energy'):.1e}"
    )
    assert np.abs(radius / 0.769 - 1).max() < 0.15 and abs(2 * T / abs(E - T) - 1) < 0.1
    assert out.drift("energy") < 1e-4
