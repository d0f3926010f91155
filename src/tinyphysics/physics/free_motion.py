"""Where is a free rigid body at any time?  By Jacobi's functions for its momentum, and a Fourier series for its turn.

With the body's axes in an order in which the momentum goes around the third, L = (A1 cn, A2 sn, A3 dn) of u = u0 + rate t.
The attitude turns about the momentum by the integral of |L| (L2²/I2 + L3²/I3)/(L2² + L3²), a short Fourier series in u.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tinyphysics.errors import InputError

ROUNDS = 12  # of the arithmetic-geometric mean: it doubles its digits in each
MOST = 4096  # points of the Fourier series: close to the separatrix it is long
EQUAL = 1e-14  # moments that differ by less are one


def means(m: float) -> tuple[list[float], list[float]]:
    """The arithmetic means a and half differences c of the rounds for a parameter m."""
    a, b, first, second = 1.0, np.sqrt(1 - m), [1.0], [np.sqrt(m)]
    for _ in range(ROUNDS):
        a, b, c = (a + b) / 2, np.sqrt(a * b), (a - b) / 2
        first.append(a)
        second.append(c)
    return first, second


def amplitude(u: Any, m: float) -> Any:
    """am(u | m), by Landen's steps down."""
    a, c = means(m)
    phi = 2.0**ROUNDS * a[-1] * u
    for k in range(ROUNDS, 0, -1):
        phi = (phi + np.arcsin(c[k] / a[k] * np.sin(phi))) / 2
    return phi


def first_integral(phi: float, m: float) -> float:
    """F(phi | m), by the same steps up."""
    a, b = 1.0, np.sqrt(1 - m)
    for _ in range(ROUNDS):
        phi = phi + np.arctan(b / a * np.tan(phi)) + np.pi * np.floor(phi / np.pi + 0.5)
        a, b = (a + b) / 2, np.sqrt(a * b)
    return float(phi / (2.0**ROUNDS * a))


@dataclass(frozen=True)
class Orbit:
    """The momentum of one body: its axes in order, amplitudes and phase."""

    order: tuple[int, int, int]
    sizes: Any  # A1, A2, A3
    rate: float
    m: float
    u0: float
    quarter: float  # K

    def at(self, u: Any) -> Any:
        phi = amplitude(np.fmod(u, 4 * self.quarter), self.m)
        out = np.empty((*np.shape(u), 3))
        for k, f in zip(self.order, (np.cos(phi), np.sin(phi), np.sqrt(1 - self.m * np.sin(phi) ** 2))):
            out[..., k] = f
        return out * self.sizes[np.argsort(self.order)]


def orbit(L: Any, moments: Any) -> Orbit:
    square, energy = float(L @ L), float((L**2 / moments).sum())  # twice the energy
    small, middle, large = np.argsort(moments, kind="stable").tolist()
    if moments[large] - moments[middle] < EQUAL * moments[large]:
        order = (large, middle, small)
    elif moments[middle] - moments[small] < EQUAL * moments[large] or square > energy * moments[middle]:
        order = (small, middle, large)
    else:
        order = (large, middle, small)
    I1, I2, I3 = moments[list(order)]
    up, down = max((energy * I3 - square) / (I3 - I1), 0.0), (square - energy * I1) / (I3 - I1)
    A1, A2 = np.sqrt(I1 * up), np.sqrt(I2 * max((energy * I3 - square) / (I3 - I2), 0.0))
    A3 = np.copysign(np.sqrt(I3 * down), L[order[2]])
    parity = 1.0 if order in ((0, 1, 2), (1, 2, 0), (2, 0, 1)) else -1.0
    A2 = np.copysign(A2, parity * (I3 - I1) * A3)
    rate = np.sqrt((I3 - I2) / (I1 * I2 * I3) * (I3 - I1) * down)
    m = (I2 - I1) * up / ((I3 - I2) * down)
    if not m < 1:
        raise InputError(
            "this body turns over once and never again: it is on the separatrix",
            fix="Change L a little, or step it.",
        )
    phase = np.arctan2(L[order[1]] / A2, L[order[0]] / A1) if A1 and A2 else 0.0
    quarter = np.pi / 2 / means(m)[0][-1]
    return Orbit(order, np.array([A1, A2, A3]), rate, m, first_integral(phase, m), quarter)


