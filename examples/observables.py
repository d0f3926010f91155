"""Watching a planet: a kick-drift step conserves its angular momentum, while the ellipse slowly turns."""

import numpy as np

import tinyphysics as tp


@tp.hamiltonian
def kepler(q: tp.Vec[2], p: tp.Vec[2], mu: float = 1.0):
    return p @ p / 2 - mu / tp.norm(q)


def angular_momentum(q, p):
    return q[0] * p[1] - q[1] * p[0]


def pericentre(q, p, mu):
    """The Laplace-Runge-Lenz vector: it points to the pericentre, and its length is the eccentricity."""
    L = angular_momentum(q, p)
    return np.stack([p[1], -p[0]]) * L / mu - q / tp.norm(q)


start = dict(q=[1.0, 0.0], p=[0.0, 1.2])
dt, steps = 0.05, 3000

if __name__ == "__main__":
    watched = {"L": angular_momentum, "e": pericentre}
    sim = tp.compile(kepler, dt)
    out = sim.evolve(**start, steps=steps, observe=watched, observe_every=10)
    angle = np.unwrap(np.arctan2(out["e"][:, 1], out["e"][:, 0]))
    wander = np.abs(out["L"] - out["L"][0]).max()
    print(f"angular momentum wanders by {wander:.1e} in {steps} steps")
    print(f"the pericentre turns by {np.degrees(angle[-1]):.2f} degrees, which an exact orbit would not do")
    print(f"eccentricity {np.linalg.norm(out['e'], axis=1).mean():.4f}, exactly {1.2**2 - 1:.4f}")
    assert wander < 1e-12 and 1e-3 < abs(angle[-1]) < 0.5
    assert out.hash == sim.evolve(**start, steps=steps).hash  # watching changes no bit
