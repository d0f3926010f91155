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
from tinyphysics.front.functions import exp, sqrt, stack, where
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


# --- what is seen of a field -----------------------------------------------------------------------------------------------
def sharp(field: Any, waves: float, L: Any = 2 * pi) -> Any:
    """Without waves shorter than L/waves along any axis. What it leaves out is lost."""
    ks = wave_numbers(field.shape, tuple(range(field.ndim)), L)
    inside = None
    for k in ks:
        here = abs(k) * (L / (2 * pi)) < waves + 0.5
        inside = here if inside is None else inside & here
    return back(fftn(field), where(inside, 1.0, 0.0))


def gaussian(field: Any, width: float, L: Any = 2 * pi) -> Any:
    """Smoothed over a width: each wave times exp(-(k width)**2/24). No wave is lost: it can be undone, up to rounding."""
    ks = wave_numbers(field.shape, tuple(range(field.ndim)), L)
    square = sum(k * k for k in ks)
    return back(fftn(field), exp(-square * (width * width / 24)))


def spectrum(*fields: Any) -> Any:
    """How much of the mean of half their squares is in waves k - 1/2 to k + 1/2 of a box, k = 0, 1, ... below n/2.

    Of velocities that is the energy spectrum; of a vorticity, the enstrophy spectrum.
    """
    first = fields[0]
    shape, n = first.shape, first.shape[-1]
    power: Any = None
    for f in fields:
        z = fftn(f)
        own = z.real * z.real + z.imag * z.imag
        power = own if power is None else power + own
    number = np.zeros(shape)
    for a, m in enumerate(shape):
        along = np.fft.fftfreq(m, 1 / m).reshape(tuple(m if a == b else 1 for b in range(len(shape))))
        number = number + along**2
    shell = np.rint(np.sqrt(number)).astype(int)
    shells = [np.flatnonzero(shell.ravel() == k) for k in range(n // 2)]
    flat = power.reshape(first.size) * (0.5 / first.size**2)
    return stack([flat[own].sum() for own in shells])


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


def velocity(*, closure: str | None = None, forcing: Callable[..., Any] | None = None) -> Any:
    """A flow in the periodic cube of side L by its velocity: u, v, w along x, y, z; axes z, y, x.

    du/dt + (u + U).grad u + grad p = nu lap u - drag u + forcing, div u = 0: p takes out what has a divergence.
    Parameters: nu, drag, the mean flow U, V, W, L. `forcing`, a function of x, y, z and t, returns three components.
    `closure` is None or "smagorinsky": div(2 nu_t S) with nu_t = (Cs L/n)**2 |S| is added, for what the grid does not hold.
    """
    closed = checked_closure(closure)

    def rates(
        now: list[Any], t: Any, nu: Any, drag: Any, mean: list[Any], L: Any, Cs: Any
    ) -> tuple[Any, ...]:
        shape, n = now[0].shape, now[0].shape[-1]
        ks = wave_numbers(shape, (2, 1, 0), L)  # of x, y, z
        mask, square = kept(ks, n, L), ks[0] * ks[0] + ks[1] * ks[1] + ks[2] * ks[2]
        d = [slope(k, n, L) for k in ks]
        over = where(square > 0.0, 1.0 / where(square > 0.0, square, 1.0), 0.0)
        waves = [fftn(u) for u in now]
        seen = [back(z, mask) for z in waves]  # as products see it
        stress = {(i, j): -(seen[i] * seen[j]) for i in range(3) for j in range(i, 3)}
        if closed:
            slopes = {(i, j): back(waves[i], d[j] * mask, True) for i in range(3) for j in range(3)}
            S = {(i, j): 0.5 * (slopes[i, j] + slopes[j, i]) for i, j in stress}
            size = sum((1.0 if i == j else 2.0) * s * s for (i, j), s in S.items())
            eddy = 2.0 * (Cs * L / n) ** 2 * sqrt(2.0 * size)
            stress = {ij: x + eddy * S[ij] for ij, x in stress.items()}
        moved = {ij: fftn(x) for ij, x in stress.items()}
        force = [None] * 3 if forcing is None else list(forcing(*reversed(places(n, L, 3)), t))
        out = []
        for i in range(3):
            linear = back(waves[i], -(nu * square + drag)) - back(
                waves[i], mean[0] * d[0] + mean[1] * d[1] + mean[2] * d[2], True
            )
            for (a, b), z in moved.items():
                # of d_a at component b and d_b at component a, what is at right angles to k
                factor = (d[a] if i == b else 0.0) + (d[b] if i == a and a != b else 0.0)
                factor = factor - d[i] * d[a] * d[b] * (over * (1.0 if a == b else 2.0))
                linear = linear + back(z, factor * mask, True)
            if forcing is not None:
                own = [as_field(f, shape) for f in force]
                linear = linear + own[i]
                for j in range(3):
                    linear = linear - back(fftn(own[j]), d[i] * d[j] * over)
            out.append(linear)
        return tuple(out)

    if forcing is None:

        @ode
        def flow3(
            u: Array["n", "n", "n"],
            v: Array["n", "n", "n"],
            w: Array["n", "n", "n"],
            nu: float = 1e-3,
            drag: float = 0.0,
            U: float = 0.0,
            V: float = 0.0,
            W: float = 0.0,
            L: float = 2 * pi,
            Cs: float = 0.17,
        ):
            return rates([u, v, w], None, nu, drag, [U, V, W], L, Cs)

        return flow3

    @ode
    def forced_flow3(
        u: Array["n", "n", "n"],
        v: Array["n", "n", "n"],
        w: Array["n", "n", "n"],
        t,
        nu: float = 1e-3,
        drag: float = 0.0,
        U: float = 0.0,
        V: float = 0.0,
        W: float = 0.0,
        L: float = 2 * pi,
        Cs: float = 0.17,
    ):
        return rates([u, v, w], t, nu, drag, [U, V, W], L, Cs)

    return forced_flow3


def as_field(x: Any, shape: tuple[int, ...]) -> Any:
    return Complex(x).real.expand(shape)