def precession(o: Orbit, length: float, moments: Any, u: Any, t: Any) -> Any:
    """The angle by which the attitude has turned about the momentum."""
    _, i, j = o.order

    def speed(at: Any) -> Any:
        L = o.at(at)
        return (
            length
            * (L[..., i] ** 2 / moments[i] + L[..., j] ** 2 / moments[j])
            / (L[..., i] ** 2 + L[..., j] ** 2)
        )

    points = 32
    while True:
        places = (np.arange(points) + 0.5) * o.quarter / points
        values = speed(places)
        k = np.arange(1, points)[:, None]
        series = 2 * (values * np.cos(2 * k * (np.pi / 2) * places / o.quarter)).mean(-1)
        if points >= MOST or np.abs(series[points // 2 :]).max() < 1e-16 * np.abs(values).max():
            break
        points *= 2
    w = 2 * np.arange(1, points) * (np.pi / 2) / o.quarter
    waves = np.sin(np.multiply.outer(u, w)) - np.sin(o.u0 * w)
    return values.mean() * t + waves @ (series / (w * o.rate))


def free_motion(R: Any, L: Any, moments: Any, t: Any) -> tuple[Any, Any]:
    """The attitude (a unit quaternion) and the angular momentum of a free rigid body at the times `t`, exactly.

    `R` and `L` are those at t = 0, as for free_body; `moments` are its moments of inertia. It has no steps: t may be 10**6.
    """
    R, L, moments, t = (np.asarray(x, float) for x in (R, L, moments, t))
    if R.shape != (4,) or L.shape != (3,) or moments.shape != (3,) or not (moments > 0).all():
        raise InputError(
            "free_motion takes one quaternion, one momentum and three positive moments",
            fix="free_motion(R, L, moments, t).",
        )
    length = float(np.sqrt(L @ L))
    start = matrix(R)
    if length == 0 or np.ptp(moments) < EQUAL * moments.max() or np.abs(np.cross(L, L / moments)).max() == 0:
        w = L / moments  # it turns about one axis
        speed = float(np.sqrt(w @ w))
        turned = rotated(start @ w / (speed or 1.0), speed * t) @ start
        return quaternion(turned), np.broadcast_to(L, (*t.shape, 3)).copy()
    o = orbit(L, moments)
    u = o.u0 + o.rate * t
    now = o.at(u)
    pole = np.eye(3)[o.order[0]]
    there = rotated(start @ L / length, precession(o, length, moments, u, t)) @ start @ triad(pole, L)
    return quaternion(there @ np.swapaxes(triad(pole, now), -1, -2)), now


def triad(pole: Any, L: Any) -> Any:
    """Columns: the line of nodes, what is at right angles to it and to L, and L, of length 1."""
    up = L / np.sqrt((L**2).sum(-1, keepdims=True))
    nodes = np.cross(pole, up)
    nodes = nodes / np.sqrt((nodes**2).sum(-1, keepdims=True))
    return np.stack([nodes, np.cross(up, nodes), up], axis=-1)


def rotated(axis: Any, angle: Any) -> Any:
    """Rotation matrices about an axis of length 1."""
    hat = np.array([[0, -axis[2], axis[1]], [axis[2], 0, -axis[0]], [-axis[1], axis[0], 0]])
    s, c = np.sin(angle)[..., None, None], np.cos(angle)[..., None, None]
    return np.eye(3) + s * hat + (1 - c) * (hat @ hat)


def matrix(R: Any) -> Any:
    w, x, y, z = R
    hat = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + 2 * w * hat + 2 * hat @ hat


def quaternion(M: Any) -> Any:
    """The unit quaternion of rotation matrices, from the largest of its four numbers."""
    d = np.diagonal(M, axis1=-2, axis2=-1)
    squares = np.stack([1 + d.sum(-1), *(1 + 2 * d[..., k] - d.sum(-1) for k in range(3))], axis=-1)
    skew = [M[..., (k + 2) % 3, (k + 1) % 3] - M[..., (k + 1) % 3, (k + 2) % 3] for k in range(3)]
    even = [[M[..., a, b] + M[..., b, a] for b in range(3)] for a in range(3)]
    table = np.stack(
        [
            np.stack([squares[..., 0], *skew], axis=-1),
            *(
                np.stack(
                    [skew[k], *(squares[..., k + 1] if j == k else even[k][j] for j in range(3))], axis=-1
                )
                for k in range(3)
            ),
        ],
        axis=-2,
    )
    best = np.take_along_axis(table, squares.argmax(-1)[..., None, None], axis=-2)[..., 0, :]
    return best / np.sqrt((best**2).sum(-1, keepdims=True))
