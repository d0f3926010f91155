"""How long does it take until a system runs?  CPU seconds to compile it and to its first steps, up to 10^4 numbers.

    python bench/compile_times.py                    # the whole table
    python bench/compile_times.py sheet heat         # rows whose name holds one of these words
    python bench/compile_times.py --limit 20         # CPU seconds after which a row is given up (default 60)

Each row runs in a process of its own, without a cache, and is stopped at the limit. Seconds are CPU time of that process, all
threads together; importing the package is not counted. A row that is refused shows the message instead.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np

import tinyphysics as tp

Made = tuple[Any, dict[str, Any], dict[str, Any]]  # a system, options of compile, its first state and run
rng = np.random.default_rng(1)


# --- energies of arrays ------------------------------------------------------------------------------
def chain(n: int, **options: Any) -> Made:
    @tp.hamiltonian
    def f(q: tp.Vec[n], p: tp.Vec[n]):  # type: ignore[valid-type]
        d = q[1:] - q[:-1]
        return p @ p / 2 + (d * d / 2 + d**4 / 4).sum()

    return f, options, dict(q=rng.normal(size=n), p=np.zeros(n))


def ring(n: int, **options: Any) -> Made:
    @tp.hamiltonian
    def f(q: tp.Vec[n], p: tp.Vec[n]):  # type: ignore[valid-type]
        return p @ p / 2 + (1 - tp.cos(tp.roll(q, -1) - q)).sum()

    return f, options, dict(q=rng.normal(size=n), p=np.zeros(n))


def sheet(*shape: int, **options: Any) -> Made:
    """Differences by slices, as NumPy's users write them."""

    @tp.hamiltonian
    def f(u: tp.Array[shape], v: tp.Array[shape]):  # type: ignore[valid-type]
        slopes = sum(tp.sum((u[tail(a)] - u[head(a)]) ** 2) for a in range(len(shape)))
        return tp.sum(v * v) / 2 + slopes / 2 + tp.sum(u**4) / 4

    return f, options, dict(u=rng.normal(size=shape), v=np.zeros(shape))


def tail(axis: int) -> tuple[slice, ...]:
    return (*(slice(None),) * axis, slice(1, None))


def head(axis: int) -> tuple[slice, ...]:
    return (*(slice(None),) * axis, slice(None, -1))


def inner_sheet(n: int, m: int) -> Made:
    """Only the inside moves by its neighbours."""

    @tp.hamiltonian
    def f(u: tp.Array[n, m], v: tp.Array[n, m]):  # type: ignore[valid-type]
        around = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]
        return tp.sum(v * v) / 2 + tp.sum(around * around) / 2

    return f, {}, dict(u=rng.normal(size=(n, m)), v=np.zeros((n, m)))


def functions(n: int, m: int) -> Made:
    @tp.hamiltonian
    def f(u: tp.Array[n, m], v: tp.Array[n, m]):  # type: ignore[valid-type]
        return tp.sum(v * v) / 2 + tp.sum(tp.cosh(tp.sin(u[1:, :] - u[:-1, :])))

    return f, {}, dict(u=rng.normal(size=(n, m)), v=np.zeros((n, m)))


def phi4(*shape: int, **options: Any) -> Made:
    @tp.hamiltonian
    def f(u: tp.Array[shape], v: tp.Array[shape]):  # type: ignore[valid-type]
        slopes = sum(tp.sum((tp.roll(u, -1, a) - u) ** 2) for a in range(len(shape)))
        return tp.sum(v * v) / 2 + slopes / 2 + tp.sum((u * u - 1) ** 2) / 4

    return f, options, dict(u=rng.normal(size=shape), v=np.zeros(shape))


def gravity(n: int, **options: Any) -> Made:
    @tp.hamiltonian
    def f(q: tp.Array[n, 3], p: tp.Array[n, 3]):  # type: ignore[valid-type]
        d = q[:, None] - q[None, :]
        return tp.sum(p * p) / 2 - 0.5 * tp.sum(1 / tp.sqrt(tp.sum(d * d, axis=-1) + 0.01))

    return f, options, dict(q=rng.normal(size=(n, 3)), p=np.zeros((n, 3)))


