"""A bead on a hoop that rotates about its vertical diameter: where does it stay?"""

import numpy as np

import tinyphysics as tp


@tp.lagrangian
def hoop(q, v, spin=5.0, radius=1.0, g=9.81):
    return radius**2 * (v**2 + (spin * tp.sin(q)) ** 2) / 2 + radius * g * tp.cos(q)


rest = np.arccos(9.81 / 5.0**2)  # away from the lowest point: the hoop turns fast enough
start = dict(q=rest + 0.01, v=0.0)
dt = 0.01

if __name__ == "__main__":
    out = tp.compile(hoop, dt).evolve(**start, steps=2_000, save_every=1)
    print(
        f"it swings about {np.degrees(out.q.mean()):.2f} degrees; at rest it would be at {np.degrees(rest):.2f}"
    )
    assert abs(out.q.mean() - rest) < 1e-3 and np.ptp(out.q) < 0.03
