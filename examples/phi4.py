"""Colliding kinks of the phi**4 field: fast ones bounce off each other, slow ones are caught and never part again."""

import numpy as np

import tinyphysics as tp
from tinyphysics.physics.fields import phi4, phi4_kink

n, dx, SPEEDS = (
    512,
    0.2,
    (0.15, 0.4),
)  # the limit is near 0.26 (Campbell, Schonfeld & Wingate 1983, Physica D 9, 1)


def pair(speed):
    """A kink from the left and an antikink from the right."""
    one, two = phi4_kink(n, dx, speed, at=-8.0), phi4_kink(n, dx, -speed, at=8.0)
    return one["u"] - two["u"] - 1, one["v"] - two["v"]


u, v = (np.stack(x) for x in zip(*map(pair, SPEEDS)))  # a leading axis is an ensemble
start = dict(u=u, v=v, dx=dx)
dt, steps = 0.05, 2000

if __name__ == "__main__":
    out = tp.compile(phi4, dt).evolve(**start, steps=steps, observe={"middle": lambda u: u[n // 2]})
    lowest = out["middle"][-600:].min(axis=0)  # the field is 1 between two that are apart
    for speed, u in zip(SPEEDS, lowest):
        print(
            f"speed {speed}: in the end the field in the middle goes down to {u:+.2f}: {'apart' if u > 0 else 'caught'}"
        )
    print(f"energy drift {out.drift('energy').max():.1e}")
    energy, rest = out.energy[0] * dx, 2 * np.sqrt(8 / 9)
    print(f"energies {energy}; two kinks have {rest / np.sqrt(1 - np.square(SPEEDS))} in the continuum")
    assert lowest[0] < -0.9 and lowest[1] > 0.9 and out.drift("energy").max() < 3e-3
    assert np.abs(energy / (rest / np.sqrt(1 - np.square(SPEEDS))) - 1).max() < 0.01
