"""What do derivatives of large arrays cost?  Our pairs beside SciPy's solvers, diffrax and SUNDIALS, at equal error.

    python bench/ode_arrays.py [heat kuramoto wave brusselator coarse settling reactions] [--error 1e-4 1e-6] [--limit 120]
                                [--only SUNDIALS] [--cpu] [--small]

The time is that of the call that steps, compiled before, the least of three where it is short, with the largest
tolerance of a ladder that meets an error: the largest of any number at the end, relative to the largest number. The
reference is our dop853 at a tolerance of 1e-12, where the system is stiff dopri5 at 1e-8, whose steps stability keeps
shorter than that asks for, and for heat that settles the sum of its waves. All contenders run in one process, one after
the other, and the last column is their time over ours (`--cpu`: CPU time of all threads, for a machine that others use:
`taskset -c 0 python bench/ode_arrays.py --cpu`, since threads that wait for each other take time, too). A contender
that takes longer than the limit at one tolerance is not asked for a smaller one.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from solvers import installed

import tinyphysics as tp

LADDER = tuple(10.0**-k for k in range(3, 12))
FACTORED = 20_000  # numbers of fields on a plane, for SciPy's sparse factors
Rates = Callable[..., Any]  # of NumPy, or anything with its functions


def of_heat(np: Any, u: Any) -> tuple[Any]:
    return (np.roll(u, 1) + np.roll(u, -1) - 2 * u,)


def of_kuramoto(np: Any, x: Any, w: Any) -> tuple[Any]:
    return (w + 2 / x.shape[0] * np.sin(x[None, :] - x[:, None]).sum(1),)


def bend(np: Any, u: Any) -> Any:
    return np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) + np.roll(u, -1, 1) - 4 * u


def of_wave(np: Any, u: Any, v: Any) -> tuple[Any, Any]:
    return v, bend(np, u) - 0.1 * v - u * u * u


def of_brusselator(np: Any, u: Any, v: Any) -> tuple[Any, Any]:
    """Hairer and Wanner II, IV.10, on a torus, in units of the grid: the faster the finer it is."""
    spread = 0.02 * u.shape[0] ** 2
    return 1 + u * u * v - 4.4 * u + spread * bend(np, u), 3.4 * u - u * u * v + spread * bend(np, v)


def of_reactions(np: Any, a: Any, b: Any, c: Any) -> tuple[Any, Any, Any]:
    """Robertson's reactions along a tube with closed ends, as fine as it is long: diffusion is stiff, too."""
    spread = 1e-5 * a.shape[0] ** 2

    def moved(u: Any) -> Any:
        d = spread * (u[1:] - u[:-1])
        return np.concatenate([d, 0 * u[:1]]) - np.concatenate([0 * u[:1], d])

    slow, middle, fast = 0.04 * a, 1e4 * b * c, 3e7 * b * b
    return moved(a) - slow + middle, moved(b) + slow - middle - fast, moved(c) + fast


@tp.ode
def heat(u: tp.Vec["n"]):
    return of_heat(np, u)


@tp.ode
def kuramoto(x: tp.Vec["n"], w: tp.Vec["n"]):
    return of_kuramoto(np, x, w)


@tp.ode
def wave(u: tp.Array["n", "n"], v: tp.Array["n", "n"]):
    return of_wave(np, u, v)


@tp.ode
def brusselator(u: tp.Array["n", "n"], v: tp.Array["n", "n"]):
    return of_brusselator(np, u, v)


@tp.ode
def reactions(a: tp.Vec["n"], b: tp.Vec["n"], c: tp.Vec["n"]):
    return of_reactions(np, a, b, c)


@dataclass(frozen=True)
class Problem:
    title: str
    system: Any
    rates: Rates
    start: dict[str, Any]
    until: float
    parameters: dict[str, Any]
    stiff: bool = False
    exact: Callable[[], Any] | None = None
    line: bool = False  # fields along a line: banded, place by place

    @property
    def size(self) -> int:
        return max(max(v.shape) for v in self.start.values())

    def flat(self, values: Any) -> Any:
        return np.concatenate([np.ravel(v) for v in values])

    def parts(self, y: Any) -> list[Any]:
        shape = next(iter(self.start.values())).shape
        return [p.reshape(shape) for p in y.reshape(len(self.start), -1)]


def reacting(b: int) -> Problem:
    z = np.arange(b) / b
    hill = z * (1 - z) ** 1.5
    start = {"u": 22 * hill[:, None] + 0 * z, "v": 27 * hill + 0 * z[:, None]}
    return Problem(f"Brusselator, {b} x {b}, t = 1", brusselator, of_brusselator, start, 1.0, {}, stiff=True)


