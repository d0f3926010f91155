"""Which particle systems are there?  Gravity and Coulomb forces between all pairs, and states to start from.

A start is a dict of states and parameters for evolve: `sim.evolve(**plummer(1000, seed=1), steps=100)`.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs
# systems stand here as users write them: without types of what they return
from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinyphysics.front.functions import sqrt
from tinyphysics.front.pairs import pair_sum
from tinyphysics.front.spaces import Array, Vec
from tinyphysics.front.trace import hamiltonian
from tinyphysics.philox import cos_sin
from tinyphysics.physics.draws import accepted, directions, uniform
from tinyphysics.physics.portable import cube_root, mean_of


@hamiltonian
def gravity(q: Array["n", 3], p: Array["n", 3], m: Vec["n"] = 1.0, G: float = 1.0, softening: float = 0.0):
    """Newton's law; softened (Plummer) if asked, which bounds the force between two that meet."""
    apart = q[:, None] - q[None, :]
    distance = sqrt((apart**2).sum(-1) + softening**2)
    return ((p**2).sum(-1) / (2 * m)).sum() - G * pair_sum(m[:, None] * m[None, :] / distance)


@hamiltonian
def coulomb(
    q: Array["n", 3],
    p: Array["n", 3],
    charge: Vec["n"] = 1.0,
    m: Vec["n"] = 1.0,
    k: float = 1.0,
    softening: float = 0.0,
):
    """Charges: those of one sign repel each other."""
    apart = q[:, None] - q[None, :]
    distance = sqrt((apart**2).sum(-1) + softening**2)
    return ((p**2).sum(-1) / (2 * m)).sum() + k * pair_sum(charge[:, None] * charge[None, :] / distance)


def at_rest(q: Any, v: Any, m: Any) -> dict[str, Any]:
    """Positions and velocities as a start: the centre of mass in the origin, and no total momentum."""
    return {"q": q - mean_of(q, m), "p": m[:, None] * (v - mean_of(v, m)), "m": m}


SCALE = 3 * math.pi / 16  # a Plummer sphere of mass 1 and this radius has energy -1/4 (G = 1)
WITHIN = 0.999  # of the mass; the rest would lie beyond 38 scale radii, some of it anywhere


def cubed(x: Any) -> Any:
    return x * x * x


def plummer(n: int, seed: int = 0) -> dict[str, Any]:
    """n equal masses of a Plummer sphere in equilibrium, drawn as Aarseth, Henon & Wielen 1974 do.

    G = 1, total mass 1, energy -1/4: Henon's units, in which a crossing takes 2 sqrt(2).
    """
    c = cube_root(WITHIN * uniform(n, seed, stream=0)[:, 0])
    radius = c / np.sqrt((1.0 - c) * (1.0 + c))  # the mass within it is radius**3/(1 + radius**2)**(3/2)
    # the speed in units of the escape speed has the density x**2 (1 - x**2)**(7/2), which is below 0.1
    share, _ = accepted(n, seed, 1, lambda x, y: 0.1 * y < x * x * cubed(1.0 - x * x) * np.sqrt(1.0 - x * x))
    escape = np.sqrt(2.0 / np.sqrt(1.0 + radius * radius))
    q = SCALE * radius[:, None] * directions(n, seed, stream=2)
    v = (share * escape / math.sqrt(SCALE))[:, None] * directions(n, seed, stream=3)
    return at_rest(q, v, np.full(n, 1.0) / max(n, 1))


def cold_sphere(n: int, seed: int = 0, radius: float = 1.0) -> dict[str, Any]:
    """n equal masses at rest, uniform in a sphere; G = 1 and mass 1: it falls together in about 1.11 radius**1.5."""
    r = radius * cube_root(uniform(n, seed, stream=0)[:, 0])
    return at_rest(r[:, None] * directions(n, seed, stream=2), np.zeros((n, 3)), np.full(n, 1.0) / max(n, 1))


# --- the solar system -------------------------------------------------------------------------------
GAUSS = 0.01720209895  # sqrt(G M) of the Sun in astronomical units and days: Gauss 1809
# Standish & Williams, "Keplerian elements for approximate positions of the major planets", table 1 (J2000, mean
# ecliptic), JPL: a (au), e, and in degrees I, mean longitude, longitude of perihelion, of the node; its error is
# below 0.2 degrees from 1800 to 2050. Then the mass of the Sun over that of the planet with its moons: IAU 2009.
# fmt: off
PLANETS = {
    "Mercury": ( 0.38709927, 0.20563593,  7.00497902, 252.25032350,  77.45779628,  48.33076593, 6.0236e6),
    "Venus":   ( 0.72333566, 0.00677672,  3.39467605, 181.97909950, 131.60246718,  76.67984255, 4.08523719e5),
    "Earth":   ( 1.00000261, 0.01671123, -0.00001531, 100.46457166, 102.93768193,   0.0,        3.2890056e5),
    "Mars":    ( 1.52371034, 0.09339410,  1.84969142,  -4.55343205, -23.94362959,  49.55953891, 3.09870359e6),
    "Jupiter": ( 5.20288700, 0.04838624,  1.30439695,  34.39644051,  14.72847983, 100.47390909, 1.047348644e3),
    "Saturn":  ( 9.53667594, 0.05386179,  2.48599187,  49.95424423,  92.59887831, 113.66242448, 3.4979018e3),
    "Uranus":  (19.18916464, 0.04725744,  0.77263783, 313.23810451, 170.95427630,  74.01692503, 2.290298e4),
    "Neptune": (30.06992276, 0.00859048,  1.77004347, -55.12002969,  44.96476227, 131.78422574, 1.941226e4),
}
# fmt: on
BODIES = ("Sun", *PLANETS)


def on_ellipse(a: float, e: float, anomaly: float, mu: float) -> tuple[Any, Any]:
    """Position and velocity in the plane of the orbit, x to the pericentre; the mean anomaly in turns."""
    E = anomaly  # Kepler's equation, by Newton's method
    for _ in range(10):
        c, s = cos_sin(E)
        E = E - (E - e * s / math.tau - anomaly) / (1.0 - e * c)
    c, s = cos_sin(E)
    b = math.sqrt(1.0 - e * e)
    speed = math.sqrt(mu / a) / (1.0 - e * c)
    return (a * (c - e), a * b * s), (-speed * s, speed * b * c)


def into_space(v: Any, perihelion: float, inclination: float, node: float) -> list[float]:
    """Turned by the argument of perihelion about z, by the inclination about x, by the node about z."""
    x, y, z = v[0], v[1], 0.0
    c, s = cos_sin(perihelion)
    x, y = c * x - s * y, s * x + c * y
    c, s = cos_sin(inclination)
    y, z = c * y, s * y
    c, s = cos_sin(node)
    return [c * x - s * y, s * x + c * y, z]


def solar_system() -> dict[str, Any]:
    """The Sun and eight planets (in the order of BODIES) at J2000: au, days, solar masses; gives G as well."""
    q, v, m = [[0.0] * 3], [[0.0] * 3], [1.0]
    for a, e, inclination, longitude, perihelion, node, ratio in PLANETS.values():
        flat = on_ellipse(a, e, (longitude - perihelion) / 360, GAUSS * GAUSS * (1 + 1 / ratio))
        turns = ((perihelion - node) / 360, inclination / 360, node / 360)
        q.append(into_space(flat[0], *turns))
        v.append(into_space(flat[1], *turns))
        m.append(1 / ratio)
    return at_rest(np.array(q), np.array(v), np.array(m)) | {"G": GAUSS * GAUSS}