# --- derivatives of arrays ----------------------------------------------------------------------------
def heat(n: int, **options: Any) -> Made:
    @tp.ode
    def f(u: tp.Vec[n]):  # type: ignore[valid-type]
        return tp.roll(u, 1) - 2 * u + tp.roll(u, -1)

    return f, options, dict(u=rng.normal(size=n))


def heat_ends(n: int, **options: Any) -> Made:
    @tp.ode
    def f(u: tp.Vec[n]):  # type: ignore[valid-type]
        inside = u[2:] - 2 * u[1:-1] + u[:-2]
        return tp.concatenate([0 * u[:1], inside, 0 * u[:1]])

    return f, options, dict(u=rng.normal(size=n))


def kuramoto(n: int, **options: Any) -> Made:
    @tp.ode
    def f(a: tp.Vec[n], w: tp.Vec[n], k: float = 1.0):  # type: ignore[valid-type]
        return w + k / n * tp.sum(tp.sin(a[None, :] - a[:, None]), axis=1), 0 * w

    return f, options, dict(a=rng.normal(size=n), w=rng.normal(size=n))


def damped(n: int, m: int, **options: Any) -> Made:
    @tp.ode
    def f(u: tp.Array[n, m], v: tp.Array[n, m], c: float = 0.1):  # type: ignore[valid-type]
        around = tp.roll(u, 1, 0) + tp.roll(u, -1, 0) + tp.roll(u, 1, 1) + tp.roll(u, -1, 1) - 4 * u
        return v, around - c * v

    return f, options, dict(u=rng.normal(size=(n, m)), v=np.zeros((n, m)))


def reaction(n: int, m: int, **options: Any) -> Made:
    """Two fields that diffuse and react, stiff where the grid is fine (a Brusselator)."""

    @tp.ode
    def f(u: tp.Array[n, m], v: tp.Array[n, m], d: float = 0.02):  # type: ignore[valid-type]
        def around(z: Any) -> Any:
            return tp.roll(z, 1, 0) + tp.roll(z, -1, 0) + tp.roll(z, 1, 1) + tp.roll(z, -1, 1) - 4 * z

        return (
            1 + u * u * v - 4.4 * u + d * n * n * around(u),
            3.4 * u - u * u * v + d * m * m * around(v),
        )

    return f, options, dict(u=1 + 0.1 * rng.random((n, m)), v=3 + 0.1 * rng.random((n, m)))


def potential(*shape: int, **options: Any) -> Made:
    """A field of force from a density, by cycles over coarser and coarser grids."""

    @tp.ode
    def f(u: tp.Array[shape]):  # type: ignore[valid-type]
        return tp.poisson(u, method="multigrid", **options) - u

    u = rng.normal(size=shape)
    return f, dict(method="rk4"), dict(u=u - u.mean())


def lorenz(**options: Any) -> Made:
    @tp.ode
    def f(x: tp.Vec[3]):
        return np.stack([10 * (x[1] - x[0]), x[0] * (28 - x[2]) - x[1], x[0] * x[1] - 8 / 3 * x[2]])

    return f, options, dict(x=[1.0, 1.0, 20.0])


# --- others ---------------------------------------------------------------------------------------------
def pendulums(n: int, **options: Any) -> Made:
    """n rods in a row, from their Lagrangian."""

    @tp.lagrangian
    def f(q: tp.Vec[n], v: tp.Vec[n], g: float = 9.81):  # type: ignore[valid-type]
        energy: Any = 0.0
        for i in range(n):
            for j in range(n):
                energy = energy + (n - max(i, j)) * v[i] * v[j] * tp.cos(q[i] - q[j]) / 2
            energy = energy + (n - i) * g * tp.cos(q[i])
        return energy

    return f, options, dict(q=rng.normal(size=n), v=np.zeros(n))


def fitted(n: int, **options: Any) -> Made:
    """A sum over data in the energy of two numbers."""

    @tp.hamiltonian
    def f(q: tp.Vec[2], p: tp.Vec[2], x: tp.Vec[n], y: tp.Vec[n]):  # type: ignore[valid-type]
        return p @ p / 2 + tp.sum((y - q[0] * tp.exp(-q[1] * x)) ** 2) / n

    x = np.linspace(0, 1, n)
    return f, options, dict(q=[1.0, 1.0], p=[0.0, 0.0], x=x, y=np.exp(-x))


