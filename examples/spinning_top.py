"""A top on its point: write the energy of its attitude, and its axis nods and goes around, with cusps."""

import numpy as np

import tinyphysics as tp


@tp.hamiltonian
def top(R: tp.Rotor, L: tp.Vec[3], moments: tp.Vec[3] = (1.0, 1.0, 0.5), mgl: float = 1.0):
    return (L**2 / moments).sum() / 2 + mgl * tp.rotate(R, [0.0, 0.0, 1.0])[2]


start = dict(R=[np.cos(0.25), np.sin(0.25), 0.0, 0.0], L=[0.0, 0.0, 3.0])
dt = 2.624100220 / 128  # a nutation in 128 steps

if __name__ == "__main__":
    sim = tp.compile(top, dt, order=6)
    print(sim.explain())
    out = sim.evolve(**start, steps=128)
    axis = np.array(tp.rotate(out.R, [0.0, 0.0, 1.0]))
    turned = np.arctan2(axis[-1, 1], axis[-1, 0]) - np.arctan2(axis[0, 1], axis[0, 0])
    print(
        f"after a nutation the tilt is {np.arccos(axis[-1, 2]):.9f} and the axis has gone around by {turned:.9f}"
    )
    assert abs(turned - 0.970169865) < 1e-9 and all(sim.certificate.values())
