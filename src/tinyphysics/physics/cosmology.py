"""How does matter gather in an expanding universe?  Masses at comoving positions, in steps of the logarithm of the scale a.

H = sum(p**2/(2*m))/a**2 + Phi/a with p = m*a**2 dq/dt; Phi is that of all images less the mean density. The time of a
run is t = log(a), where H is multiplied by 1/E, E = da/dt/a: any background with a known E(a) will do. Both factors are
means over a step of length h, so that the integrals of dt/a**2 and dt/a over a step are exact, however long it is.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs
# systems stand here as users write them: without types of what they return
from __future__ import annotations

from math import pi
from typing import Any

import numpy as np

from tinyphysics.errors import InputError
from tinyphysics.front.functions import exp, sqrt
from tinyphysics.front.neighbours import pair_distance2
from tinyphysics.front.pairs import pair_sum
from tinyphysics.front.spaces import Array, Vec
from tinyphysics.front.trace import hamiltonian
from tinyphysics.physics.draws import normal

# of Gauss and Legendre on -1/2 to 1/2: eight nodes are exact to rounding for steps up to h = 0.5
HALF_NODES = (0.0917173212478248, 0.2627662049581645, 0.3983332387068134, 0.4801449282487682)
HALF_WEIGHTS = (0.1813418916891810, 0.1568533229389437, 0.1111905172266872, 0.0506142681451881)
NODES = np.array([*HALF_NODES, *(-x for x in HALF_NODES)])
WEIGHTS = np.array([*HALF_WEIGHTS, *HALF_WEIGHTS])


def expansion(a: Any, matter: Any = 1.0, vacuum: Any = 0.0, H0: Any = 1.0) -> Any:
    """Returns da/dt/a for these parts of the critical density at a = 1; what they leave of 1 is curvature.

    >>> expansion(0.25)
    8.0
    """
    return H0 * sqrt(matter / a**3 + (1.0 - matter - vacuum) / a**2 + vacuum)


def over_step(t: Any, h: Any, power: int, matter: Any, vacuum: Any, H0: Any) -> Any:
    """The integral of dt/a**power over a step around log(a) = t, divided by its length h; at h = 0 it is 1/(a**power*E)."""

    a = exp(t + h * NODES)
    return (WEIGHTS / (a**power * expansion(a, matter, vacuum, H0))).sum()


def strength(mass: Any, L: Any, matter: Any, H0: Any) -> Any:
    """G of a box whose mean density is that of the background: 8 pi G density/3 = matter*H0**2 at a = 1."""
    return 3.0 * matter * H0**2 * L**3 / (8.0 * pi * mass)


@hamiltonian
def comoving(
    q: Array["n", 3], p: Array["n", 3], t: float, m: Vec["n"], L: float,
    h: float = 0.0, matter: float = 1.0, vacuum: float = 0.0, H0: float = 1.0,
):  # fmt: skip
    """Masses in a cube that expands. A mesh alone, long_range={"cutoff": 0, "grid": 64}, softens them by its cells."""
    r2 = pair_distance2(q, box=L)
    G = strength(m.sum(), L, matter, H0)
    drift, kick = (over_step(t, h, power, matter, vacuum, H0) for power in (2, 1))
    return drift * ((p**2).sum(-1) / (2 * m)).sum() - kick * G * pair_sum(m[:, None] * m[None, :] / sqrt(r2))


@hamiltonian
def softened(
    q: Array["n", 3], p: Array["n", 3], t: float, m: Vec["n"], L: float, softening: float,
    h: float = 0.0, matter: float = 1.0, vacuum: float = 0.0, H0: float = 1.0,
):  # fmt: skip
    """The same with 1/sqrt(r**2 + softening**2); it needs a goal, force_error=1e-3."""
    r2 = pair_distance2(q, box=L)
    G = strength(m.sum(), L, matter, H0)
    drift, kick = (over_step(t, h, power, matter, vacuum, H0) for power in (2, 1))
    pairs = pair_sum(m[:, None] * m[None, :] / sqrt(r2 + softening**2))
    return drift * ((p**2).sum(-1) / (2 * m)).sum() - kick * G * pairs


@hamiltonian
def sheets(
    q: Vec["n"], p: Vec["n"], t: float, m: float, L: float,
    h: float = 0.0, matter: float = 1.0, vacuum: float = 0.0, H0: float = 1.0,
):  # fmt: skip
    """Parallel sheets of matter that draw each other by the same force at any distance: the box in one dimension.

    q are positions on the line, not wrapped; all n of them are within one period L.
    """
    n = q.shape[0]
    distance = abs(q[:, None] - q[None, :])
    G = strength(n * m, L, matter, H0)  # m is the mass of a cube's worth of sheet
    drift, kick = (over_step(t, h, power, matter, vacuum, H0) for power in (2, 1))
    pairs = pair_sum(distance - distance**2 / L)
    return drift * (p**2).sum() / (2 * m) + kick * (2.0 * pi * G * m * m / L**2) * pairs


# --- growth, and what to begin with ----------------------------------------------------------------------------------
def growth(a: Any, matter: float = 1.0, vacuum: float = 0.0) -> tuple[Any, Any]:
    """Returns (D, dD/dlog a), the linear growth of density: D = a where matter rules (Heath 1977).

    >>> [round(float(x), 12) for x in growth(0.1)]
    [0.1, 0.1]
    """
    a = np.asarray(a, float)
    x, w = np.polynomial.legendre.leggauss(64)
    # over b = a*s**2: the integrand, (b*E)**-3, is smooth in s
    s = 0.5 * (x + 1.0)
    b = a[..., None] * s * s
    e = _rate(b, matter, vacuum)
    integral = (0.5 * w * 2.0 * a[..., None] * s / (b * e) ** 3).sum(-1)
    E = _rate(a, matter, vacuum)
    D = 2.5 * matter * E * integral
    slope = (-1.5 * matter / a**3 - (1.0 - matter - vacuum) / a**2) / E**2  # dlog E/dlog a
    return D, slope * D + 2.5 * matter / (a * E) ** 2


def _rate(a: Any, matter: float, vacuum: float) -> Any:
    return np.sqrt(matter / a**3 + (1.0 - matter - vacuum) / a**2 + vacuum)


def zeldovich(
    q: Any, displacement: Any, a: float, m: Any, matter: float = 1.0, vacuum: float = 0.0, H0: float = 1.0
) -> dict[str, Any]:
    """Returns {"q", "p"} at the scale factor a: positions moved by D*displacement, growing (Zel'dovich 1970)."""
    D, slope = growth(a, matter, vacuum)
    move = np.asarray(displacement, float)
    mass = np.asarray(m, float)
    mass = mass[:, None] if mass.ndim and move.ndim > 1 else mass
    rate = H0 * _rate(np.asarray(a, float), matter, vacuum) * slope  # dD/dt
    return {"q": np.asarray(q, float) + D * move, "p": mass * (a * a * rate) * move}


def lattice(side: int, L: float) -> Any:
    """Returns the side**3 places of a cubic lattice, half a cell from the faces of the box."""
    x = (np.arange(side) + 0.5) * (L / side)
    return np.stack(np.meshgrid(x, x, x, indexing="ij"), -1).reshape(-1, 3)


def random_displacement(side: int, L: float, rms: float, seed: int = 0, index: float = -1.0) -> Any:
    """Returns displacements (side**3, 3) of a random density with power k**index; `rms` is that of a component.

    Waves shorter than half of those that the lattice can hold are left out.
    """
    if side < 4:
        raise InputError(f"random_displacement of {side} places along a side", fix="Take 4 or more.")
    k = np.fft.fftfreq(side, 1.0 / side)
    wave = np.stack(np.meshgrid(k, k, k, indexing="ij"), -1)
    k2 = (wave**2).sum(-1)
    k2[0, 0, 0] = 1.0
    noise = normal(side**3, seed)[:, 0].reshape((side,) * 3)
    power = np.where(k2 <= (side / 4) ** 2, k2 ** (index / 2.0), 0.0)
    power[0, 0, 0] = 0.0
    density = np.fft.fftn(noise) * np.sqrt(power)
    move = np.stack([np.fft.ifftn(1j * wave[..., a] / k2 * density).real for a in range(3)], -1)
    return (move * (rms / np.sqrt((move**2).mean()))).reshape(-1, 3)