def noisy(n: int, members: int = 0) -> Made:
    @tp.map
    def f(x: tp.Vec[n]):  # type: ignore[valid-type]
        return 0.9 * x + 0.1 * tp.random.normal(shape=(n,))

    return f, {}, dict(x=np.zeros((members, n) if members else n))


def inner(count: int) -> Made:
    @tp.hamiltonian
    def spring(q: tp.Vec[2], p: tp.Vec[2]):
        return p @ p / 2 + 50 * q @ q

    @tp.potential
    def rest(q: tp.Vec[2]):
        return tp.cos(q[0] - q[1])

    return tp.fast(spring) + tp.slow(rest), dict(inner=count), dict(q=[0.1, 0.2], p=[0.0, 0.0])


def harmonic(n: int) -> Made:
    @tp.hamiltonian
    def f(q: tp.Vec[n], p: tp.Vec[n]):  # type: ignore[valid-type]
        d = q[1:] - q[:-1]
        return p @ p / 2 + d @ d / 2

    return f, dict(propagator="exact"), dict(q=rng.normal(size=n), p=np.zeros(n))


def logistic(n: int) -> Made:
    @tp.map
    def f(x: tp.Vec[n]):  # type: ignore[valid-type]
        y = 3.9 * x * (1 - x)
        return 0.8 * y + 0.1 * (tp.roll(y, 1) + tp.roll(y, -1))

    return f, {}, dict(x=rng.random(n))


def magnetic() -> Made:
    @tp.hamiltonian
    def f(q: tp.Vec[3], p: tp.Vec[3]):
        a = np.stack([-q[1], q[0], 0.0]) / 2
        return (p - a) @ (p - a) / 2

    return f, {}, dict(q=[1.0, 0.0, 0.0], p=[0.0, 1.0, 0.1])


SIZES = (5, 8, 9, 16, 20, 32, 33, 34, 35, 64, 100)
SHAPES = ((8, 8, 8), (15, 15, 15), (21, 21, 21), (4, 4, 4, 4), (6, 6, 6, 6), (33, 3), (32, 300))
FIELDS = ((8, 8), (32, 32), (8, 8, 8), (16, 16, 16), (6, 6, 6, 6))
AREAS = ((6, 6), (12, 12), (33, 34), (100, 100))


def rows(
    name: str, make: Callable[..., Made], sizes: Iterable[Any], **options: Any
) -> dict[str, Callable[[], Made]]:
    """A row for each size, which the name shows."""

    def row(size: Any) -> tuple[str, Callable[[], Made]]:
        shape = size if isinstance(size, tuple) else (size,)
        return name.format(" x ".join(f"{n:,}" for n in shape)), lambda: make(*shape, **options)

    return dict(map(row, sizes))


