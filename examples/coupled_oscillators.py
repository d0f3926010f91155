"""Two weakly coupled oscillators: all the energy of one passes to the other, and comes back."""

import numpy as np

import tinyphysics as tp
from tinyphysics.physics.chains import mode_frequency, oscillators

COUPLING, ONSITE = 0.02, 1.0
start = dict(q=[1.0, 0.0], p=[0.0, 0.0], coupling=COUPLING, onsite=ONSITE)
low, high = mode_frequency(2, np.array([1, 2]), COUPLING, ONSITE)  # in step, and against each other
dt = 0.05
steps = round(2 * np.pi / (high - low) / dt)  # one beat


def share(q, p):
    """How much of the energy is with the second."""
    own = p**2 + (ONSITE + 2 * COUPLING) * q**2
    return own[1] / own.sum()


if __name__ == "__main__":
    out = tp.compile(oscillators, dt).evolve(**start, steps=steps, observe={"share": share})
    for k in range(0, steps + 1, steps // 8):
        print(f"t = {out.times('share')[k]:6.1f}  " + "#" * round(50 * out["share"][k]))
    half = out["share"][steps // 2 - 60 : steps // 2 + 60].max()
    print(
        f"after half a beat {half:.4f} of the energy is with the second, after a whole one {out['share'][-1]:.4f}"
    )
    assert half > 0.99 and out["share"][-1] < 0.01 and out.drift("energy") < 1e-3
