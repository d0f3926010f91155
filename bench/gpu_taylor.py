"""What do accurate orbits cost by the million?  Taylor series on this processor's cores and on a GPU, side by side.

Orbits of Kepler (eccentricities from 0 to 0.9, a period each), orbits about that of Arenstorf, the same with dop853, and the
seven stars of the Pleiades with other starts, all at a tolerance of 1e-12; the series of the stars are in loops. Of each the
time of the steps alone (events of the device; elapsed time of all cores), of the whole call, and whether the hashes agree. A
warp waits for the slowest of its members: `busy` is the part of its threads that does not wait.

    python bench/gpu_taylor.py [--small] [--only kepler]   under a minute on an H200 with 16 cores; --only shapes: blocks
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from taylor import arenstorf, stars

import tinyphysics as tp
from tinyphysics.context import QUICK
from tinyphysics.device.cuda import driver as cuda
from tinyphysics.device.cuda import rows as cuda_rows
from tinyphysics.device.engines import cuda_series
from tinyphysics.errors import BackendError
from tinyphysics.runtime.engines.backend import engine_for, series_engine

TOLERANCE, WARP, RUNS = 1e-12, 32, 3
SHAPES = [
    (threads, resident)
    for threads in (32, 64, 128)
    for resident in (32, 64, 128, 256, 512)
    if resident >= threads
]
PERIOD = 17.0652165601579625588917206249  # Hairer, Norsett and Wanner I, II.0


@tp.hamiltonian
def kepler(q: tp.Vec[2], p: tp.Vec[2]):
    return p @ p / 2 - 1 / tp.norm(q)


def orbits(n: int) -> dict[str, Any]:
    e, zero = np.random.default_rng(1).uniform(0.0, 0.9, n), np.zeros(n)
    return dict(q=np.stack([1 - e, zero], 1), p=np.stack([zero, np.sqrt((1 + e) / (1 - e))], 1))


def in_order(n: int) -> dict[str, Any]:
    """By eccentricity: neighbours take as many steps."""
    start = orbits(n)
    order = np.argsort(start["p"][:, 1])
    return {name: v[order] for name, v in start.items()}


def about_arenstorf(n: int) -> dict[str, Any]:
    off = 1e-4 * np.random.default_rng(2).uniform(-1, 1, (n, 4))
    return dict(x=np.array([0.994, 0.0]) + off[:, :2], v=np.array([0.0, -2.00158510637908252]) + off[:, 2:])


def pleiades(n: int) -> dict[str, Any]:
    q = np.array([[3, 3], [3, -3], [-1, 2], [-3, 0], [2, 0], [-2, -4], [2, 4]])
    v = np.array([[0, 0], [0, 0], [0, 0], [0, -1.25], [0, 1], [1.75, 0], [-1.5, 0]])
    m, rng = np.arange(1.0, 8.0), np.random.default_rng(3)
    return dict(
        q=q + 1e-2 * rng.normal(size=(n, 7, 2)), p=m[:, None] * (v + 1e-2 * rng.normal(size=(n, 7, 2))), m=m
    )


@dataclass(frozen=True)
class Row:
    system: Any
    method: str
    start: Callable[[int], dict[str, Any]]
    members: int
    few: int
    until: float


ROWS = {
    "kepler":           Row(kepler, "taylor", orbits, 1 << 20, 256, 2 * np.pi),
    "kepler in order":  Row(kepler, "taylor", in_order, 1 << 20, 256, 2 * np.pi),
    "arenstorf":        Row(arenstorf, "taylor", about_arenstorf, 1 << 18, 64, PERIOD),
    "arenstorf dop853": Row(arenstorf, "dop853", about_arenstorf, 1 << 17, 64, PERIOD),
    "pleiades":         Row(stars, "taylor", pleiades, 1 << 14, 16, 3.0),
}  # fmt: skip


class Stepping:
    """The engine of a simulation, with the seconds that its steps took."""

    def __init__(self, sim: Any) -> None:
        c = sim.compiled
        self.engine = (
            engine_for(sim.target, c.program, None, None)
            if c.series is None
            else series_engine(sim.target, c.series)
        )
        self.timer = cuda.Timer() if sim.target.backend == "cuda" else None
        self.seconds, self.advance = 0.0, self.engine.advance

    def __enter__(self) -> Stepping:
        self.seconds, self.engine.advance = 0.0, self.timed
        return self

    def __exit__(self, *_: Any) -> None:
        self.engine.advance = self.advance

    def timed(self, m: Any, count: int) -> None:
        began = time.perf_counter()
        if self.timer is None:
            self.advance(m, count)
            self.seconds += time.perf_counter() - began
            return
        with self.timer:
            self.advance(m, count)
        self.seconds += self.timer.milliseconds / 1e3


def busy(substeps: Any) -> float:
    """Of the threads of a warp, the part that does not wait for the slowest."""
    n = np.resize(substeps, -(-len(substeps) // WARP) * WARP).reshape(-1, WARP)
    return float(n.sum() / (n.max(1).sum() * WARP))


def measured(row: Row, backend: str, n: int) -> tuple[float, float, Any]:
    """(seconds of the steps, of the call, the last run)."""
    sim = tp.compile(row.system, method=row.method, tolerance=TOLERANCE, backend=backend)
    start, steps, calls = row.start(n), [], []
    with QUICK(0):
        out = sim.evolve(**row.start(min(n, 4 * WARP)), until=row.until, progress=False, frames=2)  # compiles
        for _ in range(RUNS):
            with Stepping(sim) as engine:
                began = time.perf_counter()
                out = sim.evolve(**start, until=row.until, progress=False, frames=2)
                calls.append(time.perf_counter() - began)
            steps.append(engine.seconds)
    return statistics.median(steps), statistics.median(calls), out


def compare(name: str, row: Row, small: bool, gpu: bool) -> None:
    n, found = row.few if small else row.members, {}
    for backend in ("llvm", "cuda") if gpu else ("llvm",):
        steps, call, out = measured(row, backend, n)
        found[backend] = steps, call
        counts = np.ravel(out.metrics["substeps"])
        if backend == "llvm":
            hashed = out.hash
        same = "" if backend == "llvm" else "the same hash" if out.hash == hashed else "ANOTHER HASH"
        print(
            f"  {name:18} {n:8,} {backend:5} {steps / n * 1e9:10.1f} {call / n * 1e9:10.1f} "
            f"{counts.mean():8.1f} {counts.max():6} {busy(counts):6.2f}  {same}",
            flush=True,
        )
    if gpu:
        here, there = found["llvm"], found["cuda"]
        print(f"  {'':18} {'':8} ratio {here[0] / there[0]:9.1f}x {here[1] / there[1]:9.1f}x", flush=True)


def shapes(small: bool) -> None:
    """What the steps take with other blocks, and the series in loops with other numbers of threads at once."""
    usual = cuda_rows.THREADS
    for name in ("kepler", "arenstorf"):
        row = ROWS[name]
        n = row.few if small else row.members // 2
        print(f"\n  {name} again: ns a member by threads of a block")
        for threads in (32, 64, 128, 256):
            cuda_rows.THREADS = threads
            print(f"  {threads:4} {measured(row, 'cuda', n)[0] / n * 1e9:16.1f}", flush=True)
    cuda_rows.THREADS = usual
    row, kept = ROWS["pleiades"], (cuda_series.THREADS, cuda_series.RESIDENT)
    n = row.few if small else row.members // 4
    print("\n  the stars again: ns a member by threads of a block and of a processor")
    for shape in SHAPES:
        cuda_series.THREADS, cuda_series.RESIDENT = shape
        print(f"  {shape[0]:4} {shape[1]:5} {measured(row, 'cuda', n)[0] / n * 1e9:10.1f}", flush=True)
    cuda_series.THREADS, cuda_series.RESIDENT = kept


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--small", action="store_true", help="sizes of a test")
    parser.add_argument("--only", default="", help="rows whose name contains this")
    given = parser.parse_args()
    try:
        print(f"{cuda.device().name} beside {tp.compile(kepler, dt=0.1).target.device}")
        there = True
    except BackendError as error:
        print(error.what)
        there = False
    print(
        f"  {'':18} {'members':>8} {'':5} {'ns, steps':>10} {'ns, call':>10} {'steps':>8} {'most':>6} {'busy':>6}"
    )
    for name, row in ROWS.items():
        if given.only in name:
            compare(name, row, given.small, there)
    if there and given.only in "shapes":
        shapes(given.small)
