"""Waves on a lattice: each wavelength has its own speed, and leapfrog's error in it is known exactly."""

import numpy as np

import tinyphysics as tp
from tinyphysics.physics.fields import lattice_frequency, leapfrog_frequency, plane_wave, standing_wave, wave

SHEET = (6, 8)
NUMBERS = [(0, 1), (1, 1), (2, 3), (3, 4)]  # waves along each axis
u = np.stack([standing_wave(SHEET, waves)[0] for waves in NUMBERS])
start = dict(u=u, v=np.zeros_like(u))  # a leading axis is an ensemble
dt, steps = 0.4, 1000

if __name__ == "__main__":
    out = tp.compile(wave, dt).evolve(**start, steps=steps)
    for i, waves in enumerate(NUMBERS):
        omega = lattice_frequency(SHEET, waves)
        numerical = leapfrog_frequency(omega, dt)  # sin(numerical dt/2) = omega dt/2
        miss = np.abs(out.final.u[i] - u[i] * np.cos(numerical * dt * steps)).max()
        print(
            f"{waves}: omega {omega:.6f}, by leapfrog {numerical:.6f}; after {steps} steps off by {miss:.0e}"
        )
        assert miss < 1e-11
    there, rate = plane_wave(
        SHEET, (1, 2)
    )  # and one that runs: a quarter of a period later it is where it was going
    quarter = np.pi / 2 / lattice_frequency(SHEET, (1, 2))
    out = tp.compile(wave, quarter / 400).evolve(u=there, v=rate, steps=400)
    miss = np.abs(out.final.u - rate / np.abs(rate).max()).max()
    print(f"a plane wave moved by a quarter of its length, off by {miss:.0e}")
    assert miss < 1e-5
