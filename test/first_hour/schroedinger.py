"""Schrödinger's equation by real and imaginary part: psi = q + i p, and H is quadratic in both."""

import numpy as np
import tinyphysics as tp

n, dx = 48, 0.25
x = (np.arange(n) - n / 2) * dx


@tp.hamiltonian
def packet(q: tp.Vec["n"], p: tp.Vec["n"], V: tp.Vec["n"], dx=0.25):
    def part(u):
        slope = (np.roll(u, -1) - u) / dx
        return (slope**2).sum() / 4 + (V * u**2).sum() / 2

    return part(q) + part(p)


psi = np.exp(-((x - 1.0) ** 2) / 2)
psi /= np.sqrt((psi**2).sum())
out = packet.compile(dt=0.005, method="leapfrog").evolve(
    q=psi, p=np.zeros(n), V=x**2 / 2, until=1.0, save_every=20
)
norm = (out.q**2 + out.p**2).sum(axis=1)
print("norm is kept to 1e-3:", bool(np.abs(norm - 1).max() < 1e-3))

# prints: norm is kept to 1e-3: True
