"""How fast are products of matrices?  A @ z, z @ A and A @ B as maps, beside NumPy's BLAS and C by hand, on one thread.

    python bench/products.py [rounds] [size of A @ z and z @ A] [size of A @ B]
    python bench/products.py calls     # A @ B on each backend, without and with a call of NumPy's BLAS (math="fast")

CPU time of one product, the least of some rounds, all contenders interleaved; then the ratio to NumPy of the same round, as a
median. A product of tinyphysics is a step of a map: the time of a run with many steps less that of one with one step.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import tinyphysics as tp

ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")


@tp.map
def on_vector(z: tp.Vec["d"], A: tp.Array["d", "d"]):
    return A @ z


@tp.map
def from_left(z: tp.Vec["d"], A: tp.Array["d", "d"]):
    return z @ A


@tp.map
def of_matrices(z: tp.Array["d", "d"], A: tp.Array["d", "d"]):
    return A @ z


def by_hand() -> Any:
    """The C of bench/products.c, compiled for this processor."""
    out = Path(tempfile.mkdtemp()) / "products.so"
    source = Path(__file__).with_name("products.c")
    flags = ["-O3", "-march=native", "-ffast-math", "-shared", "-fPIC"]
    subprocess.run(["cc", *flags, str(source), "-o", str(out)], check=True)
    return ctypes.CDLL(str(out))


def seconds(work: Callable[[], Any]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def row(system: Any, n: int, repeat: int, rounds: int, library: Any) -> None:
    rng = np.random.default_rng(1)
    square = system is of_matrices
    a, z = rng.normal(size=(n, n)) / n, rng.normal(size=(n, n) if square else n)
    sim = tp.compile(system, sizes={"d": n}, backend="llvm")
    out = np.empty_like(z)
    given = [x.ctypes.data_as(ctypes.c_void_p) for x in (a, z, out)]
    run = getattr(library, system.name)

    def ours(steps: int) -> float:
        return seconds(lambda: sim.evolve(z=z, A=a, steps=steps, frames=2, threads=1, progress=False))

    def theirs() -> None:
        for _ in range(repeat):
            np.matmul(z, a, out=out) if system is from_left else np.matmul(a, z, out=out)

    def c() -> None:
        for _ in range(repeat):
            run(*given, ctypes.c_int64(n))

    ours(1)
    found: dict[str, list[float]] = {"tinyphysics": [], "NumPy": [], "C by hand": []}
    for _ in range(rounds):
        found["tinyphysics"].append((ours(repeat + 1) - ours(1)) / repeat)
        found["NumPy"].append(seconds(theirs) / repeat)
        found["C by hand"].append(seconds(c) / repeat)
    ratios = [x / y for x, y in zip(found["tinyphysics"], found["NumPy"])]
    work = 2 * n**3 if square else 2 * n**2
    text = "  ".join(
        f"{who} {1e6 * min(t):9.1f} us {work / min(t) / 1e9:5.1f} Gflop/s" for who, t in found.items()
    )
    print(f"{system.name:12} {n:5}  {text}  ratio to NumPy {median(ratios):.2f}", flush=True)


def main(rounds: int = 9, vector: int = 384, matrix: int = 1024) -> None:
    library = by_hand()
    for system, n, repeat in ((on_vector, vector, 1000), (from_left, vector, 1000), (of_matrices, matrix, 3)):
        row(system, n, repeat, rounds, library)


def calls(rounds: int = 5) -> None:
    rng = np.random.default_rng(1)
    for backend in ("llvm", "c", "numpy"):
        for n in (64, 128, 256, 512):
            a, z, found = rng.normal(size=(n, n)) / n, rng.normal(size=(n, n)), {}
            for math in ("exact", "fast"):
                if backend == "numpy" and math == "exact" and n > 128:
                    continue
                sim = tp.compile(of_matrices, sizes={"d": n}, backend=backend, math=math)

                def once(steps: int) -> float:
                    return seconds(lambda: sim.evolve(z=z, A=a, steps=steps, frames=2, threads=1))  # noqa: B023

                once(1)
                found[math] = min((once(11) - once(1)) / 10 for _ in range(rounds))
            text = "  ".join(f"{math} {1e6 * t:9.1f} us" for math, t in found.items())
            print(f"{backend:6} {n:5}  {text}", flush=True)


if __name__ == "__main__":
    if not ONE_THREAD.items() <= os.environ.items():  # NumPy reads these when it is imported
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | ONE_THREAD)
    calls() if sys.argv[1:] == ["calls"] else main(*map(int, sys.argv[1:]))
