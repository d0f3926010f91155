"""What is measured?  The systems, their starts, and how ours and the C run them.

A contender is a function of no arguments that runs the whole workload and returns the last positions, so
that what is timed can also be compared. `None` in its place means that it has no business in that row.
"""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tinyphysics as tp
from tinyphysics.device.host.cc import compiler
from tinyphysics.planner.cost.machine import cycles
from tinyphysics.runtime.engines.backend import lane_engine
from tinyphysics.runtime.engines.loaders import LlvmLoader
from tinyphysics.synth.coefficients.coefficients import COMPOSITION
from tinyphysics.tpir.kernels.kernel import build_kernel

Contender = Callable[[], Any]
# -fno-math-errno: a square root is an instruction; -Wno-psabi: vectors wider than the machine's stay inside a function
COMMON = ("-O3", "-march=native", "-std=gnu11", "-fno-math-errno", "-Wno-psabi", "-shared", "-fPIC")
STRICT, FAST = (*COMMON, "-ffp-contract=fast"), (*COMMON, "-ffast-math")
MEMBERS, STEPS, DT = 65_536, 1_000, 0.01
ONE, YEARS = 500_000, 20_000  # steps of the single pendulum and of the planets
T, ERROR, SAMPLE = 100.0, 1e-9, 2_048  # the time, the accuracy and the members that it is measured on
WEIGHTS = np.array(COMPOSITION["kahan_li8"])
OURS = ("nystrom6", "kahan_li8", "nystrom8")  # of these the one with the fewest kicks
OUR_RUNGS = tuple(round(100 * 1.06**k) for k in range(45))
RUNGS = (160, 200, 250, 320, 400, 500, 640, 800, 1000)  # steps to T that are tried, the fewest first


@tp.hamiltonian
def pendulum(q, p):
    return p**2 / 2 - tp.cos(q)


@tp.hamiltonian
def henon_heiles(q: tp.Vec[2], p: tp.Vec[2]):
    x, y = q
    return p @ p / 2 + (x * x + y * y) / 2 + x * x * y - y**3 / 3


@tp.hamiltonian
def planets(q: tp.Array[9, 3], p: tp.Array[9, 3], m: tp.Vec[9]):
    H = (p**2 / (2 * m[:, None])).sum()
    for k in range(1, 9):  # bodies i and i + k: every pair once
        H = H - (m[k:] * m[:-k] / tp.sqrt(((q[k:] - q[:-k]) ** 2).sum(axis=1))).sum()
    return H


def pendulums() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    return rng.uniform(-2, 2, MEMBERS), rng.uniform(-1, 1, MEMBERS)


def stars() -> Any:
    """(x, y, px, py) of each star, a row each: bound orbits of low energy."""
    return np.random.default_rng(0).uniform(-0.1, 0.1, (4, MEMBERS))


def solar_system() -> tuple[Any, Any, Any]:
    """(positions, velocities, masses) of the Sun and eight planets on nearly circular orbits; G = 1."""
    m = np.array([1.0, 1.66e-7, 2.448e-6, 3.04e-6, 3.227e-7, 9.548e-4, 2.859e-4, 4.366e-5, 5.151e-5])
    a = np.array([0.0, 0.387, 0.723, 1.0, 1.524, 5.203, 9.537, 19.19, 30.07])  # astronomical units
    angle = 2.4 * np.arange(9)
    speed = np.where(a > 0, 1 / np.sqrt(np.maximum(a, 0.1)), 0.0)
    q = np.stack([a * np.cos(angle), a * np.sin(angle), 0.01 * a * np.sin(3 * angle)], axis=1)
    v = np.stack([-speed * np.sin(angle), speed * np.cos(angle), 0 * speed], axis=1)
    v[0] = -(m[1:, None] * v[1:]).sum(axis=0)
    return q, v, m


# --- ours -------------------------------------------------------------------------------------
def ours(system, start: dict, steps: int, params: dict | None = None, **options) -> Contender:
    """Our steps alone: state loaded, everything compiled, one thread."""
    sim = tp.compile(system, backend="llvm", **options)
    engine = lane_engine(sim.tpir, LlvmLoader(), threads=1)
    members = len(next(iter(start.values())))
    given = {name: np.asarray(value)[None] for name, value in (params or {}).items()}
    first = engine.start(start, given, members, options["dt"], 0.0)
    engine.advance(engine.snapshot(first), 1)

    def run():
        m = engine.snapshot(first)
        engine.advance(m, steps)
        return engine.synchronised(m)["q"]

    return run


def fewest_cycles(system, **options) -> float:
    """Of one member and step, if the ports of this core were always busy."""
    loader = LlvmLoader()
    step = build_kernel(tp.compile(system, backend="llvm", **options).tpir).section("step")
    return cycles(step, loader.core, loader.width(step))


# --- C ----------------------------------------------------------------------------------------
def library(flags: tuple[str, ...], name: str = "kernels.c") -> ctypes.CDLL:
    """Linked without its flags: -ffast-math there would switch subnormals off for everybody in this process."""
    source = Path(__file__).with_name(name)
    out = Path(tempfile.mkdtemp(), name).with_suffix(".so")
    subprocess.run([*compiler(), *flags, "-c", str(source), "-o", str(out.with_suffix(".o"))], check=True)
    subprocess.run(
        [*compiler(), "-shared", str(out.with_suffix(".o")), "-o", str(out), "-lmvec", "-lm"], check=True
    )
    return ctypes.CDLL(str(out))


def c(f, state: tuple, *rest) -> Contender:
    """A C function on copies of the state, then arrays and numbers; it returns the first array of the state."""
    kinds = {float: ctypes.c_double, int: ctypes.c_int64}
    f.restype = None

    def run():
        arrays = [a.copy() for a in state]
        values = (*arrays, *rest)
        f(
            *(
                ctypes.c_void_p(a.ctypes.data) if isinstance(a, np.ndarray) else kinds[type(a)](a)
                for a in values
            )
        )
        return arrays[0]

    return run
