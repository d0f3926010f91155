"""How does an incompressible fluid flow in a periodic box?  By its vorticity in two dimensions, its velocity in three.

Slopes are exact for every wave that the grid holds, and products are made of fields without the last third of their waves.
What is linear, viscosity and a mean flow, is a factor for each wave: method="etdrk4" solves it. Components of vectors stand
in the order of the axes, x last.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs
# systems stand here as users write them: without types of what they return
from __future__ import annotations

from collections.abc import Callable
from math import pi
from typing import Any

import numpy as np

from tinyphysics.errors import InputError
from tinyphysics.front.complex import Complex
from tinyphysics.front.fourier import fftn, ifftn, modes
from tinyphysics.front.functions import sqrt, where
from tinyphysics.front.spaces import Array
from tinyphysics.front.trace import ode

CLOSURES = ("smagorinsky",)


def wave_numbers(shape: tuple[int, ...], axes: tuple[int, ...], L: Any) -> list[Any]:
    """2 pi/L times the number of each wave, along each axis."""
    return [modes(shape, a) * (2 * pi / L) for a in axes]


def slope(k: Any, n: int, L: Any) -> Any:
    """What i is multiplied by for a first derivative: without the wave of half the grid, which has none."""
    return k if n % 2 else where(abs(k) * (L / (2 * pi)) > n / 2 - 0.5, 0.0, k)


def kept(ks: list[Any], n: int, L: Any) -> Any:
    """1 for the waves below a third of the grid, 0 for the others."""
    out = None
    for k in ks:
        here = abs(k) * (3 * L / (2 * pi)) < n - 1e-6
        out = here if out is None else out & here
    return where(out, 1.0, 0.0)


def back(z: Any, factor: Any, turned: bool = False) -> Any:
    """The real field whose waves are those of z, each times a real factor; times i if `turned`."""
    y = Complex(-(z.imag * factor), z.real * factor) if turned else Complex(z.real * factor, z.imag * factor)
    return ifftn(y).real


def checked_closure(closure: Any) -> bool:
    if closure is not None and closure not in CLOSURES:
        raise InputError.here(f"closure={closure!r} is not known", 'It may be None or "smagorinsky".')
    return closure is not None


def places(n: int, L: Any, axes: int) -> list[Any]:
    """The coordinates of the grid, x last."""
    along = np.arange(n) * (L / n)
    return [along.reshape(tuple(n if a == b else 1 for b in range(axes))) for a in range(axes)]


def vorticity(*, closure: str | None = None, forcing: Callable[..., Any] | None = None) -> Any:
    """A flow in the periodic square of side L by its vorticity w = dv/dx - du/dy; axes y, x.

    dw/dt + (u + U) dw/dx + (v + V) dw/dy = nu lap w - drag w + forcing. Parameters: nu, drag, the mean flow U and V, L.
    `forcing`, a function of x, y and t, is the curl of the force. `closure` is None or "smagorinsky": the curl of
    div(2 nu_t S) with nu_t = (Cs L/n)**2 |S| is added, for what the grid does not hold.
    """
    closed = checked_closure(closure)

    def rates(w: Any, t: Any, nu: Any, drag: Any, U: Any, V: Any, L: Any, Cs: Any) -> Any:
        n = w.shape[-1]
        ky, kx = wave_numbers(w.shape, (0, 1), L)
        z, mask = fftn(w), kept([ky, kx], n, L)
        square = kx * kx + ky * ky
        dx, dy = slope(kx, n, L), slope(ky, n, L)
        still = where(square > 0.0, mask / where(square > 0.0, square, 1.0), 0.0)
        u, v = back(z, dy * still, True), back(z, -(dx * still), True)
        products = fftn(u * v), fftn(v * v - u * u)  # curl div(uu)
        turn = back(products[0], kx * kx - ky * ky) + back(products[1], dx * dy)
        linear = back(z, -(nu * square + drag)) - back(z, U * dx + V * dy, True)
        out = linear + turn
        if closed:
            s, c = back(z, -(dx * dy) * still), back(z, 0.5 * (kx * kx - ky * ky) * still)  # S_xx, S_xy
            eddy = (Cs * L / n) ** 2 * 2.0 * sqrt(s * s + c * c)
            stress = fftn(2.0 * eddy * c), fftn(2.0 * eddy * s)
            out = out - back(stress[0], kx * kx - ky * ky) + 2.0 * back(stress[1], dx * dy)
        if forcing is not None:
            y, x = places(n, L, 2)
            out = out + forcing(x, y, t)
        return out

    if forcing is None:

        @ode
        def flow(
            w: Array["n", "n"],
            nu: float = 1e-3,
            drag: float = 0.0,
            U: float = 0.0,
            V: float = 0.0,
            L: float = 2 * pi,
            Cs: float = 0.17,
        ):
            return rates(w, None, nu, drag, U, V, L, Cs)

        return flow

    @ode
    def forced_flow(
        w: Array["n", "n"],
        t,
        nu: float = 1e-3,
        drag: float = 0.0,
        U: float = 0.0,
        V: float = 0.0,
        L: float = 2 * pi,
        Cs: float = 0.17,
    ):
        return rates(w, t, nu, drag, U, V, L, Cs)

    return forced_flow
