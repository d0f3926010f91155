"""Sixteen pendulums at once: the wider the swing, the longer the period, in agreement with the elliptic integral."""

import numpy as np

import tinyphysics as tp


@tp.hamiltonian
def pendulum(q, p):
    return p**2 / 2 - np.cos(q)


def period(amplitude):
    """2 pi over the arithmetic-geometric mean of 1 and cos(amplitude/2): Gauss, 1799."""
    a, g = np.ones_like(amplitude), np.cos(amplitude / 2)
    for _ in range(8):
        a, g = (a + g) / 2, np.sqrt(a * g)
    return 2 * np.pi / a


amplitude = np.linspace(0.1, 3.0, 16)
start = dict(q=amplitude, p=np.zeros(16))  # a leading axis is an ensemble
dt, steps = 0.01, 1700

if __name__ == "__main__":
    out = tp.compile(pendulum, dt, order=4).evolve(**start, steps=steps, save_every=1)
    # p rises through zero half a period after the start: a line between two frames finds when
    k = np.argmax((out.p[1:-1] < 0) & (out.p[2:] >= 0), axis=0) + 1
    below, above = np.take_along_axis(out.p, k[None], 0)[0], np.take_along_axis(out.p, k[None] + 1, 0)[0]
    measured = 2 * (out.t[k] + dt * below / (below - above))
    for a, m, exact in zip(amplitude[::3], measured[::3], period(amplitude)[::3]):
        print(f"amplitude {a:.2f}: period {m:.6f}, exact {exact:.6f}")
    assert np.abs(measured / period(amplitude) - 1).max() < 1e-6
