"""A double pendulum on two rods, in plain x and y: constraints instead of angles, and the tension of each rod."""

import numpy as np

import tinyphysics as tp


@tp.hamiltonian
def masses(q: tp.Array[2, 2], p: tp.Array[2, 2], g: float = 1.0):
    return (p * p).sum() / 2 + g * q[:, 1].sum()


@tp.constraint
def rods(q: tp.Array[2, 2], length: float = 1.0):
    between = q[1] - q[0]
    return tp.stack([q[0] @ q[0], between @ between]) - length**2


double_pendulum = masses + rods
angles = np.array([2.0, 2.5])
start = dict(q=np.cumsum(np.stack([np.sin(angles), -np.cos(angles)], axis=1), axis=0), p=np.zeros((2, 2)))
dt = 0.01

if __name__ == "__main__":
    sim = tp.compile(double_pendulum, dt, order=4)
    print(sim.certificate.symplectic.because)
    out = sim.evolve(**start, until=100.0, frames=1000)
    lengths = np.linalg.norm(np.diff(out.q, axis=1, prepend=0.0), axis=-1)
    tension = 2 * out.multipliers("rods")  # of g = |d|² - l², with l = 1: 2 l λ
    print(f"rods: 1 to {np.abs(lengths - 1).max():.0e}; energy drift {out.drift('energy'):.0e}")
    print(
        f"the upper rod is pulled with {tension[:, 0].max():.2f} at most, and pushed with {-tension[:, 0].min():.2f}"
    )
    assert np.abs(lengths - 1).max() < 1e-14 and out.drift("energy") < 1e-6