# fmt: off
TABLE: dict[str, Callable[[], Made]] = {
    **rows("chain of {}", chain, (8, 9, 32, 33, 100, 400, 1000, 10_000)),
    **rows("ring of {}", ring, (8, 32, 33, 1000)),
    **rows("sheet of {}", sheet, (*((n, n) for n in SIZES), *SHAPES)),
    **rows("inside of {}", inner_sheet, ((n, n) for n in (8, 32, 33, 34, 35, 100))),
    **rows("cosh(sin) on {}", functions, AREAS),
    **rows("phi4 on {}", phi4, FIELDS),
    **rows("gravity of {}", gravity, (3, 8, 9, 20, 33, 1000)),
    **rows("heat of {}", heat, (10, 64, 400)),
    **rows("heat of {}, rk4", heat, (10, 33, 64, 400, 10_000), method="rk4"),
    **rows("heat with ends of {}, rk4", heat_ends, (34, 400), method="rk4"),
    **rows("heat of {}, dop853", heat, (10, 64, 400), method="dop853"),
    **rows("heat of {}, radau", heat, (10, 400), method="radau"),
    **rows("kuramoto of {}", kuramoto, (10, 100)),
    **rows("kuramoto of {}, rk4", kuramoto, (10, 100, 1000), method="rk4"),
    **rows("damped wave {}", damped, ((n, n) for n in (4, 8, 16))),
    **rows("damped wave {}, rk4", damped, ((n, n) for n in (4, 8, 16, 32, 100)), method="rk4"),
    **{
        f"two fields {n} x {n}, {method}": partial(reaction, n, n, method=method)
        for n in (8, 32)
        for method in ("rodas", "rock4", "dop853", "radau")
    },
    **{
        f"two fields {n} x 32, {method}": partial(reaction, n, 32, method=method)
        for n in (4, 8)
        for method in ("rodas", "rock4", "dop853")
    },
    **rows("multigrid of {}, rk4", potential, (96, 1024, (32, 32), (16, 16, 16))),
    **rows("multigrid of {} with ends, rk4", potential, (96, (32, 32)), boundary="dirichlet"),
    "lorenz": lorenz,
    "double pendulum": lambda: pendulums(2),
    "double pendulum, galerkin4": lambda: pendulums(2, method="galerkin4"),
    **rows("{} rods", pendulums, (3, 5)),
    **rows("implicit midpoint, chain of {}", chain, (4, 16, 100, 20_000), method="implicit_midpoint"),
    **rows("gauss6, chain of {}", chain, (4, 16, 20_000), method="gauss6"),
    **rows("a sum over {} data", fitted, (20, 500, 10_000)),
    **rows("noise on {}", noisy, (8, 100, 10_000)),
    "noise on 100, 16 members": lambda: noisy(100, 16),
    **rows("inner={}", inner, (20, 2000)),
    **rows("logistic maps, {}", logistic, (8, 32, 33, 10_000)),
    **rows("dd, chain of {}", chain, (3, 8, 33, 1000), precision="dd"),
    "exact jump, chain of 200": lambda: harmonic(200),
    "magnetic field": magnetic,
}
# fmt: on


def child(name: str) -> None:
    """One row, told as JSON on the last line."""
    system, options, given = TABLE[name]()
    run = (
        dict(until=0.02)
        if getattr(system, "kind", "") == "ode" and "rk4" not in options.values()
        else dict(steps=2)
    )
    compiler = tp.compile  # the package reads most of its modules here
    began = time.process_time()
    row: dict[str, Any] = {}
    try:
        sim = compiler(
            system,
            **({} if "until" in run or getattr(system, "kind", "") == "map" else dict(dt=0.01)),
            **options,
        )
        row["compile"] = time.process_time() - began
        began = time.process_time()
        out = sim.evolve(**given, **run, progress=False, frames=2)
        row["run"] = time.process_time() - began
        row["backend"] = out.metrics["backend"]["used"]
    except tp.TinyPhysicsError as error:
        row["refused" if "compile" not in row else "not run"] = str(error).splitlines()[0]
        row.setdefault("compile", time.process_time() - began)
    print(json.dumps(row))


def measured(name: str, limit: int) -> dict[str, Any]:
    def stop() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))

    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {"TINYPHYSICS_CACHE": cache}
        done = subprocess.run(
            [sys.executable, __file__, "--row", name],
            capture_output=True,
            text=True,
            env=environment,
            preexec_fn=stop,
        )
    try:
        return dict(json.loads(done.stdout.splitlines()[-1]))
    except (IndexError, ValueError):
        last = done.stderr.strip().splitlines()[-1:] if done.returncode > 0 else []
        return {"error": f"no end in {limit} s" if done.returncode < 0 else " ".join(last)}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("words", nargs="*")
    parser.add_argument("--limit", type=int, default=60)
    parser.add_argument("--row")
    given = parser.parse_args()
    if given.row:
        child(given.row)
        return
    width = max(map(len, TABLE))
    print(f"{'':{width}}  {'compile':>8}  {'first run':>9}  CPU seconds", flush=True)
    for name in TABLE:
        if given.words and not any(word in name for word in given.words):
            continue
        row = measured(name, given.limit)
        numbers = [f"{row[k]:.2f}" if k in row else "-" for k in ("compile", "run")]
        words = row.get("error") or row.get("refused") or row.get("not run") or row.get("backend", "")
        print(f"{name:{width}}  {numbers[0]:>8}  {numbers[1]:>9}  {words}", flush=True)


if __name__ == "__main__":
    main()
