"""A pendulum that swings in two directions, in angles: the angular momentum about the vertical is conserved."""

import numpy as np

import tinyphysics as tp


@tp.lagrangian(pairs=[("theta", "w"), ("phi", "u")])
def spherical_pendulum(theta, w, phi, u, g=9.81):
    return (w**2 + (u * tp.sin(theta)) ** 2) / 2 + g * tp.cos(theta)


start = dict(theta=1.0, w=0.0, phi=0.0, u=2.0)
dt = 0.01

if __name__ == "__main__":
    out = tp.compile(spherical_pendulum, dt).evolve(**start, steps=5_000, save_every=10)
    print(
        f"angular momentum {out.p_phi[0]:.6f}, changed by {np.ptp(out.p_phi):.1e}; energy within {np.ptp(out.energy):.1e}"
    )
    print(
        f"the angle goes from {np.degrees(out.theta.min()):.1f} to {np.degrees(out.theta.max()):.1f} degrees"
    )
    assert np.ptp(out.p_phi) < 1e-12 and np.ptp(out.energy) < 1e-2
