"""Order and chaos in one potential: two neighbouring orbits drift apart slowly, or exponentially."""

import numpy as np

import tinyphysics as tp


@tp.hamiltonian
def henon_heiles(q: tp.Vec[2], p: tp.Vec[2]):
    x, y = q
    return p @ p / 2 + q @ q / 2 + x**2 * y - y**3 / 3


def neighbours(energy, y, apart=1e-9):
    """Two states with x = 0, p_y = 0 and nearly one energy."""
    px = np.sqrt(2 * energy - y**2 + 2 * y**3 / 3)
    return dict(q=np.array([[0.0, y], [0.0, y + apart]]), p=np.array([[px, 0.0], [px, 0.0]]))


start = neighbours(1 / 8, -0.2)
dt, steps = 0.05, 6000

if __name__ == "__main__":
    sim = tp.compile(henon_heiles, dt, order=4)
    growth = {}
    for name, energy, y in [("regular", 1 / 8, 0.3), ("chaotic", 1 / 8, -0.2)]:
        out = sim.evolve(**neighbours(energy, y), steps=steps, save_every=1200)
        apart = np.linalg.norm(out.q[:, 0] - out.q[:, 1], axis=1)
        growth[name] = apart[-1] / apart[0]
        print(f"{name}, E = {energy:.3f}: " + "  ".join(f"{a:.1e}" for a in apart))
        assert out.drift("energy").max() < 1e-6
    assert growth["regular"] < 1e3 < 1e6 < growth["chaotic"]
