"""How fast are equations of fields?  Poisson's beside pyamg, a two-dimensional flow beside SciPy by hand and JAX-CFD.

    python bench/fields.py            # both
    python bench/fields.py poisson 255
    python bench/fields.py flow 256

Times are CPU seconds of one thread, the best of three, without compilation. A library that is not installed is left out,
and the row says so.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import tinyphysics as tp
from tinyphysics.physics import fluids


def best(f: Callable[[], Any], times: int = 3) -> tuple[float, Any]:
    found, out = [], None
    for _ in range(times):
        began = time.process_time()
        out = f()
        found.append(time.process_time() - began)
    return min(found), out


def row(name: str, seconds: float, ours: float, more: str = "") -> None:
    print(f"  {name:<28} {seconds:9.4f} s  {seconds / ours:6.2f} of tinyphysics  {more}", flush=True)


# --- Poisson's equation with a jump of 1000, to 1e-10 -----------------------------------------------------------------------
def disc(n: int) -> Any:
    x, y = np.meshgrid(*[(np.arange(n) + 1) / (n + 1)] * 2, indexing="ij")
    return np.where((x - 0.5) ** 2 + (y - 0.45) ** 2 < 0.09, 1e3, 1.0)


def matrix(k: Any) -> Any:
    """The same equation as a sparse matrix: harmonic means on faces, 0 one spacing beyond the ends."""
    import scipy.sparse as sp

    n = k.shape[0]
    at = np.arange(n * n).reshape(n, n)
    rows, columns, values, diagonal = [], [], [], np.zeros((n, n))
    for a in (0, 1):
        low, high = (np.take(k, range(s, n - 1 + s), a) for s in (0, 1))
        flow = 2 * low * high / (low + high)
        i, j = (np.take(at, range(s, n - 1 + s), a).ravel() for s in (0, 1))
        rows += [i, j]
        columns += [j, i]
        values += [-flow.ravel()] * 2
        np.add.at(diagonal.ravel(), i, flow.ravel())
        np.add.at(diagonal.ravel(), j, flow.ravel())
        for end in (0, n - 1):
            where = (end, slice(None)) if a == 0 else (slice(None), end)
            diagonal[where] += k[where]
    rows, columns, values = rows + [at.ravel()], columns + [at.ravel()], values + [diagonal.ravel()]
    whole = sp.coo_matrix((np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))))
    return (whole * (n + 1) ** 2).tocsr()


def poisson(n: int) -> None:
    k, f = disc(n), np.ones((n, n))

    @tp.map
    def solved(u: tp.Array[n, n], k: tp.Array[n, n]) -> Any:
        return tp.poisson(u, spacing=1 / (n + 1), coefficient=k, boundary="dirichlet")

    sim = tp.compile(solved)
    ours_u = sim.evolve(u=f, k=k, steps=1, frames=2)
    ours, _ = best(lambda: sim.evolve(u=f, k=k, steps=1, frames=2))
    print(f"Poisson's equation, {n} x {n}, a disc of 1000, f = 1, residual 1e-10")
    row("tinyphysics", ours, ours, "grids and solution")
    try:
        import pyamg
    except ImportError:
        print("  pyamg is not installed")
        return
    A = matrix(k)
    residual = np.linalg.norm(f.ravel() - A @ np.ravel(ours_u.final.u)) / n
    print(f"  our residual by the sparse matrix: {residual:.1e}")
    for name in ("ruge_stuben_solver", "smoothed_aggregation_solver"):
        make = getattr(pyamg, name)

        def whole(make: Any = make) -> Any:
            residuals: list[float] = []
            x = make(A).solve(f.ravel(), tol=1e-10, accel="cg", residuals=residuals)
            return x, len(residuals) - 1

        seconds, (x, rounds) = best(whole, 1 if n > 600 else 3)
        apart = np.abs(x - np.ravel(ours_u.final.u)).max() / np.abs(x).max()
        row(
            f"pyamg, {name.removesuffix('_solver')}",
            seconds,
            ours,
            f"{rounds} rounds; differs by {apart:.0e}",
        )


# --- a step of a flow in two dimensions -------------------------------------------------------------------
def by_scipy(w: Any, nu: float, dt: float) -> Callable[[Any], Any]:
    """ETDRK4 by hand, on half of the waves, with real transforms: velocities and slopes of w, five of them a stage."""
    from scipy.fft import irfft2, rfft2

    n = len(w)
    ky, kx = np.fft.fftfreq(n, 1 / n)[:, None], np.arange(n // 2 + 1)[None, :]
    square = kx**2 + ky**2
    over = np.where(square > 0, 1 / np.where(square > 0, square, 1), 0)
    mask = (abs(kx) * 3 < n) & (abs(ky) * 3 < n)
    L = -nu * square
    circle = np.exp(1j * np.pi * (np.arange(32) + 0.5) / 32)
    E, E2 = np.exp(dt * L), np.exp(dt * L / 2)
    Q = f1 = f2 = f3 = 0
    for r in circle:
        z = dt * L + r
        Q = Q + dt * ((np.exp(z / 2) - 1) / z).real / 32
        f1 = f1 + dt * ((-4 - z + np.exp(z) * (4 - 3 * z + z**2)) / z**3).real / 32
        f2 = f2 + dt * ((2 + z + np.exp(z) * (z - 2)) / z**3).real / 32
        f3 = f3 + dt * ((-4 - 3 * z - z**2 + np.exp(z) * (4 - z)) / z**3).real / 32

    def N(z: Any) -> Any:
        z = z * mask
        u, v = irfft2(1j * ky * over * z), irfft2(-1j * kx * over * z)
        return -rfft2(u * irfft2(1j * kx * z) + v * irfft2(1j * ky * z)) * mask

    def step(z: Any) -> Any:
        n0 = N(z)
        a = E2 * z + Q * n0
        n1 = N(a)
        b = E2 * z + Q * n1
        n2 = N(b)
        c = E2 * a + Q * (2 * n2 - n0)
        return E * z + f1 * n0 + 2 * f2 * (n1 + n2) + f3 * N(c)

    return step


def flow(n: int) -> None:
    rng, nu, dt, steps = np.random.default_rng(0), 1e-3, 1e-3, 24
    k = np.hypot(np.fft.fftfreq(n, 1 / n)[:, None], np.arange(n // 2 + 1)[None, :])
    w = np.fft.irfft2(np.fft.rfft2(rng.normal(size=(n, n))) * np.exp(-((k / 8) ** 2)))
    w *= 5 / np.abs(w).max()
    sim = tp.compile(fluids.vorticity(), dt=dt, method="etdrk4", math="exact")
    end = sim.evolve(w=w, nu=nu, steps=steps, frames=2, threads=1).final.w
    # what is computed once for a run, as the functions phi of all waves, is by hand outside of the clock too
    once, _ = best(lambda: sim.evolve(w=w, nu=nu, steps=1, frames=2, threads=1))
    seconds, _ = best(lambda: sim.evolve(w=w, nu=nu, steps=1 + steps, frames=2, threads=1))
    ours = (seconds - once) / steps
    print(f"A step of a flow, {n} x {n}, ETDRK4")
    row("tinyphysics", ours, ours)
    from scipy.fft import irfft2, rfft2

    step = by_scipy(w, nu, dt)

    def run() -> Any:
        z = rfft2(w)
        for _ in range(steps):
            z = step(z)
        return irfft2(z)

    seconds, other = best(run)
    row(
        "SciPy by hand",
        seconds / steps,
        ours,
        f"differs by {np.abs(other - end).max() / np.abs(end).max():.0e}",
    )
    try:
        import jax

        jax.config.update("jax_enable_x64", True)
        from jax_cfd.base import grids
        from jax_cfd.spectral import equations, time_stepping
    except Exception as error:
        print(f"  JAX-CFD does not import here: {type(error).__name__}: {str(error).splitlines()[0]}")
        return
    grid = grids.Grid((n, n), domain=((0, 2 * np.pi),) * 2)
    one = jax.jit(time_stepping.crank_nicolson_rk4(equations.NavierStokes2D(nu, grid, smooth=True), dt))
    z = one(jax.numpy.fft.rfftn(w))
    z.block_until_ready()

    def theirs() -> Any:
        x = jax.numpy.fft.rfftn(w)
        for _ in range(steps):
            x = one(x)
        return np.asarray(x)

    seconds, _ = best(theirs)
    row("JAX-CFD, Crank-Nicolson RK4", seconds / steps, ours)


def main(argv: list[str]) -> None:
    what, size = (argv + ["", ""])[:2]
    if what in ("", "poisson"):
        poisson(int(size) if size else 1023)
    if what in ("", "flow"):
        flow(int(size) if size else 512)


if __name__ == "__main__":
    main(sys.argv[1:])
