"""How does a fluid flow?  Lattice Boltzmann with one relaxation time, in two dimensions (D2Q9) and three (D3Q19).

Populations f[k] sit on a periodic lattice and move one site a step along velocity k. A step is: relax towards
equilibrium (Bhatnagar, Gross & Krook 1954; Qian, d'Humieres & Lallemand 1992), push (Guo, Zheng & Shi 2002),
stream, and bounce back half-way between fluid and wall (Ladd 1994). Viscosity (tau - 1/2)/3, sound speed
1/sqrt(3), in units of the lattice.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs
# systems stand here as users write them: without types of what they return
from __future__ import annotations

from typing import Any

import numpy as np

from tinyphysics.front.spaces import Array
from tinyphysics.front.trace import map_
from tinyphysics.physics.portable import cosine, sine
from tinyphysics.physics.spectral_flows import gaussian as gaussian
from tinyphysics.physics.spectral_flows import sharp as sharp
from tinyphysics.physics.spectral_flows import spectrum as spectrum
from tinyphysics.physics.spectral_flows import velocity as velocity
from tinyphysics.physics.spectral_flows import vorticity as vorticity


def velocities(dimensions: int) -> list[tuple[int, ...]]:
    """All steps of length 0, 1 and sqrt(2), in that order; components as the axes: (y, x) or (z, y, x)."""
    every = np.stack(np.meshgrid(*[(0, 1, -1)] * dimensions, indexing="ij"), -1).reshape(-1, dimensions)
    squares = (every**2).sum(1)
    return [tuple(int(a) for a in v) for length in (0, 1, 2) for v in every[squares == length]]


D2Q9, D3Q19 = velocities(2), velocities(3)
# fmt: off
WEIGHTS = {  # by the square of the velocity
    9:  {0: 4 / 9, 1: 1 / 9,  2: 1 / 36},
    19: {0: 1 / 3, 1: 1 / 18, 2: 1 / 36},
}
# fmt: on


def weight(lattice: list[tuple[int, ...]], k: int) -> float:
    return WEIGHTS[len(lattice)][sum(a * a for a in lattice[k])]


def along(c: tuple[int, ...], u: Any) -> Any:
    """c . u for c of 0, 1 and -1: sums and differences, no products; 0.0 at rest."""
    out = 0.0
    for a, x in zip(c, u):
        out = out + x if a == 1 else out - x if a == -1 else out
    return out


def moments(f: Any, lattice: list[tuple[int, ...]]) -> tuple[Any, list[Any]]:
    """Density and momentum, one array for each axis."""
    momentum = []
    for axis in range(len(lattice[0])):
        there = sum(f[k] for k, c in enumerate(lattice) if c[axis] == 1)
        momentum.append(there - sum(f[k] for k, c in enumerate(lattice) if c[axis] == -1))
    return sum(f[k] for k in range(len(lattice))), momentum


def equilibrium(rho: Any, u: Any, lattice: list[tuple[int, ...]]) -> list[Any]:
    """The populations of a fluid of this density and velocity, to second order in the velocity."""
    square = 1.5 * sum(a * a for a in u)
    out = []
    for k, c in enumerate(lattice):
        cu = along(c, u)
        out.append(weight(lattice, k) * rho * (1 + 3 * cu + 4.5 * cu * cu - square))
    return out


def bgk(f: Any, solid: Any, tau: Any, g: list[Any], lid: Any, lattice: list[tuple[int, ...]]) -> Any:
    """One step. g is the acceleration along each axis; solid is 0 in fluid, 1 in walls, 2 in the moving one."""
    rho, momentum = moments(f, lattice)
    volume, rate = 1 / rho, 1 / tau  # a map runs as it is written: two divisions, not one for each population
    u = [m * volume + a / 2 for m, a in zip(momentum, g)]  # half of the push: second order in time
    new, push = equilibrium(rho, u, lattice), rho * (1 - rate / 2)
    ug = sum(a * b for a, b in zip(u, g))
    after = []
    for k, c in enumerate(lattice):
        source = 3 * (along(c, g) - ug) + 9 * along(c, u) * along(c, g)
        after.append(f[k] - (f[k] - new[k]) * rate + weight(lattice, k) * push * source)
    axes = tuple(range(len(lattice[0])))
    streamed = []
    for k, c in enumerate(lattice):
        back = after[lattice.index(tuple(-a for a in c))]
        behind = np.roll(solid, c, axes)  # what lies where population k comes from
        if c[-1]:  # the moving wall slides along x
            back = back + np.where(behind > 1.5, 6 * weight(lattice, k) * c[-1] * lid, 0.0)
        streamed.append(np.where(behind > 0.5, back, np.roll(after[k], c, axes)))
    return np.where(solid > 0.5, f, np.stack(streamed))


@map_
def fluid(
    f: Array[9, "h", "w"],
    solid: Array["h", "w"] = 0.0,
    tau: float = 0.8,
    gx: float = 0.0,
    gy: float = 0.0,
    lid: float = 0.0,
):
    """D2Q9 on a periodic sheet with walls: f[k, y, x]."""
    return bgk(f, solid, tau, [gy, gx], lid, D2Q9)


@map_
def fluid3(
    f: Array[19, "d", "h", "w"],
    solid: Array["d", "h", "w"] = 0.0,
    tau: float = 0.8,
    gx: float = 0.0,
    gy: float = 0.0,
    gz: float = 0.0,
    lid: float = 0.0,
):
    """D3Q19 in a periodic box with walls: f[k, z, y, x]."""
    return bgk(f, solid, tau, [gz, gy, gx], lid, D3Q19)


def viscosity(tau: float) -> float:
    return (tau - 0.5) / 3


# --- starts, and what is read off --------------------------------------------------------------------
def flow(u: Any, rho: Any = 1.0) -> Any:
    """The populations of a flow in equilibrium; u has one array for each axis, x last."""
    u = [np.asarray(a, float) for a in u]
    lattice = D2Q9 if len(u) == 2 else D3Q19
    return np.stack(equilibrium(np.broadcast_to(np.asarray(rho, float), u[0].shape), u, lattice))


def still(*shape: int) -> Any:
    """Fluid at rest on a lattice (h, w) or (d, h, w)."""
    return flow([np.zeros(shape)] * len(shape))


def density_and_velocity(f: Any, g: Any = 0.0) -> tuple[Any, Any]:
    """(rho, u) of one frame; u has an axis in front, x last. Give g, one number for each axis, if it was pushed."""
    lattice = D2Q9 if len(f) == 9 else D3Q19
    rho, momentum = moments(f, lattice)
    u = np.stack(momentum) / rho
    return rho, u + np.broadcast_to(g, len(u)).reshape(-1, *(1,) * rho.ndim) / 2


def shear_wave(h: int, w: int, speed: float = 0.01, waves: int = 1) -> Any:
    """A flow along x that varies along y: it decays as exp(-viscosity k**2 t)."""
    ux = speed * cosine(waves * np.arange(h) / h)[:, None] * np.ones((1, w))
    return flow([np.zeros((h, w)), ux])


def taylor_green(h: int, w: int, speed: float = 0.01) -> Any:
    """Vortices that keep their shape and decay as exp(-viscosity (kx**2 + ky**2) t) (Taylor & Green 1937)."""
    y, x = np.arange(h)[:, None] / h, np.arange(w)[None, :] / w
    kx, ky = 1 / w, 1 / h  # of one size where h = w
    scale = speed / max(kx, ky)
    ux, uy = -scale * ky * cosine(x) * sine(y), scale * kx * sine(x) * cosine(y)
    pressure = -(scale * ky * (scale * ky) * cosine(2 * x) + scale * kx * (scale * kx) * cosine(2 * y)) / 4
    return flow([uy, ux], 1 + 3 * pressure)


def channel(h: int, w: int) -> Any:
    """Walls along the first and the last row; the fluid between them is h - 2 wide."""
    solid = np.zeros((h, w))
    solid[[0, -1]] = 1.0
    return solid


def cavity(h: int, w: int) -> Any:
    """Walls all round; the last row, without its corners, is the lid."""
    solid = channel(h, w)
    solid[:, [0, -1]] = 1.0
    solid[-1, 1:-1] = 2.0
    return solid
