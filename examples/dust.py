"""A sum of library systems: a dust grain around a flattened star that shines, and how the node of its orbit moves."""

import numpy as np

import tinyphysics as tp
from tinyphysics.physics.additions import oblateness, radiation_pressure
from tinyphysics.physics.particles import gravity

tilt, beta, J2, radius, turns = 0.4, 0.2, 1e-4, 0.5, 20
speed = np.sqrt(1 - beta)  # on a circle: light takes a fifth of the weight
momentum = speed * 1e-9 * np.array([0, np.cos(tilt), np.sin(tilt)])
dust = gravity + oblateness + radiation_pressure
start = dict(
    q=[[0, 0, 0], [1, 0, 0]], p=[[0, 0, 0], momentum], m=[1.0, 1e-9], J2=J2, radius=radius, beta=[0.0, beta]
)
dt = 2 * np.pi / speed / 200

if __name__ == "__main__":
    sim = tp.compile(dust, dt, order=4)
    out = sim.evolve(**start, steps=200 * turns)
    print(sim.explain())
    normal = np.cross(out.final.q[1] - out.final.q[0], out.final.p[1])
    node = np.arctan2(normal[0], -normal[1])
    # J2 pulls with the whole mass, and the light takes its part from the rest
    expected = -1.5 * J2 * radius**2 * np.cos(tilt) * 2 * np.pi * turns / (1 - beta)
    print(f"the node went back by {-node:.3e} rad, expected {-expected:.3e}")
    assert abs(node / expected - 1) < 5e-3
