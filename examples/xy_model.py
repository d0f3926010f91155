"""The XY model: a twist all the way round the sheet cannot unwind, and spin waves run on it at their own frequency."""

import numpy as np

import tinyphysics as tp
from tinyphysics.physics.fields import lattice_frequency, leapfrog_frequency, rotors

h, w, SMALL = 40, 48, 1e-4
twist = 2 * np.pi * np.arange(w) / w  # one turn along x
wave = SMALL * np.cos(2 * np.pi * 3 * np.arange(h) / h)  # three waves along y
start = dict(angle=twist[None, :] + wave[:, None], spin=np.zeros((h, w)))
dt, steps = 0.1, 500


def turns(angle):
    """How often the rotors turn from the first column to the last and on to the first."""
    step = np.roll(angle, -1, 1) - angle
    return ((step + np.pi) % (2 * np.pi) - np.pi).sum(axis=1) / (2 * np.pi)


if __name__ == "__main__":
    out = tp.compile(rotors, dt).evolve(**start, steps=steps, save_every=5)
    seen = (out.angle - twist).mean(axis=2) @ wave / (wave @ wave)
    omega = leapfrog_frequency(lattice_frequency((h, w), (3, 0)), dt)
    print(f"turns of every row at the end: {set(np.round(turns(out.final.angle), 6))}")
    print(f"the spin wave is cos({omega:.4f} t) to {np.abs(seen - np.cos(omega * out.t)).max():.1e}")
    print(f"total spin {out.final.spin.sum():.1e}, energy drift {out.drift('energy'):.1e}")
    assert np.allclose(turns(out.final.angle), 1) and np.abs(seen - np.cos(omega * out.t)).max() < 1e-4
    assert abs(out.final.spin.sum()) < 1e-10 and out.drift("energy") < 1e-6
