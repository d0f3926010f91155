"""Fermi, Pasta, Ulam and Tsingou, 1955: the energy leaves the first mode, and comes back after 157 periods."""

import numpy as np

import tinyphysics as tp
from tinyphysics.physics.chains import fput, mode_energies, mode_frequency, normal_mode

n = 31  # masses between two walls: N = 32 springs
start = normal_mode(n)  # half a sine of height 1
period = 2 * np.pi / mode_frequency(n, 1)
dt = np.sqrt(1 / 8)  # theirs; a shorter step brings the energy back after 146 periods
steps = round(165 * period / dt)

if __name__ == "__main__":
    sim = tp.compile(fput, dt)
    out = sim.evolve(**start, steps=steps, save_every=round(period / 8 / dt))
    share = mode_energies(out.q, out.p) / out.energy[0]
    t = out.t / period
    for low in range(0, 160, 20):
        first = np.argmin(abs(t - low))
        print(
            f"period {low:3d}: modes 1 to 5 have " + "  ".join(f"{100 * s:3.0f} %" for s in share[first, :5])
        )
    back = np.argmax(np.where(t > 100, share[:, 0], 0))
    print(f"period {t[back]:.1f}: mode 1 has {100 * share[back, 0]:.1f} % again")
    assert abs(t[back] - 157) < 1 and share[back, 0] > 0.97 and share[:, 0].min() < 0.1
