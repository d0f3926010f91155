"""Systems that are layers of torch and functions of JAX in tests: an orbit, a chain, a differential equation, a map."""

from __future__ import annotations

import numpy as np

import tinyphysics as tp


@tp.hamiltonian
def kepler(q: tp.Vec[2], p: tp.Vec[2], mu: float = 1.0):
    return p @ p / 2 - mu / tp.norm(q)


@tp.hamiltonian
def chain(q: tp.Vec["n"], p: tp.Vec["n"], k: tp.Vec["n"], alpha: float = 0.25):
    d = tp.diff(q)
    return p @ p / 2 + (k * q**2).sum() / 2 + (d**2).sum() / 2 + alpha * (d**3).sum() / 3


@tp.ode
def lorenz(x: tp.Vec[3], sigma: float = 10.0, rho: float = 28.0, beta: float = 8 / 3):
    return np.stack([sigma * (x[1] - x[0]), x[0] * (rho - x[2]) - x[1], x[0] * x[1] - beta * x[2]])


@tp.map
def standard(theta, p, K: float = 0.9):
    kicked = p + K * tp.sin(theta)
    return theta + kicked, kicked
