"""A sum of library systems: a chain of oscillators in a trap, which makes every mode stiffer."""

import numpy as np

import tinyphysics as tp
from tinyphysics.physics.additions import trap
from tinyphysics.physics.chains import mode_frequency, normal_mode, oscillators

n, k = 24, 0.7
chain = oscillators + trap
start = dict(**normal_mode(n, mode=3), stiffness=k)
dt = 0.01

if __name__ == "__main__":
    out = tp.compile(chain, dt).evolve(**start, steps=5000, save_every=1)
    first = out.q[:, 0]
    swings = np.count_nonzero(first[1:] * first[:-1] < 0)
    omega = np.sqrt(mode_frequency(n, 3) ** 2 + k)
    print(f"{swings} swings in {out.final.t:g}, expected {omega * out.final.t / np.pi:.1f}")
    assert abs(swings - omega * out.final.t / np.pi) <= 1
