"""A soliton of the sine-Gordon equation: a twist in a line of pendulums, which moves and keeps its shape."""

import numpy as np

import tinyphysics as tp
from tinyphysics.physics.fields import kink_position, sine_gordon, sine_gordon_kink

dx, speed = 0.35, 0.4
start = sine_gordon_kink(32, dx, speed, at=-1.5)
dt, steps = 0.1, 80

if __name__ == "__main__":
    sim = tp.compile(sine_gordon, dt)
    out = sim.evolve(**start, steps=steps, save_every=10)
    place = np.array([kink_position(u, dx, np.pi) for u in out.u])
    measured = np.polyfit(out.t, place, 1)[0]
    energy = out.energy[0] * dx
    print(f"speed {measured:.4f}, started with {speed}")
    print(f"energy {energy:.3f}; 8/sqrt(1 - v*v) = {8 / np.sqrt(1 - speed**2):.3f} in the continuum")
    print(f"energy drift {out.drift('energy'):.1e}")
    assert abs(measured / speed - 1) < 0.02 and out.drift("energy") < 1e-4
    assert abs(energy / (8 / np.sqrt(1 - speed**2)) - 1) < 0.01
