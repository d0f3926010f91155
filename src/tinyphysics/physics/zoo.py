"""Which systems does `tp demo` know?  Ten, each with a start, a step and a reason to look at it."""

# mypy: allow-untyped-defs, allow-incomplete-defs
# systems stand here as users write them: without types of what they return
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinyphysics.front.functions import cos, diff, exp, norm, roll, sqrt
from tinyphysics.front.spaces import Array, Vec
from tinyphysics.front.trace import PhysicsSystem, hamiltonian, map_


@hamiltonian
def kepler(q: Vec[2], p: Vec[2], mu: float = 1.0):
    return p @ p / 2 - mu / norm(q)


@hamiltonian
def pendulum(q, p):
    return p**2 / 2 - cos(q)


@hamiltonian
def henon_heiles(q: Vec[2], p: Vec[2]):
    x, y = q
    return p @ p / 2 + q @ q / 2 + x**2 * y - y**3 / 3


@hamiltonian
def oscillator(q, p, k: float = 1.0):
    return p**2 / 2 + k * q**2 / 2


@hamiltonian
def double_well(q, p):
    return p**2 / 2 + (q**2 - 1) ** 2 / 4


@hamiltonian
def toda(q: Vec[3], p: Vec[3]):
    return p @ p / 2 + exp(q - roll(q, -1)).sum()


@hamiltonian
def fput(q: Vec[8], p: Vec[8], alpha: float = 0.25):
    stretch = diff(q, prepend=0.0, append=0.0)  # walls at both ends
    return p @ p / 2 + (stretch**2 / 2 + alpha * stretch**3 / 3).sum()


@hamiltonian
def driven_pendulum(q, p, t, shake: float = 0.1, rate: float = 20.0):
    return p**2 / 2 - (1 + shake * rate**2 * cos(rate * t)) * cos(q)


@map_
def henon(x, y, a: float = 1.4, b: float = 0.3):
    return 1 - a * x**2 + y, b * x


BODIES = 5


class Galaxy(PhysicsSystem):
    """Bodies that attract each other; the softening bounds the force between two that meet."""

    def __init__(self, mass: Any, G: float = 1.0, softening: float = 0.05) -> None:
        self.mass, self.G, self.softening = np.asarray(mass, float), G, softening

    def energy(self, q: Array[BODIES, 2], p: Array[BODIES, 2]):
        m, H = self.mass, (p**2 / (2 * self.mass[:, None])).sum()
        for k in range(1, BODIES):  # bodies i and i + k: every pair once, none with itself
            apart = q[k:] - q[:-k]
            H = H - (self.G * m[k:] * m[:-k] / sqrt((apart**2).sum(axis=1) + self.softening**2)).sum()
        return H


MASSES = np.array([1.0, 0.004, 0.004, 0.002, 0.002])
RADII = np.array([0.0, 0.5, 0.8, 1.2, 1.6])
ANGLES = np.array([0.0, 0.0, 2.0, 4.0, 5.5])


def on_circles() -> dict[str, Any]:
    """Four light bodies on nearly circular orbits about a heavy one; the sum of momenta is zero."""
    out = np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1)
    along = np.stack([-np.sin(ANGLES), np.cos(ANGLES)], axis=1)
    speed = np.where(RADII > 0, 1 / np.sqrt(np.maximum(RADII, 0.1)), 0.0)
    p = MASSES[:, None] * speed[:, None] * along
    return {"q": RADII[:, None] * out, "p": p - MASSES[:, None] / MASSES.sum() * p.sum(axis=0)}


@dataclass(frozen=True, eq=False)
class Demo:
    system: Any
    about: str
    start: Mapping[str, Any]
    dt: float | None  # a map has none
    steps: int


# fmt: off
ZOO: dict[str, Demo] = {
    "kepler": Demo(kepler, "a planet on an ellipse, seen for two years",
                   {"q": [1.0, 0.0], "p": [0.0, 1.2]}, 0.02, 1500),
    "pendulum": Demo(pendulum, "a pendulum that almost goes over the top",
                     {"q": 0.0, "p": 1.99}, 0.05, 1000),
    "henon_heiles": Demo(henon_heiles, "a star in a galaxy with three arms: chaos at energy 1/8",
                         {"q": [0.0, -0.2], "p": [0.4524, 0.0]}, 0.05, 3000),
    "oscillator": Demo(oscillator, "a mass on a spring: the phase portrait closes",
                       {"q": 1.0, "p": 0.0}, 0.1, 630),
    "double_well": Demo(double_well, "just enough energy to cross from one valley to the other",
                        {"q": -1.0, "p": 0.71}, 0.04, 1250),
    "toda": Demo(toda, "three particles and exponential springs: never chaotic",
                 {"q": [0.8, 0.0, -0.8], "p": [0.0, 0.5, -0.5]}, 0.02, 1500),
    "fput": Demo(fput, "eight masses, and springs that refuse to share the energy",
                 {"q": (2 * np.sin(np.pi * np.arange(1, 9) / 9)).tolist(), "p": [0.0] * 8}, 0.1, 2000),
    "galaxy": Demo(Galaxy(MASSES), "four light bodies about a heavy one, all pairs attract",
                   on_circles(), 0.01, 1500),
    "driven_pendulum": Demo(driven_pendulum, "upside down, and stable: its pivot shakes",
                    {"q": np.pi - 0.3, "p": 0.0}, 0.01, 1300),
    "henon": Demo(henon, "the Hénon map: a strange attractor",
                  {"x": 0.1, "y": 0.1}, None, 3000),
}
# fmt: on
