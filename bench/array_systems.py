"""Which array systems are measured?  Gravity, a chain, a fluid and waves; how ours and the C advance them.

States are large, so a contender goes on from where it was and returns a function that reads the positions: what is
timed is steps alone. All have taken as many steps when they are compared.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from workloads import Contender

import tinyphysics as tp
from tinyphysics.device.engines.loops import NestEngine
from tinyphysics.device.host.neighbours import aligned
from tinyphysics.ir.dtype import f64
from tinyphysics.runtime.engines.backend import nest_engine
from tinyphysics.runtime.engines.loaders import LlvmLoops
from tinyphysics.tpir.kernels.nests import Buffer

BODIES, CHAIN, FLUID, SHEET = 4_096, 64, 1_024, 2_048
MANY_BODIES, LONG_CHAIN = 65_536, 1_000_000
SOFTENING, ALPHA, OMEGA = 0.05, 0.25, 1.25
CX, CY = (0, 1, 0, -1, 0, 1, -1, -1, 1), (0, 0, 1, 0, -1, 1, 1, -1, -1)
WEIGHT = np.array([4 / 9] + [1 / 9] * 4 + [1 / 36] * 4)


@tp.hamiltonian
def gravity(q: tp.Array["n", 3], p: tp.Array["n", 3], m: tp.Vec["n"], eps: float = SOFTENING):
    d = q[:, None] - q[None, :]
    r = np.sqrt((d**2).sum(-1) + eps**2)
    return ((p**2).sum(-1) / (2 * m)).sum() - tp.pair_sum(m[:, None] * m[None, :] / r)


@tp.hamiltonian
def chain(q: tp.Vec["n"], p: tp.Vec["n"], alpha: float = ALPHA):
    d = np.diff(q, prepend=0, append=0)
    return (p**2).sum() / 2 + (d**2 / 2 + alpha * d**3 / 3).sum()


@tp.hamiltonian
def waves(q: tp.Array["n", "n"], p: tp.Array["n", "n"]):
    return ((p**2).sum() + sum(((np.roll(q, -1, axis) - q) ** 2).sum() for axis in (0, 1))) / 2


def collided(f: Any, om: Any) -> list[Any]:
    """Nine populations after a collision: towards equilibrium by om (Bhatnagar, Gross & Krook)."""
    rho = f[0] + (f[1] + f[3]) + (f[2] + f[4]) + (f[5] + f[6]) + (f[7] + f[8])
    ux = ((f[1] - f[3]) + ((f[5] - f[7]) + (f[8] - f[6]))) / rho
    uy = ((f[2] - f[4]) + ((f[5] - f[7]) - (f[8] - f[6]))) / rho
    w1 = om * rho / 9
    w2, c1, ux3, uy3, ux2, uy2 = w1 / 4, 1 - om, 3 * ux, 3 * uy, 4.5 * ux * ux, 4.5 * uy * uy
    b = 1 - (ux2 + uy2) / 3
    px, py, qx, qy, bb, xy = w1 * (b + ux2), w1 * (b + uy2), w1 * ux3, w1 * uy3, b + ux2 + uy2, ux3 * uy3
    p5, p6, g5, g6 = w2 * (bb + xy), w2 * (bb - xy), w2 * (ux3 + uy3), w2 * (ux3 - uy3)
    return [
        c1 * f[0] + 4 * w1 * b,
        c1 * f[1] + (px + qx),
        c1 * f[2] + (py + qy),
        c1 * f[3] + (px - qx),
        c1 * f[4] + (py - qy),
        c1 * f[5] + (p5 + g5),
        c1 * f[6] + (p6 - g6),
        c1 * f[7] + (p5 - g5),
        c1 * f[8] + (p6 + g6),
    ]


def streamed(f: Any, sign: int = 1) -> Any:
    return np.stack([np.roll(f[k], (sign * CY[k], sign * CX[k]), (0, 1)) for k in range(9)])


@tp.map
def stream_collide(f: tp.Array[9, "n", "n"], om: float = OMEGA):
    return np.stack(collided(streamed(f), om))


@tp.map
def collide_stream(f: tp.Array[9, "n", "n"], om: float = OMEGA):
    return streamed(collided(f, om))


# --- starts -----------------------------------------------------------------------------------
def bodies(n: int) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, 3)), 0.1 * rng.normal(size=(n, 3)), rng.uniform(1, 2, n) / n


def displaced(*shape: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    return rng.uniform(-0.1, 0.1, shape), rng.uniform(-0.1, 0.1, shape)


def populations(n: int) -> Any:
    return WEIGHT[:, None, None] * (1 + 0.01 * np.random.default_rng(0).normal(size=(9, n, n)))


# --- ours -------------------------------------------------------------------------------------
def engine_of(system: Any, size: int, threads: int = 1, dt: float | None = None) -> NestEngine:
    options = {} if dt is None else {"dt": dt}
    sim = tp.compile(system, backend="llvm", sizes={"n": size}, **options)
    return nest_engine(sim.tpir, LlvmLoops(), threads=threads)


def advancing(
    engine: NestEngine,
    state: Mapping[str, Any],
    steps: int,
    params: Mapping[str, Any],
    dt: float = 1.0,
    read: Callable[[Mapping[str, Any]], Any] = lambda out: out["q"][0],
) -> Contender:
    """Our steps alone, from one call to the next."""
    given = {name: np.asarray(value, float)[None] for name, value in params.items()}
    m = engine.start({name: value[None] for name, value in state.items()}, given, 1, dt, 0.0)

    def run() -> Any:
        engine.advance(m, steps)
        return lambda: read(engine.synchronised(m))

    run.memory = m  # type: ignore[attr-defined]
    return run


def bytes_of(run: Any) -> int:
    """Of everything that a run keeps, with what is needed within a step."""
    m = run.memory
    return sum(a.nbytes for one in m.members for a in one.own.values()) + sum(
        a.nbytes for a in m.scratch.buffers.values()
    )


# --- C ----------------------------------------------------------------------------------------
def at_lines(a: Any) -> Any:
    """A copy, flat, that begins at a cache line."""
    out = aligned(Buffer("", 1, (a.size,), f64))[: a.size]
    out[:] = np.ravel(a)
    return out


def call(f: Any, *values: Any) -> None:
    kinds = {float: ctypes.c_double, int: ctypes.c_int64}
    f.restype = None
    f(*(ctypes.c_void_p(a.ctypes.data) if isinstance(a, np.ndarray) else kinds[type(a)](a) for a in values))


def leaping(
    f: Any, state: tuple[Any, ...], rest: tuple[Any, ...], dt: float, n: int, read: Callable
) -> Contender:
    """A C leapfrog on arrays of its own: half a kick, then n steps a call."""
    arrays = [at_lines(a) for a in state]
    call(f, *arrays, *rest, 0.0, dt / 2, 1)

    def run() -> Any:
        call(f, *arrays, *rest, dt, dt, n)
        return lambda: read(arrays[0])

    return run


def plane_of(n: int) -> int:
    """Numbers from one population to the next: no multiple of a page, or all nine meet in one set of the cache."""
    return Buffer("", 1, (n, n), f64).plane


def flowing(
    f: Any, start: Any, lattices: int, steps: int, read: Callable[[Any], Any] = lambda f: f
) -> Contender:
    """A C fluid of one or two lattices; steps is even, so that the first is the last that is written."""
    n = start.shape[-1]
    planes = np.zeros((9, plane_of(n)))
    planes[:, : n * n] = start.reshape(9, n * n)
    arrays = [at_lines(planes) for _ in range(lattices)]

    def run() -> Any:
        call(f, *arrays, n, n, plane_of(n), OMEGA, steps)
        return lambda: read(arrays[0].reshape(9, -1)[:, : n * n].reshape(9, n, n))

    return run
