"""The systems whose programs and reports are kept as golden files."""

import tinyphysics as tp


@tp.hamiltonian
def oscillator(q, p):
    return p**2 / 2 + q**2 / 2


@tp.hamiltonian
def kepler(q: tp.Vec[2], p: tp.Vec[2], mu: float = 1.0):
    return p @ p / 2 - mu / tp.norm(q)


@tp.hamiltonian
def pendulum(q, p, g: float = 1.0):
    return p**2 / 2 - g * tp.cos(q)


@tp.hamiltonian
def henon_heiles(q: tp.Vec[2], p: tp.Vec[2]):
    return (p @ p + q @ q) / 2 + q[0] ** 2 * q[1] - q[1] ** 3 / 3


@tp.hamiltonian
def driven_pendulum(q, p, t, a: float = 0.3):
    return p**2 / 2 - tp.cos(q) - a * q * tp.cos(1.3 * t)


@tp.forces
def swirl(q: tp.Vec[2], mass: float = 2.0):
    return tp.stack([-q[0] - 0.1 * q[1], -q[1] + 0.1 * q[0]])


@tp.map
def henon(x, y, a: float = 1.4, b: float = 0.3):
    return 1 - a * x**2 + y, b * x


@tp.hamiltonian
def bead(q, p):
    """A bead on a parabola: the kinetic energy depends on the position."""
    return p**2 / (2 * (1 + 4 * q**2)) + q**2