def problems(small: bool) -> dict[str, Problem]:
    rng = np.random.default_rng(1)
    n, m, k, b = (10_000, 200, 64, 32) if small else (1_000_000, 2_000, 512, 256)
    x, y = np.arange(n), np.arange(k)
    ripples = np.exp(-(((x - n / 2) / (n / 10)) ** 2)) * (1 + 0.5 * np.sin(0.7 * x))
    waves = np.sin(16 * np.pi * y / k)[:, None] * np.cos(12 * np.pi * y / k + 1.0)
    r = 500 if small else 10_000
    places = 1_000 if small else 33_334
    tube = np.arange(places) / places
    lump = np.exp(-(((np.arange(r) - r / 2) / (r / 20)) ** 2))
    settles = 0.002 * r * r
    decay = np.exp(settles * (2 * np.cos(2 * np.pi * np.fft.rfftfreq(r)) - 2))
    return {
        "heat": Problem(f"heat equation, {n:,} points, t = 20", heat, of_heat, {"u": ripples}, 20.0, {}),
        "kuramoto": Problem(
            f"Kuramoto, {m:,} oscillators, all pairs, t = 10",
            kuramoto,
            of_kuramoto,
            {"x": rng.uniform(-3, 3, m)},
            10.0,
            {"w": rng.normal(size=m)},
        ),
        "wave": Problem(
            f"damped wave with u**3, {k} x {k}, t = 20",
            wave,
            of_wave,
            {"u": waves, "v": np.zeros((k, k))},
            20.0,
            {},
        ),
        "brusselator": reacting(b),
        "coarse": reacting(b // 4),
        "settling": Problem(
            f"heat equation, {r:,} points, t = {settles:g}",
            heat,
            of_heat,
            {"u": lump},
            settles,
            {},
            stiff=True,
            exact=lambda: np.fft.irfft(np.fft.rfft(lump) * decay, r),
        ),
        "reactions": Problem(
            f"Robertson's reactions along a tube, 3 x {places:,}, t = 40",
            reactions,
            of_reactions,
            {"a": 1 + 0.5 * np.cos(np.pi * tube), "b": 0 * tube, "c": 0 * tube},
            40.0,
            {},
            stiff=True,
            line=True,
        ),
    }


Run = Callable[[], Any]  # the state at the end
Ladder = Callable[[float], Run]  # of a tolerance


def ours(p: Problem, method: str) -> Ladder:
    def at(tolerance: float) -> Run:
        sim = tp.compile(
            p.system,
            method=method,
            tolerance=tolerance,
            absolute=tolerance * 1e-2,
            sizes={"n": p.size},
            backend="llvm",
        )
        return lambda: p.flat(
            sim.evolve(**p.start, **p.parameters, until=p.until, save_at=[p.until]).final[name]
            for name in p.start
        )

    return at


def by_scipy(p: Problem, method: str) -> Ladder:
    from scipy.integrate import solve_ivp

    def at(tolerance: float) -> Run:
        def rates(t: float, y: Any) -> Any:
            return p.flat(p.rates(np, *p.parts(y), **p.parameters))

        def run() -> Any:
            y = p.flat(p.start.values())
            kind = {"jac_sparsity": pattern(p)} if method in ("Radau", "BDF") else {}
            out = solve_ivp(
                rates,
                (0.0, p.until),
                y,
                method,
                rtol=tolerance,
                atol=tolerance * 1e-2,
                t_eval=[p.until],
                **kind,
            )
            return out.y[:, -1] if out.success else np.full(len(y), np.nan)

        return run

    return at


def pattern(p: Problem) -> Any:
    """Which rate depends on which number: neighbours on a ring, or of both fields of the Brusselator."""
    from scipy.sparse import bmat, eye, kron

    n = p.size
    ring = eye(n) + eye(n, k=1) + eye(n, k=-1) + eye(n, k=n - 1) + eye(n, k=1 - n)
    if len(p.start) == 1:
        return ring.tocsc()
    near = kron(ring, eye(n)) + kron(eye(n), ring)
    return bmat([[near, eye(n * n)], [eye(n * n), near]], format="csc")


def by_diffrax(p: Problem, method: str) -> Ladder:
    import diffrax
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    given = {name: jnp.asarray(v) for name, v in p.parameters.items()}
    term = diffrax.ODETerm(lambda t, y, _: tuple(p.rates(jnp, *y, **given)))
    start = tuple(jnp.asarray(v) for v in p.start.values())

    def at(tolerance: float) -> Run:
        control = diffrax.PIDController(rtol=tolerance, atol=tolerance * 1e-2)

        @jax.jit
        def solve(y: Any) -> Any:
            solver = getattr(diffrax, method)()
            found = diffrax.diffeqsolve(
                term, solver, 0.0, p.until, None, y, stepsize_controller=control, max_steps=1_000_000
            )
            return found.ys

        return lambda: p.flat(np.asarray(v[-1]) for v in solve(start))

    return at


def by_sundials(p: Problem, method: str) -> Ladder:
    """CVODE: Newton's method with GMRES, with the sparse LU of SuperLU, or with a band; a dense matrix would not fit."""
    from sksundae.cvode import CVODE

    def rates(t: float, y: Any, out: Any) -> None:
        out[:] = by_places(p.flat(p.rates(np, *p.parts(by_fields(y)), **p.parameters)))

    how: dict[str, Any] = {"method": "Adams" if method == "Adams" else "BDF", "linsolver": "gmres"}
    if method == "sparse":
        how |= {"linsolver": "sparse", "sparsity": pattern(p)}
    fields = len(p.start)
    if method == "band":
        how |= {"linsolver": "band", "lband": 2 * fields - 1, "uband": 2 * fields - 1}

    def by_places(y: Any) -> Any:
        return np.ascontiguousarray(y.reshape(fields, -1).T).ravel() if method == "band" else y

    def by_fields(y: Any) -> Any:
        return np.ascontiguousarray(y.reshape(-1, fields).T).ravel() if method == "band" else y

    def at(tolerance: float) -> Run:
        def run() -> Any:
            given = {**how, "rtol": tolerance, "atol": tolerance * 1e-2}
            given["max_num_steps"] = 20_000 if p.line else 1_000_000  # loose ones go on with no end
            first = by_places(p.flat(p.start.values()))
            found = CVODE(rates, **given).solve(np.array([0.0, p.until]), first)
            return by_fields(found.y[-1]) if found.success else np.full(found.y.shape[1], np.nan)

        return run

    return at


def contenders(p: Problem) -> Iterator[tuple[str, Ladder]]:
    own = ("auto", "dopri5", "rkc", "rock4", "rodas") if p.stiff else ("auto", "dopri5", "dop853")
    if p.line:
        own = ("auto", "rodas")
    yield from ((f"ours, {m}", ours(p, m)) for m in own)
    if installed("scipy"):
        numbers = sum(v.size for v in p.start.values())
        plane = next(iter(p.start.values())).ndim > 1
        factors = p.stiff and (not plane or numbers <= FACTORED)
        own = ("RK45", "DOP853", *(("LSODA",) if numbers <= 4_000 else ()), *(("Radau",) if factors else ()))
        own = () if p.line else own
        yield from ((f"SciPy {m}", by_scipy(p, m)) for m in own)
    if installed("diffrax") and not p.line:
        yield from ((f"diffrax {m}", by_diffrax(p, m)) for m in ("Dopri5", "Dopri8"))
    if installed("sksundae"):
        own = ("band",) if p.line else ("GMRES", "sparse") if p.stiff else ("Adams", "GMRES")
        yield from ((f"SUNDIALS {m}", by_sundials(p, m)) for m in own)


def timed(run: Run, clock: Callable[[], float]) -> tuple[float, Any]:
    began = clock()
    end = run()
    return clock() - began, end


def measure(
    p: Problem, errors: list[float], limit: float, only: list[str], clock: Callable[[], float]
) -> None:
    print(f"\n{p.title}")
    fine = ours(p, "rodas" if p.line else "dopri5" if p.stiff else "dop853")
    exact = (p.exact or fine(1e-8 if p.stiff else 1e-12))()
    size = np.abs(exact).max()
    best: dict[float, float] = {}
    print(f"{'':20}" + "".join(f"{f'error {e:g}':>34}" for e in errors))
    for name, ladder in contenders(p):
        if only and not name.startswith(("ours", *only)):
            continue
        found: dict[float, tuple[float, float]] = {}
        for tolerance in LADDER:
            run = ladder(tolerance)
            first, end = timed(run, clock)  # compiles
            again = 3 if first < limit / 12 else 1 if first < limit / 4 else 0
            seconds = min([timed(run, clock)[0] for _ in range(again)], default=first)
            off = np.abs(end - exact).max() / size
            for e in errors:
                if off <= e and e not in found:
                    found[e] = seconds, tolerance
            if len(found) == len(errors) or first > limit:
                break
        if name.startswith("ours"):
            best |= {e: min(best.get(e, np.inf), s) for e, (s, _) in found.items()}
        cells = (
            f"{found[e][0]:10.3f} s  rtol {found[e][1]:.0e} {found[e][0] / best[e]:7.1f}x"
            if e in found and e in best
            else "-"
            for e in errors
        )
        print(f"{name:20}" + "".join(f"{c:>34}" for c in cells), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--error", nargs="*", type=float, default=[1e-4, 1e-6])
    parser.add_argument("--limit", type=float, default=120.0, help="seconds of one run")
    parser.add_argument("--only", nargs="*", default=[], help="peers beside ours: SciPy, diffrax, SUNDIALS")
    parser.add_argument("--cpu", action="store_true", help="CPU time instead of the clock's")
    parser.add_argument("--small", action="store_true", help="small sizes, to see that it runs")
    a = parser.parse_args()
    every = problems(a.small)
    for name in a.names or every:
        measure(every[name], a.error, a.limit, a.only, time.process_time if a.cpu else time.perf_counter)
    for package in ("scipy", "diffrax", "sksundae"):
        if not installed(package):
            print(f"{package} is not installed")


if __name__ == "__main__":
    main()
