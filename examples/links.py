"""A chain of five rods, each with a mass of 1 at its end: the 5 x 5 mass matrix is derived for you."""

import numpy as np

import tinyphysics as tp


@tp.lagrangian
def links(q: tp.Vec[5], v: tp.Vec[5], g: float = 9.81):
    height = x = y = total = 0.0
    for k in range(5):
        x, y = x + v[k] * tp.cos(q[k]), y + v[k] * tp.sin(q[k])
        height = height - tp.cos(q[k])
        total = total + (x**2 + y**2) / 2 - g * height
    return total


start = dict(q=np.linspace(0.4, 0.8, 5), v=np.zeros(5))
dt = 0.005

if __name__ == "__main__":
    out = tp.compile(links, dt, method="variational_midpoint").evolve(**start, steps=2_000, save_every=20)
    print(f"energy {out.energy[0]:.3f}, within {np.ptp(out.energy):.1e} for {out.t[-1]:g} s")
    assert np.ptp(out.energy) < 2e-2
