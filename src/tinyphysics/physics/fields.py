"""Which fields are there?  Waves, phi**4, sine-Gordon and rotors on a lattice, with waves and kinks to start from.

A field has one canonical pair at each point of a lattice. With a spacing dx the energies here are those of the
continuum divided by dx (by dx*dx in two dimensions), so that the momentum at a point is the rate of the field there.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs
# systems stand here as users write them: without types of what they return
from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinyphysics.front.functions import cos, diff, roll
from tinyphysics.front.spaces import Array, Vec
from tinyphysics.front.trace import hamiltonian
from tinyphysics.physics.portable import cosine, sine


@hamiltonian
def wave(u: Array["h", "w"], v: Array["h", "w"], c: float = 1.0, mass: float = 0.0, dx: float = 1.0):
    """The wave equation on a periodic sheet; with a mass, Klein and Gordon's."""
    down, right = roll(u, -1, 0) - u, roll(u, -1, 1) - u
    return ((v**2).sum() + (c / dx) ** 2 * (down**2 + right**2).sum() + mass**2 * (u**2).sum()) / 2


@hamiltonian
def phi4(u: Vec["n"], v: Vec["n"], dx: float = 1.0):
    """Two valleys at -1 and 1, on a line with free ends: u'' = d2u/dx2 + u - u**3."""
    slope = diff(u) / dx
    return (v @ v + slope @ slope) / 2 + ((u**2 - 1) ** 2).sum() / 4


@hamiltonian
def sine_gordon(u: Vec["n"], v: Vec["n"], dx: float = 1.0):
    """A line of pendulums with free ends: u'' = d2u/dx2 - sin(u)."""
    slope = diff(u) / dx
    return (v @ v + slope @ slope) / 2 + (1 - cos(u)).sum()


@hamiltonian
def rotors(angle: Array["h", "w"], spin: Array["h", "w"], J: float = 1.0):
    """The XY model with inertia: rotors on a periodic sheet, each wants to point as its four neighbours do."""
    down, right = roll(angle, -1, 0) - angle, roll(angle, -1, 1) - angle
    return (spin**2).sum() / 2 + J * ((1 - cos(down)) + (1 - cos(right))).sum()


# --- waves ------------------------------------------------------------------------------------------
def phases(shape: tuple[int, int], waves: tuple[int, int]) -> Any:
    """k.x in whole turns, for so many waves along each axis of a periodic sheet."""
    (h, w), (down, right) = shape, waves
    return down * np.arange(h)[:, None] / h + right * np.arange(w)[None, :] / w


def standing_wave(shape: tuple[int, int], waves: tuple[int, int] = (0, 1), amplitude: float = 1.0) -> Any:
    """(field, rate): cos(k.x), at rest."""
    return amplitude * cosine(phases(shape, waves)), np.zeros(shape)


def plane_wave(
    shape: tuple[int, int],
    waves: tuple[int, int] = (0, 1),
    amplitude: float = 1.0,
    c: float = 1.0,
    mass: float = 0.0,
    dx: float = 1.0,
) -> Any:
    """(field, rate): cos(k.x - omega t) at t = 0; it moves the way the waves point."""
    omega = lattice_frequency(shape, waves, c, mass, dx)
    turns = phases(shape, waves)
    return amplitude * cosine(turns), amplitude * omega * sine(turns)


def lattice_frequency(
    shape: tuple[int, int], waves: tuple[int, int], c: float = 1.0, mass: float = 0.0, dx: float = 1.0
) -> float:
    """omega(k) on the lattice, time still continuous: mass**2 + (2c/dx)**2 (sin(kx/2)**2 + sin(ky/2)**2)."""
    half = [float(sine(k / (2 * n))) for k, n in zip(waves, shape)]
    return math.sqrt(mass**2 + (2 * c / dx) ** 2 * (half[0] ** 2 + half[1] ** 2))


def leapfrog_frequency(omega: float, dt: float) -> float:
    """What leapfrog makes of a frequency: sin(result dt/2) = omega dt/2, for omega dt < 2."""
    return 2 * math.asin(omega * dt / 2) / dt


# --- kinks ------------------------------------------------------------------------------------------
def line(n: int, dx: float) -> Any:
    """Points of a line about 0."""
    return dx * (np.arange(n) - (n - 1) / 2)


def sine_gordon_kink(n: int, dx: float, speed: float = 0.0, at: float = 0.0) -> dict[str, Any]:
    """A step from 0 to 2 pi that moves: energy 8/sqrt(1 - speed**2) in the continuum."""
    gamma = 1 / math.sqrt(1 - speed**2)
    x = gamma * (line(n, dx) - at)
    return {"u": 4 * np.arctan(np.exp(x)), "v": -2 * speed * gamma / np.cosh(x), "dx": dx}


def phi4_kink(n: int, dx: float, speed: float = 0.0, at: float = 0.0) -> dict[str, Any]:
    """A step from -1 to 1 that moves: energy sqrt(8/9)/sqrt(1 - speed**2) in the continuum."""
    gamma = 1 / math.sqrt(1 - speed**2)
    x = gamma * (line(n, dx) - at) / math.sqrt(2)
    return {"u": np.tanh(x), "v": -speed * gamma / math.sqrt(2) / np.cosh(x) ** 2, "dx": dx}


def kink_position(u: Any, dx: float, level: float) -> float:
    """Where the field first rises through a level, by a line between two points."""
    u = np.asarray(u)
    i = int(np.argmax((u[:-1] < level) & (u[1:] >= level)))
    return float(line(len(u), dx)[i] + dx * (level - u[i]) / (u[i + 1] - u[i]))
